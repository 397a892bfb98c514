//! What the operator opens for agents that is closed by default, and the other way round [T8].

use std::fs;
use std::path::{Path, PathBuf};

use engines::EngineConfig;
use factory::WorkerSettings;
use sandbox::SandboxMode;
use testkit::host::TestRemote;

use super::LONG;
use super::agent_access::can_be_confined;
use super::fleet::{Fleet, Line};
use super::worker_process::{Plant, settings, with_setup};
use crate::closed_directory::closed_place;

/// A home with toolchains, one of them hidden on purpose, a directory of programs on the `PATH`, and a program that a
/// link in it leads to.
fn home_in(place: &Path) -> PathBuf {
    let home = place.join("home");
    for folder in
        ["go/pkg/mod", ".rustup/toolchains", ".local/lib", ".local/share/pnpm", ".pyenv/shims", "bin", "apps/tool"]
    {
        fs::create_dir_all(home.join(folder)).unwrap();
    }
    fs::write(home.join("apps/tool/tool"), "").unwrap();
    fs::write(home.join("giga.toml"), "").unwrap();
    std::os::unix::fs::symlink(home.join("apps/tool/tool"), home.join("bin/tool")).unwrap();
    home
}

/// Tries to write to the toolchains and to what must not change.
fn writer(home: &Path) -> String {
    format!(
        "cd '{}'; for file in go/pkg/mod/x .rustup/toolchains/x .local/lib/x .local/share/pnpm/x .pyenv/shims/x bin/x \
         apps/tool/tool giga.toml; do (echo x >> $file) 2> /dev/null && echo $file >> \"$OLDPWD/written.txt\"; done; true",
        home.display()
    )
}

/// What an engine could write to in a home that is closed by default, and that `open` opens for it.
async fn written(name: &str, open: impl FnOnce(&mut WorkerSettings, &Path)) -> String {
    let (forge, fleet) = (TestRemote::new(), Fleet::start(LONG).await);
    let line = Line::to(&fleet).await;
    let place = closed_place();
    let home = home_in(place.path());
    // Spelled in another way than the factory knows it by.
    let spelled = place.path().join("spelled");
    std::os::unix::fs::symlink(&home, &spelled).unwrap();
    let mut own = settings(name, &forge, &writer(&home));
    own.confine = SandboxMode::Required;
    own.git.home = Some(home.clone());
    let path = format!("{}:{}", home.join("bin").display(), std::env::var("PATH").unwrap());
    own.environment.set.insert("PATH".to_owned(), path);
    own.keep(&home.join("giga.toml"));
    own.hidden.push(home.join(".pyenv"));
    open(&mut own, &spelled);
    let _plant = Plant::start(own, fleet.enrol(name, &line).await);

    let job = fleet.submit("").await;

    let view = fleet.until(job, "an end", |view| view.promoted_sha.is_some() || view.attempts > 0).await;
    match view.promoted_sha {
        Some(sha) => forge.file_at(&sha, "written.txt").unwrap_or_default(),
        None => String::new(),
    }
}

/// All toolchains and nothing that must not change.
const TOOLCHAINS: &str = "go/pkg/mod/x\n.rustup/toolchains/x\n.local/lib/x\n.local/share/pnpm/x\n";

// [T8]
#[tokio::test]
async fn toolchains_in_a_home_that_is_opened_for_writing_can_be_written_to_and_programs_on_the_path_cannot() {
    if can_be_confined() {
        let written = written("wide", |own, home| own.writable = vec![home.to_owned()]).await;

        assert_eq!(written, TOOLCHAINS);
    }
}

#[tokio::test]
async fn toolchains_in_an_engines_own_home_can_be_written_to_and_programs_on_the_path_cannot() {
    if can_be_confined() {
        let own_home = |own: &mut WorkerSettings, home: &Path| {
            own.engines.values_mut().for_each(|engine| engine.environment.home = Some(home.to_owned()));
        };

        let written = written("at-home", own_home).await;

        assert_eq!(written, TOOLCHAINS);
    }
}

// [T8]
#[tokio::test]
async fn an_engines_login_is_hidden_from_other_agents_wherever_it_is() {
    if !can_be_confined() {
        return;
    }
    let (forge, fleet) = (TestRemote::new(), Fleet::start(LONG).await);
    let line = Line::to(&fleet).await;
    let place = closed_place();
    let (named, home, other) = (place.path().join("login"), place.path().join("home"), place.path().join("other"));
    for folder in [&named, &home.join(".codex"), &other] {
        fs::create_dir_all(folder).unwrap();
        fs::write(folder.join("file"), "to be read").unwrap();
    }
    let script = format!(
        "(cd '{}' && cat login/file home/.codex/file other/file) > seen.txt 2> /dev/null; true",
        place.path().display()
    );
    let mut own = settings("curious", &forge, &script);
    own.confine = SandboxMode::Required;
    // Opened as a whole by an operator who forgot the credential.
    own.readable = vec![place.path().to_owned()];
    let mut claude = EngineConfig { program: Some("nothing-of-the-kind".to_owned()), ..EngineConfig::default() };
    claude.environment.set = [("CLAUDE_CONFIG_DIR".to_owned(), named.to_str().unwrap().to_owned())].into();
    let mut codex = EngineConfig { program: Some("nothing-of-the-kind".to_owned()), ..EngineConfig::default() };
    codex.environment.home = Some(home);
    own.engines.extend([("claude".parse().unwrap(), claude), ("codex".parse().unwrap(), codex)]);
    let _plant = Plant::start(own, fleet.enrol("curious", &line).await);

    let job = fleet.submit("engine: command\n").await;

    let view = fleet.until(job, "an end", |view| view.promoted_sha.is_some() || view.attempts > 0).await;
    let runs = fleet.runs(job).await;
    let sha = view.promoted_sha.unwrap_or_else(|| panic!("{runs:#?}"));
    assert_eq!(forge.file_at(&sha, "seen.txt").as_deref(), Some("to be read"));
}

/// What an engine has put into its work.
async fn seen(own: WorkerSettings, forge: &TestRemote, fleet: &Fleet, line: &Line) -> Option<String> {
    let name = own.name.as_str().to_owned();
    let _plant = Plant::start(own, fleet.enrol(&name, line).await);
    let job = fleet.submit("engine: command\n").await;
    let view = fleet.until(job, "an end", |view| view.promoted_sha.is_some() || view.attempts > 0).await;
    let runs = fleet.runs(job).await;
    let sha = view.promoted_sha.unwrap_or_else(|| panic!("{runs:#?}"));
    forge.file_at(&sha, "seen.txt")
}

// [T8]
#[tokio::test]
async fn a_link_that_an_agent_left_in_its_home_hides_nothing_from_the_others() {
    if !can_be_confined() {
        return;
    }
    let (forge, fleet) = (TestRemote::new(), Fleet::start(LONG).await);
    let line = Line::to(&fleet).await;
    let place = closed_place();
    let (home, tools) = (place.path().join("home"), place.path().join("tools"));
    for folder in [&home, &tools] {
        fs::create_dir_all(folder).unwrap();
    }
    fs::write(tools.join("file"), "to be read").unwrap();
    std::os::unix::fs::symlink("/usr", home.join(".claude")).unwrap();
    std::os::unix::fs::symlink(&tools, home.join(".codex")).unwrap();
    let mut own = settings("linked", &forge, &format!("cat '{}/file' > seen.txt", tools.display()));
    own.confine = SandboxMode::Required;
    // Where the sources are below a temporary directory, it is in the operator's home, which is closed as a whole.
    own.readable = vec![tools];
    for engine in ["claude", "codex"] {
        let mut config = EngineConfig { program: Some("nothing-of-the-kind".to_owned()), ..EngineConfig::default() };
        config.environment.home = Some(home.clone());
        own.engines.insert(engine.parse().unwrap(), config);
    }

    assert_eq!(seen(own, &forge, &fleet, &line).await.as_deref(), Some("to be read"));
}

#[tokio::test]
async fn a_link_in_an_engines_home_does_not_open_the_factorys_state() {
    if !can_be_confined() {
        return;
    }
    let (forge, fleet) = (TestRemote::new(), Fleet::start(LONG).await);
    let line = Line::to(&fleet).await;
    let place = closed_place();
    let (home, state) = (place.path().join("home"), place.path().join("home/state"));
    fs::create_dir_all(&state).unwrap();
    fs::write(state.join("canary"), "canary").unwrap();
    fs::write(home.join("file"), "to be read").unwrap();
    std::os::unix::fs::symlink(&state, home.join(".rustup")).unwrap();
    let script = format!("cd '{}' && cat file state/canary > \"$OLDPWD/seen.txt\" 2> /dev/null; true", home.display());
    let mut own = settings("led", &forge, &script);
    own.confine = SandboxMode::Required;
    own.git.home = Some(home.clone());
    own.state = state;
    own.engines.values_mut().for_each(|engine| engine.environment.home = Some(home.clone()));

    assert_eq!(seen(own, &forge, &fleet, &line).await.as_deref(), Some("to be read"));
}

// [T8]
#[tokio::test]
async fn a_link_that_an_agent_left_in_the_place_of_a_home_opens_nothing() {
    if !can_be_confined() {
        return;
    }
    let (forge, fleet) = (TestRemote::new(), Fleet::start(LONG).await);
    let line = Line::to(&fleet).await;
    let place = closed_place();
    let (agents, operators) = (place.path().join("agents"), place.path().join("operators"));
    let (open, temporary) = (agents.join("home"), tempfile::tempdir().unwrap());
    for folder in [&agents, &operators] {
        fs::create_dir_all(folder).unwrap();
    }
    fs::write(operators.join("canary"), "canary").unwrap();
    for link in [&open, &agents.join("given"), &temporary.path().join("home")] {
        std::os::unix::fs::symlink(&operators, link).unwrap();
    }
    let script = format!("cat '{}/canary' > seen.txt 2> /dev/null; printf end >> seen.txt", operators.display());
    for (name, home) in [("in-write", open), ("in-tmp", temporary.path().join("home"))] {
        let mut own = settings(name, &forge, &script);
        own.confine = SandboxMode::Required;
        own.git.home = Some(operators.clone());
        own.writable = vec![agents.clone(), agents.join("given")];
        own.engines.values_mut().for_each(|engine| engine.environment.home = Some(home.clone()));

        assert_eq!(seen(own, &forge, &fleet, &line).await.as_deref(), Some("end"), "{name}");
    }
}

// [F3]
#[tokio::test]
async fn a_setup_command_that_may_not_write_somewhere_fails_with_the_setting_to_change() {
    if !can_be_confined() {
        return;
    }
    let (forge, fleet) = (TestRemote::new(), Fleet::start(LONG).await);
    let line = Line::to(&fleet).await;
    let mut own = with_setup(settings("installing", &forge, "true"), &["mkdir /usr/local/lib/installed"]);
    own.confine = SandboxMode::Required;
    let _plant = Plant::start(own, fleet.enrol("installing", &line).await);

    let job = fleet.submit("").await;

    let message = fleet.first_run(job).await.message.unwrap();
    assert!(message.contains("`mkdir /usr/local/lib/installed`") && message.contains("`write`"), "{message}");
}
