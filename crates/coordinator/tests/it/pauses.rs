//! Paused jobs: neither they nor the jobs below them are dispatched [J4].

use coordinator::Error;
use domain::{EventKind, JobId, Refusal, StageName};
use protocol::{Action, ActionRequest, SubmitRequest};

use super::{lasting, quick};
use crate::fleet::{Fleet, PLAIN, submit};
use crate::machine::{Machine, Offers};

const COMPOSITE: &str = "---\ntitle: Mend all gates\nkind: composite\n---\nAll of them.\n";

async fn pause(fleet: &Fleet, id: JobId, message: &str) {
    let request = ActionRequest { message: Some(message.to_owned()), ..ActionRequest::default() };
    fleet.coordinator.act(&fleet.admin, id, Action::Pause, request).await.unwrap();
}

async fn add(fleet: &Fleet, parent: JobId, jobs: Vec<SubmitRequest>) -> Vec<JobId> {
    let added = fleet.coordinator.add_children(&fleet.admin, parent, jobs).await.unwrap();
    added.into_iter().map(|outcome| outcome.unwrap().0.id).collect()
}

async fn explained(fleet: &Fleet, id: JobId) -> String {
    fleet.coordinator.explain(&fleet.admin, id).await.unwrap().summary
}

// [J4] [J10] [S4]
#[tokio::test]
async fn a_paused_job_waits_with_its_reason_until_it_is_resumed() {
    let fleet = Fleet::warm(lasting()).await;
    let job = fleet.submit(PLAIN).await;
    pause(&fleet, job, "the gate is painted").await;
    pause(&fleet, job, "again").await;
    let mac = Machine::join(&fleet, "mac").await;

    let fleet = fleet.restarted().await;
    fleet.warm_up();
    mac.beat(&fleet).await;
    let offered = fleet.dispatch().await;
    let view = fleet.job(job).await;
    let summary = explained(&fleet, job).await;
    let alerts = fleet.coordinator.alerts(&fleet.admin).await.unwrap().items;
    fleet.act(job, Action::Resume).await.unwrap();
    fleet.act(job, Action::Resume).await.unwrap();
    let grip = mac.build(&fleet, job).await;

    let expected = format!("paused by admin: the gate is painted; resume it with `giga resume {}`", job.short());
    assert_eq!((offered, view.waiting.unwrap().text, summary), (0, expected.clone(), expected));
    assert_eq!(view.pause.unwrap().message.as_deref(), Some("the gate is painted"));
    assert!(alerts.iter().all(|alert| alert.job_id != Some(job)), "an operator asked for it: {alerts:?}");
    let times = [fleet.count(job, EventKind::Paused).await, fleet.count(job, EventKind::Resumed).await];
    assert_eq!((grip.job, times), (job, [1, 1]), "a repetition changes nothing");
}

// [J4]
#[tokio::test]
async fn a_pause_goes_down_the_tree_also_to_later_children() {
    let fleet = Fleet::warm(lasting()).await;
    let mac = Machine::join_with(&fleet, "mac", Offers { seats: 8, ..Offers::default() }).await;
    let root = fleet.submit(COMPOSITE).await;
    let middle = add(&fleet, root, vec![submit(COMPOSITE, Some("middle"))]).await[0];
    let deep = add(&fleet, middle, vec![submit(PLAIN, Some("deep"))]).await[0];

    pause(&fleet, root, "stop").await;
    let later = add(&fleet, middle, vec![submit(PLAIN, Some("later"))]).await[0];
    let fleet = fleet.restarted().await;
    fleet.warm_up();
    mac.beat(&fleet).await;
    let while_paused = fleet.dispatch().await;
    let summary = explained(&fleet, deep).await;
    let alone = fleet.act(deep, Action::Resume).await;
    fleet.act(root, Action::Resume).await.unwrap();
    let grips = [mac.build(&fleet, deep).await, mac.build(&fleet, later).await];

    assert_eq!(while_paused, 0);
    assert_eq!(
        summary,
        format!("job {0} above it was paused by admin: stop; resume it with `giga resume {0}`", root.short())
    );
    assert!(matches!(alone, Err(Error::Refused(Refusal::ParentPaused(above))) if above == root), "{alone:?}");
    assert_eq!(grips.map(|grip| grip.job), [deep, later]);
}

// [J4] [I10]
#[tokio::test]
async fn an_offer_of_a_job_paused_meanwhile_is_refused() {
    let fleet = Fleet::warm(quick()).await;
    let mac = Machine::join(&fleet, "mac").await;
    let root = fleet.submit(COMPOSITE).await;
    let child = add(&fleet, root, vec![submit(PLAIN, Some("child"))]).await[0];
    fleet.dispatch().await;
    let claim = mac.claim(&fleet, child, fleet.job(child).await.dispatch_seq);

    pause(&fleet, root, "stop").await;
    let refused = mac.accept(&fleet, &claim).await;
    let view = fleet.job(child).await;

    assert!(matches!(refused, Err(Error::NotReady(_))), "{refused:?}");
    assert_eq!((view.stage, view.target_factory_id, view.attempts), (StageName::Queued, None, 0));
    assert_eq!(fleet.dispatch().await, 0);
}

// [J4] [J10]
#[tokio::test]
async fn a_running_job_finishes_its_run_and_an_ended_one_cannot_be_paused() {
    let fleet = Fleet::warm(quick()).await;
    let mac = Machine::join(&fleet, "mac").await;
    let job = fleet.submit(PLAIN).await;
    let grip = mac.build(&fleet, job).await;

    pause(&fleet, job, "after this").await;
    let running = explained(&fleet, job).await;
    mac.release(&fleet, grip).await.unwrap();
    fleet.pass(std::time::Duration::from_secs(60), &[&mac]).await;
    let held = (fleet.stage(job).await, fleet.dispatch().await);
    fleet.act(job, Action::Cancel).await.unwrap();
    let ended = fleet.act(job, Action::Pause).await;
    let requeued = fleet.act(job, Action::Requeue).await.unwrap();

    assert!(running.starts_with("running on factory `mac`") && running.contains("; paused by admin"), "{running}");
    assert_eq!(held, (StageName::Queued, 0));
    assert!(matches!(ended, Err(Error::Refused(Refusal::JobEnded { .. }))), "{ended:?}");
    assert_eq!(requeued.pause, None);
}
