//! `giga submit`

use scheduler::{ExplainedOutcome, Explanation, Unplaced, Weights};
use serde_json::{Value, json};

use crate::coordinator::{self, Coordinator};
use crate::giga::Machine;

const GOOD: &str = "---\ntitle: Tidy up\n---\nTidy up.\n";
const BAD: &str = "---\ntitle: Tidy up\nbudget:\n  usd: much\n---\nTidy up.\n";

#[test]
fn a_bad_manifest_is_named_by_file_and_line_without_any_server() {
    let machine = Machine::new();
    machine.write("bad.md", BAD);

    let ran = machine.giga(&["submit", "bad.md"]);

    assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), ""));
    let mut lines = ran.stderr.lines();
    assert!(lines.next().unwrap().starts_with("bad.md:4: budget.usd: "), "{}", ran.stderr);
    assert_eq!(lines.next(), Some("error: bad.md has errors: nothing was submitted"));
}

#[test]
fn programs_get_the_findings_as_one_line_of_json() {
    let ran = Machine::new().giga_with(&["submit", "-", "--json"], &[], BAD);

    let problem: Value = serde_json::from_str(&ran.stderr).unwrap();
    assert_eq!(
        (ran.code, problem["code"].as_str(), problem["exit"].as_u64()),
        (Some(1), Some("bad_manifest"), Some(1))
    );
    let finding = &problem["more"]["findings"][0];
    assert_eq!((finding["file"].as_str(), finding["line"].as_u64()), (Some("<stdin>"), Some(4)));
}

#[test]
fn an_unknown_key_warns_unless_it_is_forbidden() {
    let machine = Machine::new();
    machine.write("job.md", "---\ntitle: Tidy up\ncolour: red\n---\n");

    let strict = machine.giga(&["submit", "--strict", "job.md"]);
    let lenient = machine.giga(&["submit", "job.md"]);

    assert_eq!(strict.code, Some(1));
    assert!(strict.stderr.starts_with("job.md:3: colour: "), "{}", strict.stderr);
    assert!(lenient.stderr.starts_with("job.md:3: warning: colour: "), "{}", lenient.stderr);
    assert_eq!(lenient.code, Some(6), "it went on to look for a token");
}

#[test]
fn a_file_that_is_not_there_is_not_found() {
    let ran = Machine::new().giga(&["submit", "no.md"]);

    let expected = "error: no file no.md\nhint: `giga init` writes a sample, job.md\n";
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(5), expected));
}

// [B2]
#[test]
fn the_id_is_the_data_and_the_forecast_a_word_beside_it() {
    let machine = Machine::new();
    machine.write("job.md", GOOD);
    let fleet = Coordinator::start();
    fleet.expect("POST /jobs", coordinator::Answer::json(201, &submitted()));

    let ran = machine.giga_with(&["submit", "job.md", "--api", fleet.api()], &[("GIGA_TOKEN", "x")], "");

    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "0190f3a4-7c1e-7b52-9d0a-1f2e3d4c5b6a\n"), "{ran:?}");
    let expected = "warning: job.md: submitted d4c5b6a \"Tidy up\": queued, but no factory can run it: no factory is enrolled: start one with `giga factory run`\n";
    assert_eq!(ran.stderr, expected);
}

fn submitted() -> Value {
    let why = Unplaced::NoFactories;
    let shape = domain::Shape {
        product: domain::ProductId::default_product(),
        repo: None,
        capabilities: Default::default(),
        engines: Default::default(),
        pin: None,
        identity: None,
    };
    let forecast = Explanation {
        shape,
        text: why.to_string(),
        answer: ExplainedOutcome::Waits { why, unplaceable: true },
        weights: Weights::default(),
        factories: Vec::new(),
    };
    json!({"job": crate::terminal_escapes::job("Tidy up"), "created": true, "forecast": forecast})
}

#[test]
fn a_dry_run_fails_where_no_factory_can_run_the_job() {
    let machine = Machine::new();
    machine.write("job.md", GOOD);
    let fleet = Coordinator::start();
    fleet.expect("POST /jobs?dryRun=true", coordinator::Answer::json(200, &submitted()));

    let args = ["submit", "job.md", "--dry-run", "--api", fleet.api()];
    let ran = machine.giga_with(&args, &[("GIGA_TOKEN", "x")], "");

    assert_eq!(ran.code, Some(1), "{ran:?}");
    let expected = "error: no factory can run job.md: no factory is enrolled: start one with `giga factory run`\n";
    assert!(ran.stderr.ends_with(expected), "{}", ran.stderr);
}

#[test]
fn a_submit_names_the_dependencies_that_the_job_waits_for() {
    let machine = Machine::new();
    machine.write("job.md", GOOD);
    let fleet = Coordinator::start();
    let mut answer = submitted();
    let text = "waiting for 4f1c689 \"Paint the gate\" (queued)";
    answer["job"]["stage"] = json!("blocked");
    answer["job"]["waiting"] = json!({"code": "dependencies", "text": text});
    answer["forecast"]["answer"] = json!({"outcome": "waits", "why": {"code": "all_busy"}, "unplaceable": false});
    fleet.expect("POST /jobs", coordinator::Answer::json(201, &answer));

    let ran = machine.giga_with(&["submit", "job.md", "--api", fleet.api()], &[("GIGA_TOKEN", "x")], "");

    assert_eq!(ran.stderr, format!("job.md: submitted d4c5b6a \"Tidy up\": blocked, {text}\n"));
}
