//! The review gate over HTTP: votes, their refusals, and what follows them.

use client::Client;
use domain::{CommitSha, JobId, StageName, TokenScope};
use protocol::{
    AlertList, CreateTokenRequest, CreateTokenResponse, ErrandOutcome, JobDetail, JobView, NeedList, TokenList,
};
use serde_json::{Value, json};

use crate::fleet::{Fleet, Worker, code};

const REVIEWED: &str =
    "---\ntitle: Fix\nrepo: notes\nreview: {quorum: 2, reviewers: [ada, grace, admin]}\n---\nPlease.\n";

fn sha(n: u8) -> CommitSha {
    format!("{n:040x}").parse().unwrap()
}

/// A client with a token of a person.
async fn person(fleet: &Fleet, name: &str, owner: &str) -> Client {
    let grant = TokenScope::Operator { products: Default::default() };
    let (name, owner) = (name.to_owned(), Some(owner.to_owned()));
    let request = CreateTokenRequest { name, grant, ttl_seconds: None, owner, forge_login: None };
    let made: CreateTokenResponse = fleet.admin.post("/tokens", &request).await.unwrap();
    fleet.client(&made.secret)
}

/// Builds a job until its branch has a commit.
async fn finish(factory: &Worker, inbox: &mut client::EventStream, job: JobId, n: u8) {
    let epoch = factory.take_next(inbox).await.lease_epoch;
    factory.start(job, epoch).await.unwrap();
    let promote = factory.complete(job, epoch, Some(sha(n))).await.unwrap().promote.unwrap();
    factory.report(job, promote.lease_epoch, ErrandOutcome::Done).await.unwrap();
}

// [T5] [I15] [SECURITY self-approval]
#[tokio::test]
async fn a_reviewed_job_ships_the_commit_that_two_people_approved() {
    review_story(Fleet::start().await).await;
}

pub(crate) async fn review_story(fleet: Fleet) {
    let factory = fleet.factory("mac-1").await;
    let mut inbox = factory.inbox().await;
    let (ada, grace) = (person(&fleet, "laptop", "ada").await, person(&fleet, "phone", "Grace").await);
    let job = fleet.submit(REVIEWED).await;
    finish(&factory, &mut inbox, job, 1).await;
    let path = format!("/jobs/{job}/review");
    let vote = async |who: &Client, body: Value| who.post::<_, JobView>(&path, &body).await;
    let approve = |n: u8| json!({ "decision": "approve", "sha": sha(n) });

    // Who may not vote, and for what.
    assert_eq!(code(vote(&fleet.admin, approve(1)).await), "own_work");
    assert_eq!(code(vote(&factory.client, approve(1)).await), "forbidden");
    assert_eq!(code(vote(&person(&fleet, "x", "eve").await, approve(1)).await), "not_a_reviewer");
    assert_eq!(code(vote(&ada, approve(2)).await), "other_commit");
    assert_eq!(code(vote(&ada, json!({ "decision": "approve" })).await), "invalid");
    assert_eq!(code(vote(&ada, json!({ "decision": "changes", "sha": sha(1) })).await), "invalid");
    assert_eq!(code(vote(&ada, json!({ "decision": "maybe", "sha": sha(1) })).await), "invalid");
    assert_eq!(code(vote(&ada, json!({ "decision": "approve", "sha": sha(1), "force": true })).await), "unknown_key");
    let ship = fleet.admin.post::<_, JobView>(&format!("/jobs/{job}/actions/ship"), &json!({})).await;
    assert_eq!(code(ship), "illegal_transition");

    // Changes go back to the same branch, and void what was said about the commit.
    let needs: NeedList = ada.get("/needs-me?kind=review").await.unwrap();
    assert_eq!((needs.total, needs.items[0].review.as_ref().unwrap().sha.clone()), (1, Some(sha(1))));
    let alerts: AlertList = fleet.admin.get("/alerts").await.unwrap();
    assert!(alerts.items.iter().any(|alert| alert.job_id == Some(job)), "{alerts:?}");
    vote(&ada, approve(1)).await.unwrap();
    let changes = json!({ "decision": "changes", "sha": sha(1), "comment": "name it" });
    assert_eq!(vote(&grace, changes).await.unwrap().stage, StageName::Queued);
    finish(&factory, &mut inbox, job, 2).await;
    assert_eq!(code(vote(&grace, approve(1)).await), "other_commit");

    // Both approve the new commit, and that one ships.
    vote(&grace, approve(2)).await.unwrap();
    let detail: JobDetail = grace.get(&format!("/jobs/{job}")).await.unwrap();
    assert_eq!(detail.vote.and_then(|right| right.cast), Some(domain::VoteDecision::Approve));
    let approved = vote(&ada, approve(2)).await.unwrap();
    assert_eq!((approved.stage, approved.review.unwrap().approvals), (StageName::Testing, 2));
    let _: JobView = fleet.admin.post(&format!("/jobs/{job}/actions/ship"), &json!({})).await.unwrap();
    let offer = factory.take_next(&mut inbox).await;
    assert_eq!(offer.assignment.errand.map(|errand| errand.sha), Some(sha(2)));
}

// [T5] [T3]
#[tokio::test]
async fn a_review_is_requested_within_the_callers_products() {
    let fleet = Fleet::start().await;
    let factory = fleet.factory("mac-1").await;
    let mut inbox = factory.inbox().await;
    let job = fleet.submit("---\ntitle: Fix\nrepo: notes\n---\nPlease.\n").await;
    finish(&factory, &mut inbox, job, 1).await;
    let path = format!("/jobs/{job}/review/request");
    let viewer = fleet.client(&fleet.token(TokenScope::Viewer { products: Default::default() }).await.secret);

    assert_eq!(code(viewer.post::<_, JobView>(&path, &json!({})).await), "forbidden");
    assert_eq!(code(factory.client.post::<_, JobView>(&path, &json!({})).await), "forbidden");
    assert_eq!(code(fleet.admin.post::<_, JobView>(&path, &json!({ "quorum": 11 })).await), "invalid");
    let asked: JobView = fleet.admin.post(&path, &json!({ "quorum": 2, "message": "risky" })).await.unwrap();
    assert_eq!((asked.stage, asked.review.unwrap().quorum), (StageName::Review, 2));
    assert_eq!(code(fleet.admin.post::<_, JobView>(&path, &json!({ "quorum": 1 })).await), "weaker_review");
}

// [T5] [T3]
#[tokio::test]
async fn tokens_name_their_person_and_factories_have_none() {
    let fleet = Fleet::start().await;
    let operator = json!({ "name": "laptop", "owner": "ada", "forgeLogin": "ada42", "grant": { "role": "operator", "products": [] } });
    let join = json!({ "name": "join", "owner": "ada", "grant": { "role": "join" } });

    let made: CreateTokenResponse = fleet.admin.post("/tokens", &operator).await.unwrap();
    let refused = fleet.admin.post::<_, Value>("/tokens", &join).await;

    assert_eq!((made.token.owner.as_deref(), made.token.forge_login.as_deref()), (Some("ada"), Some("ada42")));
    assert_eq!(code(refused), "invalid");
    let listed: TokenList = fleet.admin.get("/tokens").await.unwrap();
    assert!(listed.items.iter().any(|token| token.owner.as_deref() == Some("ada")));
}
