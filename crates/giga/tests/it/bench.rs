//! `giga bench`: each benchmark, small, on real processes. The figures are those of a debug build; their shape is the contract.

use std::time::Duration;

use serde_json::Value;

use crate::giga::Machine;
use crate::processes::becomes_so;

/// The one line that a benchmark prints with `--json`.
fn measured(args: &[&str]) -> Value {
    let machine = Machine::new();
    let data = machine.path().join("data");
    let args = [&["--json", "--quiet", "--data", data.to_str().unwrap(), "bench"], args].concat();
    let ran = machine.giga(&args);
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{ran:?}");
    assert_eq!(ran.stdout.lines().count(), 1, "{}", ran.stdout);
    let left: Vec<_> = std::fs::read_dir(&data).map(|found| found.flatten().collect()).unwrap_or_default();
    assert!(left.is_empty(), "a benchmark clears up after itself: {left:?}");
    serde_json::from_str(&ran.stdout).unwrap()
}

fn figure(found: &Value, name: &str) -> f64 {
    found[name].as_f64().unwrap_or_else(|| panic!("no `{name}` in {found}"))
}

#[test]
fn latency_is_measured_at_a_steady_rate() {
    let found = measured(&["latency", "--rate", "50", "--seconds", "1"]);

    assert_eq!((&found["bench"], &found["rate"], &found["jobs"]), (&"latency".into(), &50.into(), &50.into()));
    assert!(figure(&found, "p50_ms") <= figure(&found, "p99_ms"), "{found}");
}

#[test]
fn throughput_is_measured_singly_and_in_batches() {
    let found = measured(&["throughput", "--lives", "200"]);

    assert!(figure(&found, "single_lives_per_s") > 0.0 && figure(&found, "batched_lives_per_s") > 0.0, "{found}");
}

#[test]
fn depth_is_measured_as_ratios() {
    let found = measured(&["depth", "--stored", "2000"]);

    for ratio in ["submit_ratio", "dispatch_ratio", "claim_ratio", "list_ratio"] {
        assert!(figure(&found, ratio) > 0.0, "{found}");
    }
}

#[test]
fn idle_is_measured_in_every_mode_and_costs_no_store_operation_and_claims_only_when_polling() {
    let found = measured(&["idle", "--factories", "8", "--seconds", "6"]);

    let rows: Vec<_> = found["rows"].as_array().unwrap().iter().map(|row| (&row["mode"], &row["factories"])).collect();
    let eight = Value::from(8);
    assert_eq!(rows, [(&"poll".into(), &eight), (&"gate".into(), &eight), (&"push".into(), &eight)]);
    for row in found["rows"].as_array().unwrap() {
        assert_eq!(figure(row, "store_ops_per_min"), 0.0, "{row}");
        assert_eq!(figure(row, "claims_per_min") > 0.0, row["mode"] == "poll", "{row}");
        assert!(figure(row, "cpu_percent") >= 0.0, "{row}");
    }
}

#[test]
fn decisions_are_measured_for_small_and_large_fleets() {
    let found = measured(&["decide"]);

    let rows = found["rows"].as_array().unwrap();
    let sizes: Vec<_> = rows.iter().map(|row| (figure(row, "factories"), figure(row, "eligible"))).collect();
    assert_eq!(sizes, [(10., 10.), (1_000., 1_000.), (1_000., 10.), (10_000., 10_000.), (10_000., 10.)]);
    assert!(rows.iter().all(|row| figure(row, "us_per_decision") > 0.0), "{found}");
}

#[test]
fn memory_is_measured_with_stored_and_open_jobs() {
    let found = measured(&["memory", "--stored", "1000", "--open", "50", "--resident", "100"]);

    assert_eq!((figure(&found, "stored"), figure(&found, "open")), (1_000., 100.));
    // The start was timed with fewer open jobs than the memory was read with, and says so.
    assert_eq!((figure(&found, "start_open"), &found["start_ms"]), (50., &found["rows"][0]["start_ms"]));
    assert!(figure(&found, "rss_mb") > 1.0 && figure(&found, "start_ms") > 1.0, "{found}");
}

#[test]
fn a_benchmark_refuses_what_it_must_not_touch() {
    let refused = [
        (&["--api", "http://127.0.0.1:9", "--token", "x", "bench", "memory"][..], "leave --api away"),
        (&["--api", "http://127.0.0.1:9", "--token", "x", "bench", "depth"][..], "leave --api away"),
        (&["--api", "http://127.0.0.1:9", "--token", "x", "bench", "decide"][..], "leave --api away"),
        (&["--api", "https://fleet.example", "--token", "x", "bench", "latency"][..], "is not on this machine"),
        (&["bench", "depth", "--store", "postgres://giga@db.example/fleet"][..], "say `--store postgres`"),
    ];

    for (args, why) in refused {
        let ran = Machine::new().giga(args);

        assert_eq!(ran.code, Some(2), "{ran:?}");
        assert!(ran.stderr.contains(why), "{}", ran.stderr);
    }
}

#[test]
fn a_coordinator_that_runs_already_is_measured_and_left_without_our_factories() {
    let machine = Machine::new();
    let data = machine.path().join("data");
    let data = data.to_str().unwrap();
    let serve = ["--data", data, "serve", "--listen", "127.0.0.1:0", "--until-stdin-closes"];
    let mut server = machine.start(&serve);
    let endpoint = || std::fs::read_to_string(machine.path().join("data/endpoint")).unwrap_or_default();
    assert!(becomes_so(Duration::from_secs(30), || !endpoint().is_empty()), "the coordinator does not start");
    let api = endpoint();

    let bench =
        ["--data", data, "--api", &api, "--json", "--quiet", "bench", "latency", "--rate", "20", "--seconds", "1"];
    let ran = machine.giga(&bench);
    let left = machine.giga(&["--data", data, "--api", &api, "--json", "factories"]);
    drop(server.stdin.take());
    server.wait().unwrap();

    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{ran:?}");
    assert_eq!(figure(&serde_json::from_str(&ran.stdout).unwrap(), "jobs"), 20.0);
    assert_eq!(serde_json::from_str::<Value>(&left.stdout).unwrap()["items"], Value::Array(Vec::new()));
}
