//! Trees of jobs over HTTP [J4].

use domain::{Dep, JobId, ProductId, StageName, TokenScope};
use protocol::{
    BatchRequest, BatchResponse, CompletionReport, CompletionResponse, Dag, JobExplanation, JobView, ProductSettings,
    SubmitRequest,
};
use serde_json::json;

use crate::fleet::{Fleet, code};

const COMPOSITE: &str = "---\ntitle: Mend all gates\nkind: composite\n---\nAll of them.\n";

fn keyed(body_md: &str, key: &str) -> SubmitRequest {
    SubmitRequest { body_md: body_md.to_owned(), idempotency_key: Some(key.to_owned()), ..SubmitRequest::default() }
}

fn below(body_md: &str, key: &str, parent: &str) -> SubmitRequest {
    SubmitRequest { parent: Some(Dep::Key(parent.to_owned())), ..keyed(body_md, key) }
}

fn ids(answer: &BatchResponse) -> Vec<JobId> {
    answer.outcomes.iter().map(|outcome| outcome.id.expect("it was accepted")).collect()
}

// [J4] [§10]
#[tokio::test]
async fn a_tree_is_submitted_followed_and_shipped() {
    tree_story(Fleet::start().await).await;
}

pub(crate) async fn tree_story(fleet: Fleet) {
    let factory = fleet.factory("mac-1").await;
    let mut inbox = factory.inbox().await;
    let jobs = vec![
        keyed(COMPOSITE, "root"),
        below("# After the others\n", "last", "root"),
        below("# Before it\n", "first", "last"),
    ];

    let answer: BatchResponse = fleet.admin.post("/jobs/batch", &BatchRequest { jobs }).await.unwrap();
    let [root, last, first] = ids(&answer)[..] else { panic!("{answer:?}") };
    let offer = factory.take_next(&mut inbox).await;
    assert_eq!(offer.assignment.job_id, first, "the parents wait");
    let why: JobExplanation = fleet.admin.get(&format!("/jobs/{root}/explain")).await.unwrap();
    assert!(why.summary.starts_with("waiting for its children: "), "{}", why.summary);
    let dag: Dag = fleet.admin.get(&format!("/jobs/{first}/dag")).await.unwrap();
    let mut nodes: Vec<_> = dag.nodes.iter().map(|node| (node.id, node.parent_id)).collect();
    nodes.sort();
    let mut expected = vec![(root, None), (last, Some(root)), (first, Some(last))];
    expected.sort();
    assert_eq!(nodes, expected);

    factory.start(first, offer.lease_epoch).await.unwrap();
    let mut report = CompletionReport { lease_epoch: offer.lease_epoch, ..CompletionReport::default() };
    report.message = Some("the gate hangs on two hinges".to_owned());
    let _: CompletionResponse = factory.client.post(&format!("/jobs/{first}/complete"), &report).await.unwrap();
    let offer = factory.take_next(&mut inbox).await;
    assert_eq!(offer.assignment.job_id, last);
    let told: Vec<_> =
        offer.assignment.children.iter().map(|one| (one.id, one.stage, one.summary.as_deref())).collect();
    assert_eq!(told, [(first, StageName::Shipped, Some("the gate hangs on two hinges"))]);
    factory.start(last, offer.lease_epoch).await.unwrap();
    factory.complete(last, offer.lease_epoch, None).await.unwrap();

    let shipped = fleet.job(root).await;
    assert_eq!(shipped.job.stage, StageName::Shipped);
    let tree = shipped.tree.expect("it has children");
    assert_eq!((tree.jobs, tree.shipped, tree.children.len(), tree.children[0].jobs), (2, 2, 1, 1));
}

// [J4]
#[tokio::test]
async fn a_cancelled_parent_cancels_its_children() {
    let fleet = Fleet::start().await;
    let root = fleet.submit(COMPOSITE).await;
    let jobs = vec![SubmitRequest { body_md: "# One\n".to_owned(), ..SubmitRequest::default() }];
    let path = format!("/jobs/{root}/children");
    let answer: BatchResponse = fleet.admin.post(&path, &BatchRequest { jobs: jobs.clone() }).await.unwrap();
    let again: BatchResponse = fleet.admin.post(&path, &BatchRequest { jobs: jobs.clone() }).await.unwrap();

    let _: JobView = fleet.admin.post(&format!("/jobs/{root}/actions/cancel"), &json!({})).await.unwrap();

    let child = ids(&answer)[0];
    assert_eq!((ids(&again), again.outcomes[0].created), (vec![child], false));
    assert_eq!(fleet.job(child).await.job.stage, StageName::Failed);
    let requeued: Result<JobView, _> = fleet.admin.post(&format!("/jobs/{child}/actions/requeue"), &json!({})).await;
    assert_eq!(code(requeued), "parent_cancelled");
    let late: BatchResponse =
        fleet.admin.post(&path, &BatchRequest { jobs: vec![keyed("# Two\n", "two")] }).await.unwrap();
    assert_eq!(late.outcomes[0].problem.as_ref().unwrap().code, "invalid");
}

// [T3]
#[tokio::test]
async fn a_token_of_another_product_adds_no_children() {
    let fleet = Fleet::start().await;
    fleet.product("other", ProductSettings::default()).await;
    let products = ["other".parse::<ProductId>().unwrap()].into();
    let stranger = fleet.token(TokenScope::Operator { products }).await.secret;
    let stranger = fleet.client(&stranger);
    let root = fleet.submit(COMPOSITE).await;

    let jobs = vec![keyed("# One\n", "one")];
    let direct: Result<BatchResponse, _> =
        stranger.post(&format!("/jobs/{root}/children"), &BatchRequest { jobs: jobs.clone() }).await;
    let named = SubmitRequest { parent: Some(Dep::Id(root)), ..jobs[0].clone() };
    let named: BatchResponse = stranger.post("/jobs/batch", &BatchRequest { jobs: vec![named] }).await.unwrap();

    assert_eq!(code(direct), "no_such_job");
    assert!(named.outcomes[0].problem.as_ref().unwrap().detail.contains("no job"), "{named:?}");
    assert_eq!(fleet.job(root).await.tree.map(|tree| tree.jobs), Some(0));
}
