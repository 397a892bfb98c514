//! Engines with an operator's credential: the part that a job gets, and what is copied back.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use engines::{Allowance, ClaudeEngine, EngineConfig, EngineContext, EngineRequest, EngineRun, Prices, Prompt};
use factory::WorkerSettings;
use sandbox::Launcher;
use testkit::host::{TestRemote, clock, environment, eventually, job, roomy, run};

use super::LONG;
use super::agents::{playing, stream};
use super::fleet::{Fleet, Line};
use super::worker_process::Plant;

const OLD: &str = r#"{"claudeAiOauth":{"accessToken":"a1","refreshToken":"r1","expiresAt":1,"scopes":null}}"#;
const NEW: &str =
    r#"{"claudeAiOauth":{"accessToken":"a2","refreshToken":"r2","expiresAt":2,"scopes":["user:inference"]}}"#;

/// An operator's directory with a credential in it.
fn operators(forge: &TestRemote) -> PathBuf {
    let folder = forge.path("operators");
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join(".credentials.json"), OLD).unwrap();
    folder
}

/// The same worker, whose engine has its credential from there.
fn with_login(mut own: WorkerSettings, operators: &Path) -> WorkerSettings {
    for engine in own.engines.values_mut() {
        let folder = operators.to_str().unwrap().to_owned();
        engine.environment.set = [("CLAUDE_CONFIG_DIR".to_owned(), folder)].into();
    }
    own
}

/// The names of all files below a directory.
fn files_below(folder: &Path) -> Vec<String> {
    let listed = Command::new("find").arg(folder).args(["-type", "f", "-printf", "%f\n"]).output().unwrap();
    String::from_utf8(listed.stdout).unwrap().lines().map(str::to_owned).collect()
}

// [T8] [attack: a prompt-injected agent steals secrets]
#[tokio::test]
async fn a_refreshed_credential_returns_and_changed_settings_do_not() {
    let (forge, fleet) = (TestRemote::new(), Fleet::start(LONG).await);
    let line = Line::to(&fleet).await;
    let login = |token: &str| {
        let expires_at = token.len();
        format!(r#"{{"claudeAiOauth":{{"accessToken":"{token}","expiresAt":{expires_at}}}}}"#)
    };
    let operators = operators(&forge);
    fs::write(operators.join(".credentials.json"), login("first")).unwrap();
    let settings = r#"{"model":"opus","hooks":{"Stop":[]},"apiKeyHelper":"~/bin/key"}"#;
    fs::write(operators.join("settings.json"), settings).unwrap();
    let script = format!(
        "cat \"$CLAUDE_CONFIG_DIR/settings.json\" \"$CLAUDE_CONFIG_DIR/.credentials.json\" > found-$GIGA_JOB_ID.txt\n\
         echo '{{\"hooks\":{{}}}}' > \"$CLAUDE_CONFIG_DIR/settings.json\"; touch \"$CLAUDE_CONFIG_DIR/planted\"\n\
         echo '{}' > \"$CLAUDE_CONFIG_DIR/new\"; mv \"$CLAUDE_CONFIG_DIR/new\" \"$CLAUDE_CONFIG_DIR/.credentials.json\"\n\
         {}",
        login("second"),
        stream("real-ok")
    );
    let own = with_login(playing("lodger", &forge, &script), &operators);
    let _plant = Plant::start(own, fleet.enrol("lodger", &line).await);

    let mut found = Vec::new();
    for _ in 0..2 {
        let job = fleet.submit("").await;
        let view = fleet.until(job, "an end", |view| view.promoted_sha.is_some() || view.attempts > 0).await;
        let runs = fleet.runs(job).await;
        let sha = view.promoted_sha.unwrap_or_else(|| panic!("{runs:#?}"));
        found.push(forge.file_at(&sha, &format!("found-{job}.txt")).unwrap());
    }

    let fit = r#"{"model":"opus"}"#;
    assert_eq!(found, [format!("{fit}{}", login("first")), format!("{fit}{}", login("second"))]);
    let mut names: Vec<_> = fs::read_dir(&operators).unwrap().map(|file| file.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, [".credentials.json", "settings.json"]);
    assert_eq!(fs::read_to_string(operators.join("settings.json")).unwrap(), settings);
}

// [T8]
#[tokio::test]
async fn a_link_in_a_credential_directory_of_agents_is_not_followed() {
    let (forge, fleet) = (TestRemote::new(), Fleet::start(LONG).await);
    let line = Line::to(&fleet).await;
    let (home, secret) = (forge.path("agents"), forge.path("secret"));
    let folder = home.join(".claude");
    fs::create_dir_all(&folder).unwrap();
    fs::write(&secret, "canary").unwrap();
    fs::write(folder.join(".credentials.json"), OLD).unwrap();
    std::os::unix::fs::symlink(&secret, folder.join("CLAUDE.md")).unwrap();
    let script = format!("ls -A \"$CLAUDE_CONFIG_DIR\" > found.txt; {}", stream("real-ok"));
    let mut own = with_login(playing("lodger", &forge, &script), &folder);
    own.environment.home = Some(home);
    let _plant = Plant::start(own, fleet.enrol("lodger", &line).await);

    let job = fleet.submit("").await;

    let view = fleet.until(job, "an end", |view| view.promoted_sha.is_some() || view.attempts > 0).await;
    let runs = fleet.runs(job).await;
    let sha = view.promoted_sha.unwrap_or_else(|| panic!("{runs:#?}"));
    assert_eq!(forge.file_at(&sha, "found.txt").as_deref(), Some(".credentials.json\n"));
}

// [T8]
#[tokio::test]
async fn a_refresh_before_a_kill_returns_at_the_next_start_or_clean_up() {
    let (forge, fleet) = (TestRemote::new(), Fleet::start(LONG).await);
    let line = Line::to(&fleet).await;
    let (operators, up) = (operators(&forge), forge.path("up"));
    let outside = || fs::read_to_string(operators.join(".credentials.json")).unwrap();
    let script = format!("touch '{}'; sleep 600 & wait", up.display());
    let own = with_login(playing("lodger", &forge, &script), &operators);
    let client = fleet.enrol("lodger", &line).await;
    let plant = Plant::start(own.clone(), client.clone());
    let job = fleet.submit("").await;
    eventually("the run", || up.exists()).await;
    // The disk of a host that stops at this moment, once its engine has refreshed the credential.
    let image = |name: &str| {
        let state = forge.path(name);
        fs::create_dir(&state).unwrap();
        let copied = Command::new("cp").arg("-a").arg(own.state.join("sessions")).arg(&state).status().unwrap();
        assert!(copied.success());
        fs::write(state.join(format!("sessions/claude/{job}/.credentials.json")), NEW).unwrap();
        WorkerSettings { state, ..own.clone() }
    };
    let (restarted, mut cleaned_up) = (image("restarted"), image("cleaned-up"));
    cleaned_up.housekeeping.retention = Duration::ZERO;
    fleet.act(job, "cancel").await;
    plant.stop().await;
    assert_eq!(outside(), OLD);

    let next = Plant::start(restarted.clone(), client.clone());
    eventually("the login being back", || outside() == NEW).await;
    next.stop().await;
    fs::write(operators.join(".credentials.json"), OLD).unwrap();
    let gc = cleaned_up.gc(client, clock()).unwrap();
    gc.dry_run().await.unwrap();
    assert_eq!(outside(), OLD, "a dry run does nothing");
    let (home, away) = (cleaned_up.state.join(format!("sessions/claude/{job}")), forge.path("not-mounted-yet"));
    fs::rename(&operators, &away).unwrap();
    let spared = gc.run().await.unwrap();
    assert!(home.join(".credentials.json").exists(), "it is the only one: {spared:#?}");
    fs::rename(&away, &operators).unwrap();
    gc.run().await.unwrap();
    assert!(!home.exists());

    assert_eq!(outside(), NEW);
    for state in [restarted.state, cleaned_up.state, own.state] {
        let left = files_below(&state.join("sessions"));
        assert!(
            !left.iter().any(|name| name.contains("credentials") || name.ends_with(".credential-origin")),
            "{left:?}"
        );
    }
}

// [T8]
#[tokio::test]
async fn a_failed_start_leaves_no_credential() {
    let forge = TestRemote::new();
    let (operators, sessions) = (operators(&forge), forge.path("sessions"));
    let bench = EngineContext {
        launcher: Launcher::unguarded(clock()),
        clock: clock(),
        sessions: sessions.clone(),
        prices: Prices::default(),
        empty_home: forge.path("home"),
        open: Vec::new(),
    };
    let config = EngineConfig { program: Some("/no/such/claude".to_owned()), ..EngineConfig::default() };
    let environment = environment().with("CLAUDE_CONFIG_DIR", &operators);
    let engine = ClaudeEngine::new("claude".parse().unwrap(), &config, environment, &bench);
    let request = EngineRequest {
        job: job(),
        epoch: run(3).epoch,
        attempt: 1,
        title: "x".to_owned(),
        prompt: Prompt::of_task("do it"),
        model: None,
        session: None,
        worktree: operators,
        allowance: Allowance::default(),
        tools: None,
    };

    let started = EngineRun::start(&engine, &request, &bench.launcher, roomy());

    assert!(started.is_err());
    assert_eq!(files_below(&sessions), Vec::<String>::new());
}
