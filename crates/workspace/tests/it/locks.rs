//! Leftovers of a killed git, and a git that was abandoned.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use domain::CommitAuthor;
use sandbox::{Limits, SandboxMode};
use testkit::host::{
    PATIENCE, TestRemote, clock, eventually, git, main, myself_as, notes, pid_in, role_arguments, run, runs,
};
use workspace::{CommitOutcome, Git, GitConfig, Host, Mirror, RefNames, RepoConfig, SaveOutcome, StateDir, Worktree};

/// A directory whose `git` runs a script before a fetch.
fn tools(forge: &TestRemote, before_fetch: &str) -> PathBuf {
    let path = std::env::var_os("PATH").unwrap();
    let real = std::env::split_paths(&path).map(|folder| folder.join("git")).find(|git| git.is_file()).unwrap();
    let tools = forge.path("tools");
    fs::create_dir(&tools).unwrap();
    let script =
        format!("#!/bin/sh\ncase \" $* \" in *' fetch '*) {before_fetch} ;; esac\nexec '{}' \"$@\"\n", real.display());
    fs::write(tools.join("git"), script).unwrap();
    fs::set_permissions(tools.join("git"), fs::Permissions::from_mode(0o755)).unwrap();
    tools
}

fn plant(mirror: &Mirror, names: &[&str]) {
    for name in names {
        let path = mirror.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "").unwrap();
    }
}

fn locks_in(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(locks_in(&path));
        } else if path.extension() == Some(OsStr::new("lock")) {
            found.push(path);
        }
    }
    found
}

/// A worktree whose agent has made one commit and left one file.
async fn worked(forge: &TestRemote) -> (Host, Mirror, Worktree) {
    let host = forge.host("host");
    let (mirror, worktree) = forge.worktree(&host, run(1)).await;
    fs::write(worktree.path().join("step.md"), "a step\n").unwrap();
    git(worktree.path(), &["add", "-A"]);
    git(worktree.path(), &["commit", "--quiet", "-m", "The agent's own words"]);
    fs::write(worktree.path().join("rest.md"), "the rest\n").unwrap();
    (host, mirror, worktree)
}

// [F3]
#[tokio::test]
async fn lock_files_of_a_killed_git_block_no_later_git() {
    let forge = TestRemote::new();
    git(&forge.remote(), &["branch", "topic", "main"]);
    let (host, mirror, worktree) = worked(&forge).await;
    plant(
        &mirror,
        &[
            "packed-refs.lock",
            "HEAD.lock",
            "config.lock",
            "shallow.lock",
            "gc.pid.lock",
            "objects/maintenance.lock",
            "objects/info/commit-graph.lock",
            "objects/pack/multi-pack-index.lock",
            "refs/remotes/origin/main.lock",
            "refs/remotes/origin/topic.lock",
            &format!("refs/gigafactory/{}.lock", run(1)),
        ],
    );
    let metadata = forge.path("host/desks").join(run(1).to_string());
    for number in 0..8 {
        fs::write(metadata.join(format!("scratch-{}-{number}.index.lock", std::process::id())), "").unwrap();
    }
    let moved = forge.commit("main", "other.md", "other\n");
    git(&forge.remote(), &["branch", "-D", "topic"]);

    mirror.refresh().await.unwrap();
    let saved = mirror.checkpoint(&worktree).await.unwrap();
    let CommitOutcome::Made(sha) = mirror.commit_all(&worktree, "Work").await.unwrap() else { panic!("empty") };
    mirror.push_run(&worktree, &sha).await.unwrap();
    host.remove_worktree(run(1)).await.unwrap();

    assert_eq!(mirror.head_of(&main()).await.unwrap(), moved);
    assert!(matches!(saved, SaveOutcome::Pushed(_)), "{saved:?}");
    let told = git(&forge.remote(), &["log", "--format=%s", &format!("main..{sha}")]);
    assert_eq!(told, "Work\nThe agent's own words", "a lock in the way must not cost the agent's commits");
    assert_eq!(locks_in(mirror.path()), Vec::<PathBuf>::new());
}

// [F3]
#[tokio::test]
async fn a_refresh_leaves_the_lock_file_of_a_run_alone() {
    let forge = TestRemote::new();
    let mirror = forge.mirror(&forge.host("host")).await;
    let of_run = format!("refs/gigafactory/{}.lock", run(1));
    plant(&mirror, &[&of_run, "packed-refs.lock"]);

    mirror.refresh().await.unwrap();

    assert_eq!(locks_in(mirror.path()), [mirror.path().join(of_run)], "that run may be writing it this moment");
}

// [F3]
#[tokio::test]
async fn a_fetch_that_was_killed_in_the_midst_is_followed_by_one_that_works() {
    let forge = TestRemote::new();
    let (killed, mirror) = (forge.path("killed"), forge.mirror_unfetched(&forge.host("host")).path().to_owned());
    let die = format!(
        "if [ ! -e '{killed}' ]; then touch '{killed}' '{mirror}/packed-refs.lock'; mkdir -p '{mirror}/refs/remotes/origin'; \
         touch '{mirror}/refs/remotes/origin/main.lock'; kill -9 $$; fi",
        killed = killed.display(),
        mirror = mirror.display()
    );
    let mirror = forge.mirror_unfetched(&forge.host_with("host", &tools(&forge, &die)));

    let first = mirror.refresh().await;
    mirror.refresh().await.unwrap();

    assert!(first.is_err() && killed.exists(), "{first:?}");
    assert_eq!(Some(mirror.head_of(&main()).await.unwrap()), forge.shows("refs/heads/main"));
}

#[tokio::test]
async fn an_abandoned_git_ends_with_its_child_processes() {
    let forge = TestRemote::new();
    let (own, child) = (forge.path("own"), forge.path("child"));
    let hang = format!("sleep 600 & echo $! > '{}'; echo $$ > '{}'; wait", child.display(), own.display());
    let mirror = forge.mirror_unfetched(&forge.host_with("host", &tools(&forge, &hang)));

    let up = eventually("git being up", || pid_in(&own).is_some() && pid_in(&child).is_some());
    tokio::select! {
        refreshed = mirror.refresh() => panic!("{refreshed:?}"),
        () = up => {}
    }

    let pids = [own, child].map(|file| pid_in(&file).unwrap());
    eventually("the end of both", || !pids.iter().any(|pid| runs(*pid))).await;
}

// [F3]
#[tokio::test]
async fn a_git_that_outlives_its_factory_keeps_the_mirror_to_itself_until_it_ends() {
    let forge = TestRemote::new();
    let (up, gate) = (forge.path("up"), forge.path("gate"));
    let wait = format!(
        "if [ ! -e '{up}' ]; then echo $$ > '{up}'; while [ ! -e '{gate}' ]; do sleep 0.05; done; fi",
        up = up.display(),
        gate = gate.display()
    );
    let tools = tools(&forge, &wait);
    let myself = myself_as("locks::plays_a_factory_that_fetches");
    let mut factory = Command::new(&myself[0])
        .args(&myself[1..])
        .args([forge.path("host").as_os_str(), forge.remote().as_os_str(), tools.as_os_str()])
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    eventually("the fetch", || pid_in(&up).is_some()).await;
    factory.kill().unwrap();
    factory.wait().unwrap();
    let mirror = forge.mirror_unfetched(&forge.host("host"));
    plant(&mirror, &["packed-refs.lock"]);

    let early = tokio::time::timeout(Duration::from_millis(500), mirror.refresh()).await;
    let untouched = locks_in(mirror.path());
    let orphan = pid_in(&up).unwrap();
    let outlived = runs(orphan);
    fs::write(&gate, "").unwrap();
    let late = tokio::time::timeout(PATIENCE, mirror.refresh()).await;

    assert!(early.is_err() && outlived, "{early:?}");
    assert_eq!(untouched, [mirror.path().join("packed-refs.lock")], "it could be the orphan's");
    late.unwrap().unwrap();
}

#[tokio::test]
#[ignore = "a role for another process"]
async fn plays_a_factory_that_fetches() {
    let args = role_arguments().expect("a role needs arguments");
    let state = StateDir::new(Path::new(&args[0])).unwrap();
    let mut path = OsString::from(&args[2]);
    path.push(":");
    path.push(std::env::var_os("PATH").unwrap());
    let git = Git::new(&path, &state.empty_home(), GitConfig::default(), CommitAuthor::default(), &Limits::default());
    let unconfined = SandboxMode::Off.in_force();
    let host = Host::new(state, git, RefNames::under("aq".parse().unwrap()), clock(), &unconfined);
    let config = RepoConfig::at(args[1].to_str().unwrap(), main());
    host.mirror(&notes(), &config).unwrap().refresh().await.unwrap();
}
