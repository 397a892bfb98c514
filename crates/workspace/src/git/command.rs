//! One git command: built, run, bounded in time, and ended with all its child processes.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::process::{ExitStatus, Stdio};

use domain::CommitSha;
use sandbox::{FileLock, Group, Sandbox};
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

use super::output::{
    ANSWER_BYTES_MAX, GitOutput, GitOutputHead, OutputPart, Read, STDERR_BYTES_MAX, read_first, read_up_to,
};
use super::{Git, GitError};
use crate::remote::{Remote, Transport};

/// A builder of one git command.
#[derive(Debug)]
pub(crate) struct GitCommand<'a> {
    pub(super) git: &'a Git,
    git_dir: &'a Path,
    verb: &'static str,
    work_tree: Option<&'a Path>,
    pub(super) index: Option<&'a Path>,
    pub(super) transport: Transport,
    pub(super) remote: Option<&'a Remote>,
    pub(super) promisor: Option<&'a Remote>,
    pub(super) trusted: Option<&'a Path>,
    pub(super) large_files: Option<&'a Remote>,
    lock: Option<&'a FileLock>,
    /// It touches what an agent could have edited, and contacts no remote.
    pub(super) is_alone: bool,
    sandbox: Option<Sandbox>,
    args: Vec<OsString>,
    stdin: Vec<u8>,
}

impl<'a> GitCommand<'a> {
    pub(super) fn new(git: &'a Git, git_dir: &'a Path, verb: &'static str) -> Self {
        Self {
            git,
            git_dir,
            verb,
            work_tree: None,
            index: None,
            transport: Transport::None,
            remote: None,
            promisor: None,
            trusted: None,
            large_files: None,
            lock: None,
            is_alone: false,
            sandbox: None,
            args: Vec::new(),
            stdin: Vec::new(),
        }
    }

    pub(crate) fn work_tree(mut self, path: &'a Path) -> Self {
        self.work_tree = Some(path);
        self
    }

    pub(crate) fn index(mut self, path: &'a Path) -> Self {
        self.index = Some(path);
        self
    }

    /// Talks to `remote`, with its transport and its credential.
    pub(crate) fn talking_to(mut self, remote: &'a Remote) -> Self {
        self.remote = Some(remote);
        self.transport(remote.transport())
    }

    pub(crate) fn transport(mut self, transport: Transport) -> Self {
        self.transport = transport;
        self
    }

    /// Lets git fetch missing contents of a partial mirror from `remote`.
    pub(crate) fn lazily(mut self, remote: &'a Remote) -> Self {
        self.promisor = Some(remote);
        self.transport(remote.transport())
    }

    /// Reads a repository of another account as untrusted; `settings` is the one file that allows it.
    pub(crate) fn trusting(mut self, settings: &'a Path) -> Self {
        self.trusted = Some(settings);
        self
    }

    /// Lets git fetch and push contents of large file storage at `remote`.
    pub(crate) fn large_files(mut self, remote: &'a Remote) -> Self {
        self.large_files = Some(remote);
        self
    }

    /// Touches what an agent could have edited: fetches no missing contents of a partial mirror, has no credential, and
    /// runs inside the sandbox if there is one. A setting of the agent's that runs a program after all finds nothing
    /// there.
    pub(crate) fn on_agents_files(mut self, sandbox: Option<Sandbox>) -> Self {
        self.is_alone = true;
        self.sandbox = sandbox;
        self.transport(Transport::None)
    }

    pub(crate) fn arg(mut self, arg: impl Into<OsString>) -> Self {
        self.args.push(arg.into());
        self
    }

    pub(crate) fn args<const N: usize>(mut self, args: [&str; N]) -> Self {
        self.args.extend(args.map(OsString::from));
        self
    }

    /// Works on what `lock` protects. Git holds the lock too, as its standard input: if this process dies, or abandons
    /// git, the lock stays held until git is gone. Not together with [`GitCommand::stdin`].
    pub(crate) fn under(mut self, lock: &'a FileLock) -> Self {
        self.lock = Some(lock);
        self
    }

    pub(crate) fn stdin(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.stdin = bytes.into();
        self
    }

    /// Runs it, expects exit code 0, and returns its output.
    pub(crate) async fn output(self) -> Result<Vec<u8>, GitError> {
        let answer = self.run().await?;
        if answer.is_success() { Ok(answer.into_stdout()) } else { Err(answer.failure()) }
    }

    /// Runs it and expects exit code 0.
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
    pub(crate) async fn run(self) -> Result<GitOutput, GitError> {
        let verb = self.verb;
        match self.listen(OutputPart::Whole).await? {
            (status, Read::Whole(stdout), stderr) => Ok(GitOutput::new(verb, status, stdout, stderr)),
            (_, Read::Cut(_), _) => Err(GitError::AnswerTooLong { verb }),
        }
    }

    /// Runs it for the first `bytes_max` bytes of its output, and kills it there. Expects exit code 0 of one that ends
    /// by itself.
    pub(crate) async fn beginning(self, bytes_max: usize) -> Result<GitOutputHead, GitError> {
        let verb = self.verb;
        match self.listen(OutputPart::First(bytes_max)).await? {
            (_, Read::Cut(bytes), _) => Ok(GitOutputHead { bytes, is_cut: true }),
            (status, Read::Whole(bytes), _) if status.success() => Ok(GitOutputHead { bytes, is_cut: false }),
            (status, Read::Whole(_), stderr) => Err(GitError::failed(verb, status.code(), &stderr)),
        }
    }

    async fn listen(self, part: OutputPart) -> Result<(ExitStatus, Read, Vec<u8>), GitError> {
        let verb = self.verb;
        let limit = if self.transport == Transport::Network { self.git.network } else { self.git.local };
        let mut command = self.command()?;
        let spawned = match &self.sandbox {
            Some(sandbox) => sandbox.spawn(&mut command),
            None => command.spawn(),
        };
        let mut child = spawned.map_err(|source| GitError::Start { verb, source })?;
        let group = KillOnDrop::on(Group::of(&child));
        let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let everything = async {
            let feed = async {
                if let Some(mut pipe) = stdin {
                    // A git that stops reading reports the reason by its exit code.
                    let _ = pipe.write_all(&self.stdin).await;
                }
            };
            let answer = async {
                match part {
                    OutputPart::Whole => read_up_to(stdout, ANSWER_BYTES_MAX).await,
                    OutputPart::First(max) => read_first(stdout, max).await,
                }
            };
            let ((), stdout, stderr) = tokio::join!(feed, answer, read_up_to(stderr, STDERR_BYTES_MAX));
            (child.wait().await, stdout, stderr)
        };
        let Ok((status, stdout, stderr)) = tokio::time::timeout(limit, everything).await else {
            return Err(GitError::TimedOut { verb, limit });
        };
        group.release();
        let status = status.map_err(|source| GitError::Start { verb, source })?;
        Ok((status, stdout, stderr.into_bytes()))
    }

    fn command(&self) -> Result<Command, GitError> {
        let mut command = Command::new("git");
        command.env_clear().envs(self.environment()).current_dir(self.work_tree.unwrap_or(self.git_dir));
        for setting in self.settings() {
            command.arg("-c").arg(setting);
        }
        command.arg("--literal-pathspecs").arg(joined("--git-dir=", self.git_dir));
        if let Some(work_tree) = self.work_tree {
            command.arg(joined("--work-tree=", work_tree));
        }
        command.arg(self.verb).args(&self.args);
        let stdin = match self.lock {
            Some(lock) => lock.share().map_err(|source| GitError::Start { verb: self.verb, source })?.into(),
            None => Stdio::piped(),
        };
        command.stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped());
        // A process group of its own, so that the ssh or pack process below it ends with it.
        command.process_group(0).kill_on_drop(true);
        Ok(command)
    }
}

/// Kills a git and all that it started, unless it ended by itself: a dropped command leaves nothing running.
struct KillOnDrop(Option<Group>);

impl KillOnDrop {
    fn on(group: Group) -> Self {
        Self(Some(group))
    }

    fn release(mut self) {
        self.0 = None;
    }
}

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        if let Some(group) = self.0 {
            group.kill();
        }
    }
}

fn joined(option: &str, path: &Path) -> OsString {
    let mut bytes = option.as_bytes().to_vec();
    bytes.extend_from_slice(path.as_os_str().as_bytes());
    OsString::from_vec(bytes)
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use super::*;
    use domain::CommitAuthor;

    use crate::config::GitConfig;
    use sandbox::Limits;

    // [attack: a prompt-injected agent steals secrets]
    #[test]
    fn a_login_never_stands_on_a_command_line() {
        let git = Git::new(
            OsStr::new("/bin"),
            Path::new("/empty"),
            GitConfig::default(),
            CommitAuthor::default(),
            &Limits::default(),
        );
        let remote = Remote::parse("https://me:hunter2@forge.example/a.git").unwrap();

        let call = git.call(Path::new("/mirror"), "fetch").talking_to(&remote).arg(remote.url());
        let command = call.command().unwrap();
        let partial = git.call(Path::new("/mirror"), "read-tree").lazily(&remote).command().unwrap();

        for command in [command, partial] {
            let shown = command.as_std().get_args().map(|arg| arg.to_string_lossy()).collect::<Vec<_>>().join(" ");
            assert!(!shown.contains("hunter2") && shown.contains("credential.helper=!"), "{shown}");
            let given = command.as_std().get_envs().any(|(_, value)| value == Some(OsStr::new("hunter2")));
            assert!(given, "git is told who we are");
        }
    }

    #[test]
    fn the_operators_helpers_are_asked_by_commands_that_talk_to_a_network() {
        let home = tempfile::tempdir().unwrap();
        std::fs::write(home.path().join(".gitconfig"), "[credential]\n\thelper = mine\n").unwrap();
        let path = std::env::var_os("PATH").unwrap();
        let operator = crate::git::OperatorAccess::read(&path, Some(home.path().to_owned()));
        let empty = Path::new("/empty");
        let git = Git::new(&path, empty, GitConfig::default(), CommitAuthor::default(), &Limits::default());
        let git = git.with_access_of(operator);
        let network = Remote::parse("https://forge.example/a.git").unwrap();
        let login = Remote::parse("https://me:hunter2@forge.example/a.git").unwrap();
        let local = Remote::parse("/srv/a.git").unwrap();
        let asks = |call: GitCommand<'_>| {
            let command = call.command().unwrap();
            let args: Vec<String> = command.as_std().get_args().map(|arg| arg.to_string_lossy().into_owned()).collect();
            let variables: Vec<_> = command.as_std().get_envs().filter_map(|(_, value)| value).collect();
            let is_at_home = variables.contains(&home.path().as_os_str());
            let is_told =
                variables.contains(&OsStr::new("credential.helper")) && variables.contains(&OsStr::new("mine"));
            is_at_home && is_told && !args.iter().any(|arg| arg == "credential.helper=")
        };

        let call = || git.call(Path::new("/mirror"), "fetch");
        assert!(asks(call().talking_to(&network)));
        assert!(!asks(call().talking_to(&login)), "a login in the address goes first");
        assert!(!asks(call().talking_to(&local)) && !asks(call()));
        assert!(!asks(call().lazily(&network).on_agents_files(None)));
    }

    // [T8] [attack: hostile repository]
    #[test]
    fn a_command_on_an_agents_files_has_no_login_and_fetches_nothing_by_itself() {
        let access = GitConfig { ssh_auth_sock: Some("/agent.sock".into()), ..GitConfig::default() };
        let git =
            Git::new(OsStr::new("/bin"), Path::new("/empty"), access, CommitAuthor::default(), &Limits::default());
        let remote = Remote::parse("https://me:hunter2@forge.example/a.git").unwrap();

        let call = git.call(Path::new("/mirror"), "fetch").lazily(&remote).large_files(&remote);
        let command = call.on_agents_files(None).transport(Transport::Folder).command().unwrap();

        let args: Vec<String> = command.as_std().get_args().map(|arg| arg.to_string_lossy().into_owned()).collect();
        let allowed: Vec<&String> = args.iter().filter(|arg| arg.ends_with(".allow=always")).collect();
        assert_eq!(allowed, ["protocol.file.allow=always"]);
        assert!(!args.iter().any(|arg| arg.starts_with("credential.helper=!")), "{args:?}");
        let given = |wanted: &str| {
            let found = command.as_std().get_envs().find(|(name, _)| *name == wanted);
            found.and_then(|(_, value)| value).map(OsStr::to_owned)
        };
        assert_eq!(given("GIT_NO_LAZY_FETCH").as_deref(), Some(OsStr::new("1")));
        let secrets = ["GIGAFACTORY_GIT_USER", "GIGAFACTORY_GIT_PASSWORD", "SSH_AUTH_SOCK", "GIT_ASKPASS"].map(given);
        assert_eq!(secrets, [None, None, None, None]);
    }
}
