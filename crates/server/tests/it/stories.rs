//! One story of each subsystem over HTTP, on the stores that the other tests of this crate do not use.

use std::collections::VecDeque;

use domain::{JobId, Product, RunInsights, StageName};
use http::Method;
use protocol::{
    AlertList, BudgetView, CompletionReport, CompletionResponse, ErrandOutcome, JobExplanation, JobView, NewSubtask,
    ProductSettings, StageResponse, SubtaskList, SubtaskRequest, SubtaskResponse, SubtaskWaitReport,
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

                // [I10] [T2]
                #[tokio::test]
                async fn a_paused_product_starts_nothing() {
                    switch_story(Fleet::on_store_of(StoreKind::$kind).await).await;
                }

                // [S7]
                #[tokio::test]
                async fn a_flood_leaves_another_product_its_share() {
                    share_story(Fleet::on_store_of(StoreKind::$kind).await).await;
                }

                // [S3] [S4]
                #[tokio::test]
                async fn a_placement_is_explained_as_it_was_decided() {
                    decision_story(Fleet::on_store_of(StoreKind::$kind).await).await;
                }

                // [B8] [J4] [row 18]
                #[tokio::test]
                async fn a_merge_costs_its_failed_attempts_too() {
                    cost_story(Fleet::on_store_of(StoreKind::$kind).await).await;
                }

                // [D4]
                #[tokio::test]
                async fn an_alert_is_raised_and_cleared() {
                    alert_story(Fleet::on_store_of(StoreKind::$kind).await).await;
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

async fn switch_story(fleet: Fleet) {
    let factory = fleet.factory("mac-1").await;
    let mut inbox = factory.inbox().await;
    let id = fleet.submit("# One\n").await;
    let offer = next_offer(&mut inbox).await;

    let pause = json!({ "reason": "the prices changed" });
    let _: Product = fleet.admin.post("/budgets/default/pause", &pause).await.unwrap();
    let refused = factory.accept(&offer).await;
    let waiting = fleet.job(id).await.job;
    let why: JobExplanation = fleet.admin.get(&format!("/jobs/{id}/explain")).await.unwrap();
    let budget: BudgetView = fleet.admin.get("/budgets/default").await.unwrap();
    let _: Product = fleet.admin.post("/budgets/default/resume", &json!({})).await.unwrap();
    let again = factory.take_next(&mut inbox).await;

    assert_eq!(code(refused), "not_ready");
    assert_eq!((waiting.stage, waiting.attempts), (StageName::Queued, 0));
    assert_eq!(waiting.waiting.unwrap().code, "product_paused");
    assert!(why.summary.contains("the prices changed"), "{}", why.summary);
    assert!(budget.paused && budget.pause.is_some(), "{budget:?}");
    assert_eq!(again.assignment.job_id, id);
}

async fn share_story(fleet: Fleet) {
    for product in ["bulk", "small"] {
        fleet.product(product, ProductSettings { weight: Some(1), ..ProductSettings::default() }).await;
    }
    let factory = fleet.factory("mac-1").await;
    let mut inbox = factory.inbox().await;
    let submit = async |product: &str| fleet.submit(&format!("---\ntitle: x\nproduct: {product}\n---\nDo it.\n")).await;
    let mut held = VecDeque::new();
    for _ in 0..8 {
        submit("bulk").await;
        let taken = factory.take_next(&mut inbox).await;
        factory.start(taken.assignment.job_id, taken.lease_epoch).await.unwrap();
        held.push_back((taken.assignment.job_id, taken.lease_epoch));
    }
    for _ in 0..8 {
        submit("bulk").await;
    }
    for _ in 0..8 {
        submit("small").await;
    }

    let mut next = Vec::new();
    for _ in 0..6 {
        let (id, epoch) = held.pop_front().unwrap();
        factory.complete(id, epoch, None).await.unwrap();
        let taken = factory.take_next(&mut inbox).await;
        next.push(fleet.job(taken.assignment.job_id).await.job.product_id.to_string());
    }

    // Four of eight seats are its share; the flood gets those that it gives up itself.
    assert_eq!(next, ["small", "small", "small", "small", "bulk", "bulk"]);
}

async fn decision_story(fleet: Fleet) {
    let [one, other] = [fleet.factory("mac-1").await, fleet.factory("mac-2").await];
    let (mut inbox, mut other_inbox) = (one.inbox().await, other.inbox().await);
    let weights = async |affinity: f64| {
        let settings = json!({ "scoreWeights": { "affinity": affinity } });
        fleet.admin.call::<_, Product>(Method::PUT, "/products/default", Some(&settings)).await.unwrap()
    };
    weights(2.0).await;

    let id = fleet.submit("---\ntitle: Mend\nrepo: notes\n---\nIt squeaks.\n").await;
    let (taken, target, next) = tokio::select! {
        taken = one.take_next(&mut inbox) => (taken, &one.id, &other.id),
        taken = other.take_next(&mut other_inbox) => (taken, &other.id, &one.id),
    };
    weights(0.5).await;
    let why: JobExplanation = fleet.admin.get(&format!("/jobs/{id}/explain")).await.unwrap();

    assert_eq!(taken.assignment.job_id, id);
    let decision = why.decision.expect("it was placed");
    assert_eq!((&decision.factory, decision.weights.affinity, why.now.weights.affinity), (target, 2.0, 0.5));
    let runners_up: Vec<_> = decision.runners_up.iter().map(|one| &one.factory).collect();
    assert_eq!(runners_up, [next]);
    assert_eq!(why.now.factories.len(), 2, "every factory is explained");
}

async fn cost_story(fleet: Fleet) {
    fleet.product("default", ProductSettings { auto_ship: Some(true), ..ProductSettings::default() }).await;
    let factory = fleet.factory("mac-1").await;
    let mut inbox = factory.inbox().await;
    let root = fleet.submit("---\ntitle: all\nkind: composite\n---\nAll.\n").await;
    let body = "---\ntitle: one\nrepo: notes\nretry: { backoff: 1s }\n---\nOne.\n";
    let children = json!({ "jobs": [{ "bodyMd": body }] });
    let added: Value = fleet.admin.post(&format!("/jobs/{root}/children"), &children).await.unwrap();
    let child: JobId = added["outcomes"][0]["id"].as_str().unwrap().parse().unwrap();

    let lost = factory.take_next(&mut inbox).await.lease_epoch;
    factory.start(child, lost).await.unwrap();
    let failed = json!({ "jobId": child, "leaseEpoch": lost, "reason": "crash", "insights": { "costUsd": 1.0 } });
    let _: Value = factory.client.post("/fail", &failed).await.unwrap();
    let won = factory.take_next(&mut inbox).await.lease_epoch;
    factory.start(child, won).await.unwrap();
    let insights = RunInsights { cost_usd: Some(0.5), ..RunInsights::default() };
    let sha = Some("1".repeat(40).parse().unwrap());
    let done = CompletionReport { lease_epoch: won, sha, insights, ..CompletionReport::default() };
    let done: CompletionResponse = factory.client.post(&format!("/jobs/{child}/complete"), &done).await.unwrap();
    factory.report(child, done.promote.unwrap().lease_epoch, ErrandOutcome::Done).await.unwrap();
    let merge = factory.take_next(&mut inbox).await;
    factory.report(child, merge.lease_epoch, ErrandOutcome::Done).await.unwrap();
    // The fenced run reports once more, and twice the same.
    for usd in [1.25, 1.25] {
        let usage = json!({ "leaseEpoch": lost, "costUsd": usd });
        let _: Value = factory.client.post(&format!("/jobs/{child}/usage"), &usage).await.unwrap();
    }

    let shipped = fleet.job(root).await;
    let budget: BudgetView = fleet.admin.get("/budgets/default").await.unwrap();
    assert_eq!((shipped.job.stage, shipped.tree.unwrap().spent.cost_usd), (StageName::Shipped, Some(1.75)));
    assert_eq!((budget.spent_usd, budget.runs, budget.failed_runs), (1.75, 2, 1));
    assert_eq!((budget.merged, budget.cost_per_merged_usd), (1, Some(1.75)));
}

async fn alert_story(fleet: Fleet) {
    let factory = fleet.factory("mac-1").await;
    let mut inbox = factory.inbox().await;
    let id = fleet.submit("# One\n").await;
    let epoch = factory.take_next(&mut inbox).await.lease_epoch;
    factory.start(id, epoch).await.unwrap();
    let failed = json!({ "jobId": id, "leaseEpoch": epoch, "reason": "engine_error", "again": "pointless" });
    let _: Value = factory.client.post("/fail", &failed).await.unwrap();

    let raised: AlertList = fleet.admin.get("/alerts").await.unwrap();
    let metrics: Value = fleet.admin.get("/metrics").await.unwrap();
    let _: JobView = fleet.admin.post(&format!("/jobs/{id}/dismiss"), &json!({})).await.unwrap();
    let cleared: AlertList = fleet.admin.get("/alerts").await.unwrap();

    assert_eq!(raised.items.iter().map(|alert| alert.job_id).collect::<Vec<_>>(), [Some(id)], "{raised:?}");
    assert_eq!(cleared.items, []);
    let counts = |name: &str| metrics[name].as_object().is_some_and(|counts| !counts.is_empty());
    assert!(counts("storeOperations") && counts("storeUse"), "{metrics}");
}
