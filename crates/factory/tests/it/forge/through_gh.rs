//! The same GitHub through the program `gh`, played by this very binary.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use forge::{ForgeConfig, ForgeError, ForgeKind, Forges, GhConfig, MergeOutcome};
use http::Method;
use testkit::host::{clock, job, myself_as, notes, role_arguments};

use super::fake_github::TOKEN;
use super::{Scene, proposal};

/// A script that plays `gh`, with a home that holds its credential.
fn gh(scene: &Scene) -> GhConfig {
    let home = scene.remote.path("gh-home");
    fs::create_dir(&home).unwrap();
    fs::write(home.join("login"), format!("{} {TOKEN}", scene.github.address)).unwrap();
    let myself = myself_as("forge::through_gh::plays_gh");
    let myself: Vec<_> = myself.iter().map(|part| format!("'{}'", part.to_str().unwrap())).collect();
    // The test harness prints its own lines first.
    let script = format!("#!/bin/sh\n{} \"$@\" | sed -n '/^HTTP/,$p'\n", myself.join(" "));
    let program = scene.remote.path("gh");
    fs::write(&program, script).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    GhConfig { program: Some(program), home: Some(home) }
}

fn config(gh: GhConfig) -> ForgeConfig {
    ForgeConfig {
        kind: ForgeKind::Gh,
        gh,
        slugs: [(notes(), "acme/notes".parse().unwrap())].into(),
        ..ForgeConfig::default()
    }
}

// [F5]
#[tokio::test]
async fn a_pull_request_is_opened_spoken_on_looked_at_and_merged_through_gh() {
    let scene = Scene::new().await;
    let sha = scene.push("one");
    let config = config(gh(&scene));
    let forge = Forges::open(config, Path::new("/nonexistent"), clock()).unwrap().of(&notes(), "").unwrap();

    let opened = forge.open(&proposal()).await.unwrap();
    forge.say(opened.number, job(), "done").await.unwrap();
    scene.github.book(|book| book.check(&sha, "test", Some("failure")));
    let first = forge.read_pull_request(opened.number).await.unwrap();
    let second = forge.read_pull_request(opened.number).await.unwrap();
    let order = forge::MergeOrder {
        request: opened.number,
        sha,
        method: forge::MergeMethod::Merge,
        title: "t".to_owned(),
        message: "m".to_owned(),
        auto: forge::AutoMerge::Never,
    };
    let merging = forge.merge(&order).await;

    assert_eq!((scene.github.pulls().len(), first.comments.len(), &first), (1, 1, &second));
    assert_eq!(scene.github.heard(&Method::GET, "/check-runs").last().unwrap().status, 304);
    assert_eq!(merging, Ok(MergeOutcome::Merged));
}

#[tokio::test]
async fn a_gh_that_is_not_there_or_says_nothing_sensible_is_told() {
    let scene = Scene::new().await;
    let with = |program: PathBuf| GhConfig { program: Some(program), home: Some(scene.remote.path("")) };
    let at = |program: PathBuf| {
        Forges::open(config(with(program)), Path::new("/nonexistent"), clock()).unwrap().of(&notes(), "").unwrap()
    };

    let absent = at(scene.remote.path("no-gh")).find("x").await.unwrap_err();
    let silent = at("/bin/true".into()).find("x").await.unwrap_err();

    assert!(matches!(absent, ForgeError::Unauthenticated(_)), "{absent}");
    assert!(matches!(silent, ForgeError::Away { .. }), "{silent}");
}

#[test]
#[ignore = "a role that other tests start"]
fn plays_gh() {
    let Some(args) = role_arguments() else { return };
    let args: Vec<String> = args.into_iter().map(|arg| arg.into_string().unwrap()).collect();
    let after = |name: &str| args.iter().position(|arg| arg == name).and_then(|at| args.get(at + 1)).cloned();
    let home = PathBuf::from(std::env::var_os("HOME").unwrap());
    let login = fs::read_to_string(home.join("login")).unwrap();
    let (address, token) = login.split_once(' ').unwrap();
    let mut body = String::new();
    if after("--input").is_some() {
        std::io::stdin().read_to_string(&mut body).unwrap();
    }
    let (method, path) = (after("--method").unwrap(), args.last().unwrap());
    let header = after("--header").map_or_else(String::new, |header| format!("{header}\r\n"));
    let mut line = TcpStream::connect(address).unwrap();
    write!(
        line,
        "{method} /{path} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\n{header}Connection: close\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    let mut answer = Vec::new();
    line.read_to_end(&mut answer).unwrap();
    let mut out = std::io::stdout();
    out.write_all(b"\n").unwrap();
    out.write_all(&answer).unwrap();
    out.flush().unwrap();
    std::process::exit(0);
}
