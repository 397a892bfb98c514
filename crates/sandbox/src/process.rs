//! Runs untrusted programs: in a process group of their own, within limits, and never left behind.

mod account;
mod ask;
mod environment;
mod group;
mod lease_deadline;
mod lines;
mod sandbox;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use domain::Clock;
use tokio::io::AsyncWriteExt;
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

pub use account::{Account, AccountError, own_homes};
pub use environment::{Environment, EnvironmentConfig};
pub use group::{Group, ProcessMark, exit_words, hide_from_siblings, kill_leftovers, signal_name};
pub(crate) use group::{all_processes, exit_code};
pub(crate) use lease_deadline::DEADLINE_BYTES;
pub use lease_deadline::{BootInstant, LeaseDeadline, LeaseWatch};
pub use lines::{Line, Source};
pub use sandbox::{PathAccess, Sandbox, SandboxBackend, SandboxMode, SandboxSummary};

use crate::guard::Message;
use crate::limits::Limits;
use crate::scrub::Scrubber;
use lines::OutputReader;

/// A program to run.
#[derive(Debug, Clone)]
pub struct Program {
    /// The program and its arguments. No shell ever sees them.
    pub argv: Vec<OsString>,
    /// The working directory.
    pub dir: PathBuf,
    /// Its whole environment.
    pub environment: Environment,
    /// What it reads from its standard input.
    pub stdin: Vec<u8>,
}

/// Limits of a program's time and output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bounds {
    /// From start to end.
    pub wall: Duration,
    /// Without any output; `None` for no limit.
    pub idle: Option<Duration>,
    /// Without any output while a tool call of the program is in progress; as `idle` when `None`.
    pub tool_idle: Option<Duration>,
    /// The time between SIGTERM and SIGKILL.
    pub grace: Duration,
    /// Output that is forwarded; the rest is read and dropped.
    pub output_bytes_max: u64,
}

/// How a program ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// By itself, with this code; 128 + n after signal n.
    Exited(i32),
    /// The factory ended it: wall clock timeout.
    TimedOut,
    /// The factory ended it: idle timeout.
    FellSilent,
    /// The factory or the guard ended it: it was cancelled, or its lease expired.
    Cancelled,
}

/// A finished program: nothing of its group is left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FinishedProgram {
    /// How it ended.
    pub end: End,
    /// How long it took.
    pub took: Duration,
    /// Whether output was dropped.
    pub output_cut: bool,
    /// Lines that were too long to be kept.
    pub lines_left_out: u64,
}

/// A program that could not be started.
#[derive(Debug, thiserror::Error)]
#[error("cannot start `{program}`")]
pub struct StartError {
    /// The program.
    pub program: String,
    /// Why not.
    #[source]
    pub source: io::Error,
}

/// Starts programs.
#[derive(Clone)]
pub struct Launcher {
    guard: Option<Vec<OsString>>,
    clock: Arc<dyn Clock>,
    account: Option<Account>,
    sandbox: Option<Sandbox>,
    scrubber: Scrubber,
    variables: BTreeMap<String, OsString>,
    home: Option<Home>,
    lease: Option<LeaseWatch>,
}

/// A home directory that replaces another.
#[derive(Clone)]
struct Home {
    shared: PathBuf,
    own: PathBuf,
}

/// A guard may need this long beyond the grace period to kill what its program left.
const GUARD_MARGIN: Duration = Duration::from_secs(2);
/// After the group is dead its pipes are closed; a process that escaped with one of them is not awaited.
const DRAIN_MAX: Duration = Duration::from_secs(1);

impl Bounds {
    /// The limits of an engine: what is left of its job's own wall clock, and never more than the host allows.
    pub fn engine(limits: &Limits, left: Option<Duration>) -> Self {
        let host = Self::of(limits, limits.engine_wall_ms);
        let wall = left.map_or(host.wall, |left| left.min(host.wall));
        let idle = Some(Duration::from_millis(limits.engine_idle_ms));
        let tool_idle = Some(Duration::from_millis(limits.tool_idle_ms));
        Self { wall, idle, tool_idle, ..host }
    }

    /// The limits of setup or verify commands.
    pub fn commands(limits: &Limits) -> Self {
        Self::of(limits, limits.verify_wall_ms)
    }

    fn of(limits: &Limits, wall_ms: u64) -> Self {
        Self {
            wall: Duration::from_millis(wall_ms),
            idle: None,
            tool_idle: None,
            grace: Duration::from_millis(limits.grace_ms),
            output_bytes_max: limits.output_bytes_max,
        }
    }
}

impl Launcher {
    /// Starts every program below a guard, so that none outlives this process, however it dies.
    ///
    /// `guard` is the command that calls [`crate::run_guard`] with the arguments that follow it.
    pub fn guarded(guard: Vec<OsString>, clock: Arc<dyn Clock>) -> Self {
        Self { guard: Some(guard), ..Self::unguarded(clock) }
    }

    /// Starts programs directly. They outlive this process if it is killed.
    pub fn unguarded(clock: Arc<dyn Clock>) -> Self {
        Self {
            guard: None,
            clock,
            account: None,
            sandbox: None,
            scrubber: Scrubber::default(),
            variables: BTreeMap::new(),
            home: None,
            lease: None,
        }
    }

    /// The same, for programs that run under a lease. The guard ends them when the lease expires, also while this
    /// process is stopped [I7].
    #[must_use]
    pub fn under_lease(mut self, lease: LeaseWatch) -> Self {
        self.lease = Some(lease);
        self
    }

    /// The same, with a home directory of its own for every program that would have the `shared` one.
    #[must_use]
    pub fn at_home(mut self, shared: PathBuf, own: PathBuf) -> Self {
        self.home = Some(Home { shared, own });
        self
    }

    /// The same, under another account of the machine.
    #[must_use]
    pub fn run_as(mut self, account: Option<Account>) -> Self {
        self.account = account;
        self
    }

    /// The same, inside a sandbox.
    #[must_use]
    pub fn enclosed(mut self, sandbox: Option<Sandbox>) -> Self {
        self.sandbox = sandbox;
        self
    }

    /// The same, with more access inside the sandbox, if there is one.
    #[must_use]
    pub fn reaching(mut self, more: impl IntoIterator<Item = (PathBuf, PathAccess)>) -> Self {
        for (path, reach) in more {
            self.sandbox = self.sandbox.map(|sandbox| sandbox.with(path, reach));
        }
        self
    }

    /// The same, with another sandbox.
    #[must_use]
    pub fn enclosed_by(mut self, change: impl FnOnce(Sandbox) -> Sandbox) -> Self {
        self.sandbox = self.sandbox.map(change);
        self
    }

    /// Whether its programs run inside a sandbox.
    pub fn is_enclosed(&self) -> bool {
        self.sandbox.is_some()
    }

    /// Whether the sandbox lets its programs read a path at all.
    pub fn reaches(&self, path: &Path) -> bool {
        self.sandbox.as_ref().is_none_or(|sandbox| sandbox.reach_at(path) != PathAccess::Nothing)
    }

    /// Whether the sandbox prevents its programs from creating files in an otherwise writable directory.
    pub fn narrows(&self, folder: &Path) -> bool {
        self.sandbox.as_ref().is_some_and(|sandbox| sandbox.narrows(folder))
    }

    /// The same, with these secrets scrubbed from the programs' output.
    #[must_use]
    pub fn scrubbing(mut self, scrubber: Scrubber) -> Self {
        self.scrubber = scrubber;
        self
    }

    /// The same, with variables for every program's environment.
    #[must_use]
    pub fn with_variables(mut self, variables: impl IntoIterator<Item = (String, OsString)>) -> Self {
        self.variables.extend(variables);
        self
    }

    /// The scrubber of its programs' output.
    pub fn scrubber(&self) -> &Scrubber {
        &self.scrubber
    }

    /// The account that programs run under, if it is another.
    pub fn account(&self) -> Option<&Account> {
        self.account.as_ref()
    }

    /// The clock of its programs' limits.
    pub fn clock(&self) -> Arc<dyn Clock> {
        Arc::clone(&self.clock)
    }

    /// Starts a program. Its time runs from now.
    pub fn start(&self, program: Program, bounds: Bounds) -> Result<RunningProgram, StartError> {
        let shown =
            program.argv.first().map(|name| domain::escape_for_terminal(&name.to_string_lossy())).unwrap_or_default();
        let fail = |source| StartError { program: shown.clone(), source };
        let mut lease = self.lease.clone();
        let argv = match &self.guard {
            Some(guard) => {
                let order = crate::guard::Order {
                    grace: bounds.grace,
                    ids: self.account.as_ref().map(|account| (account.uid(), account.gid())),
                    sandbox: self.sandbox.clone(),
                    deadline: lease.as_mut().map(|lease| *lease.borrow_and_update()),
                    argv: program.argv,
                };
                order.command_line(guard)
            }
            None => program.argv,
        };
        let Some((name, args)) = argv.split_first() else {
            return Err(fail(io::Error::new(io::ErrorKind::InvalidInput, "the command line is empty")));
        };
        let mut command = Command::new(name);
        command.args(args).current_dir(&program.dir).env_clear().envs(program.environment.variables());
        command.envs(&self.variables);
        let home =
            self.home.as_ref().filter(|home| program.environment.variable("HOME") == Some(home.shared.as_os_str()));
        if let Some(home) = home {
            command.env("HOME", &home.own);
        }
        if let (None, Some(account)) = (&self.guard, &self.account) {
            command.uid(account.uid()).gid(account.gid());
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.process_group(0).kill_on_drop(true);
        let spawned = match (&self.guard, &self.sandbox) {
            (None, Some(sandbox)) => sandbox.spawn(&mut command),
            (Some(_), _) | (None, None) => command.spawn(),
        };
        let mut child = spawned.map_err(fail)?;
        let group = Group::of(&child);
        let pipes = Pipes { stdin: child.stdin.take(), stdout: child.stdout.take(), stderr: child.stderr.take() };
        let reader = if self.guard.is_some() { Reader::Guard } else { Reader::Program };
        let input = Input { prompt: program.stdin, reader };
        let started_at = self.clock.monotonic();
        let leash = GroupKillOnDrop(group);
        let in_tool_call = Arc::default();
        let clock = Arc::clone(&self.clock);
        Ok(RunningProgram { leash, child, pipes, input, lease, bounds, in_tool_call, clock, started_at })
    }
}

/// A running program. Dropping it kills its group.
pub struct RunningProgram {
    leash: GroupKillOnDrop,
    child: Child,
    pipes: Pipes,
    input: Input,
    lease: Option<LeaseWatch>,
    bounds: Bounds,
    in_tool_call: Arc<AtomicBool>,
    clock: Arc<dyn Clock>,
    started_at: Duration,
}

struct Pipes {
    stdin: Option<ChildStdin>,
    stdout: Option<ChildStdout>,
    stderr: Option<ChildStderr>,
}

/// The first bytes of the standard input, and their reader.
struct Input {
    prompt: Vec<u8>,
    reader: Reader,
}

/// The reader of the pipe.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reader {
    Program,
    /// It forwards the bytes, and takes the open pipe as proof that the factory lives.
    Guard,
}

/// Kills the group when dropped.
struct GroupKillOnDrop(Group);

impl Drop for GroupKillOnDrop {
    fn drop(&mut self) {
        self.0.kill();
    }
}

impl RunningProgram {
    /// Identifies the process after a restart of the factory, when its pid may have been reused.
    pub fn mark(&self) -> ProcessMark {
        self.leash.0.mark()
    }

    /// Whether a tool call of the program is in progress: then another idle limit applies. Set by the reader of its
    /// output.
    pub fn in_tool_call(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.in_tool_call)
    }

    /// Waits for the end: by itself, by a limit, or by `cancel`. Lines go to `output` as they come; a slow reader slows
    /// the program down.
    pub async fn wait(self, output: mpsc::Sender<Line>, cancel: &CancellationToken) -> FinishedProgram {
        let (_, nothing_more) = mpsc::channel(1);
        self.converse(output, nothing_more, cancel).await
    }

    /// Like [`RunningProgram::wait`], but also writes the messages of `more` to the program after its first input,
    /// until there are no more.
    pub async fn converse(
        self,
        output: mpsc::Sender<Line>,
        more: mpsc::Receiver<Vec<u8>>,
        cancel: &CancellationToken,
    ) -> FinishedProgram {
        let Self { leash, mut child, pipes, input, lease, bounds, in_tool_call, clock, started_at } = self;
        let guarded = input.reader == Reader::Guard;
        let tap = OutputReader::new(output, &*clock, bounds.output_bytes_max);
        let let_go = CancellationToken::new();
        let streams = async {
            tokio::join!(
                feed(pipes.stdin, input, more, lease.clone(), &let_go),
                tap.run(pipes.stdout, Source::Out),
                tap.run(pipes.stderr, Source::Err)
            );
        };
        tokio::pin!(streams);
        let mut streaming = true;
        let limit = first_limit(&bounds, &in_tool_call, &*clock, &tap, cancel);
        tokio::pin!(limit);
        let end = loop {
            tokio::select! {
                status = child.wait() => break ended(status),
                end = &mut limit => break end,
                () = &mut streams, if streaming => streaming = false,
            }
        };
        let_go.cancel();
        if !matches!(end, End::Exited(_)) {
            // A guard forwards the request when its pipe closes; after a second signal some programs drop everything at
            // once.
            if !guarded {
                leash.0.terminate();
            }
            let patience = clock.sleep(if guarded { bounds.grace + GUARD_MARGIN } else { bounds.grace });
            tokio::pin!(patience);
            loop {
                tokio::select! {
                    _ = child.wait() => break,
                    () = &mut patience => break,
                    () = &mut streams, if streaming => streaming = false,
                }
            }
        }
        // Kill the rest of the group now; the leader is reaped, whatever ended it.
        drop(leash);
        let _ = child.wait().await;
        if streaming {
            let _ = tokio::time::timeout(DRAIN_MAX, &mut streams).await;
        }
        // Whatever its code is then: the guard has ended it, or did not report in time.
        let is_expired = lease.as_ref().is_some_and(|lease| lease.borrow().has_passed());
        let end = if matches!(end, End::Exited(_)) && is_expired { End::Cancelled } else { end };
        let took = clock.monotonic().saturating_sub(started_at);
        FinishedProgram { end, took, output_cut: tap.was_cut(), lines_left_out: tap.lines_left_out() }
    }
}

/// Writes the program's input, and to a guard each new deadline of the lease, until the program has ended.
async fn feed(
    pipe: Option<ChildStdin>,
    input: Input,
    more: mpsc::Receiver<Vec<u8>>,
    lease: Option<LeaseWatch>,
    let_go: &CancellationToken,
) {
    let Some(pipe) = pipe else { return };
    let written = async {
        match input.reader {
            Reader::Program => feed_program(pipe, input.prompt, more).await,
            Reader::Guard => feed_guard(pipe, input.prompt, more, lease).await,
        }
    };
    tokio::select! {
        () = written => {}
        () = let_go.cancelled() => {}
    }
}

async fn feed_program(mut pipe: ChildStdin, prompt: Vec<u8>, mut more: mpsc::Receiver<Vec<u8>>) {
    let mut next = Some(prompt);
    while let Some(bytes) = next {
        // A program need not read its input.
        let _ = pipe.write_all(&bytes).await;
        let _ = pipe.flush().await;
        next = more.recv().await;
    }
}

/// Never ends by itself: the open pipe shows the guard that this process lives.
async fn feed_guard(
    mut pipe: ChildStdin,
    prompt: Vec<u8>,
    mut more: mpsc::Receiver<Vec<u8>>,
    mut lease: Option<LeaseWatch>,
) {
    let mut message = Some(Message::Input(&prompt).to_bytes());
    let mut is_open = true;
    loop {
        if let Some(message) = message.take() {
            let _ = pipe.write_all(&message).await;
            let _ = pipe.flush().await;
        }
        message = tokio::select! {
            bytes = more.recv(), if is_open => {
                is_open = bytes.is_some();
                match bytes {
                    // For the guard an empty input is the end of it.
                    Some(bytes) if bytes.is_empty() => None,
                    bytes => Some(Message::Input(&bytes.unwrap_or_default()).to_bytes()),
                }
            }
            deadline = next_deadline(&mut lease) => Some(Message::Deadline(deadline).to_bytes()),
        };
    }
}

/// The deadline after a renewal. An expired lease has none.
async fn next_deadline(lease: &mut Option<LeaseWatch>) -> LeaseDeadline {
    if let Some(watched) = lease
        && watched.changed().await.is_ok()
    {
        return *watched.borrow_and_update();
    }
    std::future::pending().await
}

/// Resolves to the reason why the program must end now.
async fn first_limit(
    bounds: &Bounds,
    in_tool_call: &AtomicBool,
    clock: &dyn Clock,
    tap: &OutputReader<'_>,
    cancel: &CancellationToken,
) -> End {
    let silent = async {
        let Some(idle) = bounds.idle else { return std::future::pending().await };
        let tool_idle = bounds.tool_idle.unwrap_or(idle);
        loop {
            let max = if in_tool_call.load(Ordering::Relaxed) { tool_idle } else { idle };
            let quiet = tap.quiet_for();
            if quiet >= max {
                return;
            }
            // A tool call that ends meanwhile shortens the limit.
            clock.sleep((max - quiet).min(idle)).await;
        }
    };
    tokio::select! {
        () = cancel.cancelled() => End::Cancelled,
        () = clock.sleep(bounds.wall) => End::TimedOut,
        () = silent => End::FellSilent,
    }
}

fn ended(status: io::Result<ExitStatus>) -> End {
    // A process that cannot be waited for was reaped elsewhere; its exit code is lost.
    End::Exited(status.map_or(-1, exit_code))
}
