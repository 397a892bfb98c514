//! Large file storage with the real `git-lfs`, where it is installed.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use sandbox::{SandboxMode, SandboxSummary};
use testkit::host::{TestRemote, git, main, run};
use testkit::requirement::Requirement;
use workspace::{CommitOutcome, SaveOutcome, WorktreeStart};

const POINTER: &str = "version https://git-lfs.github.com/spec/v1\n";

/// Whether the real program is installed; prints what is not tested when it is not.
fn is_installed() -> bool {
    let found = Command::new("git-lfs").arg("version").output().is_ok_and(|ran| ran.status.success());
    Requirement::Lfs.is_met(found, "git-lfs is not installed")
}

/// A repository with one large file, and an `.lfsconfig` that names a forbidden server.
fn with_a_large_file(forge: &TestRemote, server: &str) -> Vec<u8> {
    let seed = forge.path("seed");
    let content: Vec<u8> = (0..100_000_u32).flat_map(u32::to_le_bytes).collect();
    fs::write(seed.join(".gitattributes"), "*.bin filter=lfs diff=lfs merge=lfs -text\n").unwrap();
    fs::write(seed.join(".lfsconfig"), format!("[lfs]\n\turl = {server}\n\tpushurl = {server}\n")).unwrap();
    fs::write(seed.join("model.bin"), &content).unwrap();
    let remote = format!("file://{}", forge.remote().display());
    let lfs = |args: &[&str]| {
        let settings = ["remote.origin.url", "lfs.url", "lfs.pushurl"].map(|key| format!("{key}={remote}"));
        let mut command = Command::new("git");
        command.current_dir(&seed).env("HOME", &seed).args(["-c", "filter.lfs.clean=git-lfs clean -- %f"]);
        command.args(["-c", "filter.lfs.required=true", "-c", "user.name=S", "-c", "user.email=s@example.org"]);
        for setting in settings {
            command.args(["-c", &setting]);
        }
        let ran = command.args(args).output().unwrap();
        assert!(ran.status.success(), "{args:?}: {}", String::from_utf8_lossy(&ran.stderr));
    };
    lfs(&["add", "-A"]);
    lfs(&["commit", "--quiet", "-m", "A model"]);
    lfs(&["lfs", "push", "origin", "main"]);
    lfs(&["push", "--quiet", "--no-verify", "../remote.git", "HEAD:main"]);
    content
}

fn read(folder: &Path, name: &str) -> Vec<u8> {
    fs::read(folder.join(name)).unwrap()
}

// [F3]
#[tokio::test]
async fn large_files_are_fetched_saved_and_resumed_from_the_remotes_own_storage() {
    if !is_installed() {
        return;
    }
    let forge = TestRemote::new();
    let stranger = TcpListener::bind("127.0.0.1:0").unwrap();
    stranger.set_nonblocking(true).unwrap();
    let content = with_a_large_file(&forge, &format!("http://{}/steal", stranger.local_addr().unwrap()));
    let (mirror, worktree) = forge.worktree(&forge.host("first"), run(1)).await;
    let (by_agent, by_us) = (vec![7; 200_000], vec![9; 300_000]);

    let found = read(worktree.path(), "model.bin");
    fs::write(worktree.path().join("committed.bin"), &by_agent).unwrap();
    git(worktree.path(), &["add", "committed.bin"]);
    git(worktree.path(), &["commit", "--quiet", "-m", "By the agent"]);
    fs::write(worktree.path().join("new.bin"), &by_us).unwrap();
    let SaveOutcome::Pushed(saved) = mirror.checkpoint(&worktree).await.unwrap() else { panic!("nothing was saved") };
    let elsewhere = forge.mirror(&forge.host("second")).await;
    let resumed = elsewhere.create(run(2), &main(), &WorktreeStart::Checkpoint(saved)).await.unwrap();
    let CommitOutcome::Made(sha) = elsewhere.commit_all(&resumed, "Work").await.unwrap() else { panic!("empty") };
    elsewhere.push_run(&resumed, &sha).await.unwrap();

    assert!(found == content, "the agent finds the contents, not a pointer");
    for (name, wanted) in [("model.bin", &content), ("committed.bin", &by_agent), ("new.bin", &by_us)] {
        assert!(read(resumed.path(), name) == *wanted, "{name}");
        assert!(forge.file_at(&sha, name).unwrap().starts_with(POINTER), "{name} is a pointer in the repository");
    }
    assert_eq!(git(resumed.path(), &["status", "--porcelain"]), "?? new.bin");
    assert!(stranger.accept().is_err(), "somebody asked the server that the repository named");
}

// [T8] [attack: hostile repository]
#[tokio::test]
async fn large_files_are_taken_in_without_reaching_anything_but_the_work_and_the_mirror() {
    let confined = matches!(SandboxMode::Required.in_force(), SandboxSummary::Kernel(_));
    if !is_installed() || !Requirement::Landlock.is_met(confined, "the kernel has no sandbox") {
        return;
    }
    let forge = TestRemote::new();
    with_a_large_file(&forge, "http://127.0.0.1:1/steal");
    let (tools, canary) = (forge.path("tools"), forge.path("canary"));
    fs::create_dir(&tools).unwrap();
    let real =
        String::from_utf8(Command::new("sh").args(["-c", "command -v git-lfs"]).output().unwrap().stdout).unwrap();
    let script = format!("#!/bin/sh\ntouch '{}' 2> /dev/null\nexec {} \"$@\"\n", canary.display(), real.trim());
    fs::write(tools.join("git-lfs"), script).unwrap();
    fs::set_permissions(tools.join("git-lfs"), fs::Permissions::from_mode(0o755)).unwrap();
    let host = forge.host_confined("host", &tools, SandboxMode::Required);
    let (mirror, worktree) = forge.worktree(&host, run(1)).await;
    assert!(canary.exists(), "what checks out before there is an agent reaches its remote");
    fs::remove_file(&canary).unwrap();
    fs::write(worktree.path().join("new.bin"), vec![9; 300_000]).unwrap();

    let CommitOutcome::Made(sha) = mirror.commit_all(&worktree, "Work").await.unwrap() else { panic!("empty") };
    let reached = canary.exists();
    mirror.push_run(&worktree, &sha).await.unwrap();

    assert!(!reached, "the program that takes large files in got out");
    assert!(forge.file_at(&sha, "new.bin").unwrap().starts_with(POINTER));
    let another = forge.mirror(&forge.host("another")).await;
    let elsewhere = another.create(run(2), &main(), &WorktreeStart::Commit(sha)).await.unwrap();
    assert!(read(elsewhere.path(), "new.bin") == vec![9; 300_000]);
}
