//! A factory with a valid token that names another factory's instance, nonce and job (row 34, [T3]), metrics that no
//! run can have, and times that no document can hold.

use std::sync::Arc;
use std::time::Duration;

use clock::ManualClock;
use domain::{ClaimNonce, Epoch, InstanceId, JobId, Timestamp};
use http::{Method, StatusCode};
use protocol::{AcceptRequest, AcceptResponse, ProductSettings};
use serde_json::{Value, json};
use server::Limits;

use crate::fleet::{Fleet, Worker, next_offer, random};
use crate::raw::{Answer, Asking, ask};

/// A job of the product `default` that the factory `victim` holds, and the ids of its claim.
struct HeldJobFixture {
    job: JobId,
    epoch: Epoch,
    seq: u64,
    nonce: ClaimNonce,
    instance: InstanceId,
}

impl HeldJobFixture {
    /// A job that `victim` has accepted and started.
    async fn by(fleet: &Fleet, victim: &Worker) -> Self {
        Self::of(fleet, victim, "# Held by the victim\n").await
    }

    async fn of(fleet: &Fleet, victim: &Worker, manifest: &str) -> Self {
        let mut inbox = victim.inbox().await;
        fleet.submit(manifest).await;
        let offer = next_offer(&mut inbox).await;
        let claim: AcceptRequest = victim.claim(&offer);
        let AcceptResponse { lease_epoch: epoch, .. } = victim.accept_as(&claim).await.unwrap();
        victim.start(offer.job_id, epoch).await.unwrap();
        let (job, seq, nonce) = (offer.job_id, offer.dispatch_seq.0, claim.claim_nonce);
        Self { job, epoch, seq, nonce, instance: victim.instance }
    }
}

/// One call of a worker. `{job}` and `{own}` in the path stand for the job and the caller's own factory.
struct Call {
    method: &'static str,
    path: &'static str,
    body: Option<Value>,
    /// The code for a factory whose token includes the job's product.
    same_product: &'static str,
    /// The code for a factory whose token does not include it.
    other_product: &'static str,
}

/// Every call of a worker with the instance, the nonce, the job or the name of another factory.
fn calls(held: &HeldJobFixture, own: InstanceId) -> Vec<Call> {
    let call =
        |method, path, body, same_product, other_product| Call { method, path, body, same_product, other_product };
    let get = |path, same_product| call("GET", path, None, same_product, "no_such_job");
    let post = |path, body, same, other| call("POST", path, Some(body), same, other);
    let fenced = |path, body| call("POST", path, Some(body), "fenced", "no_such_job");
    let HeldJobFixture { job, epoch, seq, nonce, instance } = held;
    let beat = json!({ "instance": instance, "capabilities": [], "seatLimit": 0, "protocol": 1 });
    let leaving = json!({ "instance": instance, "capabilities": [], "seatLimit": 0, "protocol": 1, "leaving": true });
    let progress = json!({ "costUsd": 5.0, "tokensIn": 5 });
    let listed = json!([{ "jobId": job, "leaseEpoch": epoch, "progress": progress }]);
    let renew = |instance: &InstanceId, held: &Value| json!({ "instance": instance, "held": held });
    let accept =
        |instance: &InstanceId| json!({ "jobId": job, "dispatchSeq": seq, "claimNonce": nonce, "instance": instance });
    let decline =
        |instance: &InstanceId| json!({ "jobId": job, "dispatchSeq": seq, "instance": instance, "reason": "busy" });
    let claim = |instance: &InstanceId| json!({ "claimNonce": nonce, "instance": instance });
    let checkpoint = json!({ "ref": "aq/wip/x", "sha": "0".repeat(40), "epoch": epoch });
    let shown = |more: Value| {
        let mut body = json!({ "leaseEpoch": epoch });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        body
    };
    let work = |op: &str, more: Value| {
        let mut operation = shown(more);
        operation["op"] = json!(op);
        operation["jobId"] = json!(job);
        json!({ "operations": [operation] })
    };
    let done = json!({ "outcome": { "result": "done" } });
    let as_victim = |mut body: Value| {
        body["factoryId"] = json!("victim");
        body
    };
    vec![
        post("/factories/heartbeat", beat, "foreign_instance", "foreign_instance"),
        post("/factories/heartbeat", leaving, "foreign_instance", "foreign_instance"),
        post("/factories/{own}/renew", renew(instance, &json!([])), "foreign_instance", "foreign_instance"),
        post("/factories/{own}/renew", renew(instance, &json!([])), "foreign_instance", "foreign_instance"),
        post("/factories/{own}/renew", renew(instance, &listed), "foreign_instance", "foreign_instance"),
        // A process that lists a lease it does not hold gets it back as lost.
        post("/factories/{own}/renew", renew(&own, &listed), "lost", "lost"),
        post("/factories/victim/renew", renew(instance, &listed), "forbidden", "forbidden"),
        post("/factories/victim/drain", json!({}), "forbidden", "forbidden"),
        post("/factories/victim/token/rotate", json!({}), "forbidden", "forbidden"),
        call("GET", "/factories/{own}/inbox?instance={victim}", None, "foreign_instance", "foreign_instance"),
        call("GET", "/factories/victim/inbox?instance={victim}", None, "forbidden", "forbidden"),
        post("/claim", claim(instance), "foreign_instance", "foreign_instance"),
        post("/claim?dryRun=true", claim(instance), "foreign_instance", "foreign_instance"),
        post("/claim", as_victim(claim(instance)), "forbidden", "forbidden"),
        post("/claim", claim(&own), "ok", "ok"),
        post("/accept", accept(instance), "foreign_instance", "no_such_job"),
        post("/accept", accept(&own), "already_granted", "no_such_job"),
        post("/accept", as_victim(accept(instance)), "forbidden", "forbidden"),
        post("/decline", decline(instance), "foreign_instance", "no_such_job"),
        post("/decline", decline(&own), "superseded_dispatch", "no_such_job"),
        post("/work", work("decline", decline(instance)), "foreign_instance", "no_such_job"),
        post("/jobs/{job}/lease/renew", shown(json!({ "instance": instance })), "foreign_instance", "no_such_job"),
        fenced("/jobs/{job}/lease/renew", shown(json!({ "instance": own }))),
        fenced("/jobs/{job}/lease/release", shown(json!({}))),
        fenced("/jobs/{job}/start", shown(json!({ "engine": "command" }))),
        call("PATCH", "/jobs/{job}", Some(shown(json!({ "checkpoint": checkpoint }))), "fenced", "no_such_job"),
        call("PATCH", "/jobs/{job}", Some(shown(json!({ "stage": "building" }))), "fenced", "no_such_job"),
        fenced("/jobs/{job}/complete", shown(json!({}))),
        fenced("/jobs/{job}/promote", shown(done.clone())),
        fenced("/fail", shown(json!({ "jobId": job, "reason": "crash" }))),
        fenced("/jobs/{job}/quota", shown(json!({ "engine": "command" }))),
        fenced("/jobs/{job}/ask", shown(json!({ "question": "why?" }))),
        fenced("/jobs/{job}/subtasks", shown(json!({ "subtask": { "title": "One", "instructions": "Do one." } }))),
        call("GET", "/jobs/{job}/subtasks?leaseEpoch={epoch}", None, "fenced", "no_such_job"),
        fenced("/jobs/{job}/subtasks/wait", shown(json!({}))),
        fenced("/jobs/{job}/runs/evidence", shown(json!({ "diff": "+x\n" }))),
        fenced("/jobs/{job}/logs?leaseEpoch={epoch}&offset=0", json!("text")),
        post(
            "/jobs/{job}/pull-request",
            json!({ "number": 7, "pullRequest": { "state": "merged" }, "head": "0".repeat(40) }),
            "not_ready",
            "no_such_job",
        ),
        post("/work", work("accept", accept(instance)), "foreign_instance", "no_such_job"),
        fenced("/work", work("start", json!({ "engine": "command" }))),
        fenced("/work", work("patch", json!({ "checkpoint": checkpoint }))),
        fenced("/work", work("complete", json!({}))),
        fenced("/work", work("promote", done)),
        fenced("/work", work("fail", json!({ "reason": "crash" }))),
        fenced("/work", work("quota", json!({ "engine": "command" }))),
        fenced("/work", work("ask", json!({ "question": "why?" }))),
        fenced("/work", work("awaitSubtasks", json!({}))),
        fenced("/work", work("release", json!({}))),
        get("/jobs/{job}", "ok"),
        get("/jobs/{job}/lease", "ok"),
        get("/jobs/{job}/runs", "ok"),
        get("/jobs/{job}/runs/1/evidence", "ok"),
        get("/jobs/{job}/events", "ok"),
        get("/jobs/{job}/events/stream", "stream"),
        get("/jobs/{job}/explain", "ok"),
        get("/jobs/{job}/dag", "ok"),
        get("/jobs/{job}/logs", "text"),
        call("POST", "/jobs/{job}/children", Some(json!({ "jobs": [] })), "forbidden", "no_such_job"),
        call("POST", "/jobs/{job}/actions/cancel", Some(json!({})), "forbidden", "no_such_job"),
    ]
}

async fn made(fleet: &Fleet, call: &Call, held: &HeldJobFixture, job: JobId, caller: &Worker) -> Answer {
    let path = call.path.replace("{job}", &job.to_string()).replace("{own}", caller.id.as_str());
    let path = path.replace("{victim}", &held.instance.to_string()).replace("{epoch}", &held.epoch.to_string());
    let method: Method = call.method.parse().unwrap();
    let mut asking = Asking::new(method, &format!("/api/fleet{path}")).token(&caller.token);
    if let Some(body) = &call.body {
        // The job may also be named in the body.
        let text = body.to_string().replace(&held.job.to_string(), &job.to_string());
        asking = asking.header("content-type", "application/json").body(text);
    }
    let mut connection = crate::raw::Connection::open(fleet.address).await;
    if call.same_product == "stream" {
        let response = connection.head(asking).await;
        let (status, headers) = (response.status(), response.headers().clone());
        if status.is_success() {
            return Answer { status, headers, body: bytes::Bytes::from_static(b"\"stream\"") };
        }
        let body = http_body_util::BodyExt::collect(response.into_body()).await.unwrap().to_bytes();
        return Answer { status, headers, body };
    }
    connection.ask(asking).await
}

/// The error code of an answer, or of its one operation in a batch.
fn outcome(call: &Call, answer: &Answer) -> String {
    if call.same_product == "text" && answer.status.is_success() {
        return "text".to_owned();
    }
    let body = answer.json();
    if body == json!("stream") {
        return "stream".to_owned();
    }
    let code = body["code"].as_str().or(body["results"][0]["problem"]["code"].as_str());
    let is_lost = body["lost"].as_array().is_some_and(|lost| !lost.is_empty());
    let all_is_well = if is_lost { "lost" } else { "ok" };
    code.unwrap_or(all_is_well).to_owned()
}

/// The state that calls of other factories must not change: the job with the expiry of its lease, and the factory with
/// its seats.
async fn state_of(fleet: &Fleet, held: &HeldJobFixture) -> (Value, Value) {
    let job = fleet.admin.get(&format!("/jobs/{}", held.job)).await.unwrap();
    let factory = fleet.admin.get("/factories/victim").await.unwrap();
    (job, factory)
}

// [I12] [T3] [attack: factory A writes to B's job]
#[tokio::test]
async fn row_34_no_call_of_one_factory_touches_anothers_job() {
    let clock = ManualClock::at(Timestamp::from_millis(1_800_000_000_000));
    let fleet = Fleet::by(Arc::new(clock.clone()), Limits::default()).await;
    fleet.product("other", ProductSettings::default()).await;
    let victim = fleet.factory("victim").await;
    let held = HeldJobFixture::by(&fleet, &victim).await;
    let insider = fleet.factory("insider").await;
    let outsider = fleet.factory_for("outsider", &["other"]).await;
    // A call that renewed the victim's lease or presence would show here.
    clock.advance(Duration::from_secs(20));
    let before = state_of(&fleet, &held).await;

    for (caller, is_covered) in [(&insider, true), (&outsider, false)] {
        for call in calls(&held, caller.instance) {
            let answer = made(&fleet, &call, &held, held.job, caller).await;

            let expected = if is_covered { call.same_product } else { call.other_product };
            let name = format!("{} {} by {}: {:?}", call.method, call.path, caller.id, answer);
            assert_eq!(outcome(&call, &answer), expected, "{name}");
            let text = String::from_utf8_lossy(&answer.body);
            assert!(!text.contains(&held.instance.to_string()), "an instance id is shown: {name}");
            assert!(!text.contains(&held.nonce.to_string()), "a nonce is shown: {name}");
            assert_eq!(state_of(&fleet, &held).await, before, "{name}");
        }
    }

    let renewed: Value = victim
        .client
        .post(
            "/factories/victim/renew",
            &json!({ "instance": victim.instance, "held": [{ "jobId": held.job, "leaseEpoch": held.epoch }] }),
        )
        .await
        .unwrap();
    assert_eq!(renewed["lost"], json!([]));
    victim.complete(held.job, held.epoch, None).await.unwrap();
    assert_eq!(fleet.job(held.job).await.job.spent.cost_usd, None, "another factory's figures are not charged");
}

// [I12] [T3] [row 34]
#[tokio::test]
async fn a_job_of_another_product_answers_as_if_it_did_not_exist() {
    let fleet = Fleet::start().await;
    fleet.product("other", ProductSettings::default()).await;
    let victim = fleet.factory("victim").await;
    let held = HeldJobFixture::by(&fleet, &victim).await;
    let outsider = fleet.factory_for("outsider", &["other"]).await;
    let none = JobId::from_bytes(random());

    for call in calls(&held, outsider.instance) {
        let there = made(&fleet, &call, &held, held.job, &outsider).await;
        let absent = made(&fleet, &call, &held, none, &outsider).await;

        let text = |answer: &Answer, job: JobId| String::from_utf8_lossy(&answer.body).replace(&job.to_string(), "ID");
        let (there, absent) = ((there.status, text(&there, held.job)), (absent.status, text(&absent, none)));
        assert_eq!(there, absent, "{} {}", call.method, call.path);
    }
}

// [T3]
#[tokio::test]
async fn a_dry_run_shows_no_jobs_of_other_products() {
    let fleet = Fleet::start().await;
    fleet.product("other", ProductSettings::default()).await;
    let insider = fleet.factory("insider").await;
    let outsider = fleet.factory_for("outsider", &["other"]).await;
    let waiting = fleet.submit("---\ncapabilities: [os:plan9]\n---\n# Waits\n").await;

    let mut shown = Vec::new();
    for worker in [&insider, &outsider] {
        let request = json!({ "claimNonce": ClaimNonce::from_bytes(random()), "instance": worker.instance });
        let answer: Value = worker.client.post("/claim?dryRun=true", &request).await.unwrap();
        shown.push(answer.to_string().contains(&waiting.to_string()));
    }

    assert_eq!(shown, [true, false]);
    let seats: Value = outsider.client.get("/factories").await.unwrap();
    assert!(!seats.to_string().contains(&waiting.to_string()));
}

// [J6] [row 34]
#[tokio::test]
async fn a_completion_is_repeated_by_its_own_holder_alone() {
    let fleet = Fleet::start().await;
    let victim = fleet.factory("victim").await;
    let held = HeldJobFixture::of(&fleet, &victim, "---\ntitle: Held by the victim\nrepo: notes\n---\n").await;
    let insider = fleet.factory("insider").await;
    victim.complete(held.job, held.epoch, None).await.unwrap();

    let again = victim.complete(held.job, held.epoch, None).await.unwrap();
    assert_eq!(again.promote, None);
    assert_eq!(crate::fleet::code(insider.complete(held.job, held.epoch, None).await), "fenced");

    let _: Value = fleet.admin.post(&format!("/jobs/{}/actions/requeue", held.job), &json!({})).await.unwrap();
    for worker in [&victim, &insider] {
        assert_eq!(crate::fleet::code(worker.complete(held.job, held.epoch, None).await), "fenced", "{}", worker.id);
    }
    let _: Value = fleet.admin.post(&format!("/jobs/{}/actions/cancel", held.job), &json!({})).await.unwrap();
    assert_eq!(crate::fleet::code(victim.complete(held.job, held.epoch, None).await), "fenced");
}

// [J6]
#[tokio::test]
async fn impossible_metrics_are_rejected_by_name() {
    let fleet = Fleet::start().await;
    let worker = fleet.factory("worker").await;
    let held = HeldJobFixture::by(&fleet, &worker).await;
    let HeldJobFixture { job, epoch, instance, .. } = &held;
    let before = fleet.job(*job).await;
    let figures = [
        ("costUsd", "-1"),
        ("costUsd", "1e308"),
        ("costUsd", "-1e308"),
        ("costUsd", "1000000.5"),
        ("tokensIn", "1000000000001"),
        ("tokensOut", "18446744073709551615"),
        ("turns", "4294967295"),
        // JSON cannot express these; similar values are rejected.
        ("costUsd", "1e400"),
        ("costUsd", "NaN"),
        ("tokensIn", "-1"),
        ("tokensIn", "1e30"),
    ];

    for (field, value) in figures {
        let insights = format!("\"insights\":{{\"{field}\":{value}}}");
        let renewed = format!(
            "{{\"instance\":\"{instance}\",\"held\":[{{\"jobId\":\"{job}\",\"leaseEpoch\":{epoch},\"progress\":{{\"{field}\":{value}}}}}]}}"
        );
        let reports = [
            (format!("/jobs/{job}/complete"), format!("{{\"leaseEpoch\":{epoch},{insights}}}")),
            (
                "/fail".to_owned(),
                format!("{{\"jobId\":\"{job}\",\"leaseEpoch\":{epoch},\"reason\":\"crash\",{insights}}}"),
            ),
            (format!("/jobs/{job}/ask"), format!("{{\"leaseEpoch\":{epoch},\"question\":\"?\",{insights}}}")),
            (format!("/jobs/{job}/lease/release"), format!("{{\"leaseEpoch\":{epoch},{insights}}}")),
            (format!("/jobs/{job}/quota"), format!("{{\"leaseEpoch\":{epoch},\"engine\":\"command\",{insights}}}")),
            ("/factories/worker/renew".to_owned(), renewed),
        ];
        for (path, body) in reports {
            let asking = Asking::post(&format!("/api/fleet{path}")).token(&worker.token);
            let answer = ask(fleet.address, asking.header("content-type", "application/json").body(body)).await;

            assert!(
                [StatusCode::UNPROCESSABLE_ENTITY, StatusCode::BAD_REQUEST].contains(&answer.status),
                "{path} {answer:?}"
            );
            let is_a_number = !["1e400", "NaN", "-1", "1e30"].contains(&value) || (field, value) == ("costUsd", "-1");
            if is_a_number {
                let text = answer.json()["detail"].as_str().unwrap().to_owned();
                assert_eq!(answer.status, StatusCode::UNPROCESSABLE_ENTITY, "{path} {answer:?}");
                assert!(text.contains(field) && text.contains("000"), "it names the field and the limit: {text}");
            }
        }
    }

    assert_eq!(fleet.job(*job).await.job, before.job);
    let most =
        json!({ "leaseEpoch": epoch, "insights": { "costUsd": 1e6, "tokensIn": 1e12 as u64, "turns": 1_000_000 } });
    let _: Value = worker.client.post(&format!("/jobs/{job}/complete"), &most).await.unwrap();
    assert_eq!(fleet.job(*job).await.job.spent.cost_usd, Some(1e6));
}

// [T3]
#[tokio::test]
async fn a_token_that_would_never_end_is_refused_and_never_stored() {
    let fleet = Fleet::start().await;
    let make = async |ttl: u64| {
        let body = json!({ "name": "x", "grant": { "role": "viewer" }, "ttlSeconds": ttl });
        ask(fleet.address, Asking::post("/api/fleet/tokens").token(&fleet.admin_token).json(&body)).await
    };

    for ttl in [0, 315_360_001, 1 << 40, u64::MAX / 1_000, u64::MAX] {
        let answer = make(ttl).await;
        assert_eq!(answer.status, StatusCode::UNPROCESSABLE_ENTITY, "{ttl}: {answer:?}");
        assert!(answer.json()["detail"].as_str().unwrap().contains("315360000"), "it names the limit: {answer:?}");
    }
    assert!(make(315_360_000).await.status.is_success());

    let again = fleet.restarted().await;
    let tokens: Value = again.admin.get("/tokens").await.unwrap();
    assert!(tokens["items"].as_array().unwrap().iter().any(|token| token["name"] == "x"));
}

// [I12] [attack: factory A writes to B's job]
#[tokio::test]
async fn a_factory_cannot_pause_the_credential_of_another() {
    let fleet = Fleet::start().await;
    let victim = fleet.factory("victim").await;
    let insider = fleet.factory("insider").await;
    let beat = |worker: &Worker, credential: &str| {
        let engines = json!([{ "name": "claude", "credential": credential }]);
        json!({ "instance": worker.instance, "capabilities": ["engine:claude"], "seatLimit": 1, "protocol": 1, "engines": engines })
    };
    let _: Value = victim.client.post("/factories/heartbeat", &beat(&victim, "a-login")).await.unwrap();

    let unnamed: Result<Value, _> = insider.client.post("/factories/heartbeat", &beat(&insider, "victim/claude")).await;
    assert_eq!(crate::fleet::code(unnamed), "invalid");
    let shown: Value = insider.client.get("/factories/victim").await.unwrap();
    assert!(!shown.to_string().contains("a-login"), "{shown}");
    let own: Value = victim.client.get("/factories/victim").await.unwrap();
    assert!(own.to_string().contains("a-login"), "{own}");
}

// [attack: factory A writes to B's job]
#[tokio::test]
async fn numbers_and_lists_of_a_worker_have_limits() {
    let fleet = Fleet::start().await;
    let worker = fleet.factory("worker").await;
    let many: Vec<String> = (0..1_001).map(|n| format!("p{n}")).collect();
    let seats: serde_json::Map<String, Value> = (0..101).map(|n| (format!("e{n}"), json!(1))).collect();
    let instance = worker.instance;
    let nonce = ClaimNonce::from_bytes(random());
    let beat = json!({ "instance": instance, "capabilities": [], "seatLimit": 1, "protocol": 1 });
    let with = |key: &str, value: Value| {
        let mut body = beat.clone();
        body[key] = value;
        body
    };
    let refused = [
        ("/factories/heartbeat", with("load", json!(-1.0)), "load"),
        ("/factories/heartbeat", with("load", json!(1e308)), "load"),
        ("/factories/heartbeat", with("engineSeats", json!(seats)), "engineSeats"),
        ("/factories/worker/renew", json!({ "instance": instance, "held": [], "load": 1e308 }), "load"),
        ("/claim", json!({ "instance": instance, "claimNonce": nonce, "products": many }), "products"),
        (
            "/claim?dryRun=true",
            json!({ "instance": instance, "claimNonce": nonce, "exceptProducts": many }),
            "exceptProducts",
        ),
    ];

    for (path, body, field) in refused {
        let answer =
            ask(fleet.address, Asking::post(&format!("/api/fleet{path}")).token(&worker.token).json(&body)).await;
        assert_eq!(answer.status, StatusCode::UNPROCESSABLE_ENTITY, "{path} {answer:?}");
        assert!(answer.json()["detail"].as_str().unwrap().starts_with(field), "{path} {answer:?}");
    }
    let long = with("version", json!("v".repeat(10_000)));
    let _: Value = worker.client.post("/factories/heartbeat", &long).await.unwrap();
    let shown: Value = fleet.admin.get("/factories/worker").await.unwrap();
    assert_eq!(shown["version"].as_str().unwrap().len(), 100);
}

// [attack: factory A writes to B's job]
#[tokio::test]
async fn a_named_credential_is_shared_within_one_scope() {
    let fleet = Fleet::start().await;
    fleet.product("other", ProductSettings::default()).await;
    let victim = fleet.factory_for("victim", &["default"]).await;
    let outsider = fleet.factory_for("outsider", &["other"]).await;
    for worker in [&victim, &outsider] {
        let engines = json!([{ "name": "claude", "credential": "team" }]);
        let beat = json!({
            "instance": worker.instance, "capabilities": ["engine:claude"], "seatLimit": 1, "protocol": 1, "engines": engines,
        });
        let _: Value = worker.client.post("/factories/heartbeat", &beat).await.unwrap();
    }
    let mut inbox = outsider.inbox().await;
    fleet.submit("---\nproduct: other\nengine: claude\n---\n# Bait\n").await;
    let accepted = outsider.take_next(&mut inbox).await;
    let (job, epoch) = (accepted.assignment.job_id, accepted.lease_epoch);
    outsider.start(job, epoch).await.unwrap();

    let quota =
        json!({ "leaseEpoch": epoch, "engine": "claude", "credential": "team", "resetsAt": "2099-01-01T00:00:00Z" });
    let _: Value = outsider.client.post(&format!("/jobs/{job}/quota"), &quota).await.unwrap();

    let window = |name: &str| format!("/factories/{name}");
    let shown: Value = fleet.admin.get(&window("outsider")).await.unwrap();
    assert!(shown["engines"][0]["windowUntil"].is_string(), "{shown}");
    let shown: Value = fleet.admin.get(&window("victim")).await.unwrap();
    assert!(shown["engines"][0]["windowUntil"].is_null(), "{shown}");
}

#[tokio::test]
async fn an_alert_about_a_credential_is_shown_to_its_products_only() {
    let fleet = Fleet::start().await;
    fleet.product("other", ProductSettings::default()).await;
    let worker = fleet.factory_for("worker", &["other"]).await;
    let engines = json!([{ "name": "claude", "credential": "team" }]);
    let beat = json!({
        "instance": worker.instance, "capabilities": ["engine:claude"], "seatLimit": 1, "protocol": 1, "engines": engines,
    });
    let _: Value = worker.client.post("/factories/heartbeat", &beat).await.unwrap();
    let mut inbox = worker.inbox().await;
    fleet.submit("---\nproduct: other\nengine: claude\n---\n# Costly\n").await;
    let accepted = worker.take_next(&mut inbox).await;
    let (job, epoch) = (accepted.assignment.job_id, accepted.lease_epoch);
    worker.start(job, epoch).await.unwrap();
    let quota = json!({ "leaseEpoch": epoch, "engine": "claude", "credential": "team", "exhausted": true });
    let _: Value = worker.client.post(&format!("/jobs/{job}/quota"), &quota).await.unwrap();

    for (product, is_shown) in [("other", true), ("default", false)] {
        let products = [product.parse().unwrap()].into();
        let viewer = fleet.client(&fleet.token(domain::TokenScope::Viewer { products }).await.secret);
        let alerts: Value = viewer.get("/alerts").await.unwrap();
        let codes: Vec<_> = alerts["items"].as_array().unwrap().iter().map(|alert| &alert["code"]).collect();
        assert_eq!(codes.contains(&&json!("credential_exhausted")), is_shown, "{product}: {alerts}");
    }
}

#[tokio::test]
async fn metrics_count_the_products_of_the_token_only() {
    let fleet = Fleet::start().await;
    fleet.product("other", ProductSettings::default()).await;
    let worker = fleet.factory_for("worker", &["other"]).await;
    let mut inbox = worker.inbox().await;
    fleet.submit("---\nproduct: other\n---\n# Runs\n").await;
    worker.take_next(&mut inbox).await;

    for (product, seats) in [("other", 1), ("default", 0)] {
        let products = [product.parse().unwrap()].into();
        let viewer = fleet.client(&fleet.token(domain::TokenScope::Viewer { products }).await.secret);
        let metrics: Value = viewer.get("/metrics").await.unwrap();
        assert_eq!((&metrics["seatsUsed"], &metrics["depth"]), (&json!(seats), &json!(0)), "{product}: {metrics}");
        assert_eq!(metrics["seats"].as_u64().unwrap() > 0, seats > 0, "{product}: {metrics}");
        assert_eq!(metrics["storeOperations"], json!({}), "{product}: {metrics}");
    }
}

// [attack: factory A writes to B's job]
#[tokio::test]
async fn a_dependency_of_another_product_does_not_exist() {
    let fleet = Fleet::start().await;
    fleet.product("other", ProductSettings::default()).await;
    let job = fleet.submit("# Of the product default\n").await;
    let products = ["other".parse().unwrap()].into();
    let operator = fleet.client(&fleet.token(domain::TokenScope::Operator { products }).await.secret);
    let manifest = |dep: String| json!({ "bodyMd": format!("---\nproduct: other\ndeps: [\"{dep}\"]\n---\n# Waits\n") });

    for dep in [job.to_string(), JobId::from_bytes([9; 16]).to_string()] {
        let submitted: Result<Value, _> = operator.post("/jobs", &manifest(dep)).await;
        assert_eq!(crate::fleet::code(submitted), "no_such_dep");
    }
    let submitted: Result<Value, _> = fleet.admin.post("/jobs", &manifest(job.to_string())).await;
    assert!(submitted.is_ok(), "{submitted:?}");
}

// [attack: factory A writes to B's job]
#[tokio::test]
async fn an_accept_and_release_loop_backs_off() {
    let fleet = Fleet::start().await;
    let worker = fleet.factory("worker").await;
    let mut inbox = worker.inbox().await;
    let job = fleet.submit("# A hot potato\n").await;

    for _ in 0..3 {
        let accepted = worker.take_next(&mut inbox).await;
        let release = json!({ "leaseEpoch": accepted.lease_epoch });
        let _: Value = worker.client.post(&format!("/jobs/{job}/lease/release"), &release).await.unwrap();
    }

    let shown: Value = fleet.admin.get(&format!("/jobs/{job}")).await.unwrap();
    assert!(shown["notBefore"].is_string(), "{shown}");
}

#[tokio::test]
async fn a_quota_report_loop_backs_off() {
    let fleet = Fleet::start().await;
    let worker = fleet.factory("worker").await;
    let mut inbox = worker.inbox().await;
    let job = fleet.submit("# A hot potato\n").await;

    for _ in 0..3 {
        let accepted = worker.take_next(&mut inbox).await;
        let epoch = accepted.lease_epoch;
        worker.start(job, epoch).await.unwrap();
        let quota = json!({ "leaseEpoch": epoch, "engine": "invented", "credential": "" });
        let _: Value = worker.client.post(&format!("/jobs/{job}/quota"), &quota).await.unwrap();
    }

    let shown: Value = fleet.admin.get(&format!("/jobs/{job}")).await.unwrap();
    assert!(shown["notBefore"].is_string(), "{shown}");
}

// [I12]
#[tokio::test]
async fn a_scoped_token_sees_no_factories_of_other_products() {
    let fleet = Fleet::start().await;
    for product in ["alpha", "beta"] {
        fleet.product(product, ProductSettings::default()).await;
    }
    let owned = ProductSettings { repos: Some(["beta-repo".parse().unwrap()].into()), ..ProductSettings::default() };
    fleet.product("beta", owned).await;
    let shared = fleet.factory("shared").await;
    let hidden = fleet.factory_for("hidden", &["beta"]).await;
    for worker in [&shared, &hidden] {
        let beat = json!({
            "instance": worker.instance, "capabilities": ["engine:claude"], "seatLimit": 1, "protocol": 1,
            "repos": ["beta-repo"], "engines": [{ "name": "claude", "credential": "beta-login" }],
        });
        let _: Value = worker.client.post("/factories/heartbeat", &beat).await.unwrap();
    }
    let alpha: std::collections::BTreeSet<domain::ProductId> = ["alpha".parse().unwrap()].into();
    let viewer = fleet.client(&fleet.token(domain::TokenScope::Viewer { products: alpha.clone() }).await.secret);
    let operator = fleet.client(&fleet.token(domain::TokenScope::Operator { products: alpha }).await.secret);
    let other = fleet.factory_for("other", &["alpha"]).await;
    let manifest = json!({ "bodyMd": "---\nproduct: alpha\ncapabilities: [os:plan9]\n---\n# Waits\n" });
    let submitted: Value = operator.post("/jobs", &manifest).await.unwrap();
    let job = submitted["job"]["id"].as_str().unwrap().to_owned();

    for client in [&viewer, &operator, &other.client] {
        for path in ["/factories", "/alerts", "/factories/shared", &format!("/jobs/{job}/explain")] {
            let shown: Value = client.get(path).await.unwrap();
            let text = shown.to_string();
            assert!(!text.contains("hidden") && !text.contains("beta"), "{path}: {text}");
        }
        let shown: Result<Value, _> = client.get("/factories/hidden").await;
        assert_eq!(crate::fleet::code(shown), "no_such_factory");
    }
    let shown: Value = fleet.admin.get("/factories").await.unwrap();
    assert!(shown.to_string().contains("beta-login"), "{shown}");
}

// [I12]
#[tokio::test]
async fn a_factory_does_not_end_its_own_drain() {
    let fleet = Fleet::start().await;
    let worker = fleet.factory("worker").await;

    for (client, draining, code) in [
        (&fleet.admin, true, None),
        (&worker.client, false, Some("forbidden")),
        (&worker.client, true, None),
        (&fleet.admin, false, None),
    ] {
        let drained: Result<Value, _> = client.post("/factories/worker/drain", &json!({ "draining": draining })).await;
        assert_eq!(drained.err().and_then(|error| error.code().map(str::to_owned)).as_deref(), code);
    }
}

/// The credentials that a client may see, each with the visible factories.
async fn credentials(client: &client::Client) -> Vec<(String, Vec<String>)> {
    let shown: protocol::CredentialList = client.get("/credentials").await.unwrap();
    let row = |one: protocol::CredentialView| (one.credential, one.factories.into_iter().map(String::from).collect());
    shown.items.into_iter().map(row).collect()
}

#[tokio::test]
async fn suspended_credentials_are_visible_with_their_factory() {
    let fleet = Fleet::start().await;
    for product in ["alpha", "beta"] {
        fleet.product(product, ProductSettings::default()).await;
    }
    let (alpha, beta) = (fleet.factory_for("a-1", &["alpha"]).await, fleet.factory_for("b-1", &["beta"]).await);
    for (worker, product) in [(&alpha, "alpha"), (&beta, "beta")] {
        let beat = json!({
            "instance": worker.instance, "capabilities": ["engine:claude"], "seatLimit": 1, "protocol": 1,
            "engines": [{ "name": "claude", "credential": "team" }],
        });
        let _: Value = worker.client.post("/factories/heartbeat", &beat).await.unwrap();
        let mut inbox = worker.inbox().await;
        fleet.submit(&format!("---\nproduct: {product}\nengine: claude\n---\n# Work\n")).await;
        let accepted = worker.take_next(&mut inbox).await;
        let (job, epoch) = (accepted.assignment.job_id, accepted.lease_epoch);
        worker.start(job, epoch).await.unwrap();
        let quota = json!({ "leaseEpoch": epoch, "engine": "claude", "credential": "team", "resetsAt": "2099-01-01T00:00:00Z" });
        let _: Value = worker.client.post(&format!("/jobs/{job}/quota"), &quota).await.unwrap();
    }
    // A second factory of the product, with its own credential.
    let sibling = fleet.factory_for("a-2", &["alpha"]).await;
    let products = ["alpha".parse().unwrap()].into();
    let viewer = fleet.client(&fleet.token(domain::TokenScope::Viewer { products }).await.secret);

    let of_alpha = ("team@alpha".to_owned(), vec!["a-1".to_owned()]);
    let of_beta = ("team@beta".to_owned(), vec!["b-1".to_owned()]);
    assert_eq!(credentials(&fleet.admin).await, [of_alpha.clone(), of_beta.clone()]);
    assert_eq!(credentials(&viewer).await, std::slice::from_ref(&of_alpha));
    assert_eq!(credentials(&alpha.client).await, [of_alpha]);
    assert_eq!(credentials(&beta.client).await, [of_beta]);
    assert_eq!(credentials(&sibling.client).await, []);
}
