//! Engines that leave their own sandbox to the factory's.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use engines::{EngineConfig, EngineKind};
use factory::WorkerSettings;
use sandbox::{EnvironmentConfig, SandboxMode};
use testkit::host::TestRemote;

use super::LONG;
use super::agent_access::can_be_confined;
use super::fleet::{Fleet, Line};
use super::worker_process::{Plant, settings};
use crate::closed_directory::closed_place;
use crate::golden;

/// A worker whose only engine is a script that plays Codex.
fn playing_codex(name: &str, forge: &TestRemote, script: &str) -> WorkerSettings {
    let program = forge.path(&format!("{name}-codex"));
    let opening = "[ \"$1\" = --version ] && { echo 'codex-cli 0.166.0'; exit 0; }\ncat > /dev/null\n";
    // Beside the program: the sandbox closes the operator's home, and the checkout may be in it.
    let stream = forge.path(&format!("{name}-codex.jsonl"));
    fs::copy(golden::file("codex/real-ok.jsonl"), &stream).unwrap();
    fs::write(&program, format!("#!/bin/sh\n{opening}{script}\ncat '{}'\n", stream.display())).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let set = [("CODEX_API_KEY".to_owned(), "a-key-of-nobody".to_owned())].into();
    let engine = EngineConfig {
        kind: EngineKind::named("codex"),
        program: Some(program.to_str().unwrap().to_owned()),
        environment: EnvironmentConfig { set, ..EnvironmentConfig::default() },
        ..EngineConfig::default()
    };
    let engines = [("codex".parse().unwrap(), engine)].into();
    WorkerSettings { engines, confine: SandboxMode::Required, ..settings(name, forge, "exit 1") }
}

// [T8]
#[tokio::test]
async fn codex_gives_up_its_own_sandbox_only_for_one_that_keeps_it_from_writing_elsewhere() {
    if !can_be_confined() {
        return;
    }
    let (forge, fleet) = (TestRemote::new(), Fleet::start(LONG).await);
    let line = Line::to(&fleet).await;
    // Temporary directories are writable for all accounts, so that the target file is elsewhere.
    let outside = closed_place();
    fs::write(outside.path().join("profile"), "untouched").unwrap();
    let script = format!(
        "echo \"$@\" > arguments.txt\n\
         {{ echo evil >> '{0}/profile'; echo evil > '{0}/canary'; }} 2> /dev/null\n\
         echo mine > \"$CODEX_HOME/own\" && cat \"$CODEX_HOME/own\" > made.txt",
        outside.path().display()
    );
    let own = playing_codex("sandboxed", &forge, &script);
    let plant = Plant::start(own, fleet.enrol("sandboxed", &line).await);

    let job = fleet.submit("").await;

    let view = fleet.until(job, "an end", |view| view.promoted_sha.is_some() || view.attempts > 0).await;
    let runs = fleet.runs(job).await;
    let sha = view.promoted_sha.unwrap_or_else(|| panic!("{runs:#?}"));
    let arguments = forge.file_at(&sha, "arguments.txt").unwrap();
    assert!(arguments.contains("-s danger-full-access"), "the sandbox stands in for its sandbox: {arguments}");
    assert_eq!(forge.file_at(&sha, "made.txt").as_deref(), Some("mine\n"), "its own folder is its own");
    assert_eq!(fs::read_to_string(outside.path().join("profile")).unwrap(), "untouched");
    assert!(!outside.path().join("canary").exists());
    plant.stop().await;
}
