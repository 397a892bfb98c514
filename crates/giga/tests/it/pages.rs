//! What people read about the fleet, compared with what was agreed on.

use std::path::Path;

use serde_json::{Value, json};

use crate::coordinator::{Answer, Coordinator};
use crate::giga::Machine;

const ID: &str = "0190f3a4-7c1e-7b52-9d0a-1f2e3d4c5b6a";
const TOKEN: [(&str, &str); 1] = [("GIGA_TOKEN", "giga_adm_x")];

/// Nothing is ever older than now, so the ages on the screens stay the same.
const AHEAD: &str = "2999-01-31T12:00:00Z";

#[test]
fn the_list_of_jobs_is_as_agreed() {
    let fleet = Coordinator::start();
    let mut second = job();
    second["id"] = json!("0190f3a5-0000-7b52-9d0a-1f2e34f1c689");
    second["stage"] = json!("queued");
    second["title"] = json!("Draw the icons");
    let mut third = job();
    third["id"] = json!("0190f3a6-0000-7b52-9d0a-1f2e38e07d11");
    third["stage"] = json!("testing");
    third["mergeFailure"] = json!({
        "errand": "ship", "message": "it conflicts", "base": "main", "files": ["a.txt"], "triesLeft": 0, "givenUp": true,
        "conflictsWith": {"jobId": "0190f3a5-0000-7b52-9d0a-1f2e34f1c689", "title": "Draw the icons"},
    });
    fleet.expect(
        "GET /jobs?limit=2&stage=building,queued",
        Answer::json(200, &json!({"items": [job(), second, third], "next": "c"})),
    );

    compare(&fleet, "jobs", &["jobs", "--limit", "2", "--stage", "building", "--stage", "queued"]);
}

// [U3]
#[test]
fn the_page_of_a_job_is_as_agreed() {
    let fleet = Coordinator::start();
    let mut detail = job();
    detail["bodyMd"] = json!("Fix it.");
    detail["manifestSnapshot"] = json!({"title": "Fix the parser"});
    detail["expiresAt"] = json!(AHEAD);
    detail["run"] = run();
    detail["progress"] =
        json!({"doing": "Edit src/\u{1b}[2Jlib.rs", "toolCalls": 12, "files": ["src/lib.rs"], "tokensIn": 20_500});
    let event = |seq: u32, kind: &str, stage: &str, by: Value| json!({"jobId": ID, "productId": "default", "seq": seq, "at": AHEAD, "kind": kind, "stage": stage, "epoch": 2, "by": by});
    let person = json!({"who": "person", "name": "ada"});
    let factory = json!({"who": "factory", "name": "mac-1"});
    let events = [event(1, "submitted", "queued", person), event(2, "granted", "assigned", factory)];
    fleet
        .expect(&format!("GET /jobs/{ID}/runs"), Answer::json(200, &json!({"items": [run()]})))
        .expect(&format!("GET /jobs/{ID}/events"), Answer::json(200, &json!({"items": events})))
        .expect(&format!("GET /jobs/{ID}"), Answer::json(200, &detail));

    compare(&fleet, "job", &["job", ID]);
}

// [S4]
#[test]
fn an_explanation_is_as_agreed() {
    let fleet = Coordinator::start();
    let shape = json!({"product": "default", "capabilities": ["has:xcode"], "engines": []});
    let score = json!({
        "capabilityFit": 0.5, "affinity": 1.0, "idleness": 1.0, "costFit": 1.0, "health": 1.0,
        "starvationPenalty": 0.0, "total": 3.75,
    });
    let fits = [
        json!({"factory": "box-1", "eligible": false, "avoided": false, "score": score,
               "unfit": [{"code": "lacks", "capability": "has:xcode"}, {"code": "draining"}]}),
        json!({"factory": "mac-1", "eligible": true, "avoided": false, "score": score, "unfit": [], "rank": 1}),
    ];
    let answer =
        serde_json::to_value(scheduler::ExplainedOutcome::Goes { factory: "mac-1".parse().unwrap(), engine: None });
    let now = json!({"shape": shape, "answer": answer.unwrap(), "text": "will run on mac-1", "weights": {}, "factories": fits});
    let explained = json!({"job": job(), "summary": "runs on factory `mac-1`", "now": now});
    fleet.expect(&format!("GET /jobs/{ID}/explain"), Answer::json(200, &explained));

    compare(&fleet, "explain", &["explain", ID]);
}

// [U3] [B9]
#[test]
fn the_list_of_factories_is_as_agreed() {
    let fleet = Coordinator::start();
    let factory = |id: &str, presence: &str, seats: Value, draining: bool| {
        json!({
            "id": id, "presence": presence, "lastHeartbeatAt": AHEAD, "capabilities": ["has:git", "os:mac"],
            "repos": [], "seatLimit": 2, "seats": seats, "load": 0.1, "health": 1.0, "draining": draining,
            "connected": true, "version": "0.1.0", "joinedAt": AHEAD,
            "engines": [
                {"name": "claude", "version": "2.1", "credential": "c0ffee", "signedIn": true, "windowUntil": AHEAD},
                {"name": "codex", "signedIn": false}, {"name": "command"},
            ],
        })
    };
    let seats = json!([{"jobId": ID, "title": "Fix the parser", "dispatchedOnly": true}]);
    let items = [
        factory("mac-1", "live", seats, false),
        factory("mac-2", "live", json!([]), true),
        factory("mac-3", "stale", json!([]), false),
        factory("mac-4", "disconnected", json!([]), false),
    ];
    fleet.expect("GET /factories", Answer::json(200, &json!({"items": items})));

    compare(&fleet, "factories", &["factory", "list"]);
}

// [U3] [B4]
#[test]
fn what_backs_a_run_is_shown_as_agreed() {
    let fleet = Coordinator::start();
    let evidence = json!({
        "run": 1, "epoch": 2, "engine": "claude", "outcome": "completed", "sha": "1".repeat(40),
        "verify": [
            {"command": "make test", "exit": 0, "output": "12 passed\n", "tookMs": 1200},
            {"command": "make lint", "exit": 2, "output": "one\ntwo\u{1b}[2J\n", "tookMs": 30},
        ],
        "diff": "diff --git a/a b/a\n-squeak\n+\u{1b}]52;c;x\u{7}silence\n", "diffCut": true,
        "commits": [{"sha": "1".repeat(40), "subject": "Mend the gate"}],
        "ending": "It no longer squeaks.\nReally.", "insights": {"tokensIn": 900, "files": 2, "insertions": 1, "costUsd": 0.25},
    });
    fleet.expect(&format!("GET /jobs/{ID}/runs/1/evidence"), Answer::json(200, &evidence));
    fleet.expect(&format!("GET /jobs/{ID}/runs"), Answer::json(200, &json!({"items": []})));

    compare(&fleet, "evidence", &["runs", ID, "1", "--diff"]);
}

// [J6] [U3]
#[test]
fn the_list_of_runs_is_as_agreed() {
    let fleet = Coordinator::start();
    let mut second = run();
    second["n"] = json!(2);
    second["outcome"] = json!("quota_window");
    second["message"] = json!("waiting for claude/five_hour to reset at 2999-01-31 12:00 UTC");
    fleet.expect(&format!("GET /jobs/{ID}/runs"), Answer::json(200, &json!({"items": [run(), second]})));

    compare(&fleet, "runs", &["runs", ID]);
}

fn job() -> Value {
    let mut job = crate::terminal_escapes::job("Fix the parser");
    let facts = json!({
        "stage": "building", "message": "the engine runs", "repo": "notes", "base": "main", "capabilities": ["os:mac"],
        "engines": ["claude"], "holderFactoryId": "mac-1", "leaseEpoch": 2, "runs": 1, "createdBy": "ada",
        "createdAt": AHEAD, "updatedAt": AHEAD,
    });
    for (key, value) in facts.as_object().unwrap() {
        job[key] = value.clone();
    }
    job
}

fn run() -> Value {
    json!({
        "n": 1, "epoch": 2, "factory": "mac-1", "instance": ID, "engine": "claude", "grantedAt": AHEAD,
        "insights": {"costUsd": 0.125},
    })
}

fn compare(fleet: &Coordinator, name: &str, args: &[&str]) {
    let ran = Machine::new().giga_with(&[args, &["--api", fleet.api()]].concat(), &TOKEN, "");

    let screen = format!("{}--- standard error\n{}--- exit {:?}\n", ran.stdout, ran.stderr, ran.code);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/it/golden/pages/{name}.txt"));
    testkit::assert_golden(path, &screen);
}
