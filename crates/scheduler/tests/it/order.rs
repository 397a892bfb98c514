//! The order of service.

use domain::{JobId, Priority};
use scheduler::{AGEING_STEP, Queue, WaitingJob};

use crate::scenario::{NOW, Scenario, ago, factory, id, job, name, with_shape};

fn served(jobs: Vec<WaitingJob>) -> Vec<JobId> {
    let mut one = factory("f1", &["os:linux"]);
    one.factory.seat_limit = 100;
    let scenario = Scenario { factories: vec![one], jobs, ..Scenario::default() };
    scenario.plan().placements.into_iter().map(|placement| placement.job).collect()
}

// [S1]
#[test]
fn jobs_are_ordered_by_priority_then_age_then_id() {
    let jobs = vec![
        WaitingJob { priority: Priority::Low, since: ago(2), ..job(1, &[]) },
        WaitingJob { priority: Priority::Normal, since: ago(1), ..job(3, &[]) },
        WaitingJob { priority: Priority::Normal, since: ago(1), ..job(2, &["os:linux"]) },
        WaitingJob { priority: Priority::Normal, since: ago(2), ..job(4, &[]) },
        WaitingJob { priority: Priority::Critical, since: ago(0), ..job(5, &[]) },
    ];

    assert_eq!(served(jobs), [id(5), id(4), id(2), id(3), id(1)]);
}

// [S7]
#[test]
fn an_aged_low_job_precedes_a_new_normal_one() {
    let fresh = WaitingJob { priority: Priority::Normal, since: ago(1), ..job(2, &[]) };
    let millis = i64::try_from(AGEING_STEP.as_millis()).unwrap();
    let aged = |waited| WaitingJob {
        priority: Priority::Low,
        since: domain::Timestamp::from_millis(NOW.as_millis() - waited),
        ..job(1, &[])
    };

    assert_eq!(served(vec![fresh.clone(), aged(millis - 1)]), [id(2), id(1)]);
    assert_eq!(served(vec![fresh, aged(millis)]), [id(1), id(2)]);
}

#[test]
fn ageing_ends_at_the_highest_class() {
    let fresh = WaitingJob { priority: Priority::Critical, since: ago(500), ..job(2, &[]) };
    let ancient = WaitingJob { priority: Priority::Low, since: ago(400), ..job(1, &[]) };

    assert_eq!(served(vec![ancient, fresh]), [id(2), id(1)]);
}

// [S7]
#[test]
fn held_seats_count_against_their_product() {
    let mut scenario = Scenario { factories: vec![factory("f1", &[])], ..Scenario::default() };
    let held = scheduler::Seat { factory: name("f9"), product: name("alpha"), repo: None, engine: None };
    scenario.seats.push((id(100), held));
    scenario.jobs.push(with_shape(job(1, &[]), |shape| shape.product = name("alpha")));
    scenario.jobs.push(with_shape(job(2, &[]), |shape| shape.product = name("beta")));
    scenario.limit = 1;

    assert_eq!(scenario.plan().placements[0].job, id(2));
}

#[test]
fn a_job_inserted_twice_is_queued_once() {
    let mut queue = Queue::new();
    queue.insert(job(1, &[]));
    queue.insert(WaitingJob { priority: Priority::High, ..job(1, &["os:linux"]) });

    assert_eq!((queue.len(), queue.len_of(&name("default"))), (1, 1));
    assert_eq!(queue.remove(&id(1)).map(|waiting| waiting.priority), Some(Priority::High));
    assert!(queue.is_empty());
    assert_eq!(queue.get(&id(1)), None);
}
