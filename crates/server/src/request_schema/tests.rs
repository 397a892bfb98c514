//! Accepted and rejected requests.

use serde_json::json;

use super::*;

fn schemas() -> RequestSchemas {
    RequestSchemas::of(&crate::openapi::document())
}

fn refused(method: &Method, path: &str, body: &Value) -> Option<(String, String)> {
    let problem = schemas().check_body(method, path, body.to_string().as_bytes()).err()?.into_body();
    Some((problem.code, problem.detail))
}

// [§10]
#[test]
fn an_unknown_key_of_a_person_is_rejected_with_a_suggestion() {
    let submit = json!({ "bodyMd": "# One\n", "idempotencykey": "k" });
    let grant = json!({ "name": "ann", "grant": { "role": "admin", "products": [] } });
    let batch = json!({ "jobs": [{ "bodyMd": "a" }, { "bodyMd": "b", "colour": "red" }] });

    let expect = |key: &str, hint: &str| Some(("unknown_key".to_owned(), format!("unknown key `{key}`{hint}")));
    let meant = "; did you mean `idempotencyKey`?";
    assert_eq!(refused(&Method::POST, "/api/fleet/jobs", &submit), expect("idempotencykey", meant));
    assert_eq!(refused(&Method::POST, "/api/fleet/tokens", &grant), expect("grant.products", ""));
    assert_eq!(refused(&Method::POST, "/api/fleet/jobs/batch", &batch), expect("jobs[1].colour", ""));
}

#[test]
fn unknown_keys_of_a_worker_are_ignored_and_counted() {
    let schemas = schemas();
    let id = "0190f3a4-7c1e-7b52-9d0a-1f2e3d4c5b6a";
    let work = json!({ "operations": [
        { "op": "start", "jobId": id, "leaseEpoch": 1, "engine": "demo", "pid": 7, "host": { "os": "plan9" } },
        { "op": "fail", "jobId": id, "leaseEpoch": 1, "reason": "timeout", "insights": { "watts": 3 } },
    ], "batch": 1 });

    let checked = schemas.check_body(&Method::POST, "/api/fleet/work", work.to_string().as_bytes());
    let query = format!("instance={id}&window=2");
    let query = schemas.check_query(&Method::GET, "/api/fleet/factories/{id}/inbox", &query);

    assert!(checked.is_ok() && query.is_ok());
    assert_eq!(schemas.ignored(), 5);
}

#[test]
fn known_keys_pass() {
    let schemas = schemas();
    let flags = json!({ "mode": "push", "products": { "notes": "poll" } });

    assert!(refused(&Method::PUT, "/api/fleet/flags", &flags).is_none());
    assert!(refused(&Method::POST, "/api/fleet/jobs/{id}/actions/{action}", &json!({ "message": null })).is_none());
    assert!(schemas.check_query(&Method::GET, "/api/fleet/jobs", "limit=1000&stage=queued,failed").is_ok());
    assert!(schemas.check_query(&Method::GET, "/healthz", "probe=1").is_ok());
    assert_eq!(schemas.ignored(), 0);
}

// [§10]
#[test]
fn numbers_texts_and_lists_have_bounds() {
    let too_many: Vec<_> = (0..1_001).map(|n| format!("repo{n}")).collect();
    let cases = [
        (Method::POST, "/api/fleet/tokens", json!({ "ttlSeconds": u64::MAX }), "ttlSeconds: expected a number from 1"),
        (Method::POST, "/api/fleet/tokens", json!({ "name": "n".repeat(101) }), "name: expected 1 to 100 characters"),
        (Method::PUT, "/api/fleet/products/{id}", json!({ "weight": 0 }), "weight: expected a number from 1 to 1000"),
        (
            Method::PUT,
            "/api/fleet/products/{id}",
            json!({ "repoSeats": { "a": -1 } }),
            "repoSeats.a: expected a number",
        ),
        (Method::PUT, "/api/fleet/products/{id}", json!({ "repos": too_many }), "repos: 1000 items at most"),
        (Method::POST, "/api/fleet/factories/heartbeat", json!({ "load": 1e300 }), "load: expected a number from 0"),
        (Method::POST, "/api/fleet/claim", json!({ "limit": 10_001 }), "limit: expected a number from 1 to 10000"),
    ];

    let list = json!({ "leaseEpoch": 1, "insights": [null, 7] });
    let (_, detail) = refused(&Method::POST, "/api/fleet/jobs/{id}/lease/release", &list).unwrap();
    assert_eq!(detail, "insights: expected an object, found a list");
    for (method, path, body, expected) in cases {
        let (code, detail) = refused(&method, path, &body).expect(expected);
        assert_eq!(code, "invalid");
        assert!(detail.starts_with(expected), "{detail}");
    }
    let query = schemas().check_query(&Method::GET, "/api/fleet/jobs", "limit=0");
    assert_eq!(query.map_err(|problem| problem.into_body().code), Err("invalid".to_owned()));
}

#[test]
fn a_misspelled_query_parameter_is_named() {
    let problem = schemas().check_query(&Method::GET, "/api/fleet/jobs", "stages=queued").unwrap_err().into_body();

    assert_eq!(problem.detail, "unknown query parameter `stages`; did you mean `stage`?");
}

#[test]
fn invalid_json_is_left_to_the_parser() {
    let deep = "[".repeat(100_000);

    for text in ["", "{", "nonsense", deep.as_str()] {
        assert!(schemas().check_body(&Method::POST, "/api/fleet/jobs", text.as_bytes()).is_ok());
    }
}
