//! What a machine can do reaches the scheduler as soon as it changes.

use std::os::unix::fs::PermissionsExt;

use rustix::process::Signal;

use crate::fleet::Fleet;

// [F1] [§12]
#[test]
fn a_tool_a_repository_and_a_setting_that_come_while_the_factory_runs_let_a_waiting_job_go() {
    let mut fleet = Fleet::new();
    let (bin, base) = (fleet.machine.path().join("bin"), fleet.machine.path().join("repos"));
    for folder in [&bin, &base] {
        std::fs::create_dir(folder).unwrap();
    }
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    fleet.start(&["up"], &[("PATH", &path), ("AQ_FLEET_REPO_BASE", base.to_str().unwrap())]);
    fleet.until_connected();
    fleet
        .machine
        .write("odd.md", "---\ntitle: Odd\ncapabilities: [node:97, repo:late, has:signing-key]\n---\nDo it.\n");
    let submitted = fleet.json(&["submit", "odd.md"]);
    let id = submitted[0]["job"]["id"].as_str().unwrap();

    let tool = bin.join("node");
    std::fs::write(&tool, "#!/bin/sh\necho v97.0.0\n").unwrap();
    std::fs::set_permissions(&tool, std::fs::Permissions::from_mode(0o755)).unwrap();
    crate::repository::make(&base, "late");

    let config = fleet.machine.read("giga.toml");
    fleet.machine.write("giga.toml", &config.replace("[factory]\n", "[factory]\ncapabilities = ['has:signing-key']\n"));

    // The timer alone would take five minutes.
    fleet.until("the end of the job", || fleet.json(&["job", id])[0]["job"]["stage"] == "shipped");
    let factories = fleet.json(&["factory", "list"]);
    let offers = factories[0]["items"][0]["capabilities"].to_string();
    assert!(["node:97", "has:node", "repo:late"].iter().all(|token| offers.contains(token)), "{offers}");
    assert_eq!(fleet.end(Signal::TERM), Some(0));
}

// [F1] [§12]
#[test]
fn what_counts_from_the_next_start_and_what_cannot_be_read_is_said_and_the_factory_goes_on_as_it_is() {
    let mut fleet = Fleet::up();
    let config = fleet.machine.read("giga.toml");
    let says = |fleet: &Fleet, words: &str| fleet.until(words, || fleet.machine.read("long-lived.log").contains(words));

    fleet.machine.write("giga.toml", &format!("{config}\n[factory.engines.other]\nargv = ['true']\n"));
    says(&fleet, "count from the next start of this factory: factory.engines");
    fleet.machine.write("giga.toml", "nonsense");
    says(&fleet, "The changed settings are not used: giga.toml:1");

    fleet.machine.write("giga.toml", &config);
    let submitted = fleet.json(&["submit", "job.md"]);
    let id = submitted[0]["job"]["id"].as_str().unwrap();
    let waited = fleet.machine.giga(&["wait", id, "--until", "testing", "--timeout", "60s"]);
    assert_eq!(waited.code, Some(0), "{}", waited.stderr);
    assert_eq!(fleet.end(Signal::TERM), Some(0));
}

// [F1]
#[test]
fn the_doctor_shows_what_a_factory_here_would_offer_by_looking_and_by_configuration() {
    let fleet = Fleet::new();
    fleet.machine.write(
        "giga.toml",
        "[factory]\ncapabilities = ['has:signing-key']\n[factory.tools]\nsh = []\nno-such-tool = []\n",
    );

    let doctor = fleet.machine.giga(&["doctor"]);

    let line = doctor.stdout.lines().find(|line| line.contains("capabilities  ")).unwrap_or_default();
    let words: Vec<&str> = line.split_whitespace().collect();
    assert!(["has:signing-key", "has:sh", "has:git"].iter().all(|token| words.contains(token)), "{}", doctor.stdout);
    assert!(!line.contains("no-such-tool"), "{line}");
}
