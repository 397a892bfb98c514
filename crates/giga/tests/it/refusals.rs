//! Every way in which a command does not work has its documented exit code, its reason and its remedy.

use crate::coordinator::{Answer, Coordinator};
use crate::giga::Machine;

const ID: &str = "0190f3a4-7c1e-7b52-9d0a-1f2e3d4c5b6a";
const TOKEN: [(&str, &str); 1] = [("GIGA_TOKEN", "giga_adm_x")];

#[test]
fn a_coordinator_that_is_not_there_is_an_exit_of_its_own_with_a_hint() {
    let ran = Machine::new().giga_with(&["jobs", "--api", "http://127.0.0.1:1"], &TOKEN, "");

    assert_eq!((ran.code, ran.stdout.as_str()), (Some(4), ""));
    assert!(ran.stderr.starts_with("error: no answer from http://127.0.0.1:1: "), "{}", ran.stderr);
    assert!(ran.stderr.contains("\nhint: is a coordinator running? start one with `giga up`"), "{}", ran.stderr);
}

#[test]
fn without_a_token_nothing_is_sent() {
    let coordinator = Coordinator::start();

    let ran = Machine::new().giga(&["jobs", "--api", coordinator.api()]);

    assert_eq!(ran.code, Some(6));
    assert!(ran.stderr.contains("GIGA_TOKEN"), "{}", ran.stderr);
    assert_eq!(coordinator.seen(), Vec::<String>::new());
}

#[test]
fn refusals_keep_their_kinds_apart() {
    let table =
        [(409, "illegal_transition", 3), (404, "no_such_job", 5), (403, "forbidden", 6), (503, "unavailable", 4)];

    for (status, code, exit) in table {
        let coordinator = Coordinator::start();
        coordinator.expect("POST /jobs/", Answer::problem(status, code, "it is not to be"));
        let ran = Machine::new().giga_with(&["cancel", ID, "--api", coordinator.api()], &TOKEN, "");

        assert_eq!(ran.code, Some(exit), "{code}");
        assert!(ran.stderr.starts_with(&format!("error: it is not to be ({code})\n")), "{}", ran.stderr);
    }
}

#[test]
fn a_refusal_is_one_line_of_json_for_programs() {
    let coordinator = Coordinator::start();
    coordinator.expect("POST /jobs/", Answer::problem(409, "illegal_transition", "it is not to be"));

    let ran = Machine::new().giga_with(&["ship", ID, "--json", "--api", coordinator.api()], &TOKEN, "");

    let problem: serde_json::Value = serde_json::from_str(&ran.stderr).unwrap();
    assert_eq!(ran.stdout, "");
    assert_eq!((problem["code"].as_str(), problem["exit"].as_u64()), (Some("illegal_transition"), Some(3)));
}

#[test]
fn what_is_no_id_is_not_asked_for() {
    let coordinator = Coordinator::start();

    for (id, expected) in [("5b6", "too short"), ("job.md", "not the id of a job"), ("0190f3a4/../x", "not the id")] {
        let ran = Machine::new().giga_with(&["job", id, "--api", coordinator.api()], &TOKEN, "");

        assert_eq!(ran.code, Some(2), "{id}");
        assert!(ran.stderr.contains(expected), "{id}: {}", ran.stderr);
    }
    assert_eq!(coordinator.seen(), Vec::<String>::new());
}

// [attack: secrets in logs, events, artifacts]
#[test]
fn a_secret_given_for_an_id_is_not_repeated() {
    let ran = Machine::new().giga_with(&["token", "revoke", "giga_opr_secretsecret"], &TOKEN, "");

    assert_eq!(ran.code, Some(2));
    assert!(!ran.stderr.contains("secretsecret"), "{}", ran.stderr);
}
