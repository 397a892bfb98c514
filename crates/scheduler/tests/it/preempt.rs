//! Which running job gives up its seat for a critical one, and who gets the seat [S5].

use std::time::Duration;

use domain::{JobId, Priority, Product};
use scheduler::{Eviction, FactoryState, PendingPreemption, PreemptibleRun, Seat, WaitingJob, claim, evictions, plan};

use crate::scenario::{NOW, Scenario, World, factory, id, job, name, with_shape};

fn seat(factory: &str, repo: Option<&str>) -> Seat {
    Seat { factory: name(factory), product: name("default"), repo: repo.map(name), engine: Some(name("command")) }
}

fn critical(n: u8, needs: &[&str]) -> WaitingJob {
    WaitingJob { priority: Priority::Critical, ..job(n, needs) }
}

fn run(n: u8, priority: Priority, minutes_ago: u64) -> PreemptibleRun {
    PreemptibleRun { job: id(n), priority, granted_at: NOW.before(Duration::from_secs(minutes_ago * 60)) }
}

/// One seat per factory, all of them used by jobs 101, 102 and so on.
fn full(factories: &[FactoryState], jobs: Vec<WaitingJob>) -> Scenario {
    let mut scenario = Scenario { jobs, ..Scenario::default() };
    for (n, state) in (101..).zip(factories) {
        let mut state = state.clone();
        state.factory.seat_limit = 1;
        scenario.seats.push((id(n), seat(state.factory.id.as_str(), None)));
        scenario.factories.push(state);
    }
    scenario
}

fn evicted(world: &World, running: &[PreemptibleRun], pending: &[PendingPreemption]) -> Vec<(JobId, JobId)> {
    let pairs = |eviction: Eviction| (eviction.victim, eviction.for_job);
    evictions(&world.view(), running, pending, 10).into_iter().map(pairs).collect()
}

// [S5]
#[test]
fn the_lowest_priority_then_the_youngest_run_is_evicted() {
    let world = full(&[factory("a", &[]), factory("b", &[]), factory("c", &[])], vec![critical(1, &[])]).world();
    let high = run(101, Priority::High, 1);

    let lowest = [high.clone(), run(102, Priority::Low, 50), run(103, Priority::Normal, 1)];
    let youngest = [high.clone(), run(102, Priority::Low, 50), run(103, Priority::Low, 5)];
    let by_id = [run(103, Priority::Low, 5), run(102, Priority::Low, 5), high];

    assert_eq!(evicted(&world, &lowest, &[]), [(id(102), id(1))]);
    assert_eq!(evicted(&world, &youngest, &[]), [(id(103), id(1))]);
    assert_eq!(evicted(&world, &by_id, &[]), [(id(102), id(1))]);
}

// [S5]
#[test]
fn nothing_is_evicted_for_a_job_that_could_not_run_there() {
    let runs = [run(101, Priority::Low, 1), run(102, Priority::Low, 1)];
    let fleet = [factory("a", &["os:linux"]), factory("b", &["os:linux", "gpu:l4"])];
    let mut draining = fleet.clone();
    draining[1].factory.draining = true;

    let gpu = full(&fleet, vec![critical(1, &["gpu:l4"])]).world();
    let none = full(&fleet, vec![critical(1, &["os:macos"])]).world();
    let closed = full(&draining, vec![critical(1, &["gpu:l4"])]).world();

    assert_eq!(evicted(&gpu, &runs, &[]), [(id(102), id(1))]);
    assert_eq!(evicted(&none, &runs, &[]), []);
    assert_eq!(evicted(&closed, &runs, &[]), []);
}

// [S5]
#[test]
fn only_critical_jobs_without_a_free_seat_evict() {
    let runs = [run(101, Priority::Low, 1)];
    let high = WaitingJob { priority: Priority::High, ..job(1, &[]) };
    let mut with_a_free_seat = full(&[factory("a", &[])], vec![critical(1, &[])]);
    with_a_free_seat.factories.push(factory("b", &[]));

    assert_eq!(evicted(&full(&[factory("a", &[])], vec![high]).world(), &runs, &[]), []);
    assert_eq!(evicted(&with_a_free_seat.world(), &runs, &[]), []);
    let critical_victim = [run(101, Priority::Critical, 1)];
    assert_eq!(evicted(&full(&[factory("a", &[])], vec![critical(1, &[])]).world(), &critical_victim, &[]), []);
}

// [S5]
#[test]
fn each_critical_job_evicts_one_run_and_is_not_served_twice() {
    let jobs = vec![critical(1, &[]), critical(2, &[]), critical(3, &[])];
    let world = full(&[factory("a", &[]), factory("b", &[])], jobs).world();
    let runs = [run(101, Priority::Low, 1), run(102, Priority::Low, 2)];
    let asked = [PendingPreemption { victim: id(101), for_job: id(1) }];

    assert_eq!(evicted(&world, &runs, &[]), [(id(101), id(1)), (id(102), id(2))]);
    assert_eq!(evicted(&world, &runs, &asked), [(id(102), id(2))]);
}

// [S5] [S6]
#[test]
fn a_repository_at_its_limit_is_evicted_only_where_that_frees_it() {
    let in_notes = |n| with_shape(critical(n, &[]), |shape| shape.repo = Some(name("notes")));
    let mut scenario = full(&[factory("a", &[]), factory("b", &[])], vec![in_notes(1), in_notes(2)]);
    for state in &mut scenario.factories {
        state.factory.repos.insert(name("notes"));
    }
    let mut product = Product::new(name("default"));
    product.repo_seats.insert(name("notes"), 1);
    scenario.products.insert(name("default"), product);
    scenario.seats[1].1.repo = Some(name("notes"));
    let runs = [run(101, Priority::Low, 1), run(102, Priority::Normal, 9)];

    // The run on `a` has the lower priority, but its seat would not help: the repository stays full.
    assert_eq!(evicted(&scenario.world(), &runs, &[]), [(id(102), id(1))]);
}

// [S5]
#[test]
fn a_kept_seat_goes_to_its_job_alone() {
    let others = [job(2, &[]), critical(3, &[])];
    let mut world = full(&[factory("a", &[])], [vec![critical(4, &[])], others.to_vec()].concat()).world();
    world.fleet.vacate(&id(101));
    world.fleet.reserve(id(4), seat("a", None));

    let planned: Vec<JobId> = plan(&world.view()).placements.iter().map(|placement| placement.job).collect();
    let claimed = claim(&world.view(), &name("a"), |_| true).map(|placement| placement.job);

    assert_eq!((planned, claimed), (vec![id(4)], Some(id(4))));
    assert_eq!(evicted(&world, &[run(101, Priority::Low, 1)], &[]), [], "it has a seat, and the others have no victim");
    world.queue.remove(&id(4));
    assert_eq!(plan(&world.view()).placements, []);
    world.fleet.unreserve(&id(4));
    assert_eq!(plan(&world.view()).placements.len(), 1);
}
