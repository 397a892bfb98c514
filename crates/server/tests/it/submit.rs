//! Submits: single, in batches, and rejected.

use domain::{JobId, StageName, TokenScope};
use http::StatusCode;
use protocol::{BatchRequest, BatchResponse, JobDetail, JobList, ProductSettings, SubmitRequest, SubmitResponse};
use serde_json::{Value, json};

use crate::fleet::{Fleet, code};
use crate::raw::{Asking, ask};

const JOBS: &str = "/api/fleet/jobs";

fn keyed(body_md: &str, key: &str) -> SubmitRequest {
    SubmitRequest { body_md: body_md.to_owned(), idempotency_key: Some(key.to_owned()), ..SubmitRequest::default() }
}

// [J3]
#[tokio::test]
async fn a_key_returns_its_job_and_another_body_is_a_conflict() {
    let fleet = Fleet::start().await;
    let body = json!({ "bodyMd": "# One\n", "idempotencyKey": "k1" });

    let first = ask(fleet.address, Asking::post(JOBS).token(&fleet.admin_token).json(&body)).await;
    let again = ask(fleet.address, Asking::post(JOBS).token(&fleet.admin_token).json(&body)).await;
    let other: Result<SubmitResponse, _> = fleet.admin.post("/jobs", &keyed("# Two\n", "k1")).await;

    assert_eq!((first.status, again.status), (StatusCode::CREATED, StatusCode::OK));
    let (first, again) = (first.json(), again.json());
    assert_eq!(first["job"]["id"], again["job"]["id"]);
    assert_eq!((&first["created"], &again["created"]), (&json!(true), &json!(false)));
    assert_eq!(code(other), "idempotency_conflict");
}

// [§10]
#[tokio::test]
async fn a_manifest_can_be_the_body_itself() {
    let fleet = Fleet::start().await;
    fleet.product("web", ProductSettings::default()).await;
    let manifest = "---\ntitle: Plain\n---\nDo it.\n";
    let asking = || {
        Asking::post(JOBS)
            .token(&fleet.admin_token)
            .header("content-type", "text/markdown; charset=utf-8")
            .header("idempotency-key", "k1")
            .header("x-product-id", "web")
            .body(manifest)
    };

    let first = ask(fleet.address, asking()).await;
    let again = ask(fleet.address, asking()).await;

    assert_eq!((first.status, again.status), (StatusCode::CREATED, StatusCode::OK));
    assert_eq!(first.headers["location"], format!("{JOBS}/{}", first.json()["job"]["id"].as_str().unwrap()));
    let id: JobId = first.json()["job"]["id"].as_str().unwrap().parse().unwrap();
    let job: JobDetail = fleet.job(id).await;
    assert_eq!((job.body_md.as_str(), job.job.product_id.as_str()), (manifest, "web"));
}

// [§10] [B2]
#[tokio::test]
async fn a_dry_run_reports_the_placement_and_writes_nothing() {
    let fleet = Fleet::start().await;
    let before = fleet.state().await;

    let path = "/jobs?dryRun=true";
    let dry: SubmitResponse =
        fleet.admin.post(path, &keyed("---\ncapabilities: [has:xcode]\n---\n# x\n", "k")).await.unwrap();

    assert!(!dry.created);
    assert_eq!(fleet.state().await, before);
}

// [J3]
#[tokio::test]
async fn a_batch_has_an_outcome_for_each_of_its_jobs() {
    let fleet = Fleet::start().await;
    let jobs = vec![
        keyed("# One\n", "k1"),
        keyed("---\nbudget: {usd: lots}\n---\n# Two\n", "k2"),
        keyed("---\ndeps: [\"key:k1\"]\n---\n# Three\n", "k3"),
        keyed("---\nproduct: unknown\n---\n# Four\n", "k4"),
    ];

    let answer: BatchResponse = fleet.admin.post("/jobs/batch", &BatchRequest { jobs }).await.unwrap();

    let outcomes: Vec<_> = answer
        .outcomes
        .iter()
        .map(|outcome| (outcome.stage, outcome.problem.as_ref().map(|problem| problem.code.as_str())))
        .collect();
    assert_eq!(
        outcomes,
        vec![
            (Some(StageName::Queued), None),
            (None, Some("bad_manifest")),
            (Some(StageName::Blocked), None),
            (None, Some("unknown_product")),
        ]
    );
}

// [§10]
#[tokio::test]
async fn lists_are_filtered_and_paged() {
    let fleet = Fleet::start().await;
    fleet.product("web", ProductSettings::default()).await;
    for n in 0..5 {
        let product = if n % 2 == 0 { "web" } else { "default" };
        fleet.submit(&format!("---\nproduct: {product}\ntitle: Job {n}\n---\n")).await;
    }

    let first: JobList = fleet.admin.get("/jobs?product=web&limit=2").await.unwrap();
    let next = first.next.clone().expect("there is another page");
    let second: JobList = fleet.admin.get(&format!("/jobs?product=web&limit=2&cursor={next}")).await.unwrap();
    let none: JobList = fleet.admin.get("/jobs?stage=shipped,failed").await.unwrap();

    let titles: Vec<_> = first.items.iter().chain(&second.items).map(|job| job.title.as_str()).collect();
    assert_eq!(titles, vec!["Job 4", "Job 2", "Job 0"]);
    assert_eq!(none.items, vec![]);
    let bad: Result<JobList, _> = fleet.admin.get("/jobs?cursor=nonsense").await;
    assert_eq!(code(bad), "bad_cursor");
    let bad: Result<JobList, _> = fleet.admin.get("/jobs?stage=sleeping").await;
    assert_eq!(code(bad), "invalid");
}

/// Every invalid request is rejected with a stable code, and leaves the store unchanged.
// [T1]
#[tokio::test]
async fn invalid_input_is_rejected_with_its_code() {
    let fleet = Fleet::start().await;
    let there = keyed("# There\n", "there");
    let there: SubmitResponse = fleet.admin.post("/jobs", &there).await.unwrap();
    let id = there.job.id;
    let before = fleet.state().await;

    let manifests = [
        ("---\nbudget: {usd: lots}\n---\n", "bad_manifest"),
        ("---\nproduct: unknown\n---\n# x\n", "unknown_product"),
        ("---\nrepo: ../../etc\n---\n# x\n", "bad_manifest"),
        ("---\nrepo: \"$(touch canary)\"\n---\n# x\n", "bad_manifest"),
        ("---\nbase: \"-rf\"\n---\n# x\n", "bad_manifest"),
        ("---\nbase: \"a\\u0007b\"\n---\n# x\n", "bad_manifest"),
        ("---\ncapabilities: [\"has:a;b\"]\n---\n# x\n", "bad_manifest"),
        ("---\ndeps: [\"key:unknown\"]\n---\n# x\n", "no_such_dep"),
    ];
    for (manifest, expected) in manifests {
        let refused: Result<SubmitResponse, _> = fleet.admin.post("/jobs", &keyed(manifest, "k")).await;
        assert_eq!(code(refused), expected, "{manifest}");
    }
    let cycle: Result<SubmitResponse, _> =
        fleet.admin.post("/jobs", &keyed("---\ndeps: [\"key:k\"]\n---\n# x\n", "k")).await;
    assert_eq!(code(cycle), "dependency_cycle");

    let epoch = json!({ "leaseEpoch": 7, "engine": "command" });
    let hostile_key = json!({ "bodyMd": "# x\n", "idempotencyKey": "a\u{1b}]0;x" });
    let bodies: [(&str, Value, u16, &str); 9] = [
        (JOBS, json!({ "bodyMd": 7 }), 422, "invalid"),
        (JOBS, json!({}), 422, "invalid"),
        (JOBS, hostile_key, 422, "invalid"),
        (JOBS, json!({ "bodyMd": "# x\n", "productId": ".." }), 422, "invalid"),
        (JOBS, json!({ "bodyMd": "# Other\n", "idempotencyKey": "there" }), 409, "idempotency_conflict"),
        ("/api/fleet/tokens", json!({ "name": "\u{7}", "grant": { "role": "admin" } }), 422, "invalid"),
        ("/api/fleet/jobs/--help/actions/cancel", json!({}), 422, "invalid"),
        (&format!("{JOBS}/{id}/actions/explode"), json!({}), 422, "invalid"),
        (&format!("{JOBS}/{id}/start"), epoch, 403, "forbidden"),
    ];
    for (path, body, status, expected) in bodies {
        let answer = ask(fleet.address, Asking::post(path).token(&fleet.admin_token).json(&body)).await;
        assert_eq!((answer.status.as_u16(), answer.code().as_str()), (status, expected), "{path} {body}");
    }
    assert_eq!(fleet.state().await, before);
}

// [attack: slow or greedy clients]
#[tokio::test]
async fn unreadable_bodies_are_rejected_with_their_code() {
    let fleet = Fleet::start().await;
    let before = fleet.state().await;
    let json = |body: String| {
        Asking::post(JOBS).token(&fleet.admin_token).header("content-type", "application/json").body(body)
    };
    let deep = |before: &str| format!("{before}{}", "[".repeat(100_000));
    let long = format!("{{\"bodyMd\":\"{}\"}}", "x".repeat(5 * 1024 * 1024));

    let broken = ask(fleet.address, json("{\"bodyMd\": \n oops}".to_owned())).await;
    let skipped = ask(fleet.address, json(deep("{\"bodyMd\":\"x\",\"more\":"))).await;
    let kept = Asking::post("/api/fleet/work").token(&fleet.admin_token).header("content-type", "application/json");
    let kept = ask(fleet.address, kept.body(deep("{\"operations\":[{\"do\":\"start\",\"more\":"))).await;
    let long = ask(fleet.address, json(long)).await;
    let form = Asking::post(JOBS).token(&fleet.admin_token).header("content-type", "text/plain").body("bodyMd=x");
    let form = ask(fleet.address, form).await;
    let binary = Asking::post(JOBS).token(&fleet.admin_token).header("content-type", "text/markdown");
    let binary = ask(fleet.address, binary.body(vec![0xff, 0xfe])).await;

    let read = |answer: &crate::raw::Answer| (answer.status.as_u16(), answer.code());
    assert_eq!(read(&broken), (400, "bad_json".to_owned()));
    assert!(broken.json()["detail"].as_str().unwrap().contains("line 2 column"), "{:?}", broken.json());
    assert_eq!(read(&skipped), (400, "bad_json".to_owned()));
    assert_eq!(read(&kept), (400, "bad_json".to_owned()));
    assert_eq!(read(&long), (413, "body_too_large".to_owned()));
    assert_eq!(read(&form), (415, "unsupported_media_type".to_owned()));
    assert_eq!(read(&binary), (422, "invalid".to_owned()));
    assert_eq!(fleet.state().await, before);
}

#[tokio::test]
async fn the_client_learns_why_a_body_is_too_long() {
    let fleet = Fleet::start().await;

    let long: Result<SubmitResponse, _> = fleet.admin.post("/jobs", &keyed(&"x".repeat(5 * 1024 * 1024), "k")).await;

    assert_eq!(code(long), "body_too_large");
}

// [I12]
#[tokio::test]
async fn a_token_of_one_product_submits_to_that_product() {
    let fleet = Fleet::start().await;
    fleet.product("web", ProductSettings::default()).await;
    let operator = fleet.token(TokenScope::Operator { products: ["web".parse().unwrap()].into() }).await;
    let client = fleet.client(&operator.secret);

    let own: SubmitResponse = client.post("/jobs", &keyed("# Mine\n", "k")).await.unwrap();
    let other: Result<SubmitResponse, _> = client.post("/jobs", &keyed("---\nproduct: default\n---\n# x\n", "k")).await;

    assert_eq!(own.job.product_id.as_str(), "web");
    assert_eq!(code(other), "forbidden");
}
