//! Authorisation: every route, with every kind of token that must be rejected.

use std::collections::BTreeSet;

use domain::{JobId, TokenScope};
use http::Method;
use protocol::ProductSettings;
use serde_json::{Value, json};

use crate::fleet::{Fleet, Worker, code};
use crate::raw::{Asking, Connection};

/// No token, a viewer, an operator of another product, another factory, a join token.
type Cells = [&'static str; 5];

const OPEN: Cells = ["ok", "ok", "ok", "ok", "ok"];
const ONLOOKERS: Cells = ["unauthenticated", "ok", "ok", "ok", "forbidden"];
const ONLOOKERS_OF_ITS_PRODUCT: Cells = ["unauthenticated", "ok", "no_such_job", "ok", "forbidden"];
const REJECTED: Cells = ["unauthenticated", "forbidden", "forbidden", "forbidden", "forbidden"];
const HOLDER: Cells = ["unauthenticated", "forbidden", "forbidden", "fenced", "forbidden"];
const STEERERS: Cells = ["unauthenticated", "forbidden", "no_such_job", "forbidden", "no_such_job"];
const SUBMITTERS: Cells = ["unauthenticated", "forbidden", "ok", "forbidden", "forbidden"];

const PRODUCT: Cells = ["unauthenticated", "ok", "unknown_product", "ok", "forbidden"];
const PRODUCT_STEERERS: Cells = ["unauthenticated", "forbidden", "unknown_product", "forbidden", "forbidden"];
const NOT_ITS_RUN: Cells = ["unauthenticated", "forbidden", "forbidden", "no_such_run", "forbidden"];
const NO_PROFILE: Cells = ["unauthenticated", "no_such_profile", "no_such_profile", "no_such_profile", "forbidden"];

const NO_ARTIFACT: Cells = ["unauthenticated", "no_such_artifact", "no_such_artifact", "no_such_artifact", "forbidden"];
const NO_POOL: Cells = ["unauthenticated", "no_such_pool", "no_such_pool", "no_such_pool", "forbidden"];

struct Row {
    method: &'static str,
    path: &'static str,
    query: String,
    body: Option<Value>,
    cells: Cells,
}

fn rows(job: JobId, epoch: u64, other: &Worker) -> Vec<Row> {
    let row = |method, path, cells| Row { method, path, query: String::new(), body: None, cells };
    let with = |method, path, body: Value, cells| Row { body: Some(body), ..row(method, path, cells) };
    let asking = |method, path, query: String, cells| Row { query, ..row(method, path, cells) };
    let checkpoint = json!({ "ref": "aq/wip/x", "sha": "0".repeat(40), "epoch": epoch });
    let start = json!({ "leaseEpoch": epoch, "engine": "command" });
    let accept = json!({
        "jobId": job, "dispatchSeq": 1, "claimNonce": JobId::from_bytes([3; 16]), "instance": other.instance,
    });
    let claim = json!({ "claimNonce": JobId::from_bytes([4; 16]), "instance": other.instance });
    let work = json!({ "operations": [{ "op": "start", "jobId": job, "leaseEpoch": epoch, "engine": "command" }] });
    let beat = json!({ "instance": other.instance, "capabilities": [], "seatLimit": 1, "protocol": 1 });
    let decline = json!({ "jobId": job, "dispatchSeq": 1, "instance": other.instance, "reason": "busy" });
    let superseded = ["unauthenticated", "forbidden", "forbidden", "superseded_dispatch", "forbidden"];
    let in_use = ["unauthenticated", "forbidden", "forbidden", "already_granted", "forbidden"];
    let themselves = ["unauthenticated", "forbidden", "forbidden", "ok", "forbidden"];
    vec![
        row("GET", "/", OPEN),
        row("GET", "/healthz", OPEN),
        row("GET", "/readyz", OPEN),
        row("GET", "/metrics", OPEN),
        row("GET", "/openapi.json", OPEN),
        with("POST", "/webhooks/github", json!({}), ["no_such_route"; 5]),
        row("GET", "/api/fleet/schema/job.json", OPEN),
        row("GET", "/api/fleet/backup", REJECTED),
        asking("POST", "/api/fleet/restore", "?replace=everything".to_owned(), REJECTED),
        row("GET", "/api/fleet/jobs", ONLOOKERS),
        with("POST", "/api/fleet/jobs", json!({ "bodyMd": "# x\n" }), SUBMITTERS),
        with("POST", "/api/fleet/jobs/batch", json!({ "jobs": [{ "bodyMd": "# x\n" }] }), SUBMITTERS),
        with("POST", "/api/fleet/plans", json!({ "bodyMd": "# x\n## y\n" }), SUBMITTERS),
        row("GET", "/api/fleet/jobs/{id}", ONLOOKERS_OF_ITS_PRODUCT),
        with("PATCH", "/api/fleet/jobs/{id}", json!({ "leaseEpoch": epoch, "checkpoint": checkpoint }), HOLDER),
        with("POST", "/api/fleet/jobs/{id}/actions/{action}", json!({}), STEERERS),
        with("POST", "/api/fleet/jobs/{id}/children", json!({ "jobs": [{ "bodyMd": "# x\n" }] }), STEERERS),
        with("POST", "/api/fleet/jobs/{id}/answer", json!({ "text": "red" }), STEERERS),
        with("POST", "/api/fleet/jobs/{id}/dismiss", json!({}), STEERERS),
        with("POST", "/api/fleet/jobs/{id}/review", json!({ "decision": "approve", "run": 1 }), STEERERS),
        with("POST", "/api/fleet/jobs/{id}/review/request", json!({}), STEERERS),
        row("GET", "/api/fleet/needs-me", ONLOOKERS),
        row("GET", "/api/fleet/jobs/counts", ONLOOKERS),
        row("GET", "/api/fleet/metrics/history", ONLOOKERS),
        row("GET", "/api/fleet/jobs/{id}/runs", ONLOOKERS_OF_ITS_PRODUCT),
        row("GET", "/api/fleet/jobs/{id}/runs/{n}/evidence", ONLOOKERS_OF_ITS_PRODUCT),
        with("POST", "/api/fleet/jobs/{id}/runs/evidence", json!({ "leaseEpoch": epoch, "diff": "+x\n" }), HOLDER),
        row("GET", "/api/fleet/jobs/{id}/events", ONLOOKERS_OF_ITS_PRODUCT),
        row("GET", "/api/fleet/jobs/{id}/events/stream", ONLOOKERS_OF_ITS_PRODUCT),
        row("GET", "/api/fleet/jobs/{id}/explain", ONLOOKERS_OF_ITS_PRODUCT),
        row("GET", "/api/fleet/jobs/{id}/dag", ONLOOKERS_OF_ITS_PRODUCT),
        row("GET", "/api/fleet/jobs/{id}/logs", ONLOOKERS_OF_ITS_PRODUCT),
        asking("POST", "/api/fleet/jobs/{id}/logs", format!("?leaseEpoch={epoch}&offset=0"), HOLDER),
        row("GET", "/api/fleet/jobs/{id}/artifacts", ONLOOKERS_OF_ITS_PRODUCT),
        asking(
            "POST",
            "/api/fleet/jobs/{id}/artifacts",
            format!("?leaseEpoch={epoch}&name=x&sha256={}", "0".repeat(64)),
            HOLDER,
        ),
        row("GET", "/api/fleet/artifacts/{id}", NO_ARTIFACT),
        row("GET", "/api/fleet/artifacts/{id}/link", NO_ARTIFACT),
        row(
            "DELETE",
            "/api/fleet/artifacts/{id}",
            ["unauthenticated", "forbidden", "no_such_artifact", "forbidden", "forbidden"],
        ),
        row("GET", "/api/fleet/jobs/{id}/lease", ONLOOKERS_OF_ITS_PRODUCT),
        with(
            "POST",
            "/api/fleet/jobs/{id}/lease/renew",
            json!({ "leaseEpoch": epoch, "instance": other.instance }),
            HOLDER,
        ),
        with("POST", "/api/fleet/jobs/{id}/lease/release", json!({ "leaseEpoch": epoch }), HOLDER),
        with("POST", "/api/fleet/jobs/{id}/start", start.clone(), HOLDER),
        with("POST", "/api/fleet/jobs/{id}/complete", json!({ "leaseEpoch": epoch }), HOLDER),
        with(
            "POST",
            "/api/fleet/jobs/{id}/promote",
            json!({ "leaseEpoch": epoch, "outcome": { "result": "done" } }),
            HOLDER,
        ),
        with(
            "POST",
            "/api/fleet/jobs/{id}/pull-request",
            json!({ "number": 7, "pullRequest": { "state": "merged" }, "head": "0".repeat(40) }),
            ["unauthenticated", "forbidden", "forbidden", "not_ready", "forbidden"],
        ),
        with("POST", "/api/fleet/jobs/{id}/quota", start, HOLDER),
        with("POST", "/api/fleet/jobs/{id}/ask", json!({ "leaseEpoch": epoch, "question": "why?" }), HOLDER),
        with(
            "POST",
            "/api/fleet/jobs/{id}/subtasks",
            json!({ "leaseEpoch": epoch, "subtask": { "title": "One", "instructions": "Do one." } }),
            HOLDER,
        ),
        asking("GET", "/api/fleet/jobs/{id}/subtasks", format!("?leaseEpoch={epoch}"), HOLDER),
        with("POST", "/api/fleet/jobs/{id}/subtasks/wait", json!({ "leaseEpoch": epoch }), HOLDER),
        with("POST", "/api/fleet/accept", accept, in_use),
        with("POST", "/api/fleet/decline", decline, superseded),
        with("POST", "/api/fleet/claim", claim, themselves),
        with("POST", "/api/fleet/fail", json!({ "jobId": job, "leaseEpoch": epoch, "reason": "crash" }), HOLDER),
        with("POST", "/api/fleet/work", work, HOLDER),
        row("GET", "/api/fleet/events/stream", ONLOOKERS),
        row("GET", "/api/fleet/factories", ONLOOKERS),
        with("POST", "/api/fleet/factories/heartbeat", beat, themselves),
        with(
            "POST",
            "/api/fleet/factories/enroll",
            json!({ "joinToken": "giga_join_wrong", "factoryId": "mac-9" }),
            ["unauthenticated"; 5],
        ),
        with(
            "POST",
            "/api/fleet/identity",
            json!({ "nonce": "0123456789abcdef", "token": "x", "address": "http://127.0.0.1:7878" }),
            ["unauthenticated"; 5],
        ),
        row("POST", "/api/fleet/factories/prune", REJECTED),
        row("GET", "/api/fleet/factories/{id}", ONLOOKERS),
        row("DELETE", "/api/fleet/factories/{id}", REJECTED),
        with("POST", "/api/fleet/factories/{id}/renew", json!({ "instance": other.instance, "held": [] }), REJECTED),
        asking("GET", "/api/fleet/factories/{id}/inbox", format!("?instance={}", other.instance), REJECTED),
        row("POST", "/api/fleet/factories/{id}/token/rotate", REJECTED),
        row("POST", "/api/fleet/factories/{id}/token/revoke", REJECTED),
        row("POST", "/api/fleet/factories/{id}/drain", REJECTED),
        row("GET", "/api/fleet/credentials", ONLOOKERS),
        with("POST", "/api/fleet/credentials/resume", json!({ "credential": "x" }), REJECTED),
        row("GET", "/api/fleet/metrics", ONLOOKERS),
        row("GET", "/api/fleet/queue-state", ONLOOKERS),
        row("GET", "/api/fleet/flags", ["unauthenticated", "forbidden", "ok", "forbidden", "forbidden"]),
        row("GET", "/api/fleet/divergence", ["unauthenticated", "ok", "ok", "forbidden", "forbidden"]),
        with("PUT", "/api/fleet/flags", json!({ "mode": "poll" }), REJECTED),
        row("GET", "/api/fleet/alerts", ONLOOKERS),
        row("GET", "/api/fleet/dead-letters", ONLOOKERS),
        row("POST", "/api/fleet/dead-letters/{id}/dismiss", STEERERS),
        row("POST", "/api/fleet/dead-letters/{id}/redrive", STEERERS),
        row("GET", "/api/fleet/tokens", REJECTED),
        with("POST", "/api/fleet/tokens", json!({ "name": "x", "grant": { "role": "admin" } }), REJECTED),
        row("DELETE", "/api/fleet/tokens/{id}", REJECTED),
        row("GET", "/api/fleet/session", ["unauthenticated", "ok", "ok", "ok", "ok"]),
        with("POST", "/api/fleet/session", json!({ "token": "giga_adm_wrong" }), ["unauthenticated"; 5]),
        row("DELETE", "/api/fleet/session", REJECTED),
        row("POST", "/api/fleet/session/codes", ["unauthenticated", "forbidden", "ok", "forbidden", "forbidden"]),
        row("GET", "/api/fleet/pools", ONLOOKERS),
        row("GET", "/api/fleet/pools/{id}", NO_POOL),
        with("PUT", "/api/fleet/pools/{id}", json!({ "engines": ["claude"], "max": 1 }), REJECTED),
        row("DELETE", "/api/fleet/pools/{id}", REJECTED),
        row("GET", "/api/fleet/scale", ONLOOKERS),
        row("GET", "/api/fleet/products", ONLOOKERS),
        row("GET", "/api/fleet/products/{id}", PRODUCT),
        with("PUT", "/api/fleet/products/{id}", json!({ "paused": true }), REJECTED),
        row("GET", "/api/fleet/budgets", ONLOOKERS),
        row("GET", "/api/fleet/budgets/{id}", PRODUCT),
        row("GET", "/api/fleet/budgets/{id}/burndown", PRODUCT),
        with("PUT", "/api/fleet/budgets/{id}", json!({ "ceilingUsd": 1.0 }), REJECTED),
        with("POST", "/api/fleet/budgets/{id}/pause", json!({}), PRODUCT_STEERERS),
        row("POST", "/api/fleet/budgets/{id}/resume", PRODUCT_STEERERS),
        with("POST", "/api/fleet/jobs/{id}/usage", json!({ "leaseEpoch": epoch, "costUsd": 1.0 }), NOT_ITS_RUN),
        row("GET", "/api/fleet/profiles", ONLOOKERS),
        row("GET", "/api/fleet/profiles/{name}", NO_PROFILE),
        row("GET", "/api/fleet/tracker", ONLOOKERS),
        with(
            "POST",
            "/api/fleet/tracker/ingest",
            json!({ "source": "desk", "key": "7", "title": "Fix the typo" }),
            SUBMITTERS,
        ),
        with("POST", "/api/fleet/tracker/echo", json!({ "jobId": job }), STEERERS),
        with("POST", "/api/fleet/tracker/webhook/{name}", json!({}), ["no_such_route"; 5]),
        row("GET", "/api/fleet/webhooks", REJECTED),
        with("POST", "/api/fleet/webhooks/{name}/test", json!({}), REJECTED),
        with("POST", "/api/fleet/profiles", json!({ "name": "x", "bodyMd": "x" }), SUBMITTERS),
    ]
}

// [I12] [T4] [§10] [attack: stolen factory token] [attack: factory A writes to B's job]
#[tokio::test]
async fn only_the_listed_cells_of_route_and_scope_succeed() {
    let fleet = Fleet::start().await;
    fleet.product("other", ProductSettings::default()).await;
    let holder = fleet.factory("mac-1").await;
    let mut inbox = holder.inbox().await;
    let id = fleet.submit("# Held by mac-1\n").await;
    let epoch = holder.take_next(&mut inbox).await.lease_epoch;
    holder.start(id, epoch).await.unwrap();
    let other = fleet.factory("mac-2").await;
    let viewer = fleet.token(TokenScope::Viewer { products: BTreeSet::new() }).await;
    let operator = fleet.token(TokenScope::Operator { products: ["other".parse().unwrap()].into() }).await;
    let join = fleet
        .token(TokenScope::Join { factory: None, products: BTreeSet::new(), capabilities: BTreeSet::new(), pool: None })
        .await;
    let callers = [None, Some(&viewer.secret), Some(&operator.secret), Some(&other.token), Some(&join.secret)];
    let before = fleet.job(id).await;

    let rows = rows(id, epoch.0, &other);
    for row in &rows {
        let told: Vec<String> = {
            let mut told = Vec::new();
            for caller in callers {
                told.push(outcome(&fleet, row, id, &viewer.token.id.to_string(), caller).await);
            }
            told
        };
        assert_eq!(told, row.cells, "{} {}", row.method, row.path);
    }

    let after = fleet.job(id).await;
    assert_eq!(after.job, before.job, "no caller changed a job outside of its scope");
    let listed: BTreeSet<_> = rows.iter().map(|row| format!("{} {}", row.method, row.path)).collect();
    assert_eq!(listed, described(&fleet).await, "the table has every route");
}

async fn outcome(fleet: &Fleet, row: &Row, job: JobId, token_id: &str, token: Option<&String>) -> String {
    let id = match row.path {
        path if path.contains("/factories/") => "mac-1".to_owned(),
        path if path.contains("/products/") || path.contains("/budgets/") => "default".to_owned(),
        path if path.contains("/pools/") => "linux".to_owned(),
        path if path.contains("/artifacts/") => format!("{job}-1"),
        path if path.contains("/tokens/") => token_id.to_owned(),
        _ => job.to_string(),
    };
    let path =
        row.path.replace("{id}", &id).replace("{action}", "cancel").replace("{n}", "1").replace("{name}", "poet")
            + &row.query;
    let method: Method = row.method.parse().unwrap();
    let mut asking = Asking::new(method, &path);
    if let Some(token) = token {
        asking = asking.token(token);
    }
    if let Some(body) = &row.body {
        asking = asking.json(body);
    }
    let mut connection = Connection::open(fleet.address).await;
    let response = connection.head(asking).await;
    if response.headers().get("content-type").is_some_and(|kind| kind == "text/event-stream") {
        return "ok".to_owned();
    }
    let status = response.status();
    let body = http_body_util::BodyExt::collect(response.into_body()).await.unwrap().to_bytes();
    let body: Value = serde_json::from_slice(&body).unwrap_or_default();
    let inner = body["results"][0]["problem"]["code"].as_str().or(body["outcomes"][0]["problem"]["code"].as_str());
    match (status.is_success(), inner) {
        (true, None) => "ok".to_owned(),
        (true, Some(code)) => code.to_owned(),
        (false, _) => body["code"].as_str().unwrap_or("a refusal without a code").to_owned(),
    }
}

async fn described(fleet: &Fleet) -> BTreeSet<String> {
    let answer = crate::raw::ask(fleet.address, Asking::get("/openapi.json")).await.json();
    let paths = answer["paths"].as_object().unwrap().clone();
    let operations = paths.iter().flat_map(|(path, item)| {
        let methods = item.as_object().unwrap().keys();
        methods.map(move |method| format!("{} {path}", method.to_uppercase()))
    });
    operations.collect()
}

// [§10]
#[tokio::test]
async fn a_revoked_token_is_refused_at_once() {
    let fleet = Fleet::start().await;
    let factory = fleet.factory("mac-1").await;
    factory.beat().await.unwrap();

    let revoked: Result<(), _> = fleet.admin.post("/factories/mac-1/token/revoke", &json!({})).await;
    revoked.unwrap();

    assert_eq!(code(factory.beat().await), "unauthenticated");
}

#[tokio::test]
async fn a_join_token_is_good_for_one_factory() {
    let fleet = Fleet::start().await;
    let grant =
        TokenScope::Join { factory: None, products: BTreeSet::new(), capabilities: BTreeSet::new(), pool: None };
    let join_token = fleet.token(grant).await.secret;
    let enroll = |name: &str| json!({ "joinToken": join_token, "factoryId": name });
    let anybody = fleet.client("");

    let first: Result<Value, _> = anybody.post("/factories/enroll", &enroll("mac-1")).await;
    let second: Result<Value, _> = anybody.post("/factories/enroll", &enroll("mac-2")).await;

    assert!(first.is_ok());
    assert_eq!(code(second), "join_token_used");
}
