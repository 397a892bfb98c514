//! `giga gc`

use std::process::Command;

use serde_json::Value;

use crate::fleet::Fleet;
use crate::giga::Machine;

fn our_branches(fleet: &Fleet) -> usize {
    let repo = fleet.machine.path().join("work.git");
    let listed = Command::new("git").current_dir(repo).args(["for-each-ref", "refs/heads/aq"]).output().unwrap();
    String::from_utf8(listed.stdout).unwrap().lines().count()
}

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

#[test]
fn a_machine_without_a_factory_has_nothing_to_clean_up() {
    let machine = Machine::new();

    let ran = machine.giga(&["gc", "--token", "giga_adm_none"]);

    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(ran.stderr.contains("nothing to clean up"), "{}", ran.stderr);
}
