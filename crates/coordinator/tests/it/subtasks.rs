//! Subtasks that the agent of a run creates: within its budget, by the live epoch only, and awaited without a seat [B11].

use coordinator::Error;
use domain::{EventKind, JobId, ProductId, Refusal, RunInsights, RunOutcome, SUBTASKS_MAX, StageName, TREE_LEVELS_MAX};
use protocol::{
    Action, ActionRequest, CompletionReport, ErrandOutcome, NewSubtask, SubtaskRequest, SubtaskResponse,
    SubtaskWaitReport,
};

use super::{lasting, quick};
use crate::fleet::{Fleet, IN_REPO, PLAIN};
use crate::machine::{Grip, Machine, Offers, sha};

const WITH_BUDGET: &str =
    "---\ntitle: Mend all gates\nrepo: notes\nbudget: { usd: 5 }\nverify: [make test]\n---\nAll of them.\n";

fn wanted(key: &str, usd: Option<f64>) -> NewSubtask {
    NewSubtask {
        title: format!("Mend gate {key}"),
        instructions: "It squeaks.".to_owned(),
        usd,
        key: Some(key.to_owned()),
        ..NewSubtask::default()
    }
}

async fn create(fleet: &Fleet, mac: &Machine, grip: Grip, subtask: NewSubtask) -> Result<SubtaskResponse, Error> {
    create_after(fleet, mac, grip, subtask, RunInsights::default()).await
}

async fn create_after(
    fleet: &Fleet,
    mac: &Machine,
    grip: Grip,
    subtask: NewSubtask,
    insights: RunInsights,
) -> Result<SubtaskResponse, Error> {
    let request = SubtaskRequest { lease_epoch: grip.epoch, subtask, insights };
    fleet.coordinator.create_subtask(&mac.who, grip.job, &request).await
}

async fn park(fleet: &Fleet, mac: &Machine, grip: Grip) -> Result<StageName, Error> {
    let request = SubtaskWaitReport { lease_epoch: grip.epoch, checkpoint: None, insights: RunInsights::default() };
    let answer = fleet.coordinator.await_subtasks(&mac.who, grip.job, &request).await?;
    mac.let_go(grip);
    Ok(answer.stage)
}

async fn explained(fleet: &Fleet, id: JobId) -> String {
    fleet.coordinator.explain(&fleet.admin, id).await.unwrap().summary
}

fn why(outcome: Result<SubtaskResponse, Error>) -> String {
    outcome.unwrap_err().to_string()
}

fn id_of(parent: JobId, key: &str) -> JobId {
    JobId::derived(&ProductId::default_product(), &format!("subtask-of-{parent}:{key}"))
}

// [B11] [J3]
#[tokio::test]
async fn a_subtask_is_created_once_with_what_its_parent_has() {
    let fleet = Fleet::warm(quick()).await;
    let mac = Machine::join(&fleet, "mac").await;
    let parent = fleet.submit(WITH_BUDGET).await;
    let grip = mac.build(&fleet, parent).await;

    let created = create(&fleet, &mac, grip, wanted("one", Some(2.0))).await.unwrap();
    let repeated = create(&fleet, &mac, grip, wanted("one", Some(2.0))).await.unwrap();
    let other = NewSubtask { instructions: "It rattles.".to_owned(), ..wanted("one", Some(2.0)) };
    let conflict = create(&fleet, &mac, grip, other).await;

    let detail = fleet.coordinator.job(&fleet.admin, created.id).await.unwrap();
    let spec = &detail.manifest_snapshot;
    assert_eq!((created.created, repeated.created, repeated.id), (true, false, created.id));
    assert_eq!((created.usd, created.left.usd, repeated.left.usd), (Some(2.0), Some(3.0), Some(3.0)));
    assert!(matches!(conflict, Err(Error::IdempotencyConflict { .. })), "{conflict:?}");
    assert_eq!((detail.job.parent_id, spec.repo.as_ref().unwrap().as_str()), (Some(parent), "notes"));
    assert_eq!((spec.title.as_str(), spec.verify.as_slice()), ("Mend gate one", &["make test".to_owned()][..]));
    assert_eq!((spec.budget.usd, detail.job.created_by), (Some(2.0), fleet.job(parent).await.created_by));
    assert_eq!(fleet.count(parent, EventKind::ChildrenAdded).await, 1);
    assert_eq!(fleet.stage(parent).await, StageName::Building, "its agent goes on");
}

// [B11] [B8]
#[tokio::test]
async fn subtasks_never_have_more_than_is_left_of_the_budget() {
    let fleet = Fleet::warm(quick()).await;
    let mac = Machine::join_with(&fleet, "mac", Offers { seats: 8, ..Offers::default() }).await;
    let parent = fleet.submit(WITH_BUDGET).await;
    let grip = mac.build(&fleet, parent).await;
    let spent = RunInsights { cost_usd: Some(1.0), ..RunInsights::default() };

    let unnamed = why(create(&fleet, &mac, grip, wanted("none", None)).await);
    let wants = ["a", "b", "c", "d", "e", "f"]
        .map(|key| create_after(&fleet, &mac, grip, wanted(key, Some(1.5)), spent.clone()));
    let outcomes = futures_util::future::join_all(wants).await;
    let (given, refused): (Vec<_>, Vec<_>) = outcomes.into_iter().partition(Result::is_ok);
    let given: Vec<SubtaskResponse> = given.into_iter().map(Result::unwrap).collect();

    assert_eq!(unnamed, "usd: $5.00 of the job's budget is left: name the part of the subtask");
    let reserved: f64 = given.iter().filter_map(|created| created.usd).sum();
    assert!((reserved - 4.0).abs() < 1e-9, "{reserved}");
    assert_eq!((given.len(), refused.len()), (3, 3));
    assert_eq!(why(refused.into_iter().next().unwrap()), "usd: nothing is left of the job's budget");
    // What an ended subtask did not spend is free again, and the next run of the parent has the rest.
    let first = given[0].id;
    fleet.ship_everything().await;
    park(&fleet, &mac, grip).await.unwrap();
    for created in &given {
        let grip = mac.build(&fleet, created.id).await;
        let cost = if created.id == first { 0.5 } else { 0.0 };
        let insights = RunInsights { cost_usd: Some(cost), ..RunInsights::default() };
        let report = CompletionReport { lease_epoch: grip.epoch, insights, ..CompletionReport::default() };
        fleet.coordinator.complete(&mac.who, grip.job, &report).await.unwrap();
        mac.let_go(grip);
    }
    let grip = mac.build(&fleet, parent).await;
    let list = fleet.coordinator.subtasks(&mac.who, parent, grip.epoch).await.unwrap();
    assert_eq!((list.items.len(), list.left.usd), (3, Some(4.5)));
}

// [B11] [I1]
#[tokio::test]
async fn only_the_holder_of_the_live_epoch_creates_and_awaits_subtasks() {
    let fleet = Fleet::warm(quick()).await;
    let mac = Machine::join(&fleet, "mac").await;
    let stranger = Machine::join(&fleet, "stranger").await;
    let parent = fleet.submit(IN_REPO).await;
    let grip = mac.build(&fleet, parent).await;
    let stale = Grip { epoch: domain::Epoch(grip.epoch.0 - 1), ..grip };

    let outcomes = [
        create(&fleet, &stranger, grip, wanted("one", None)).await,
        create(&fleet, &mac, stale, wanted("one", None)).await,
    ];
    let parked = park(&fleet, &mac, stale).await;
    mac.release(&fleet, grip).await.unwrap();
    let late = create(&fleet, &mac, grip, wanted("one", None)).await;

    assert!(outcomes.iter().all(Result::is_err), "{outcomes:?}");
    assert!(matches!(parked, Err(Error::Refused(Refusal::StaleEpoch { .. }))), "{parked:?}");
    assert!(matches!(late, Err(Error::Refused(Refusal::StaleEpoch { .. }))), "{late:?}");
    assert!(fleet.coordinator.job(&fleet.admin, id_of(parent, "one")).await.is_err(), "nothing was written");
    assert_eq!(fleet.count(parent, EventKind::ChildrenAdded).await, 0);
}

// [B11]
#[tokio::test]
async fn a_parent_waits_without_a_seat_and_gets_the_results() {
    let fleet = Fleet::warm(lasting()).await;
    // One seat: a parent that kept it would wait for ever.
    let mac = Machine::join_with(&fleet, "mac", Offers { seats: 1, ..Offers::default() }).await;
    let parent = fleet.submit(IN_REPO).await;
    let grip = mac.build(&fleet, parent).await;
    let one = create(&fleet, &mac, grip, wanted("one", None)).await.unwrap().id;
    let two = create(&fleet, &mac, grip, wanted("two", None)).await.unwrap().id;

    let parked = park(&fleet, &mac, grip).await.unwrap();
    let waiting = fleet.job(parent).await.waiting.unwrap();
    let summary = explained(&fleet, parent).await;
    let grip = mac.build(&fleet, one).await;
    let promote = mac.complete(&fleet, grip, Some(sha(1))).await.unwrap().promote.unwrap();
    let unpromoted = fleet.stage(parent).await;
    let errand = Grip { job: one, epoch: promote.lease_epoch };
    mac.promote(&fleet, errand, ErrandOutcome::Done).await.unwrap();
    let halfway = fleet.stage(parent).await;
    fleet.act(two, Action::Cancel).await.unwrap();

    assert_eq!(parked, StageName::Blocked);
    assert_eq!(waiting.code, "subtasks");
    assert!(summary.starts_with("its agent waits for the subtasks: "), "{summary}");
    assert_eq!(
        (fleet.stage(one).await, unpromoted, halfway),
        (StageName::Testing, StageName::Blocked, StageName::Blocked)
    );
    assert_eq!(fleet.stage(parent).await, StageName::Queued, "both are settled: verified, and ended");
    let mut inbox = mac.open_inbox(&fleet, 10).await;
    fleet.dispatch().await;
    let messages = crate::machine::drain(&mut inbox).await.0;
    let offer = messages.iter().find(|message| message.job_id == parent).unwrap();
    let accepted = mac.accept(&fleet, &mac.claim(&fleet, parent, offer.dispatch_seq)).await.unwrap();
    let mut results: Vec<_> =
        accepted.assignment.children.iter().map(|child| (child.id, child.stage, child.commit.clone())).collect();
    results.sort_by_key(|(id, ..)| *id != one);
    assert_eq!(results, [(one, StageName::Testing, Some(sha(1))), (two, StageName::Failed, None)]);
    let runs = fleet.coordinator.runs(&fleet.admin, parent, 0, 10).await.unwrap();
    assert_eq!(runs.items[0].outcome, Some(RunOutcome::AwaitedSubtasks));
    assert_eq!(fleet.job(parent).await.attempts, 0);
}

// [B11] [row 19]
#[tokio::test]
async fn a_sweep_repeats_the_lost_end_of_a_subtask() {
    let fleet = Fleet::warm(lasting()).await;
    let mac = Machine::join(&fleet, "mac").await;
    let parent = fleet.submit(PLAIN).await;
    let grip = mac.build(&fleet, parent).await;
    let one = create(&fleet, &mac, grip, wanted("one", None)).await.unwrap().id;
    park(&fleet, &mac, grip).await.unwrap();
    fleet.store().set(|faults| {
        faults.unwritable.insert(parent);
    });

    let grip = mac.build(&fleet, one).await;
    mac.complete(&fleet, grip, None).await.unwrap();
    fleet.store().heal();
    let missed = fleet.stage(parent).await;
    fleet.coordinator.sweep().await;

    assert_eq!((missed, fleet.stage(parent).await), (StageName::Blocked, StageName::Queued));
}

// [B11] [I3]
#[tokio::test]
async fn a_subtask_that_was_not_written_is_written_by_the_repetition() {
    let fleet = Fleet::warm(lasting()).await;
    let mac = Machine::join(&fleet, "mac").await;
    let parent = fleet.submit(WITH_BUDGET).await;
    let grip = mac.build(&fleet, parent).await;
    let one = id_of(parent, "one");
    fleet.store().set(|faults| {
        faults.unwritable.insert(one);
    });

    let lost = create(&fleet, &mac, grip, wanted("one", Some(4.0))).await;
    fleet.store().heal();
    let other = create(&fleet, &mac, grip, wanted("two", Some(3.0))).await.unwrap();
    let again = create(&fleet, &mac, grip, wanted("one", Some(4.0))).await.unwrap();

    assert!(lost.is_err());
    assert_eq!(
        (other.usd, again.usd, again.left.usd),
        (Some(3.0), Some(2.0), Some(0.0)),
        "the lost one reserves nothing"
    );
    assert_eq!((again.id, again.created, again.left.subtasks), (one, true, 30));
}

// [B11] [attack: DAG bombs]
#[tokio::test]
async fn subtasks_are_bounded_in_number_and_depth() {
    let fleet = Fleet::warm(quick()).await;
    let mac = Machine::join_with(&fleet, "mac", Offers { seats: 100, ..Offers::default() }).await;
    let parent = fleet.submit(PLAIN).await;
    let mut grip = mac.build(&fleet, parent).await;
    for n in 0..SUBTASKS_MAX {
        create(&fleet, &mac, grip, wanted(&n.to_string(), None)).await.unwrap();
    }

    let too_many = why(create(&fleet, &mac, grip, wanted("more", None)).await);
    let repeated = create(&fleet, &mac, grip, wanted("0", None)).await.unwrap();
    let mut levels = 1;
    let too_deep = loop {
        let parent = grip.job;
        let key = if levels == 1 { "0" } else { "down" };
        match create(&fleet, &mac, grip, wanted(key, None)).await {
            Ok(created) => grip = mac.build(&fleet, created.id).await,
            Err(error) => break error.to_string(),
        }
        assert_ne!(grip.job, parent);
        levels += 1;
    };

    assert_eq!(too_many, "subtask: a job has 32 subtasks at most");
    assert!(!repeated.created);
    assert_eq!((levels, too_deep.as_str()), (TREE_LEVELS_MAX, "subtask: a tree has 16 levels at most"));
}

// [B11] [J4]
#[tokio::test]
async fn a_cancellation_ends_subtasks_and_a_parked_parent() {
    let fleet = Fleet::warm(quick()).await;
    let mac = Machine::join(&fleet, "mac").await;
    let parent = fleet.submit(PLAIN).await;
    let grip = mac.build(&fleet, parent).await;
    let one = create(&fleet, &mac, grip, wanted("one", None)).await.unwrap().id;
    park(&fleet, &mac, grip).await.unwrap();

    fleet.act(parent, Action::Cancel).await.unwrap();
    let requeued =
        fleet.coordinator.act(&fleet.admin, parent, Action::Requeue, ActionRequest::default()).await.unwrap();

    assert_eq!(fleet.stage(one).await, StageName::Failed);
    assert_eq!(requeued.stage, StageName::Queued, "it waits for nothing any more");
}
