//! The capabilities of a machine, with real programs.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use clock::ManualClock;
use domain::Capability;
use engines::{CommandEngine, Engine, EngineConfig};
use factory::{DetectConfig, detect};
use sandbox::{Environment, Launcher};
use testkit::host::{clock, environment, eventually, git, main};
use workspace::RepoConfig;

// [F1]
#[tokio::test]
async fn capabilities_are_what_the_machine_shows() {
    let base = tempfile::tempdir().unwrap();
    for repo in ["tracker", "bad name"] {
        fs::create_dir(base.path().join(repo)).unwrap();
        git(&base.path().join(repo), &["init", "--quiet"]);
    }
    git(base.path(), &["init", "--quiet", "--bare", "wiki.git"]);
    fs::create_dir(base.path().join("no-repository")).unwrap();
    let at = |name: &str, url: &str| (name.parse().unwrap(), RepoConfig::at(url, main()));
    let near = base.path().to_str().unwrap();
    let config = DetectConfig {
        repos: [at("notes", "https://git.example/notes.git"), at("wiki", "/no/such/wiki.git"), at("near", near)].into(),
        repo_base: Some(base.path().to_owned()),
        custom: ["gpu:l4".parse().unwrap()].into(),
        tools: [
            ("sh".to_owned(), Vec::new()),
            ("true".to_owned(), vec!["true".to_owned(), "--version".to_owned()]),
            ("broken".to_owned(), vec!["false".to_owned()]),
            ("absent".to_owned(), Vec::new()),
        ]
        .into(),
    };
    let named = |name: &str, program: &str| -> Arc<dyn Engine> {
        let config = EngineConfig { argv: vec![program.to_owned()], ..EngineConfig::default() };
        Arc::new(CommandEngine::new(name.parse().unwrap(), &config, environment()).unwrap())
    };
    let engines = [named("here", "sh"), named("absent", "no-such-program")];

    let detected = detect(&config, &engines, &environment(), &Launcher::unguarded(clock())).await;

    let repos: Vec<String> = detected.repos.iter().map(ToString::to_string).collect();
    assert_eq!(repos, ["near", "notes", "tracker"], "one that is configured elsewhere is not what lies under the base");
    assert_eq!(detected.absent_repos, [("wiki".parse().unwrap(), "/no/such/wiki.git".into())].into());
    let has = |token: &str| detected.capabilities.contains(&token.parse::<Capability>().unwrap());
    for token in [
        "os:linux",
        "has:git",
        "engine:here",
        "gpu:l4",
        "has:sh",
        "has:true",
        "repo:notes",
        "repo:tracker",
        "repo:near",
    ] {
        assert!(has(token) || (token == "os:linux" && cfg!(not(target_os = "linux"))), "{token}: {detected:?}");
    }
    assert!(!has("repo:wiki") && !has("engine:absent") && !has("has:broken") && !has("has:absent"), "{detected:?}");
    assert!(detected.capabilities.iter().any(|token| token.as_str().starts_with("arch:")));
}

/// A directory with these scripts, and an environment whose programs are found there first.
fn tools(scripts: &[(&str, &str)]) -> (tempfile::TempDir, Environment) {
    let bin = tempfile::tempdir().unwrap();
    for (tool, script) in scripts {
        let file = bin.path().join(tool);
        fs::write(&file, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    }
    // `sleep` and `sh` are named by path or come from the end of the list.
    let path = std::env::join_paths([bin.path(), Path::new("/bin")]).unwrap();
    (bin, Environment::default().with("PATH", path))
}

#[tokio::test]
async fn a_tool_is_offered_with_its_version() {
    let (_bin, environment) = tools(&[("node", "echo v20.1.0")]);

    let detected = detect(&DetectConfig::default(), &[], &environment, &Launcher::unguarded(clock())).await;

    let has = |token: &str| detected.capabilities.contains(&token.parse::<Capability>().unwrap());
    assert!(has("has:node") && has("node:20"), "{detected:?}");
}

// [F1] [B9]
#[tokio::test]
async fn a_tool_that_hangs_or_fails_is_not_offered() {
    let (bin, environment) = tools(&[("go", "touch \"${0%/*}/up\"; exec sleep 600"), ("docker", "exit 1")]);
    let (time, up) = (ManualClock::default(), bin.path().join("up"));
    let launcher = Launcher::unguarded(Arc::new(time.clone()));

    let config = DetectConfig::default();
    let pass = async {
        eventually("the tool being asked", || up.exists()).await;
        time.advance(Duration::from_secs(20));
    };
    let (detected, ()) = tokio::join!(detect(&config, &[], &environment, &launcher), pass);

    let has = |token: &str| detected.capabilities.contains(&token.parse::<Capability>().unwrap());
    assert!(!has("has:go") && !has("has:docker"), "{detected:?}");
}
