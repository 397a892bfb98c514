//! `giga gc`

use std::process::Command;

use rustix::process::Signal;
use serde_json::Value;

use crate::fleet::Fleet;
use crate::giga::Machine;
use crate::processes;

fn our_branches(fleet: &Fleet) -> usize {
    let repo = fleet.machine.path().join("work.git");
    let listed = Command::new("git").current_dir(repo).args(["for-each-ref", "refs/heads/aq"]).output().unwrap();
    String::from_utf8(listed.stdout).unwrap().lines().count()
}

// [F7] [U3] [B10]
#[test]
fn a_clean_up_beside_a_working_factory_removes_what_a_shipped_job_left() {
    let fleet = Fleet::up();
    let submitted = fleet.json(&["submit", "job.md", "--wait"]);
    let id = submitted[0]["job"]["id"].as_str().unwrap();
    fleet.json(&["ship", id, "--wait"]);
    let before = our_branches(&fleet);

    let dry = fleet.json(&["gc", "--dry-run"]);
    let still = our_branches(&fleet);
    let done = fleet.json(&["gc"]);
    let shown = fleet.machine.giga(&["gc"]);
    let listed = fleet.machine.giga(&["gc", "--verbose"]);

    let told = |report: &Value| report[0]["removed"].as_array().unwrap().len();
    assert_eq!((before, still, our_branches(&fleet)), (1, 1, 0), "{dry:?}");
    assert_eq!((told(&dry[0]), told(&done[0])), (1, 1), "{done:?}");
    assert_eq!((dry[0][0]["dryRun"].as_bool(), done[0][0]["dryRun"].as_bool()), (Some(true), Some(false)));
    assert_eq!(shown.code, Some(0), "{}", shown.stderr);
    assert!(shown.stderr.contains("0 B freed, 0 removed"), "{}", shown.stderr);
    let kept = &done[0][0]["kept"][0];
    let told = (kept["kind"].as_str(), kept["name"].as_str(), kept["bytes"].as_u64().is_some_and(|bytes| bytes > 1024));
    assert_eq!(told, (Some("mirror"), Some("work"), true), "{done:?}");
    let row = |text: &str| text.lines().find(|line| line.contains("mirror")).unwrap_or_default().to_owned();
    assert!(row(&shown.stdout).starts_with("kept  1 mirror, ") && shown.stdout.contains("KiB: "), "{}", shown.stdout);
    assert!(listed.stdout.contains("KIND") && row(&listed.stdout).contains("KiB"), "{}", listed.stdout);
    assert!(!listed.stderr.contains("DEBUG"), "{}", listed.stderr);
}

// [F7]
#[test]
fn a_machine_without_a_factory_has_nothing_to_clean_up() {
    let machine = Machine::new();

    let ran = machine.giga(&["gc"]);

    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(ran.stderr.contains("nothing to clean up"), "{}", ran.stderr);
}

/// The operator joined the machine with variables of one shell and has no token of their own there.
// [F7]
#[test]
fn a_joined_machine_cleans_up_with_the_factorys_token() {
    let fleet = Fleet::serve();
    let api = fleet.machine.read("data/endpoint").trim().to_owned();
    let made = fleet.json(&["token", "create", "--join", "--factory", "far"]);
    let join = made[0]["secret"].as_str().unwrap();
    let far = Machine::new();
    let variables = [("GIGA_API", api.as_str()), ("GIGA_JOIN", join)];
    let mut factory = far.start_into("far.log", &["factory", "run", "--name", "far"], &variables);
    fleet.until_connected();
    processes::send(Signal::TERM, &factory);
    factory.wait().unwrap();
    let state = far.path().join("home/.local/share/gigafactory/factory");
    let worktree = "0190f3a4-7c1e-7b52-9d0a-1f2e3d4c5b6a-e1";
    std::fs::create_dir_all(state.join("worktrees").join(worktree)).unwrap();

    let ran = far.giga(&["gc", "--json"]);
    let doctor = far.giga(&["doctor", "--json"]);

    assert_eq!(ran.code, Some(0), "{}\n{}", ran.stderr, far.read("far.log"));
    let report: Value = serde_json::from_str(&ran.stdout).unwrap();
    let kept = &report[0]["kept"][0];
    let expected = (Some(worktree), Some("the coordinator does not know its job"));
    assert_eq!((kept["name"].as_str(), kept["why"].as_str()), expected, "{report}");
    let found: Value = serde_json::from_str(&doctor.stdout).unwrap();
    let check = |name: &str| {
        let checks = found["checks"].as_array().unwrap();
        checks.iter().find(|check| check["name"] == name).cloned().unwrap_or_default()
    };
    assert_eq!(check("factory state")["verdict"], "ok", "{}", doctor.stdout);
    assert_eq!(check("factory runs")["verdict"], "ok", "{}", doctor.stdout);
    let coordinator = check("factory coordinator");
    assert_eq!(coordinator["verdict"], "ok", "{}", doctor.stdout);
    assert!(coordinator["found"].as_str().unwrap().contains(&api), "{coordinator}");
}
