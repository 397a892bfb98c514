//! The factory's own git: argv only, no settings but ours, nothing that a repository could make it run.

mod error;

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use domain::CommitSha;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::Command;

pub use error::GitError;

use crate::config::{GitConfig, Identity, Limits};
use crate::detect::find_program;
use crate::large_files;
use crate::process::{Enclosure, Group, Reach};
use crate::remote::{Remote, Transport};

/// Runs git commands.
#[derive(Debug, Clone)]
pub struct Git {
    path: OsString,
    home: PathBuf,
    access: GitConfig,
    identity: Identity,
    local: Duration,
    network: Duration,
}

/// Lists of changed files are the longest answers; a million names of 60 bytes fit.
const ANSWER_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// Enough for the lines that say what went wrong.
const STDERR_BYTES_MAX: u64 = 16 * 1024;

/// Whatever a configuration file says, these win. Each of them could otherwise name a program.
const HARDENING: [&str; 18] = [
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.sshCommand=ssh -oBatchMode=yes",
    "core.pager=cat",
    "core.editor=false",
    "core.attributesFile=/dev/null",
    "core.excludesFile=/dev/null",
    "core.alternateRefsCommand=true",
    "credential.helper=",
    "commit.gpgSign=false",
    "push.gpgSign=false",
    "submodule.recurse=false",
    "fetch.recurseSubmodules=false",
    "push.recurseSubmodules=no",
    "gc.auto=0",
    "maintenance.auto=false",
    "advice.detachedHead=false",
    "protocol.allow=never",
];

/// Where a system keeps its programs, and what they look up when they start.
const SYSTEM: [&str; 13] = [
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/nix/store",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/localtime",
    "/etc/passwd",
];
const DEVICES: [&str; 4] = ["/dev/null", "/dev/zero", "/dev/random", "/dev/urandom"];

/// The name that a partial mirror knows its remote by.
pub(crate) const PROMISOR: &str = "origin";
const PROMISED: &str = "remote.origin.promisor=true";
const PROMISED_LATER: &str = "remote.origin.partialCloneFilter=blob:none";

/// A login travels by environment, never by command line, which everybody on the machine can read.
const LOGIN_USER: &str = "GIGAFACTORY_GIT_USER";
const LOGIN_PASSWORD: &str = "GIGAFACTORY_GIT_PASSWORD";
const LOGIN_HELPER: &str = "credential.helper=!printf 'username=%s\\npassword=%s\\n' \"$GIGAFACTORY_GIT_USER\" \"$GIGAFACTORY_GIT_PASSWORD\" #";

fn allowed(transport: Transport) -> &'static [&'static str] {
    match transport {
        Transport::None => &[],
        Transport::Network => &["protocol.https.allow=always", "protocol.ssh.allow=always"],
        Transport::Folder => &["protocol.file.allow=always"],
    }
}

impl Git {
    /// Git as found on `path`, with `empty_home` as its home folder unless the configuration names another.
    pub fn new(path: &OsStr, empty_home: &Path, access: GitConfig, identity: Identity, limits: &Limits) -> Self {
        Self {
            path: absolute_entries(path),
            home: access.home.clone().unwrap_or_else(|| empty_home.to_owned()),
            access,
            identity,
            local: Duration::from_millis(limits.git_local_ms),
            network: Duration::from_millis(limits.git_network_ms),
        }
    }

    /// The same git with commits by somebody else.
    #[must_use]
    pub(crate) fn by(mut self, identity: Identity) -> Self {
        self.identity = identity;
        self
    }

    /// Where its programs are looked for.
    pub(crate) fn path(&self) -> &OsStr {
        &self.path
    }

    /// Who our commits are by.
    pub(crate) fn identity(&self) -> &Identity {
        &self.identity
    }

    /// What its programs are made of, and nothing else of this machine.
    pub(crate) fn enclosure(&self) -> Enclosure {
        let program = find_program("git", Some(&self.path)).and_then(|program| program.canonicalize().ok());
        // Where it is not installed with the system it brings its own helpers, beside the folder that it is in.
        let own = program.and_then(|program| program.ancestors().nth(2).map(Path::to_owned));
        let own = own.filter(|folder| folder.components().count() > 2);
        let read = SYSTEM.map(PathBuf::from).into_iter().chain(own).map(|path| (path, Reach::Read));
        let devices = DEVICES.map(|path| (PathBuf::from(path), Reach::Everything));
        let none = Enclosure::default().with("/", Reach::Nothing);
        read.chain(devices).fold(none, |enclosure, (path, reach)| enclosure.with(path, reach))
    }

    /// Begins a git command that works on the repository `git_dir`, never on one that git finds by itself.
    pub(crate) fn call<'a>(&'a self, git_dir: &'a Path, verb: &'static str) -> Call<'a> {
        Call {
            git: self,
            git_dir,
            verb,
            work_tree: None,
            index: None,
            transport: Transport::None,
            remote: None,
            promisor: None,
            trusted: None,
            large_files: None,
            enclosure: None,
            args: Vec::new(),
            stdin: Vec::new(),
        }
    }
}

/// One git command being put together.
#[derive(Debug)]
pub(crate) struct Call<'a> {
    git: &'a Git,
    git_dir: &'a Path,
    verb: &'static str,
    work_tree: Option<&'a Path>,
    index: Option<&'a Path>,
    transport: Transport,
    remote: Option<&'a Remote>,
    promisor: Option<&'a Remote>,
    trusted: Option<&'a Path>,
    large_files: Option<&'a Remote>,
    enclosure: Option<Enclosure>,
    args: Vec<OsString>,
    stdin: Vec<u8>,
}

/// What a git command said.
#[derive(Debug)]
pub(crate) struct Answer {
    verb: &'static str,
    status: ExitStatus,
    stdout: Vec<u8>,
    stderr: Vec<u8>,
}

impl<'a> Call<'a> {
    pub(crate) fn work_tree(mut self, path: &'a Path) -> Self {
        self.work_tree = Some(path);
        self
    }

    pub(crate) fn index(mut self, path: &'a Path) -> Self {
        self.index = Some(path);
        self
    }

    /// Talks to `remote`, with its transport and its login.
    pub(crate) fn talking_to(mut self, remote: &'a Remote) -> Self {
        self.remote = Some(remote);
        self.transport(remote.transport())
    }

    pub(crate) fn transport(mut self, transport: Transport) -> Self {
        self.transport = transport;
        self
    }

    /// Lets git ask `remote` for contents that a partial mirror does not have yet.
    pub(crate) fn lazily(mut self, remote: &'a Remote) -> Self {
        self.promisor = Some(remote);
        self.transport(remote.transport())
    }

    /// Reads a repository of another account as a stranger; `settings` is the one file that says so.
    pub(crate) fn trusting(mut self, settings: &'a Path) -> Self {
        self.trusted = Some(settings);
        self
    }

    /// Lets git ask the large file storage of `remote` for contents, and give it some.
    pub(crate) fn large_files(mut self, remote: &'a Remote) -> Self {
        self.large_files = Some(remote);
        self
    }

    /// Runs inside of an enclosure, if there is one.
    pub(crate) fn enclosed(mut self, enclosure: Option<Enclosure>) -> Self {
        self.enclosure = enclosure;
        self
    }

    pub(crate) fn arg(mut self, arg: impl Into<OsString>) -> Self {
        self.args.push(arg.into());
        self
    }

    pub(crate) fn args<const N: usize>(mut self, args: [&str; N]) -> Self {
        self.args.extend(args.map(OsString::from));
        self
    }

    pub(crate) fn stdin(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.stdin = bytes.into();
        self
    }

    /// Runs it and wants exit code 0; gives what it printed.
    pub(crate) async fn output(self) -> Result<Vec<u8>, GitError> {
        let answer = self.run().await?;
        if answer.status.success() { Ok(answer.stdout) } else { Err(answer.failure()) }
    }

    /// Runs it and wants exit code 0.
    pub(crate) async fn done(self) -> Result<(), GitError> {
        self.output().await.map(drop)
    }

    /// Runs a command that prints the name of one object.
    pub(crate) async fn object(self) -> Result<CommitSha, GitError> {
        let verb = self.verb;
        let printed = self.output().await?;
        std::str::from_utf8(&printed)
            .ok()
            .and_then(|text| text.trim_end().parse().ok())
            .ok_or(GitError::Garbled { verb })
    }

    /// Runs a command that answers yes by exit code 0 and no by 1.
    pub(crate) async fn holds(self) -> Result<bool, GitError> {
        let answer = self.run().await?;
        match answer.code() {
            Some(0) => Ok(true),
            Some(1) => Ok(false),
            _ => Err(answer.failure()),
        }
    }

    /// Runs it, whatever the exit code.
    pub(crate) async fn run(self) -> Result<Answer, GitError> {
        let verb = self.verb;
        let limit = if self.transport == Transport::Network { self.git.network } else { self.git.local };
        let mut command = self.command();
        let spawned = match &self.enclosure {
            Some(enclosure) => enclosure.spawn(&mut command),
            None => command.spawn(),
        };
        let mut child = spawned.map_err(|source| GitError::Start { verb, source })?;
        let group = Group::of(&child);
        let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let everything = async {
            let feed = async {
                if let Some(mut pipe) = stdin {
                    // A git that stops reading says why by its exit code.
                    let _ = pipe.write_all(&self.stdin).await;
                }
            };
            let ((), stdout, stderr) =
                tokio::join!(feed, read_up_to(stdout, ANSWER_BYTES_MAX), read_up_to(stderr, STDERR_BYTES_MAX));
            (child.wait().await, stdout, stderr)
        };
        let Ok((status, stdout, stderr)) = tokio::time::timeout(limit, everything).await else {
            group.kill();
            return Err(GitError::TimedOut { verb, limit });
        };
        let status = status.map_err(|source| GitError::Start { verb, source })?;
        match stdout {
            Read::Whole(stdout) => Ok(Answer { verb, status, stdout, stderr: stderr.into_bytes() }),
            Read::Cut(_) => Err(GitError::AnswerTooLong { verb }),
        }
    }

    fn command(&self) -> Command {
        let mut command = Command::new("git");
        command.env_clear().envs(self.environment()).current_dir(self.work_tree.unwrap_or(self.git_dir));
        for setting in HARDENING {
            command.args(["-c", setting]);
        }
        let asked = self.promisor.map(Remote::transport);
        for transport in std::iter::once(self.transport).chain(asked.filter(|asked| *asked != self.transport)) {
            for setting in allowed(transport) {
                command.args(["-c", setting]);
            }
        }
        if let Some(remote) = self.promisor {
            let url = format!("remote.{PROMISOR}.url={}", remote.url());
            for setting in [PROMISED, PROMISED_LATER, url.as_str()] {
                command.args(["-c", setting]);
            }
        }
        for setting in self.large_files.map(large_files::settings).unwrap_or_default() {
            command.args(["-c", &setting]);
        }
        if let Some(credential) = self.credential() {
            command.args(["-c", credential]);
        }
        command.arg("--literal-pathspecs").arg(joined("--git-dir=", self.git_dir));
        if let Some(work_tree) = self.work_tree {
            command.arg(joined("--work-tree=", work_tree));
        }
        command.arg(self.verb).args(&self.args);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // A group of its own, so that the ssh or pack process below it ends with it.
        command.process_group(0).kill_on_drop(true);
        command
    }

    fn environment(&self) -> Vec<(&'static str, OsString)> {
        let git = self.git;
        let mut variables: Vec<(&'static str, OsString)> = vec![
            ("PATH", git.path.clone()),
            ("HOME", git.home.clone().into()),
            ("LC_ALL", "C".into()),
            ("GIT_CONFIG_NOSYSTEM", "1".into()),
            ("GIT_CONFIG_GLOBAL", self.trusted.unwrap_or(Path::new("/dev/null")).into()),
            ("GIT_ATTR_NOSYSTEM", "1".into()),
            ("GIT_TERMINAL_PROMPT", "0".into()),
            ("GIT_NO_LAZY_FETCH", if self.promisor.is_some() { "0" } else { "1" }.into()),
            ("GIT_NO_REPLACE_OBJECTS", "1".into()),
            ("GIT_OPTIONAL_LOCKS", "0".into()),
            ("GIT_PROTOCOL_FROM_USER", "0".into()),
            ("GIT_AUTHOR_NAME", git.identity.name().into()),
            ("GIT_AUTHOR_EMAIL", git.identity.email().into()),
            ("GIT_COMMITTER_NAME", git.identity.name().into()),
            ("GIT_COMMITTER_EMAIL", git.identity.email().into()),
        ];
        if let Some(index) = self.index {
            variables.push(("GIT_INDEX_FILE", index.into()));
        }
        if self.transport == Transport::Network {
            let socket = git.access.ssh_auth_sock.clone().map(|socket| ("SSH_AUTH_SOCK", socket.into()));
            let askpass = git.access.askpass.clone().map(|program| ("GIT_ASKPASS", program.into()));
            variables.extend(socket.into_iter().chain(askpass));
        }
        if let Some((user, password)) = self.login() {
            variables.extend([(LOGIN_USER, user.into()), (LOGIN_PASSWORD, password.into())]);
        }
        variables
    }

    /// Who we are to the remote, where its address says so.
    fn login(&self) -> Option<(&str, &str)> {
        self.remote.or(self.promisor).or(self.large_files).and_then(Remote::login)
    }

    fn credential(&self) -> Option<&'static str> {
        self.login().map(|_| LOGIN_HELPER)
    }
}

impl Answer {
    pub(crate) fn code(&self) -> Option<i32> {
        self.status.code()
    }

    pub(crate) fn stdout(&self) -> &[u8] {
        &self.stdout
    }

    /// The error that this answer is, for a caller that expected another exit code.
    pub(crate) fn failure(&self) -> GitError {
        GitError::failed(self.verb, self.status.code(), &self.stderr)
    }
}

enum Read {
    Whole(Vec<u8>),
    Cut(Vec<u8>),
}

impl Read {
    fn into_bytes(self) -> Vec<u8> {
        match self {
            Self::Whole(bytes) | Self::Cut(bytes) => bytes,
        }
    }
}

/// Keeps the last `max` bytes or so and reads on, so that the writer never waits for us.
async fn read_up_to(pipe: Option<impl AsyncRead + Unpin>, max: u64) -> Read {
    let Some(mut pipe) = pipe else { return Read::Whole(Vec::new()) };
    let max = usize::try_from(max).unwrap_or(usize::MAX);
    let mut kept = Vec::new();
    let mut cut = false;
    let mut chunk = vec![0; 32 * 1024];
    while let Ok(read @ 1..) = pipe.read(&mut chunk).await {
        if kept.len() + read > max {
            cut = true;
            kept.drain(..kept.len() / 2);
        }
        kept.extend_from_slice(&chunk[..read]);
    }
    if cut { Read::Cut(kept) } else { Read::Whole(kept) }
}

/// Without relative entries: git runs inside worktrees, where a relative entry would be the agent's to fill.
fn absolute_entries(path: &OsStr) -> OsString {
    let kept = std::env::split_paths(path).filter(|entry| entry.is_absolute());
    // Joining fails only on an entry with `:` in it, which splitting cannot give.
    std::env::join_paths(kept).unwrap_or_default()
}

fn joined(option: &str, path: &Path) -> OsString {
    let mut bytes = option.as_bytes().to_vec();
    bytes.extend_from_slice(path.as_os_str().as_bytes());
    OsString::from_vec(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_login_never_stands_on_a_command_line() {
        let git = Git::new(
            OsStr::new("/bin"),
            Path::new("/empty"),
            GitConfig::default(),
            Identity::default(),
            &Limits::default(),
        );
        let remote = Remote::parse("https://me:hunter2@forge.example/a.git").unwrap();

        let call = git.call(Path::new("/mirror"), "fetch").talking_to(&remote).arg(remote.url());
        let command = call.command();
        let partial = git.call(Path::new("/mirror"), "read-tree").lazily(&remote).command();

        for command in [command, partial] {
            let shown = command.as_std().get_args().map(|arg| arg.to_string_lossy()).collect::<Vec<_>>().join(" ");
            assert!(!shown.contains("hunter2") && shown.contains("credential.helper=!"), "{shown}");
            let given = command.as_std().get_envs().any(|(_, value)| value == Some(OsStr::new("hunter2")));
            assert!(given, "git is told who we are");
        }
    }

    #[test]
    fn a_relative_folder_is_never_searched_for_programs() {
        assert_eq!(absolute_entries(OsStr::new("/usr/bin:.::bin:/bin")), OsString::from("/usr/bin:/bin"));
    }
}
