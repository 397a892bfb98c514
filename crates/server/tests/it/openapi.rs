//! The OpenAPI document is correct: requests and answers match its schemas (SPEC §10).

use domain::{
    Capability, Checkpoint, DispatchModes, MergeConflict, Message, Mode, ProductId, PullRequest, RunInsights,
    TokenScope,
};
use protocol::{
    AcceptRequest, AlertChange, AlertCode, AlertEvent, Announcement, ClaimRequest, CompletionReport,
    CreateTokenRequest, Directive, EnrolRequest, ErrandOutcome, ErrandReport, EvidenceReport, FactoryChange,
    FactoryEvent, FailureReport, HeldJob, HeldJobProgress, HelloEvent, InboxEvent, NeedsEvent, Patch, PollPullRequest,
    Progress, ProgressEvent, PullRequestReport, PullRequestState, QuestionReport, QuotaReport, ReleaseReport,
    RenewRequest, ResetReason, ReviewComment, ReviewCommentKind, StartReport, StreamEvent, SubtaskWaitReport,
    WorkOperation,
};
use serde::Serialize;
use serde_json::{Value, json};

use crate::fleet::{Fleet, soon};
use crate::raw::{Answer, Asking, ask};
use crate::schema::Description;

async fn description(fleet: &Fleet) -> Description {
    Description(ask(fleet.address, Asking::get("/openapi.json")).await.json())
}

fn id<T: std::str::FromStr>() -> T
where
    T::Err: std::fmt::Debug,
{
    "0190f3a4-7c1e-7b52-9d0a-1f2e3d4c5b6a".parse().unwrap()
}

fn sha() -> domain::CommitSha {
    "0123456789abcdef0123456789abcdef01234567".parse().unwrap()
}

fn checkpoint() -> Checkpoint {
    Checkpoint {
        git_ref: "aq/wip/1".to_owned(),
        sha: sha(),
        session: Some("s".to_owned()),
        epoch: domain::Epoch(1),
        repository: Some("github.com/acme/notes".parse().unwrap()),
    }
}

fn insights() -> RunInsights {
    RunInsights {
        tokens_in: Some(1),
        cost_usd: Some(0.5),
        turns: Some(2),
        engine_ms: Some(9),
        ..RunInsights::default()
    }
}

/// A serialized value matches its schema, and serde reads back what the schema names: no key has another name.
fn check<T: Serialize + serde::de::DeserializeOwned>(description: &Description, schema: &str, sample: &T) {
    let written = serde_json::to_value(sample).unwrap();

    description.check(schema, &written);
    serde_json::from_value::<T>(written).unwrap();
}

// [§10]
#[tokio::test]
async fn every_variant_matches_its_schema() {
    let fleet = Fleet::start().await;
    let description = description(&fleet).await;
    let epoch = domain::Epoch(1);
    let message = Some("m".to_owned());
    let (checkpoint, engine) = (Some(checkpoint()), "demo".parse::<domain::EngineName>().unwrap());
    let accept = AcceptRequest {
        job_id: id(),
        dispatch_seq: domain::DispatchSeq(1),
        claim_nonce: id(),
        instance: id(),
        factory_id: Some("east".parse().unwrap()),
    };
    let fail = FailureReport {
        lease_epoch: epoch,
        reason: domain::FailureReason::VerifyFailed,
        again: domain::Retryability::default(),
        message: message.clone(),
        checkpoint: checkpoint.clone(),
        insights: insights(),
        evidence: vec![],
        no_changes: false,
    };
    let quota = QuotaReport {
        lease_epoch: epoch,
        engine: engine.clone(),
        credential: "c".to_owned(),
        window: message.clone(),
        resets_at: Some("2099-01-01T00:00:00Z".parse().unwrap()),
        exhausted: true,
        message: message.clone(),
        checkpoint: checkpoint.clone(),
        insights: insights(),
    };
    let put_off = ErrandOutcome::PutOff { message: "m".to_owned(), retry_after_ms: 5 };
    let conflict =
        MergeConflict { base: "main".parse().unwrap(), base_sha: sha(), files: vec!["src/lib.rs".to_owned()] };
    let outcomes = [
        ErrandOutcome::Done,
        ErrandOutcome::Failed { message: "m".to_owned() },
        put_off.clone(),
        ErrandOutcome::Impossible { message: "m".to_owned(), conflict: None },
        ErrandOutcome::Impossible { message: "m".to_owned(), conflict: Some(conflict) },
    ];
    let report = |outcome| ErrandReport {
        lease_epoch: epoch,
        outcome,
        pull_request: Some(PullRequest { number: 7, url: "https://example.org/7".to_owned() }),
        conflicts_with: Some(domain::JobId::from_bytes([7; 16])),
    };
    let complete = CompletionReport {
        lease_epoch: epoch,
        sha: Some(sha()),
        insights: insights(),
        message: message.clone(),
        checkpoint: checkpoint.clone(),
        request_text: message.clone(),
        ..CompletionReport::default()
    };
    let patch = Patch {
        lease_epoch: epoch,
        stage: Some(domain::StageName::Building),
        engine: Some(engine.clone()),
        checkpoint: checkpoint.clone(),
    };
    let ask = QuestionReport {
        lease_epoch: epoch,
        question: "q".to_owned(),
        checkpoint: checkpoint.clone(),
        insights: insights(),
    };
    let wait = SubtaskWaitReport { lease_epoch: epoch, checkpoint: checkpoint.clone(), insights: insights() };
    let release = ReleaseReport { lease_epoch: epoch, message, checkpoint, insights: insights() };
    let start = StartReport { lease_epoch: epoch, engine };

    for operation in [
        WorkOperation::Accept { request: accept.clone() },
        WorkOperation::Start { job_id: id(), request: start.clone() },
        WorkOperation::Patch { job_id: id(), request: patch.clone() },
        WorkOperation::Complete { job_id: id(), request: complete.clone() },
        WorkOperation::Promote { job_id: id(), request: report(put_off) },
        WorkOperation::Fail { job_id: id(), request: fail.clone() },
        WorkOperation::Quota { job_id: id(), request: quota.clone() },
        WorkOperation::Ask { job_id: id(), request: ask.clone() },
        WorkOperation::AwaitSubtasks { job_id: id(), request: wait.clone() },
        WorkOperation::Release { job_id: id(), request: release.clone() },
    ] {
        check(&description, "WorkOperation", &operation);
    }
    for outcome in outcomes {
        check(&description, "ErrandReport", &report(outcome));
    }
    check(&description, "AcceptRequest", &accept);
    check(&description, "StartReport", &start);
    check(&description, "Patch", &patch);
    check(&description, "CompletionReport", &complete);
    check(&description, "FailureReport", &fail);
    check(&description, "QuotaReport", &quota);
    check(&description, "QuestionReport", &ask);
    check(&description, "SubtaskWaitReport", &wait);
    check(&description, "ReleaseReport", &release);
    check_streams(&description);
    check_others(&description);
}

fn check_streams(description: &Description) {
    let flags = DispatchModes {
        mode: Mode::Gate,
        products: [("notes".parse::<ProductId>().unwrap(), Mode::SelfSelect)].into(),
        budgets: Some(true),
        preemption: Some(true),
    };
    let look = PollPullRequest {
        job_id: id(),
        product_id: "notes".parse().unwrap(),
        repo: "acme/notes".parse().unwrap(),
        number: 7,
        sha: sha(),
    };
    let (job_id, lease_epoch) = (id(), domain::Epoch(1));
    let directives = [
        Directive::Cancel { job_id, lease_epoch },
        Directive::Preempt { job_id, lease_epoch },
        Directive::Look(look),
        Directive::Drain,
        Directive::Resume,
    ];
    let message = Message {
        job_id,
        dispatch_seq: domain::DispatchSeq(1),
        product_id: "notes".parse().unwrap(),
        repo: Some("notes".parse().unwrap()),
        caps: vec!["os:linux".parse::<Capability>().unwrap()],
        priority: domain::Priority::High,
        target_factory_id: "east".parse().unwrap(),
        shadow: true,
    };
    let announcement = Announcement {
        job_id: id(),
        dispatch_seq: domain::DispatchSeq(1),
        product_id: "notes".parse().unwrap(),
        repo: Some("notes".parse().unwrap()),
        caps: vec!["os:linux".parse::<Capability>().unwrap()],
        priority: domain::Priority::High,
    };
    let inbox = [
        InboxEvent::Hello { modes: flags.clone() },
        InboxEvent::Modes(flags.clone()),
        InboxEvent::Dispatch(message),
        InboxEvent::Announcement(announcement),
    ];
    inbox
        .into_iter()
        .chain(directives.map(InboxEvent::Directive))
        .for_each(|event| check(description, "InboxEvent", &event));
    let progress =
        Progress { doing: Some("d".to_owned()), tool_calls: Some(1), cost_usd: Some(0.1), ..Progress::default() };
    let reasons = [ResetReason::Behind, ResetReason::Restored, ResetReason::Unknown, ResetReason::Slow];
    let resets = reasons.map(|reason| StreamEvent::Reset { reason });
    let progress_event = StreamEvent::Progress(ProgressEvent { job_id, lease_epoch, progress: progress.clone() });
    let fleet_events = [
        StreamEvent::Hello(HelloEvent {
            keep_alive_seconds: 15,
            version: "0.1.0".to_owned(),
            build: "0.1.0-1".to_owned(),
            name: "coord-1".to_owned(),
        }),
        StreamEvent::Factory(FactoryEvent { factory_id: "east".parse().unwrap(), change: FactoryChange::Online }),
        StreamEvent::Alert(AlertEvent {
            code: AlertCode::StaleFactory,
            change: AlertChange::Raised,
            product_id: None,
            factory_id: Some("east".parse().unwrap()),
            job_id: None,
        }),
        StreamEvent::Flags(flags.clone()),
        StreamEvent::Needs(NeedsEvent { count: 3 }),
        progress_event,
    ];
    for event in resets.into_iter().chain(fleet_events) {
        check(description, "StreamEvent", &event);
    }
    let held = vec![HeldJobProgress { held: HeldJob { job_id, lease_epoch }, progress: Some(progress) }];
    check(description, "RenewRequest", &RenewRequest { instance: id(), held, load: 0.5, disk_free_bytes: Some(1) });
    check(description, "DispatchModes", &flags);
}

fn check_others(description: &Description) {
    let products = || ["notes".parse::<ProductId>().unwrap()].into();
    let capabilities = || ["os:linux".parse::<Capability>().unwrap()].into();
    let factory: domain::FactoryId = "east".parse().unwrap();
    for grant in [
        TokenScope::Admin,
        TokenScope::Operator { products: products() },
        TokenScope::Viewer { products: products() },
        TokenScope::Factory {
            factory: factory.clone(),
            products: products(),
            capabilities: capabilities(),
            pool: None,
        },
        TokenScope::Join {
            factory: Some(factory.clone()),
            products: products(),
            capabilities: capabilities(),
            pool: None,
        },
    ] {
        check(description, "TokenScope", &grant);
        // A factory's token comes from enrolment.
        if !matches!(grant, TokenScope::Factory { .. }) {
            check(
                description,
                "CreateTokenRequest",
                &CreateTokenRequest {
                    name: "n".to_owned(),
                    grant,
                    ttl_seconds: Some(60),
                    owner: None,
                    forge_login: None,
                },
            );
        }
    }
    let merged = PullRequestState::Merged { merge: Some(sha()), by: Some("ann".to_owned()) };
    for standing in [PullRequestState::Open, merged, PullRequestState::Closed] {
        let comment = ReviewComment {
            id: "check:1".to_owned(),
            kind: ReviewCommentKind::Check,
            from: "ci".to_owned(),
            place: Some("a:1".to_owned()),
            text: "t".to_owned(),
        };
        check(
            description,
            "PullRequestReport",
            &PullRequestReport {
                number: 7,
                pull_request: standing,
                head: sha(),
                comments: vec![comment],
                approvals: Vec::new(),
            },
        );
    }
    let evidence = EvidenceReport { diff: Some("+".to_owned()), diff_cut: true, ..EvidenceReport::default() };
    check(description, "EvidenceReport", &evidence);
    check(
        description,
        "EnrolRequest",
        &EnrolRequest { join_token: "t".to_owned(), factory_id: factory.clone(), nonce: Some(id()) },
    );
    let claim = ClaimRequest {
        factory_id: Some(factory),
        instance: id(),
        claim_nonce: id(),
        limit: Some(2),
        products: Some(products().into_iter().collect()),
        jobs: Some(vec![id()]),
        except_products: vec!["other".parse().unwrap()],
    };
    check(description, "ClaimRequest", &claim);
}

/// A client that knows only the OpenAPI document.
struct Outsider<'f> {
    fleet: &'f Fleet,
    description: Description,
}

impl Outsider<'_> {
    /// One request; the path has its parameters, the template names the operation.
    async fn call(&self, token: &str, method: &str, template: &str, path: &str, body: Option<Value>) -> Answer {
        let mut asking = Asking::new(method.to_uppercase().parse().unwrap(), path).token(token);
        if let Some(body) = &body {
            self.description.check_request(method, template, body);
            asking = asking.json(body);
        }
        let answer = ask(self.fleet.address, asking).await;
        if !answer.body.is_empty() {
            self.description.check_answer(method, template, answer.status.as_u16(), &answer.json());
        }
        answer
    }
}

/// A job from submit to ship, by requests written from the OpenAPI document alone.
// [§10]
#[tokio::test]
async fn a_jobs_lifecycle_matches_the_openapi_document() {
    let fleet = Fleet::start().await;
    let outsider = Outsider { description: description(&fleet).await, fleet: &fleet };
    let factory = fleet.factory("mac-1").await;
    let mut inbox = factory.inbox().await;
    let admin = &fleet.admin_token;

    let submit =
        json!({ "bodyMd": "---\ntitle: Fix it\nrepo: notes\n---\nPlease.\n", "idempotencyKey": "k", "strict": true });
    let answer = outsider.call(admin, "post", "/api/fleet/jobs", "/api/fleet/jobs", Some(submit)).await;
    let job = answer.json()["job"]["id"].as_str().unwrap().to_owned();
    assert_eq!(answer.headers["location"], format!("/api/fleet/jobs/{job}"));
    let offer = loop {
        let event = soon(inbox.next()).await.unwrap().unwrap();
        let data: Value = serde_json::from_str(&event.data).unwrap();
        outsider.description.check("InboxEvent", &json!({ "event": event.event, "data": data }));
        if event.event == "dispatch" {
            break data;
        }
    };
    let accept = json!({ "op": "accept", "jobId": job, "dispatchSeq": offer["dispatchSeq"], "claimNonce": id::<domain::ClaimNonce>(), "instance": factory.instance });
    let work = |operation: Value| json!({ "operations": [operation] });
    let many = "/api/fleet/work";
    let accepted = outsider.call(&factory.token, "post", many, many, Some(work(accept))).await.json();
    let epoch = &accepted["results"][0]["accepted"]["leaseEpoch"];
    let start = json!({ "op": "start", "jobId": job, "leaseEpoch": epoch, "engine": "command" });
    let started = outsider.call(&factory.token, "post", many, many, Some(work(start))).await.json();
    assert_eq!(started["results"][0]["stage"]["stage"], "building", "{started:#}");
    let complete = json!({ "op": "complete", "jobId": job, "leaseEpoch": epoch, "sha": sha() });
    let completed = outsider.call(&factory.token, "post", many, many, Some(work(complete))).await.json();
    let order = &completed["results"][0]["completed"]["promote"]["leaseEpoch"];
    let promote = json!({ "op": "promote", "jobId": job, "leaseEpoch": order, "outcome": { "result": "done" } });
    let promoted = outsider.call(&factory.token, "post", many, many, Some(work(promote))).await.json();
    assert_eq!(promoted["results"][0]["status"], 200, "{promoted:#}");

    for (template, path) in [
        ("/jobs/{id}", format!("/jobs/{job}")),
        ("/jobs/{id}/runs", format!("/jobs/{job}/runs")),
        ("/jobs/{id}/events", format!("/jobs/{job}/events?limit=1000")),
        ("/jobs/{id}/explain", format!("/jobs/{job}/explain")),
        ("/jobs/{id}/dag", format!("/jobs/{job}/dag")),
        ("/jobs/{id}/lease", format!("/jobs/{job}/lease")),
        ("/jobs/{id}/runs/{n}/evidence", format!("/jobs/{job}/runs/1/evidence")),
        ("/jobs", "/jobs?limit=10".to_owned()),
        ("/factories", "/factories".to_owned()),
        ("/factories/{id}", "/factories/mac-1".to_owned()),
        ("/products", "/products".to_owned()),
        ("/tokens", "/tokens".to_owned()),
        ("/metrics", "/metrics".to_owned()),
        ("/queue-state", "/queue-state".to_owned()),
        ("/alerts", "/alerts".to_owned()),
        ("/dead-letters", "/dead-letters".to_owned()),
        ("/credentials", "/credentials".to_owned()),
        ("/flags", "/flags".to_owned()),
    ] {
        let (template, path) = (format!("/api/fleet{template}"), format!("/api/fleet{path}"));
        let answer = outsider.call(admin, "get", &template, &path, None).await;
        assert_eq!(answer.status, 200, "{path}");
    }
    check_events(&fleet, &outsider.description, &job).await;
}

async fn check_events(fleet: &Fleet, description: &Description, job: &str) {
    let mut stream = fleet.admin.events(&format!("/jobs/{job}/events/stream?after=0"), None).await.unwrap();
    loop {
        let event = soon(stream.next()).await.unwrap().unwrap();
        let data: Value = serde_json::from_str(&event.data).unwrap();
        description.check("StreamEvent", &json!({ "event": event.event, "data": data }));
        if data["kind"] == "promoted" {
            return;
        }
    }
}

/// Misspelled keys and numbers out of bounds, in the body and in the query.
// [§10]
#[tokio::test]
async fn requests_outside_the_openapi_document_are_rejected() {
    let fleet = Fleet::start().await;
    let outsider = Outsider { description: description(&fleet).await, fleet: &fleet };
    let refused = |method: &str, path: &str, body: Option<Value>| {
        let asking = Asking::new(method.parse().unwrap(), &format!("/api/fleet{path}")).token(&fleet.admin_token);
        let asking = match body {
            Some(body) => asking.json(&body),
            None => asking,
        };
        async move {
            let answer = ask(fleet.address, asking).await;
            assert_eq!(answer.status, 422, "{answer:?}");
            (answer.code(), answer.json())
        }
    };

    let (code, problem) = refused("POST", "/jobs", Some(json!({ "bodyMd": "# One\n", "productid": "notes" }))).await;
    assert_eq!(
        (code.as_str(), &problem["more"]),
        ("unknown_key", &json!({ "key": "productid", "suggestion": "productId" }))
    );
    outsider.description.check_answer("post", "/api/fleet/jobs", 422, &problem);
    assert_eq!(refused("GET", "/jobs?stages=queued", None).await.0, "unknown_key");
    assert_eq!(refused("GET", "/jobs?limit=1001", None).await.0, "invalid");
    assert_eq!(refused("GET", "/alerts?verbose=1", None).await.0, "unknown_key");
    let token = json!({ "name": "n", "grant": { "role": "admin" }, "ttlSeconds": 99_999_999_999_u64 });
    assert_eq!(refused("POST", "/tokens", Some(token)).await.0, "invalid");
}

/// Releases one apart work together: unknown keys of a newer worker are ignored, and counted in the metrics.
// [§10]
#[tokio::test]
async fn unknown_keys_of_a_newer_worker_are_counted() {
    let fleet = Fleet::start().await;
    let factory = fleet.factory("mac-1").await;
    let beat = json!({
        "instance": factory.instance, "capabilities": ["os:linux"], "seatLimit": 1, "protocol": 1, "watts": 40,
        "engines": [{ "name": "command", "gpu": true }],
    });

    let answer: Value = factory.client.post("/factories/heartbeat?trace=1", &beat).await.unwrap();
    let metrics: Value = fleet.admin.get("/metrics").await.unwrap();
    let text = ask(fleet.address, Asking::get("/metrics")).await;

    assert_eq!(answer["factoryId"], "mac-1");
    assert_eq!(metrics["ignoredRequestKeys"], 3);
    assert!(String::from_utf8_lossy(&text.body).contains("giga_ignored_request_keys_total 3\n"));
}
