//! Budgets over HTTP: the ceiling, the switch, and what is shown of them.

use domain::{BudgetPeriod, Product, RunInsights, TokenScope};
use http::Method;
use protocol::{BudgetList, BudgetView, BurnDown, CompletionReport, JobExplanation, SubmitResponse, UsageResponse};
use serde_json::{Value, json};

use crate::fleet::{Fleet, Worker, code};

async fn put<T: serde::de::DeserializeOwned>(fleet: &Fleet, path: &str, body: Value) -> T {
    fleet.admin.call(Method::PUT, path, Some(&body)).await.unwrap()
}

/// A fleet with ceilings in force, and a job that has cost this much.
async fn spent(usd: f64, ceiling: f64) -> (Fleet, Worker, domain::JobId, domain::Epoch) {
    spent_on(Fleet::start().await, usd, ceiling).await
}

async fn spent_on(fleet: Fleet, usd: f64, ceiling: f64) -> (Fleet, Worker, domain::JobId, domain::Epoch) {
    let _: Value = put(&fleet, "/flags", json!({ "mode": "push", "budgets": true })).await;
    let settings = json!({ "ceilingUsd": ceiling, "period": "day", "jobUsd": 0.5 });
    let _: BudgetView = put(&fleet, "/budgets/default", settings).await;
    let factory = fleet.factory("mac-1").await;
    let mut inbox = factory.inbox().await;
    let id = fleet.submit("# Build\n").await;
    let epoch = factory.take_next(&mut inbox).await.lease_epoch;
    factory.start(id, epoch).await.unwrap();
    let insights = RunInsights { cost_usd: Some(usd), ..RunInsights::default() };
    let done = CompletionReport { lease_epoch: epoch, insights, ..CompletionReport::default() };
    let _: Value = factory.client.post(&format!("/jobs/{id}/complete"), &done).await.unwrap();
    (fleet, factory, id, epoch)
}

// [T2] [J3] [I9] [§10]
#[tokio::test]
async fn a_submit_over_budget_is_accepted_and_says_that_it_waits() {
    budget_story(Fleet::start().await).await;
}

pub(crate) async fn budget_story(fleet: Fleet) {
    let (fleet, ..) = spent_on(fleet, 1.25, 1.0).await;
    let budget: BudgetView = fleet.admin.get("/budgets/default").await.unwrap();
    assert_eq!((budget.spent_usd, budget.left_usd, budget.used_percent), (1.25, Some(0.0), Some(125.0)));

    let body = json!({ "bodyMd": "# Another\n" });
    let submitted: SubmitResponse = fleet.admin.post("/jobs", &body).await.unwrap();
    let id = submitted.job.id;
    let explained: JobExplanation = fleet.admin.get(&format!("/jobs/{id}/explain")).await.unwrap();

    let begin = "waiting for money: product `default` has spent $1.25 of $1.00 per day";
    assert!(submitted.forecast.text.starts_with(begin), "{}", submitted.forecast.text);
    assert!(explained.summary.starts_with(begin), "{}", explained.summary);
    assert_eq!(submitted.job.waiting.unwrap().code, "waits_for_money");
    let needs: Value = fleet.admin.get("/needs-me?kind=budget").await.unwrap();
    assert_eq!((needs["total"].as_u64(), needs["items"][0]["productId"].as_str()), (Some(1), Some("default")));
    let alerts: Value = fleet.admin.get("/alerts").await.unwrap();
    assert_eq!(alerts["items"][0]["code"], "budget_paused");
    // More money ends the wait.
    let _: BudgetView = put(&fleet, "/budgets/default", json!({ "ceilingUsd": 5, "period": "day" })).await;
    let job: Value = fleet.admin.get(&format!("/jobs/{id}")).await.unwrap();
    assert_ne!(job["waiting"]["code"], "waits_for_money");
}

// [T2] [row 18] [§10]
#[tokio::test]
async fn usage_is_reported_after_the_end_of_a_run() {
    let (fleet, factory, id, epoch) = spent(1.0, 10.0).await;

    for usd in [1.5, 1.25, 1.5] {
        let usage = json!({ "leaseEpoch": epoch, "costUsd": usd });
        let answer: UsageResponse = factory.client.post(&format!("/jobs/{id}/usage"), &usage).await.unwrap();
        assert_eq!(answer.spent_usd, Some(1.5));
    }
    let unknown = json!({ "leaseEpoch": 99, "costUsd": 1 });
    let unknown = factory.client.post::<_, Value>(&format!("/jobs/{id}/usage"), &unknown).await;
    let person = fleet.admin.post::<_, Value>(&format!("/jobs/{id}/usage"), &json!({ "leaseEpoch": epoch })).await;

    assert_eq!((code(unknown), code(person)), ("no_such_run".to_owned(), "forbidden".to_owned()));
    let chart: BurnDown = fleet.admin.get("/budgets/default/burndown").await.unwrap();
    assert_eq!((chart.ceiling_usd, chart.points.last().unwrap().spent_usd), (Some(10.0), 1.5));
    assert!(chart.points.is_sorted_by_key(|point| point.at));
    let total: BurnDown = fleet.admin.get("/budgets/default/burndown?period=total").await.unwrap();
    assert_eq!((total.period, total.ceiling_usd, total.until), (BudgetPeriod::Total, None, None));
}

// [T2] [I10] [§10]
#[tokio::test]
async fn the_switch_has_a_reason_and_an_actor() {
    let fleet = Fleet::start().await;

    let paused: Product = fleet.admin.post("/budgets/default/pause", &json!({ "reason": "too fast" })).await.unwrap();
    let same: Product = fleet.admin.get("/products/default").await.unwrap();
    let budgets: BudgetList = fleet.admin.get("/budgets").await.unwrap();
    let resumed: Product = fleet.admin.post("/budgets/default/resume", &json!({})).await.unwrap();
    let unknown = fleet.admin.post::<_, Value>("/budgets/nothing/pause", &json!({})).await;
    let extra = fleet.admin.post::<_, Value>("/budgets/default/pause", &json!({ "why": "typo" })).await;

    assert_eq!(paused, same);
    assert_eq!(paused.pause.as_ref().and_then(|pause| pause.reason.as_deref()), Some("too fast"));
    assert_eq!((budgets.items.len(), budgets.items[0].paused, budgets.items[0].pause.clone()), (1, true, paused.pause));
    assert_eq!((resumed.paused, resumed.pause), (false, None));
    assert_eq!(code(unknown), "unknown_product");
    assert_ne!(code(extra), "");
}

// [T2] [I12]
#[tokio::test]
async fn budgets_of_other_products_do_not_exist_for_a_caller() {
    let fleet = Fleet::start().await;
    let _: Product = put(&fleet, "/products/notes", json!({})).await;
    let notes = TokenScope::Operator { products: ["notes".parse().unwrap()].into() };
    let operator = fleet.client(&fleet.token(notes).await.secret);

    let seen: BudgetList = operator.get("/budgets").await.unwrap();
    let foreign = operator.get::<Value>("/budgets/default").await;
    let paused: Product = operator.post("/budgets/notes/pause", &json!({})).await.unwrap();
    let set = operator.call::<_, Value>(Method::PUT, "/budgets/notes", Some(&json!({ "ceilingUsd": 1 }))).await;
    let negative =
        fleet.admin.call::<_, Value>(Method::PUT, "/budgets/notes", Some(&json!({ "ceilingUsd": -1 }))).await;

    assert_eq!(seen.items.iter().map(|one| one.product_id.as_str()).collect::<Vec<_>>(), ["notes"]);
    assert_eq!((code(foreign), code(set)), ("unknown_product".to_owned(), "forbidden".to_owned()));
    assert!(paused.paused);
    assert_ne!(code(negative), "");
}
