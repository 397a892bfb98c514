//! One story of each subsystem over HTTP, on the stores that the other tests of this crate do not use.

use domain::{JobId, StageName};
use protocol::{
    JobExplanation, JobView, NewSubtask, StageResponse, SubtaskList, SubtaskRequest, SubtaskResponse, SubtaskWaitReport,
};
use serde_json::{Value, json};

use crate::fleet::{Fleet, StoreKind, code, next_offer};

macro_rules! stories_on {
    ($($store:ident: $kind:ident;)*) => {
        $(
            mod $store {
                use super::*;

                // [J4]
                #[tokio::test]
                async fn a_tree_ships() {
                    crate::job_trees::tree_story(Fleet::on_store_of(StoreKind::$kind).await).await;
                }

                // [T5]
                #[tokio::test]
                async fn a_reviewed_job_ships() {
                    crate::review::review_story(Fleet::on_store_of(StoreKind::$kind).await).await;
                }

                // [T2]
                #[tokio::test]
                async fn a_job_over_budget_waits() {
                    crate::budgets::budget_story(Fleet::on_store_of(StoreKind::$kind).await).await;
                }

                // [J2]
                #[tokio::test]
                async fn a_profile_is_used() {
                    crate::profiles::profile_story(Fleet::on_store_of(StoreKind::$kind).await).await;
                }

                // [B6]
                #[tokio::test]
                async fn a_question_is_answered() {
                    crate::needs::question_story(Fleet::on_store_of(StoreKind::$kind).await).await;
                }

                // [B11]
                #[tokio::test]
                async fn a_parent_waits_for_its_subtask() {
                    subtask_story(Fleet::on_store_of(StoreKind::$kind).await).await;
                }

                // [J8]
                #[tokio::test]
                async fn an_artifact_is_attached_and_downloaded() {
                    crate::artifacts::artifact_story(Fleet::on_store_of(StoreKind::$kind).await).await;
                }

                // [T6]
                #[tokio::test]
                async fn an_item_is_one_job() {
                    crate::tracker::item_story_on(StoreKind::$kind).await;
                }

                // [S5]
                #[tokio::test]
                async fn a_critical_job_gets_a_seat() {
                    crate::preemption::preemption_story_on(StoreKind::$kind).await;
                }

                // [D1] [I13]
                #[tokio::test]
                async fn a_product_moves_from_polling_to_push_and_back() {
                    crate::migration::migration_story(Fleet::on_store_of(StoreKind::$kind).await).await;
                }

                // [J4]
                #[tokio::test]
                async fn a_paused_job_is_resumed() {
                    pause_story(Fleet::on_store_of(StoreKind::$kind).await).await;
                }
            }
        )*
    };
}

stories_on! {
    sqlite: Sqlite;
    postgres: Postgres;
    simulated: Simulated;
}

async fn subtask_story(fleet: Fleet) {
    let factory = fleet.factory("mac-1").await;
    let mut inbox = factory.inbox().await;
    let parent = fleet.submit("---\ntitle: both\nbudget: { usd: 4 }\n---\nWork.\n").await;
    let taken = factory.take_next(&mut inbox).await;
    factory.start(parent, taken.lease_epoch).await.unwrap();
    let subtask = NewSubtask {
        title: "one".to_owned(),
        instructions: "Do one.".to_owned(),
        usd: Some(9.0),
        ..NewSubtask::default()
    };
    let request = SubtaskRequest { lease_epoch: taken.lease_epoch, subtask, insights: Default::default() };
    let (path, epoch) = (format!("/jobs/{parent}/subtasks"), taken.lease_epoch);

    let created: SubtaskResponse = factory.client.post(&path, &request).await.unwrap();
    let again: SubtaskResponse = factory.client.post(&path, &request).await.unwrap();
    let refused = fleet.admin.post::<_, SubtaskResponse>(&path, &request).await;
    let list: SubtaskList = factory.client.get(&format!("{path}?leaseEpoch={epoch}")).await.unwrap();
    let wait = SubtaskWaitReport { lease_epoch: epoch, checkpoint: None, insights: Default::default() };
    let parked: StageResponse = factory.client.post(&format!("{path}/wait"), &wait).await.unwrap();
    let late = factory.client.post::<_, SubtaskResponse>(&path, &request).await;
    let why: JobExplanation = fleet.admin.get(&format!("/jobs/{parent}/explain")).await.unwrap();
    let taken = factory.take_next(&mut inbox).await;
    factory.start(created.id, taken.lease_epoch).await.unwrap();
    factory.complete(created.id, taken.lease_epoch, None).await.unwrap();
    let resumed = factory.take_next(&mut inbox).await;

    assert_eq!((created.usd, created.left.usd, again.id, again.created), (Some(4.0), Some(0.0), created.id, false));
    assert_eq!((code(refused).as_str(), code(late).as_str()), ("forbidden", "fenced"));
    assert_eq!((list.items.len(), list.items[0].settled, parked.stage), (1, false, StageName::Blocked));
    assert!(why.summary.starts_with("its agent waits for the subtasks: "), "{}", why.summary);
    assert_eq!((taken.assignment.job_id, resumed.assignment.job_id), (created.id, parent));
    assert_eq!(resumed.assignment.children.len(), 1);
}

async fn pause_story(fleet: Fleet) {
    let root = fleet.submit("---\ntitle: all\nkind: composite\n---\nAll.\n").await;
    let pause = json!({ "message": "not now" });
    let paused: JobView = fleet.admin.post(&format!("/jobs/{root}/actions/pause"), &pause).await.unwrap();
    let children = json!({ "jobs": [{ "bodyMd": "# One\n" }] });
    let added: Value = fleet.admin.post(&format!("/jobs/{root}/children"), &children).await.unwrap();
    let child: JobId = added["outcomes"][0]["id"].as_str().unwrap().parse().unwrap();
    let factory = fleet.factory("mac-1").await;
    let mut inbox = factory.inbox().await;

    let waiting = fleet.job(child).await.job.waiting.unwrap();
    let alone = fleet.admin.post::<_, JobView>(&format!("/jobs/{child}/actions/resume"), &json!({})).await;
    let resumed: JobView = fleet.admin.post(&format!("/jobs/{root}/actions/resume"), &json!({})).await.unwrap();
    let offer = next_offer(&mut inbox).await;

    assert_eq!(paused.pause.unwrap().message.as_deref(), Some("not now"));
    assert_eq!((waiting.code.as_str(), code(alone).as_str()), ("paused", "parent_paused"));
    assert_eq!((resumed.pause, offer.job_id), (None, child));
}
