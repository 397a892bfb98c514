//! `giga bench`: each benchmark, small, on real processes. The figures are those of a debug build; their shape is the contract.

use std::process::Child;

use rustix::process::Signal;
use serde_json::Value;
use testkit::nats_server::NatsServer;
use testkit::requirement::Requirement;

use crate::fleet::Fleet;
use crate::giga::Machine;
use crate::processes::send;

/// The one line that a benchmark prints with `--json`.
fn measured(args: &[&str]) -> Value {
    measured_with(args, &[])
}

fn measured_with(args: &[&str], variables: &[(&str, &str)]) -> Value {
    let machine = Machine::new();
    let data = machine.path().join("data");
    let args = [&["--json", "--quiet", "--data", data.to_str().unwrap(), "bench"], args].concat();
    let ran = machine.giga_with(&args, variables, "");
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{ran:?}");
    assert_eq!(ran.stdout.lines().count(), 1, "{}", ran.stdout);
    let left: Vec<_> = std::fs::read_dir(&data).map(|found| found.flatten().collect()).unwrap_or_default();
    assert!(left.is_empty(), "a benchmark clears up after itself: {left:?}");
    serde_json::from_str(&ran.stdout).unwrap()
}

fn figure(found: &Value, name: &str) -> f64 {
    found[name].as_f64().unwrap_or_else(|| panic!("no `{name}` in {found}"))
}

// [P1]
#[test]
fn latency_is_measured_at_a_steady_rate() {
    let found = measured(&["latency", "--rate", "50", "--seconds", "1"]);

    assert_eq!((&found["bench"], &found["rate"], &found["jobs"]), (&"latency".into(), &50.into(), &50.into()));
    assert!(figure(&found, "p50_ms") <= figure(&found, "p99_ms"), "{found}");
}

// [P2]
#[test]
fn throughput_is_measured_singly_and_in_batches() {
    let found = measured(&["throughput", "--jobs", "200"]);

    assert!(figure(&found, "single_lives_per_s") > 0.0 && figure(&found, "batched_lives_per_s") > 0.0, "{found}");
}

// [P1] [P2]
#[test]
fn latency_and_throughput_are_measured_with_budgets_too() {
    let latency = measured(&["latency", "--rate", "50", "--seconds", "1", "--budgets"]);
    let throughput = measured(&["throughput", "--jobs", "200", "--budgets"]);

    assert_eq!((&latency["jobs"], &latency["with_budgets"]["jobs"]), (&50.into(), &50.into()), "{latency}");
    assert!(figure(&latency, "budgets_p50_ratio") > 0.0, "{latency}");
    let with = &throughput["with_budgets"];
    assert!(figure(with, "single_ratio") > 0.0 && figure(with, "batched_ratio") > 0.0, "{throughput}");
}

// [P1] [P2] [P4] [D2]
#[test]
fn factories_of_a_benchmark_receive_from_a_nats_server() {
    let Some(program) = NatsServer::program() else {
        return Requirement::Nats.skip("nats-server is not installed: run scripts/with-nats");
    };
    let path = format!("{}:{}", program.parent().unwrap().display(), std::env::var("PATH").unwrap());
    let with_server = |args: &[&str]| measured_with(&[args, &["--broker", "nats"]].concat(), &[("PATH", &path)]);

    let latency = with_server(&["latency", "--rate", "50", "--seconds", "1"]);
    let throughput = with_server(&["throughput", "--jobs", "200"]);
    let idle = with_server(&["idle", "--factories", "4", "--seconds", "3"]);

    // An offer that came through an inbox would be an error of the benchmark.
    assert_eq!(latency["jobs"], 50, "{latency}");
    assert!(figure(&throughput, "batched_lives_per_s") > 0.0, "{throughput}");
    for row in idle["rows"].as_array().unwrap() {
        assert_eq!((figure(row, "store_ops_per_day"), figure(row, "leadership_ops_per_day")), (0.0, 0.0), "{row}");
    }
}

// [P3]
#[test]
fn depth_is_measured_as_ratios() {
    let found = measured(&["depth", "--stored", "2000"]);

    for ratio in ["submit_ratio", "dispatch_ratio", "claim_ratio", "list_ratio", "filter_ratio"] {
        assert!(figure(&found, ratio) > 0.0, "{found}");
    }
}

// [P7]
#[test]
fn every_client_of_a_fan_out_sees_every_event() {
    let found = measured(&["fanout", "--clients", "250", "--rate", "5", "--seconds", "2"]);

    let counts = [&found["clients"], &found["gaps"], &found["behind"]].map(|count| count.as_u64().unwrap());
    assert_eq!(counts, [250, 0, 0], "{found}");
    // Submitted, dispatched, granted, started, completed, shipped.
    assert!(figure(&found, "frames") >= 250.0 * 10.0 * 6.0, "{found}");
    assert!(figure(&found, "get_p99_ms") > 0.0, "{found}");
}

// [I14] [P4]
#[test]
fn idle_is_measured_in_every_mode_and_costs_no_store_operation_and_claims_only_when_polling() {
    let found = measured(&["idle", "--factories", "8", "--seconds", "6"]);

    let rows: Vec<_> = found["rows"].as_array().unwrap().iter().map(|row| (&row["mode"], &row["factories"])).collect();
    let eight = Value::from(8);
    assert_eq!(rows, [(&"poll".into(), &eight), (&"gate".into(), &eight), (&"push".into(), &eight)]);
    for row in found["rows"].as_array().unwrap() {
        assert_eq!(figure(row, "store_ops_per_min"), 0.0, "{row}");
        assert_eq!(figure(row, "claims_per_min") > 0.0, row["mode"] == "poll", "{row}");
        // A loop that never sleeps takes a whole core.
        assert!((0.0..60.0).contains(&figure(row, "cpu_percent")), "{row}");
    }
}

// [P4]
#[test]
fn a_fleet_without_factories_is_measured_too_unless_told_otherwise() {
    let help = Machine::new().giga(&["bench", "idle", "--help"]);
    assert!(help.stdout.contains("[default: 0 10 100 1000]"), "{}", help.stdout);

    let found = measured(&["idle", "--factories", "0", "--seconds", "3"]);

    let rows = found["rows"].as_array().unwrap();
    let figures = rows.iter().map(|row| (figure(row, "factories"), figure(row, "claims_per_min")));
    assert_eq!(figures.collect::<Vec<_>>(), [(0.0, 0.0); 3]);
}

// [P5]
#[test]
fn decisions_are_measured_for_small_and_large_fleets() {
    let found = measured(&["decide"]);

    let rows = found["rows"].as_array().unwrap();
    let sizes: Vec<_> = rows.iter().map(|row| (figure(row, "factories"), figure(row, "eligible"))).collect();
    assert_eq!(sizes, [(10., 10.), (1_000., 1_000.), (1_000., 10.), (10_000., 10_000.), (10_000., 10.)]);
    assert!(rows.iter().all(|row| figure(row, "us_per_decision") > 0.0), "{found}");
}

// [P6]
#[test]
fn memory_is_measured_with_stored_and_open_jobs() {
    let found = measured(&["memory", "--stored", "1000", "--open", "50", "--resident", "100"]);

    assert_eq!((figure(&found, "stored"), figure(&found, "open")), (1_000., 100.));
    // The start was timed with fewer open jobs than the memory was read with, and the report states it.
    assert_eq!((figure(&found, "start_open"), &found["start_ms"]), (50., &found["rows"][0]["start_ms"]));
    assert!(figure(&found, "rss_mb") > 1.0 && figure(&found, "start_ms") > 1.0, "{found}");
}

// [P5] [P6]
#[test]
fn a_benchmark_refuses_what_it_must_not_touch() {
    let refused = [
        (&["--api", "http://127.0.0.1:9", "--token", "x", "bench", "memory"][..], "leave --api away"),
        (&["--api", "http://127.0.0.1:9", "--token", "x", "bench", "depth"][..], "leave --api away"),
        (&["--api", "http://127.0.0.1:9", "--token", "x", "bench", "decide"][..], "leave --api away"),
        (&["--api", "https://fleet.example", "--token", "x", "bench", "latency"][..], "is not on this machine"),
        (&["bench", "depth", "--store", "postgres://giga@db.example/fleet"][..], "say `--store postgres`"),
        (
            &["--api", "http://127.0.0.1:9", "--token", "x", "bench", "latency", "--broker", "nats"][..],
            "leave --api away",
        ),
    ];

    for (args, why) in refused {
        let ran = Machine::new().giga(args);

        assert_eq!(ran.code, Some(2), "{ran:?}");
        assert!(ran.stderr.contains(why), "{}", ran.stderr);
    }
}

/// What stops or disturbs the benchmark.
type Ending = fn(&Fleet, &Child);

/// What a coordinator has of factories, tokens, modes, products and jobs that are not over.
fn all_of(fleet: &Fleet) -> [Value; 5] {
    let open = ["queued", "blocked", "assigned", "building", "review", "testing"].map(|stage| ["--stage", stage]);
    let open = [&["jobs", "--limit", "1000"], open.as_flattened()].concat();
    let items = |args: &[&str]| fleet.json(args)[0]["items"].clone();
    let tokens = items(&["token", "list"]).as_array().unwrap().iter().map(|token| token["name"].clone()).collect();
    let mode = fleet.json(&["mode"]).remove(0);
    [items(&["factory", "list"]), tokens, mode, items(&["product", "list"]), items(&open)]
}

/// Starts a benchmark on the fleet's coordinator, stops it once it `is_at_work`, and returns its outcome.
fn ended(fleet: &Fleet, bench: &[&str], is_at_work: impl Fn() -> bool, ending: Ending) -> Option<i32> {
    let api = fleet.machine.read("data/endpoint");
    let args = [&["--api", api.trim(), "--quiet", "bench"], bench].concat();
    let mut child = fleet.machine.start_into("bench.log", &args, &[]);
    fleet.until("a benchmark at work", is_at_work);
    ending(fleet, &child);
    fleet.until("the end of the benchmark", || child.try_wait().unwrap().is_some());
    child.wait().unwrap().code()
}

// [P4]
#[test]
fn a_coordinator_that_runs_already_is_measured_and_left_as_it_was() {
    let mut fleet = Fleet::serve();
    let api = fleet.machine.read("data/endpoint").trim().to_owned();
    let bench = ["--api", &api, "--json", "--quiet", "bench", "latency", "--rate", "20", "--seconds", "1"];
    let before = all_of(&fleet);

    let first = fleet.machine.giga(&bench);
    let [factories, tokens, mode, products, open] = all_of(&fleet);
    let second = fleet.machine.giga(&bench);
    let again = all_of(&fleet);
    fleet.end(Signal::TERM);

    for ran in [&first, &second] {
        assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{ran:?}");
        assert_eq!(figure(&serde_json::from_str(&ran.stdout).unwrap(), "jobs"), 20.0);
    }
    assert_eq!([&factories, &tokens, &mode, &open], [&before[0], &before[1], &before[2], &before[4]]);
    let names: Vec<_> = products.as_array().unwrap().iter().map(|product| &product["id"]).collect();
    assert_eq!(names, ["bench", "default"], "one product is made, and used again");
    assert_eq!(again, [factories, tokens, mode, products, open]);
}

// [P4]
#[test]
fn a_benchmark_that_is_interrupted_puts_the_mode_back_and_touches_no_product_of_somebody_else() {
    let mut fleet = Fleet::serve();
    fleet.json(&["product", "set", "bench", "--weight", "7"]);
    fleet.json(&["mode", "gate", "--product", "bench"]);
    let [factories, tokens, mode, products, open] = all_of(&fleet);

    let is_at_work = || fleet.json(&["mode"])[0]["products"].as_object().is_some_and(|modes| modes.len() > 1);
    let interrupt: Ending = |_, child| send(Signal::INT, child);
    let code = ended(&fleet, &["idle", "--factories", "3", "--seconds", "600"], is_at_work, interrupt);
    let after = all_of(&fleet);
    fleet.end(Signal::TERM);

    assert_eq!(code, Some(1), "{}", fleet.machine.read("bench.log"));
    assert_eq!([&after[0], &after[1], &after[2], &after[4]], [&factories, &tokens, &mode, &open]);
    let is_theirs = |product: &&Value| product["id"] == "bench" || product["id"] == "default";
    let theirs: Vec<_> = after[3].as_array().unwrap().iter().filter(is_theirs).cloned().collect();
    assert_eq!(Value::from(theirs), products);
}

// [P4]
#[test]
fn a_benchmark_that_is_stopped_or_fails_takes_back_jobs_that_wait_factories_and_tokens() {
    let mut fleet = Fleet::serve();
    // Nothing is offered in this mode: the jobs stay where they are.
    fleet.json(&["mode", "poll"]);
    let before = all_of(&fleet);
    let terminate: Ending = |_, child| send(Signal::TERM, child);
    let revoke: Ending = |fleet, _| {
        let tokens = fleet.json(&["token", "list"]).remove(0);
        let of_factory = |token: &&Value| token["grant"]["role"] == "factory";
        let token = tokens["items"].as_array().unwrap().iter().find(of_factory).unwrap()["id"].clone();
        fleet.json(&["token", "revoke", token.as_str().unwrap()]);
    };

    let is_at_work = || all_of(&fleet)[4].as_array().unwrap().len() > 10;
    let outcomes = [terminate, revoke].map(|ending| {
        let code = ended(&fleet, &["latency", "--rate", "50", "--seconds", "600"], is_at_work, ending);
        (code, all_of(&fleet))
    });
    fleet.end(Signal::TERM);

    for (code, after) in outcomes {
        assert_eq!(code, Some(1), "{}", fleet.machine.read("bench.log"));
        assert_eq!([&after[0], &after[1], &after[2], &after[4]], [&before[0], &before[1], &before[2], &before[4]]);
    }
}

// [P4]
#[test]
fn of_two_benchmarks_at_once_each_takes_back_only_its_own_jobs() {
    let mut fleet = Fleet::serve();
    // Nothing is offered in this mode: the jobs stay where they are.
    fleet.json(&["mode", "poll"]);
    let api = fleet.machine.read("data/endpoint");
    let bench = ["latency", "--rate", "50", "--seconds", "600"];
    let args = [&["--api", api.trim(), "--quiet", "bench"][..], &bench].concat();
    let terminate: Ending = |_, child| send(Signal::TERM, child);
    let needed = || {
        let open = all_of(&fleet)[4].clone();
        open.as_array().unwrap().iter().map(|job| job["capabilities"].to_string()).collect::<Vec<_>>()
    };
    let mut other = fleet.machine.start_into("other.log", &args, &[]);
    fleet.until("another benchmark at work", || needed().len() > 10);
    let of_the_other = needed()[0].clone();

    let code = ended(&fleet, &bench, || needed().iter().any(|need| *need != of_the_other), terminate);
    let left = needed();
    send(Signal::TERM, &other);
    fleet.until("the end of the other", || other.try_wait().unwrap().is_some());
    let none = needed();
    fleet.end(Signal::TERM);

    assert_eq!(code, Some(1), "{}", fleet.machine.read("bench.log"));
    assert!(left.len() > 10 && left.iter().all(|need| *need == of_the_other), "{left:?}");
    assert_eq!(none, Vec::<String>::new(), "{}", fleet.machine.read("other.log"));
}
