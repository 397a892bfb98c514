//! Items of trackers become jobs, and the status of the jobs is shown at the items [T6].

mod fake_issues;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use clock::SystemClock;
use coordinator::{IssueRules, TrackerSource};
use domain::{ErrandKind, JobId, StageName, TokenScope, TrackerName};
use forge::{IssueTracker, IssueTrackerConfig};
use hmac::{Hmac, KeyInit, Mac};
use http::{Method, StatusCode};
use protocol::{
    ErrandOutcome, IngestOutcome, IngestResponse, JobDetail, JobView, ProductSettings, TrackerItemView, TrackerList,
};
use serde_json::{Value, json};
use server::{Options, WebhookSecret};
use sha2::Sha256;

use crate::fleet::{Fleet, StoreKind, Worker, code, eventually};
use crate::raw::{Answer, Asking, ask};
use fake_issues::{Comment, FakeIssues, Fault, TOKEN};

const SECRET: &str = "canary-of-the-tracker";

fn name(name: &str) -> TrackerName {
    name.parse().unwrap()
}

fn options() -> Options {
    let secret = || WebhookSecret::new(SECRET).unwrap();
    let tracker_secrets = BTreeMap::from([(name("github"), secret()), (name("desk"), secret())]);
    Options { tracker_secrets, ..Options::default() }
}

async fn fleet() -> Fleet {
    Fleet::with(options()).await
}

fn sources(fleet: &Fleet, github: Option<&FakeIssues>) -> BTreeMap<TrackerName, TrackerSource> {
    let repos = BTreeMap::from([("acme/notes".to_owned(), (Some("notes".parse().unwrap()), None))]);
    let issues = IssueRules { label: "giga".to_owned(), authors: None, repos };
    let status = github.map(|github| {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.keep().join("token");
        std::fs::write(&file, TOKEN).unwrap();
        let config = IssueTrackerConfig { api: Some(github.base()), token_file: Some(file), token_env: None };
        let tracker = IssueTracker::open(&config, Arc::clone(fleet.coordinator.clock())).unwrap();
        Arc::new(tracker) as Arc<dyn domain::ItemTracker>
    });
    let github = TrackerSource { issues: Some(issues), status, ..TrackerSource::default() };
    let desk = TrackerSource { repo: Some("notes".parse().unwrap()), ..TrackerSource::default() };
    BTreeMap::from([(name("github"), github), (name("desk"), desk)])
}

async fn fleet_with(github: Option<&FakeIssues>) -> Fleet {
    let fleet = fleet().await;
    fleet.coordinator.set_trackers(sources(&fleet, github));
    fleet
}

fn signature(secret: &str, message: &str) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).unwrap();
    mac.update(message.as_bytes());
    let digest: String = mac.finalize().into_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256={digest}")
}

/// GitHub's webhook about issue 12.
fn issue(action: &str, body: &str) -> Value {
    json!({
        "action": action,
        "label": { "name": "giga" },
        "issue": {
            "number": 12, "title": "Fix the typo", "body": body, "labels": [{ "name": "giga" }, { "name": "bug" }],
            "html_url": "https://github.com/acme/notes/issues/12", "user": { "login": "stranger" },
            "author_association": "NONE",
        },
        "repository": { "full_name": "acme/notes" },
        "sender": { "login": "ann" },
    })
}

async fn from_github(fleet: &Fleet, secret: &str, delivery: &str, message: &Value) -> Answer {
    let message = message.to_string();
    let request = Asking::post("/api/fleet/tracker/webhook/github")
        .header("x-hub-signature-256", &signature(secret, &message))
        .header("x-github-delivery", delivery)
        .body(message);
    ask(fleet.address, request).await
}

async fn from_desk(fleet: &Fleet, delivery: &str, seconds_ago: i64, message: &Value) -> Answer {
    let message = message.to_string();
    let timestamp = fleet.coordinator.clock().now().as_millis() / 1_000 - seconds_ago;
    let request = Asking::post("/api/fleet/tracker/webhook/desk")
        .header("x-giga-signature", &signature(SECRET, &format!("{timestamp}.{message}")))
        .header("x-giga-timestamp", &timestamp.to_string())
        .header("x-giga-delivery", delivery)
        .body(message);
    ask(fleet.address, request).await
}

async fn jobs(fleet: &Fleet) -> usize {
    let list: protocol::JobList = fleet.admin.get("/jobs").await.unwrap();
    list.items.len()
}

fn outcome(answer: &Answer) -> String {
    answer.json()["outcome"].as_str().unwrap_or_default().to_owned()
}

fn job_of(answer: &Answer) -> JobId {
    answer.json()["jobId"].as_str().unwrap().parse().unwrap()
}

// [T6] [§10]
#[tokio::test]
async fn a_labelled_issue_becomes_one_job_with_its_text_quoted() {
    let fleet = fleet_with(None).await;
    let _factory = fleet.factory("mac-1").await;

    let made = from_github(&fleet, SECRET, "1", &issue("labeled", "---\nverify: [evil]\n---\nPlease.")).await;
    let id = job_of(&made);
    let job: JobDetail = fleet.job(id).await;

    assert_eq!((made.status, outcome(&made)), (StatusCode::OK, "created".to_owned()));
    assert_eq!((job.job.title.as_str(), job.job.created_by.as_str()), ("Fix the typo", "github:stranger"));
    let item = job.job.item.unwrap();
    assert_eq!(
        (item.key.as_str(), item.url.as_deref()),
        ("acme/notes#12", Some("https://github.com/acme/notes/issues/12"))
    );
    assert_eq!(job.manifest_snapshot.verify.len(), 0);
    assert!(job.body_md.contains("\n> verify: [evil]\n"), "{}", job.body_md);
    assert_eq!(job.job.tags.len(), 2);
}

// [T6] [attack: forged or repeated webhook]
#[tokio::test]
async fn an_item_is_one_job_however_often_it_is_delivered() {
    item_story(fleet().await).await;
}

pub(crate) async fn item_story_on(kind: StoreKind) {
    item_story(Fleet::on_store_with(kind, options(), Arc::new(SystemClock::new())).await).await;
}

async fn item_story(fleet: Fleet) {
    fleet.coordinator.set_trackers(sources(&fleet, None));
    let first = issue("labeled", "Please.");

    let made = from_github(&fleet, SECRET, "1", &first).await;
    let replayed = from_github(&fleet, SECRET, "2", &first).await;
    let same_id = from_github(&fleet, SECRET, "1", &issue("labeled", "Other.")).await;
    let mut again = issue("labeled", "Please.");
    again["issue"]["updated_at"] = "later".into();
    let again = from_github(&fleet, SECRET, "3", &again).await;
    let edited = from_github(&fleet, SECRET, "4", &issue("edited", "Changed.")).await;
    let other = from_github(&fleet, SECRET, "5", &issue("closed", "Changed.")).await;

    let outcomes = [&made, &replayed, &same_id, &again, &edited, &other].map(outcome);
    assert_eq!(outcomes, ["created", "repeated", "repeated", "known", "changed", "ignored"]);
    assert_eq!((job_of(&again), job_of(&edited)), (job_of(&made), job_of(&made)));
    assert_eq!(jobs(&fleet).await, 1);
    let list: TrackerList = fleet.admin.get("/tracker").await.unwrap();
    assert_eq!((list.items.len(), list.items[0].changed_at.is_some()), (1, true));
    assert!(fleet.job(job_of(&made)).await.body_md.contains("> Please."));
}

// [T6] [attack: forged or repeated webhook]
#[tokio::test]
async fn concurrent_deliveries_of_an_item_make_one_job() {
    let fleet = fleet_with(None).await;
    let item = |n: u32| json!({ "source": "desk", "key": "7", "title": "Fix it", "body": format!("Version {n}.") });

    let sent = (0..50).map(|n| {
        let fleet = &fleet;
        let item = item(n);
        async move { fleet.admin.post::<_, IngestResponse>("/tracker/ingest", &item).await.unwrap() }
    });
    let answers = futures_util::future::join_all(sent).await;

    let created = answers.iter().filter(|answer| answer.outcome == IngestOutcome::Created).count();
    let ids: BTreeSet<JobId> = answers.iter().filter_map(|answer| Some(answer.job.as_ref()?.id)).collect();
    assert_eq!((created, ids.len(), jobs(&fleet).await), (1, 1, 1));
}

// [T6] [attack: forged or repeated webhook]
#[tokio::test]
async fn a_webhook_delivered_in_parallel_makes_one_job_and_each_answer_names_it() {
    let fleet = fleet_with(None).await;
    let first = issue("labeled", "Please.");

    // One network sends at most four at a time.
    let mut answers = Vec::new();
    for _ in 0..13 {
        answers.extend(futures_util::future::join_all((0..4).map(|_| from_github(&fleet, SECRET, "1", &first))).await);
    }

    let created = answers.iter().filter(|answer| outcome(answer) == "created").count();
    let named: BTreeSet<String> =
        answers.iter().filter_map(|answer| answer.json()["jobId"].as_str().map(str::to_owned)).collect();
    let is_known = |answer: &Answer| ["created", "known", "repeated"].contains(&outcome(answer).as_str());
    assert!(answers.iter().all(is_known), "{answers:?}");
    assert_eq!((created, named.len(), jobs(&fleet).await), (1, 1, 1));
}

// [T6] [attack: forged or repeated webhook]
#[tokio::test]
async fn a_forged_or_old_webhook_makes_nothing() {
    let fleet = fleet_with(None).await;
    let item = json!({ "key": "7", "title": "Fix it" });

    let forged = from_github(&fleet, "guessed", "1", &issue("labeled", "x")).await;
    let unsigned = ask(fleet.address, Asking::post("/api/fleet/tracker/webhook/github").body("{}")).await;
    let old = from_desk(&fleet, "1", 301, &item).await;
    let future = from_desk(&fleet, "2", -301, &item).await;
    let unknown = ask(fleet.address, Asking::post("/api/fleet/tracker/webhook/nobody").body("{}")).await;

    for answer in [&forged, &unsigned, &old, &future] {
        assert_eq!(answer.code(), "unauthenticated");
        assert!(!format!("{answer:?}").contains(SECRET));
    }
    assert_eq!((unknown.code().as_str(), jobs(&fleet).await), ("no_such_route", 0));
}

// [T6]
#[tokio::test]
async fn a_signed_webhook_of_any_tracker_makes_a_job_in_its_product() {
    let fleet = fleet_with(None).await;
    fleet.product("other", ProductSettings::default()).await;
    let item = json!({ "key": "DESK-7", "title": "Fix it", "body": "Please.", "url": "https://desk.example/7" });

    let made = from_desk(&fleet, "1", 0, &item).await;
    let retried = from_desk(&fleet, "1", 1, &item).await;
    let mut elsewhere = item.clone();
    elsewhere["key"] = "DESK-8".into();
    elsewhere["productId"] = "other".into();
    let elsewhere = from_desk(&fleet, "3", 0, &elsewhere).await;

    assert_eq!((outcome(&made), outcome(&retried)), ("created".to_owned(), "repeated".to_owned()));
    let job = fleet.job(job_of(&made)).await.job;
    assert_eq!((job.item.unwrap().source.as_str(), job.repo.unwrap().as_str()), ("desk", "notes"));
    assert_eq!((elsewhere.code().as_str(), jobs(&fleet).await), ("forbidden", 1));
}

// [T6] [§10]
#[tokio::test]
async fn an_operator_ingests_items_of_its_products_alone() {
    let fleet = fleet_with(None).await;
    fleet.product("other", ProductSettings::default()).await;
    let operator = fleet.token(TokenScope::Operator { products: ["other".parse().unwrap()].into() }).await;
    let operator = fleet.client(&operator.secret);
    let item = |key: &str| json!({ "source": "desk", "key": key, "title": "Fix it" });

    let own: IngestResponse = operator.post("/tracker/ingest", &item("1")).await.unwrap();
    let twice: IngestResponse = operator.post("/tracker/ingest", &item("1")).await.unwrap();
    let foreign: IngestResponse = fleet.admin.post("/tracker/ingest", &item("2")).await.unwrap();
    let refused = operator.post::<_, IngestResponse>("/tracker/ingest", &item("2")).await;
    let broken = operator
        .post::<_, IngestResponse>("/tracker/ingest", &json!({ "source": "desk", "key": "", "title": "x" }))
        .await;

    assert_eq!((own.outcome, twice.outcome), (IngestOutcome::Created, IngestOutcome::Known));
    assert_eq!(own.job.unwrap().product_id.as_str(), "other");
    assert_eq!(foreign.job.unwrap().product_id.as_str(), "default");
    assert_eq!((code(refused), code(broken)), ("forbidden".to_owned(), "invalid".to_owned()));
    let list: TrackerList = operator.get("/tracker").await.unwrap();
    assert_eq!(list.items.len(), 1);
}

/// Works on a job until it has shipped.
async fn ship(fleet: &Fleet, factory: &Worker, inbox: &mut client::EventStream, id: JobId) {
    let sha: domain::CommitSha = "0123456789abcdef0123456789abcdef01234567".parse().unwrap();
    let epoch = factory.take_next(inbox).await.lease_epoch;
    factory.start(id, epoch).await.unwrap();
    let order = factory.complete(id, epoch, Some(sha)).await.unwrap().promote.unwrap();
    factory.report(id, order.lease_epoch, ErrandOutcome::Done).await.unwrap();
    let _: JobView = fleet.admin.post(&format!("/jobs/{id}/actions/ship"), &json!({})).await.unwrap();
    let merge = factory.take_next(inbox).await;
    assert_eq!(merge.assignment.errand.as_ref().map(|errand| errand.kind), Some(ErrandKind::Ship));
    factory.report(id, merge.lease_epoch, ErrandOutcome::Done).await.unwrap();
    assert_eq!(fleet.job(id).await.job.stage, StageName::Shipped);
}

/// A fleet with a factory for the repository of issue 12.
async fn tracked() -> (FakeIssues, Fleet, Worker, client::EventStream) {
    let github = FakeIssues::start().await;
    let fleet = fleet_with(Some(&github)).await;
    let factory = fleet.factory("mac-1").await;
    let inbox = factory.inbox().await;
    (github, fleet, factory, inbox)
}

// [T6]
#[tokio::test]
async fn an_issue_shows_the_status_in_one_comment_and_is_closed_on_ship() {
    let (github, fleet, factory, mut inbox) = tracked().await;

    let id = job_of(&from_github(&fleet, SECRET, "1", &issue("labeled", "Please.")).await);
    eventually("the issue shows a status", || async { !github.ours().is_empty() }).await;
    ship(&fleet, &factory, &mut inbox, id).await;
    eventually("the issue is closed", || async { github.issue(|issue| issue.is_closed) }).await;

    let ours = github.ours();
    assert_eq!(ours.len(), 1);
    assert!(ours[0].contains("**shipped**") && ours[0].contains(&id.to_string()), "{ours:?}");
    let list: TrackerList = fleet.admin.get("/tracker").await.unwrap();
    assert_eq!((list.items[0].error.clone(), list.sources[1].failures), (None, 0));
}

// [T6]
#[tokio::test]
async fn a_lost_answer_or_a_copied_mark_makes_no_second_comment() {
    let (github, fleet, _factory, _inbox) = tracked().await;
    let made = from_github(&fleet, SECRET, "1", &issue("labeled", "Please.")).await;
    let id = job_of(&made);
    eventually("the issue shows a status", || async { !github.ours().is_empty() }).await;

    // A stranger copies the mark, in front of ours.
    github.issue(|issue| {
        let body = issue.comments[0].body.clone();
        issue.comments.insert(0, Comment { id: 7, body, is_ours: false });
    });
    // Another process does not know the id of the comment.
    let fleet = fleet.restarted().await;
    fleet.coordinator.set_trackers(sources(&fleet, Some(&github)));
    fleet.admin.post::<_, TrackerItemView>("/tracker/echo", &json!({ "jobId": id })).await.unwrap();
    assert_eq!(github.ours().len(), 1);

    // The comment is deleted, and the answer to the new one is lost.
    github.issue(|issue| {
        issue.comments.clear();
        issue.faults.push(Fault::LostAnswer(Method::POST));
    });
    fleet.admin.post::<_, TrackerItemView>("/tracker/echo", &json!({ "jobId": id })).await.unwrap();

    assert_eq!(github.ours().len(), 1);
}

// [T6]
#[tokio::test]
async fn a_failed_status_is_sent_again_without_blocking_anything() {
    let (github, fleet, _factory, _inbox) = tracked().await;
    github.issue(|issue| issue.faults.extend(vec![Fault::Instead(Method::GET, 401); 2]));

    let id = job_of(&from_github(&fleet, SECRET, "1", &issue("labeled", "Please.")).await);
    eventually("the failure is shown", || async {
        let list: TrackerList = fleet.admin.get("/tracker").await.unwrap();
        list.sources.iter().any(|source| source.failures == 1 && source.retry_at.is_some())
    })
    .await;
    assert_eq!(github.ours(), Vec::<String>::new());

    eventually("an echo on request shows it", || async {
        let _: Result<TrackerItemView, _> = fleet.admin.post("/tracker/echo", &json!({ "jobId": id })).await;
        github.ours().len() == 1
    })
    .await;
    let list: TrackerList = fleet.admin.get("/tracker").await.unwrap();
    assert!(list.sources.iter().all(|source| source.failures == 0 && source.error.is_none()));
    assert!(!serde_json::to_string(&list).unwrap().contains(TOKEN));
}

// [T6] [D4] [alert: tracker_unreachable]
#[tokio::test]
async fn a_tracker_that_fails_is_an_alert_until_it_takes_a_status() {
    let (github, fleet, _factory, _inbox) = tracked().await;
    github.issue(|issue| issue.faults.extend(vec![Fault::Instead(Method::GET, 401); 3]));
    let codes = async || {
        let alerts: protocol::AlertList = fleet.admin.get("/alerts").await.unwrap();
        alerts.items.into_iter().map(|alert| (alert.code, alert.subject)).collect::<Vec<_>>()
    };

    let id = job_of(&from_github(&fleet, SECRET, "1", &issue("labeled", "Please.")).await);
    let failing = [(protocol::AlertCode::TrackerUnreachable, Some("github".to_owned()))];
    eventually("the alert is raised", || async {
        let _: Result<TrackerItemView, _> = fleet.admin.post("/tracker/echo", &json!({ "jobId": id })).await;
        codes().await == failing
    })
    .await;
    eventually("the alert is cleared", || async {
        let _: Result<TrackerItemView, _> = fleet.admin.post("/tracker/echo", &json!({ "jobId": id })).await;
        codes().await.is_empty()
    })
    .await;

    assert_eq!(github.ours().len(), 1);
}

// [T6] [D4] [alert: item_rejected]
#[tokio::test]
async fn an_item_that_becomes_no_job_is_shown_until_a_delivery_of_it_succeeds() {
    let fleet = fleet().await;
    let mut sources = sources(&fleet, None);
    sources.get_mut(&name("desk")).unwrap().profile = Some("fixer".parse().unwrap());
    fleet.coordinator.set_trackers(sources);
    let item = json!({ "key": "DESK-7", "title": "Fix the typo", "body": "On page one." });
    let shown = async || {
        let list: TrackerList = fleet.admin.get("/tracker").await.unwrap();
        let alerts: protocol::AlertList = fleet.admin.get("/alerts").await.unwrap();
        (list.rejected, alerts.items)
    };

    let refused = from_desk(&fleet, "1", 0, &item).await;
    let (rejected, alerts) = shown().await;
    let profile = json!({ "name": "fixer", "bodyMd": "You fix typos.", "productId": "_fleet" });
    let _: Value = fleet.admin.post("/profiles", &profile).await.unwrap();
    let again = from_desk(&fleet, "1", 0, &item).await;
    let (ended, cleared) = shown().await;

    assert_eq!((refused.code().as_str(), again.status), ("bad_manifest", StatusCode::OK), "{again:?}");
    assert_eq!((rejected.len(), rejected[0].key.as_str()), (1, "DESK-7"));
    assert!(rejected[0].error.contains("unknown profile `fixer`"), "{rejected:?}");
    assert_eq!(alerts.iter().map(|alert| alert.code).collect::<Vec<_>>(), [protocol::AlertCode::ItemRejected]);
    assert!(alerts[0].message.starts_with("1 item of tracker `desk` became no job; the last one is DESK-7: "));
    assert_eq!((ended, cleared), (vec![], vec![]));
}
