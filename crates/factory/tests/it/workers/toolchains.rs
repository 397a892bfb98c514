//! Toolchains of the operator, as jobs in the sandbox find them.

use domain::StageName;
use sandbox::SandboxMode;
use testkit::host::TestRemote;
use testkit::requirement::Requirement;

use super::LONG;
use super::agent_access::can_be_confined;
use super::fleet::{Fleet, Line};
use super::worker_process::{Plant, settings};

/// `false` with a warning where there is no cargo that rustup manages.
fn has_rustup() -> bool {
    let answer = std::process::Command::new("rustup").arg("--version").output();
    let is_there = answer.is_ok_and(|answer| answer.status.success());
    if !is_there {
        Requirement::Rustup.skip("rustup is not installed");
    }
    is_there
}

/// An engine that writes a small crate, builds it, and prints where cargo keeps its downloads.
const ENGINE: &str = r#"set -e; mkdir src; echo target > .gitignore; echo 'fn main() {}' > src/main.rs
    printf '[package]\nname = "tiny"\nversion = "0.1.0"\nedition = "2021"\n' > Cargo.toml
    cargo build --offline --quiet; printenv CARGO_HOME > where.md"#;

const VERIFY: &str = r#"verify:
  - cargo --version
  - cargo build --offline --quiet && ./target/debug/tiny
  - touch "$CARGO_HOME/used" && ! touch "$RUSTUP_HOME/planted"
"#;

// [F1]
#[tokio::test]
async fn the_operators_cargo_builds_in_the_sandbox() {
    if !can_be_confined() || !has_rustup() {
        return;
    }
    let (forge, fleet) = (TestRemote::new(), Fleet::start(LONG).await);
    let line = Line::to(&fleet).await;
    let mut own = settings("rustic", &forge, ENGINE);
    own.confine = SandboxMode::Required;
    let _plant = Plant::start(own, fleet.enrol("rustic", &line).await);

    let job = fleet.submit(&format!("capabilities: ['has:cargo']\nretry: {{max: 1}}\n{VERIFY}")).await;

    let is_over = |stage| matches!(stage, StageName::Failed | StageName::DeadLetter);
    let done = fleet.until(job, "an end", |view| view.promoted_sha.is_some() || is_over(view.stage)).await;
    let runs = fleet.runs(job).await;
    let sha = done.promoted_sha.unwrap_or_else(|| panic!("{runs:#?}"));
    let cache = forge.file_at(&sha, "where.md").unwrap();
    assert_eq!(cache.trim_end(), forge.path("rustic/caches/default/notes/toolchain-cargo").to_str().unwrap());
}
