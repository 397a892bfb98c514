//! Fixtures of a factory's host: a remote, hosts that work on it, and roles of the test binary.

#![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

mod traps;

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use clock::SystemClock;
use domain::{BranchName, Clock, CommitAuthor, CommitSha, Epoch, JobId, RepoName, RunKey};
use sandbox::{
    Bounds, Environment, EnvironmentConfig, FinishedProgram, Launcher, Limits, Line, Program, RunningProgram,
    SandboxMode,
};
use tempfile::TempDir;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

pub use traps::{no_canary, plant_hooks, trap, trapped_config};
use workspace::{Git, GitConfig, Host, Mirror, RefNames, RepoConfig, StateDir, Worktree, WorktreeStart};

/// How long a test waits for something that should happen soon, on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// A directory with a bare remote in it.
pub struct TestRemote {
    folder: TempDir,
}

impl TestRemote {
    /// A remote whose branch `main` holds `readme.md`.
    #[expect(clippy::new_without_default, reason = "it writes to the disk")]
    pub fn new() -> Self {
        let forge = Self { folder: tempfile::tempdir().unwrap() };
        git(forge.folder.path(), &["init", "--quiet", "--bare", "--initial-branch=main", "remote.git"]);
        let seed = forge.path("seed");
        fs::create_dir(&seed).unwrap();
        git(&seed, &["init", "--quiet", "--initial-branch=main"]);
        fs::write(seed.join("readme.md"), "hello\n").unwrap();
        git(&seed, &["add", "-A"]);
        git(&seed, &["commit", "--quiet", "-m", "Begin"]);
        git(&seed, &["push", "--quiet", "../remote.git", "main"]);
        forge
    }

    /// A path in its directory.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The bare repository.
    pub fn remote(&self) -> PathBuf {
        self.path("remote.git")
    }

    /// A commit on `branch` of the remote by another author.
    pub fn commit(&self, branch: &str, file: &str, text: &str) -> CommitSha {
        let seed = self.path("seed");
        git(&seed, &["fetch", "--quiet", "../remote.git", branch]);
        git(&seed, &["checkout", "--quiet", "--detach", "FETCH_HEAD"]);
        fs::write(seed.join(file), text).unwrap();
        git(&seed, &["add", "-A"]);
        git(&seed, &["commit", "--quiet", "-m", "By somebody else"]);
        git(&seed, &["push", "--quiet", "../remote.git", &format!("HEAD:refs/heads/{branch}")]);
        git(&seed, &["rev-parse", "HEAD"]).parse().unwrap()
    }

    /// The remote's value of a ref.
    pub fn shows(&self, name: &str) -> Option<CommitSha> {
        let listing = git(&self.remote(), &["for-each-ref", "--format=%(objectname)", name]);
        listing.lines().next().map(|sha| sha.parse().unwrap())
    }

    /// The content of a file at a commit of the remote.
    pub fn file_at(&self, commit: &CommitSha, file: &str) -> Option<String> {
        let object = format!("{commit}:{file}");
        let shown = plain_git(&self.remote()).args(["cat-file", "blob", &object]).output().unwrap();
        shown.status.success().then(|| String::from_utf8(shown.stdout).unwrap())
    }

    /// All files at a commit of the remote.
    pub fn files_at(&self, commit: &CommitSha) -> Vec<String> {
        let listing = git(&self.remote(), &["ls-tree", "-r", "--name-only", commit.as_str()]);
        listing.lines().map(str::to_owned).collect()
    }

    /// A machine with this remote configured as `notes`.
    pub fn host(&self, name: &str) -> Host {
        self.host_with(name, Path::new("/nonexistent"))
    }

    /// The same, with programs in `tools` before all others. Its git has no sandbox, so that a trap that goes off is
    /// seen.
    pub fn host_with(&self, name: &str, tools: &Path) -> Host {
        self.host_confined(name, tools, SandboxMode::Off)
    }

    /// The same, with or without a sandbox for its git.
    pub fn host_confined(&self, name: &str, tools: &Path, confine: SandboxMode) -> Host {
        let state = StateDir::new(&self.path(name)).unwrap();
        let mut path = OsString::from(tools);
        path.push(":");
        path.push(std::env::var_os("PATH").unwrap());
        let git =
            Git::new(&path, &state.empty_home(), GitConfig::default(), CommitAuthor::default(), &Limits::default());
        Host::new(state, git, RefNames::under("aq".parse().unwrap()), clock(), &confine.in_force())
    }

    /// That machine's mirror, refreshed.
    pub async fn mirror(&self, host: &Host) -> Mirror {
        let mirror = self.mirror_unfetched(host);
        mirror.refresh().await.unwrap();
        mirror
    }

    /// That machine's mirror, before its first fetch.
    pub fn mirror_unfetched(&self, host: &Host) -> Mirror {
        let config = RepoConfig::at(self.remote().to_str().unwrap(), main());
        host.mirror(&notes(), &config).unwrap()
    }

    /// A machine's fresh worktree for a run.
    pub async fn worktree(&self, host: &Host, run: RunKey) -> (Mirror, Worktree) {
        let mirror = self.mirror(host).await;
        let worktree = mirror.create(run, &main(), &WorktreeStart::Base).await.unwrap();
        (mirror, worktree)
    }

    /// The same, of a mirror that fetches contents on demand.
    pub async fn worktree_of_a_partial_mirror(&self, host: &Host, run: RunKey) -> (Mirror, Worktree) {
        for setting in ["uploadpack.allowFilter", "uploadpack.allowAnySHA1InWant"] {
            git(&self.remote(), &["config", setting, "true"]);
        }
        let config = RepoConfig { partial: Some(true), ..RepoConfig::at(self.remote().to_str().unwrap(), main()) };
        let mirror = host.mirror(&notes(), &config).unwrap();
        mirror.refresh().await.unwrap();
        let worktree = mirror.create(run, &main(), &WorktreeStart::Base).await.unwrap();
        (mirror, worktree)
    }
}

/// The only mirror under a factory's state directory.
pub fn mirror_in(state: &Path) -> PathBuf {
    let entries = fs::read_dir(state.join("mirrors")).unwrap().map(|entry| entry.unwrap().path());
    let mirrors: Vec<PathBuf> = entries.filter(|path| path.extension().is_some_and(|end| end == "git")).collect();
    assert_eq!(mirrors.len(), 1, "{mirrors:?}");
    mirrors[0].clone()
}

/// The repository's name.
pub fn notes() -> RepoName {
    "notes".parse().unwrap()
}

/// Its base branch.
pub fn main() -> BranchName {
    "main".parse().unwrap()
}

/// The system's clock.
pub fn clock() -> Arc<dyn Clock> {
    Arc::new(SystemClock::new())
}

/// One job's run under `epoch`.
pub fn run(epoch: u64) -> RunKey {
    RunKey { job: job(), epoch: Epoch(epoch) }
}

/// One job.
pub fn job() -> JobId {
    "0190f3a4-7c1e-7b52-9d0a-1f2e3d4c5b6a".parse().unwrap()
}

/// Git as an agent or a colleague would use it, and what it printed.
pub fn git(dir: &Path, args: &[&str]) -> String {
    let output = plain_git(dir).args(args).output().unwrap();
    assert!(output.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
}

/// Git without any settings, in `dir`.
pub fn plain_git(dir: &Path) -> Command {
    let mut command = Command::new("git");
    command.current_dir(dir).env_clear().env("PATH", std::env::var_os("PATH").unwrap()).env("HOME", "/nonexistent");
    for role in ["AUTHOR", "COMMITTER"] {
        command.env(format!("GIT_{role}_NAME"), "Somebody").env(format!("GIT_{role}_EMAIL"), "somebody@example.org");
    }
    command
}

/// The cleared environment that programs of a test get.
pub fn environment() -> Environment {
    Environment::cleared(std::env::vars_os(), Path::new("/nonexistent"), &EnvironmentConfig::default())
}

/// A launcher whose guard is this test binary in its role of that name.
pub fn guarded() -> Launcher {
    Launcher::guarded(myself_as("guards::plays_the_guard"), clock())
}

/// The command line that makes this binary play one role; the rest are the role's own arguments.
pub fn myself_as(role: &str) -> Vec<OsString> {
    let myself = std::env::current_exe().unwrap().into_os_string();
    let mut line = vec![myself];
    line.extend(["--ignored", "--exact", "--nocapture", role, "--"].map(OsString::from));
    line
}

/// The arguments of this binary's role, or `None` in an ordinary test run.
pub fn role_arguments() -> Option<Vec<OsString>> {
    let mut args = std::env::args_os();
    args.by_ref().find(|arg| arg == "--")?;
    Some(args.collect())
}

/// A shell script as a program.
pub fn shell(script: &str, dir: &Path) -> Program {
    Program {
        argv: vec!["sh".into(), "-c".into(), script.into()],
        dir: dir.to_owned(),
        environment: environment(),
        stdin: Vec::new(),
    }
}

/// Limits that a test does not reach.
pub fn roomy() -> Bounds {
    let grace = Duration::from_millis(300);
    Bounds { wall: 10 * PATIENCE, idle: None, tool_idle: None, grace, output_bytes_max: 1 << 20 }
}

/// Runs a program to its end, and returns its standard output without the test harness's own lines.
pub async fn finish(running: RunningProgram, cancel: &CancellationToken) -> (FinishedProgram, Vec<String>) {
    let (sender, mut lines) = mpsc::channel::<Line>(16);
    let collect = async {
        let mut said = Vec::new();
        while let Some(line) = lines.recv().await {
            let harness = line.text.is_empty() || line.text == "running 1 test";
            if !harness {
                said.push(line.text);
            }
        }
        said
    };
    tokio::join!(running.wait(sender, cancel), collect)
}

/// Waits until a condition holds, or fails the test after a long while.
pub async fn eventually(what: &str, holds: impl FnMut() -> bool) {
    assert!(becomes_so(PATIENCE, holds).await, "{what} did not happen");
}

/// Whether a condition comes to hold in time.
#[must_use]
pub async fn becomes_so(patience: Duration, mut holds: impl FnMut() -> bool) -> bool {
    let clock = clock();
    while !holds() {
        if clock.monotonic() >= patience {
            return holds();
        }
        clock.sleep(Duration::from_millis(10)).await;
    }
    true
}

/// Whether a process of this pid runs; a zombie does not.
pub fn runs(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, fields)| !fields.starts_with(['Z', 'X']))
}

/// The role of [`guarded`]: for the body of an ignored test called `guards::plays_the_guard`.
pub fn play_the_guard() -> ! {
    let args = role_arguments().unwrap();
    std::process::exit(sandbox::run_guard(args).into())
}

/// The pid that a script wrote into a file, once it is complete.
pub fn pid_in(file: &Path) -> Option<i32> {
    fs::read_to_string(file).ok()?.strip_suffix('\n')?.parse().ok()
}
