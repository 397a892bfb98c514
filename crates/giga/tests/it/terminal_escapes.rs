//! Nothing that a stranger can write into a field reaches the terminal as anything but text.

use serde_json::{Value, json};

use crate::coordinator::{Answer, Coordinator};
use crate::giga::Machine;

const TOKEN: [(&str, &str); 1] = [("GIGA_TOKEN", "giga_adm_x")];

/// Each way to speak to a terminal instead of its reader.
const HOSTILE: &str = "a\u{1b}]52;c;ZXZpbA==\u{7}b\u{1b}[2Jc\u{9b}31md\u{202e}e\rf\u{0}g\nh";

/// A queued job with a title.
pub(crate) fn job(title: &str) -> Value {
    json!({
        "id": "0190f3a4-7c1e-7b52-9d0a-1f2e3d4c5b6a", "productId": "default", "title": title, "stage": "queued",
        "message": title, "priority": "normal", "kind": "task", "rev": 1, "leaseEpoch": 0, "dispatchSeq": 0,
        "attempts": 0, "lostLeases": 0, "runs": 0, "seq": 1, "createdBy": title, "createdAt": "2026-01-31T12:00:00Z",
        "updatedAt": "2026-01-31T12:00:00Z", "repo": "notes",
    })
}

fn assert_harmless(text: &str) {
    let found: Vec<char> = text.chars().filter(|c| *c != '\n' && !domain::is_terminal_safe(*c)).collect();
    assert_eq!(found, Vec::<char>::new(), "{text:?}");
}

// [attack: terminal escapes]
#[test]
fn a_hostile_title_is_text_in_a_table_and_in_json() {
    let coordinator = Coordinator::start();
    let list = json!({"items": [job(HOSTILE)]});

    for args in [&["jobs"][..], &["jobs", "--json"]] {
        coordinator.expect("GET /jobs", Answer::json(200, &list));
        let ran = Machine::new().giga_with(&[args, &["--api", coordinator.api()]].concat(), &TOKEN, "");

        assert_eq!(ran.code, Some(0), "{ran:?}");
        assert_harmless(&ran.stdout);
        assert!(ran.stdout.contains("d4c5b6a"), "{}", ran.stdout);
    }
}

#[test]
fn programs_still_get_the_title_as_it_is() {
    let coordinator = Coordinator::start();
    coordinator.expect("GET /jobs", Answer::json(200, &json!({"items": [job(HOSTILE)]})));

    let ran = Machine::new().giga_with(&["jobs", "--json", "--api", coordinator.api()], &TOKEN, "");

    let jobs: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(jobs["items"][0]["title"], HOSTILE);
}

#[test]
fn a_hostile_refusal_is_text() {
    let coordinator = Coordinator::start();
    coordinator.expect("GET /alerts", Answer::problem(409, "odd", HOSTILE));

    let ran = Machine::new().giga_with(&["alerts", "--api", coordinator.api()], &TOKEN, "");

    assert_eq!(ran.code, Some(3));
    assert_harmless(&ran.stderr);
}

// [attack: terminal escapes]
#[test]
fn a_hostile_log_is_text_unless_it_is_asked_for_raw() {
    let coordinator = Coordinator::start();
    let logs = |flag: &[&str]| {
        let runs = json!({"items": []});
        coordinator.expect("GET /jobs/0190f3a4-7c1e-7b52-9d0a-1f2e3d4c5b6a/runs", Answer::json(200, &runs));
        coordinator.expect("GET /jobs/0190f3a4-7c1e-7b52-9d0a-1f2e3d4c5b6a/logs?epoch=3", Answer::stream(HOSTILE));
        let args = ["logs", "0190f3a4-7c1e-7b52-9d0a-1f2e3d4c5b6a", "--epoch", "3", "--api", coordinator.api()];
        Machine::new().giga_with(&[&args, flag].concat(), &TOKEN, "").stdout
    };

    assert_eq!(logs(&[]), "abcde\nfg\nh");
    assert_eq!(logs(&["--raw"]), HOSTILE);
    assert_eq!(
        logs(&["--json"]),
        "{\"leaseEpoch\":3,\"line\":\"abcde\"}\n{\"leaseEpoch\":3,\"line\":\"fg\"}\n{\"leaseEpoch\":3,\"line\":\"h\"}\n"
    );
}

#[test]
fn an_ending_that_several_ids_share_is_rejected_with_all_of_them() {
    let coordinator = Coordinator::start();
    let mut other = job(HOSTILE);
    other["id"] = json!("0190f3a4-9999-7b52-9d0a-1f2e3d4c5b6a");
    coordinator.expect("GET /jobs", Answer::json(200, &json!({"items": [job("one"), other]})));

    let ran = Machine::new().giga_with(&["job", "4C5B6A", "--api", coordinator.api()], &TOKEN, "");

    assert_eq!(ran.code, Some(2));
    assert!(ran.stderr.starts_with("error: the ids of 2 jobs end with `4c5b6a`:\n"), "{}", ran.stderr);
    assert_harmless(&ran.stderr);
}

// [U3]
#[test]
fn an_id_is_found_by_its_ending_on_a_later_page_and_not_by_its_beginning() {
    let coordinator = Coordinator::start();
    let mut other = job("another");
    other["id"] = json!("0190f3a4-9999-7b52-9d0a-1f2e3d4cffff");
    let first = json!({"items": [other], "next": "c1"});
    for _ in 0..2 {
        coordinator.expect("GET /jobs?limit=1000&cursor=c1", Answer::json(200, &json!({"items": [job("this")]})));
        coordinator.expect("GET /jobs?limit=1000", Answer::json(200, &first));
    }
    let explained = "GET /jobs/0190f3a4-7c1e-7b52-9d0a-1f2e3d4c5b6a/explain";
    coordinator.expect(explained, Answer::problem(404, "no_such_job", "found"));

    let found = Machine::new().giga_with(&["explain", "5b6a", "--api", coordinator.api()], &TOKEN, "");
    let missed = Machine::new().giga_with(&["explain", "0190f3a4", "--api", coordinator.api()], &TOKEN, "");

    assert!(found.stderr.starts_with("error: found"), "{}", found.stderr);
    assert_eq!(missed.code, Some(5), "{}", missed.stderr);
    assert!(missed.stderr.contains("no job's id ends with `0190f3a4`"), "{}", missed.stderr);
}
