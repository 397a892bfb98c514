//! The process between a factory and a program it runs, so that the program never outlives the factory.
//!
//! The factory starts its own binary in this mode, as the leader of a new process group. The guard's standard input is
//! a pipe whose other end only the factory holds: it transfers the program's input, in frames, and stays open for as
//! long as the factory lives. When it closes, because the factory requests the end or was killed, the guard ends the
//! program with SIGTERM, then SIGKILL. It also kills whatever the program left behind, process groups of their own
//! included.
//!
//! The pipe transfers the lease's deadline as well, again after each renewal. The guard ends the program when that
//! instant passes, on its own clock: a factory that is stopped, or swapped out, or starved holds its pipe open and ends
//! nothing [I7].
//!
//! A guard is two processes, so that the program does not outlive a guard that is killed or stopped while its factory is
//! stopped. The outer one leads the group and passes the pipe's content on to the inner one, which does everything else.
//! When the inner one is killed, or is stopped and misses the deadline, the outer one kills the program. When the outer one
//! is killed, the kernel signals the inner one, which ends the program; when it is stopped, renewals do not arrive and the
//! deadline passes. Both killed at once, while the factory is stopped, is what this does not cover: the factory kills such
//! leftovers at its next start.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use bytes::{Buf, BytesMut};
use rustix::process::{Pid, Signal, getpgrp, getpid, getppid, kill_process, kill_process_group};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::pipe;
use tokio::process::{Child, ChildStdin, Command};
use tokio::signal::unix::{SignalKind, signal};

use crate::process::{BootInstant, DEADLINE_BYTES, LeaseDeadline, Sandbox, all_processes, exit_code};

/// The exit code of a guard that failed itself, as shells use it for a wrapper's own failure.
pub const GUARD_FAILED: u8 = 125;
/// The exit code when the program does not exist.
pub const PROGRAM_NOT_FOUND: u8 = 127;

/// The largest prompt. Prompts are text for a model; none is near this.
const STDIN_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// The largest backlog of an inner guard that does not read; the rest waits in the pipe.
const FORWARDED_BYTES_MAX: usize = 64 * 1024 * 1024;
const LENGTH_BYTES: usize = 8;
/// The header of a message: its kind, then its length.
const HEADER_BYTES: usize = 1 + LENGTH_BYTES;
const INPUT: u8 = b'i';
const DEADLINE: u8 = b'd';
const GRACE_OPTION: &str = "--grace-ms";
const ACCOUNT_OPTION: &str = "--as";
const LEASE_OPTION: &str = "--lease";
/// The first argument of an inner guard, followed by the process id of the outer one.
const INNER_OPTION: &str = "--inner";

/// How long a guard sleeps at most before it checks the deadline again. Timers stop while the machine is suspended and
/// the deadline's clock does not: the guard notices this long after the resume.
const DEADLINE_CHECK_EVERY: Duration = Duration::from_secs(1);

/// How much later than the inner guard the outer one ends a program whose factory is gone.
const INNER_DELAY_MAX: Duration = Duration::from_secs(5);

/// The exit code of a program that was killed, as shells give it.
const KILLED: u8 = 137;

/// Runs in the guard process: `args` are what followed the hidden subcommand. Returns the exit code.
pub fn run_guard(args: impl IntoIterator<Item = OsString>) -> u8 {
    let args: Vec<OsString> = args.into_iter().collect();
    let (outer, order) = match args.split_first() {
        Some((option, [outer, order @ ..])) if option == INNER_OPTION => (Some(outer.as_os_str()), order),
        _ => (None, args.as_slice()),
    };
    let Some(order) = Order::parse(order.iter().cloned()) else {
        return failed(
            &"expected `--grace-ms <n> [--as <uid>:<gid>] [--lease <ns>:<ns>] [<what it reaches> <path>] … -- <program> …`",
        );
    };
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return failed(&error),
    };
    let code = match outer {
        Some(outer) => runtime.block_on(watch(&order, outer)),
        None => runtime.block_on(oversee(&args, &order)),
    };
    let code = code.unwrap_or_else(|error| failed(&error));
    end_descendants();
    code
}

/// The outer guard: starts the inner one, forwards what the factory writes, and waits for its end. The caller kills a
/// program that outlives its deadline or its factory, together with the inner guard.
async fn oversee(args: &[OsString], order: &Order) -> io::Result<u8> {
    adopt_orphans()?;
    let mut told_to_end = [SignalKind::terminate(), SignalKind::interrupt(), SignalKind::hangup()].map(signal);
    let line: Vec<OsString> = std::env::args_os().skip(1).collect();
    let role = &line[..line.len().saturating_sub(args.len())];
    let mut inner = Command::new(this_program()?)
        .args(role)
        .args([INNER_OPTION.into(), OsString::from(getpid().as_raw_nonzero().to_string())])
        .args(args)
        .stdin(Stdio::piped())
        .spawn()?;
    let lifeline = pipe::Receiver::from_owned_fd(io::stdin().as_fd().try_clone_to_owned()?)?;
    let expiry = forward(lifeline, inner.stdin.take(), order);
    tokio::pin!(expiry);
    let [term, int, hup] = &mut told_to_end;
    loop {
        tokio::select! {
            () = &mut expiry => return Ok(KILLED),
            status = inner.wait() => return Ok(code(exit_code(status?))),
            () = told(term) => {}
            () = told(int) => {}
            () = told(hup) => {}
        }
        // A signal to the whole group has reached it already, and it ends its program once.
        signal_child(&inner, Signal::TERM);
    }
}

/// Forwards to the inner guard what the factory writes, and reads the deadlines in it. Resolves when the program must
/// be killed: its deadline has passed, or its factory is gone.
async fn forward(mut lifeline: pipe::Receiver, mut inner: Option<ChildStdin>, order: &Order) {
    // Only the deadlines matter here.
    let mut messages = Messages { is_ended: true, ..Messages::default() };
    let mut kill_at = order.deadline.map(|deadline| deadline.kill_at);
    let (mut waiting, mut chunk, mut is_open) = (BytesMut::new(), vec![0; 16 * 1024], true);
    loop {
        if inner.is_none() {
            waiting.clear();
        } else if waiting.is_empty() && !is_open {
            inner = None;
        }
        let read = async {
            match is_open && waiting.len() <= FORWARDED_BYTES_MAX {
                true => lifeline.read(&mut chunk).await,
                false => std::future::pending().await,
            }
        };
        let write = async {
            match &mut inner {
                Some(inner) if !waiting.is_empty() => inner.write(&waiting).await,
                _ => std::future::pending().await,
            }
        };
        tokio::select! {
            read = read => match read {
                Ok(read @ 1..) => {
                    messages.take(&chunk[..read]);
                    waiting.extend_from_slice(&chunk[..read]);
                }
                Ok(0) | Err(_) => {
                    is_open = false;
                    let latest = BootInstant::now().after(order.grace + INNER_DELAY_MAX);
                    kill_at = Some(kill_at.map_or(latest, |kill_at| kill_at.min(latest)));
                }
            },
            written = write => match written {
                Ok(written @ 1..) => waiting.advance(written),
                Ok(0) | Err(_) => inner = None,
            },
            () = passing_of(kill_at) => return,
        }
        if let Some(renewed) = messages.deadline.take() {
            kill_at = Some(renewed.kill_at);
        }
    }
}

/// Has the kernel send this process a signal when the outer guard dies. A dead outer guard is an error.
fn follow_outer(outer: &OsStr) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    rustix::process::set_parent_process_death_signal(Some(Signal::TERM))?;
    match getppid().is_some_and(|parent| is_named(parent, outer)) {
        true => Ok(()),
        false => Err(io::Error::other("the outer guard was killed")),
    }
}

fn is_named(pid: Pid, name: &OsStr) -> bool {
    OsStr::new(&pid.as_raw_nonzero().to_string()) == name
}

/// The program of this process, also when its file was replaced by an upgrade.
fn this_program() -> io::Result<PathBuf> {
    if cfg!(target_os = "linux") { Ok(PathBuf::from("/proc/self/exe")) } else { std::env::current_exe() }
}

/// A message of a factory to its guard.
pub(crate) enum Message<'a> {
    /// Input for the program. The first one is read whole before the program starts; an empty one after it is the end.
    Input(&'a [u8]),
    /// The lease was renewed: the new deadline.
    Deadline(LeaseDeadline),
}

impl Message<'_> {
    /// Its bytes in the pipe: kind, length and content.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let deadline;
        let (kind, body) = match self {
            Self::Input(bytes) => (INPUT, *bytes),
            Self::Deadline(at) => {
                deadline = at.to_bytes();
                (DEADLINE, deadline.as_slice())
            }
        };
        let mut bytes = vec![kind];
        bytes.extend(u64::try_from(body.len()).unwrap_or(u64::MAX).to_be_bytes());
        bytes.extend(body);
        bytes
    }
}

/// The guard's instructions.
pub(crate) struct Order {
    /// The time between SIGTERM and SIGKILL.
    pub grace: Duration,
    /// User and group of the program, if they are not the guard's own. The guard keeps the factory's account: a program
    /// under another account cannot kill it.
    pub ids: Option<(u32, u32)>,
    /// The program's sandbox, if any.
    pub sandbox: Option<Sandbox>,
    /// The deadline of the program, if it runs under a lease.
    pub deadline: Option<LeaseDeadline>,
    /// The program and its arguments.
    pub argv: Vec<OsString>,
}

impl Order {
    /// The command line of these instructions for `guard`.
    pub(crate) fn command_line(self, guard: &[OsString]) -> Vec<OsString> {
        let mut options: Vec<OsString> = vec![GRACE_OPTION.into(), self.grace.as_millis().to_string().into()];
        if let Some((uid, gid)) = self.ids {
            options.extend([ACCOUNT_OPTION.into(), format!("{uid}:{gid}").into()]);
        }
        if let Some(deadline) = self.deadline {
            options.extend([LEASE_OPTION.into(), deadline.to_option().into()]);
        }
        options.extend(self.sandbox.iter().flat_map(Sandbox::options));
        options.push("--".into());
        guard.iter().cloned().chain(options).chain(self.argv).collect()
    }

    fn parse(args: impl IntoIterator<Item = OsString>) -> Option<Self> {
        let mut args = args.into_iter();
        let option = args.next().filter(|option| option == OsStr::new(GRACE_OPTION));
        let grace = option.and_then(|_| args.next())?.to_str()?.parse().ok()?;
        let (mut ids, mut sandbox, mut deadline) = (None, None, None);
        loop {
            let option = args.next()?;
            if option == OsStr::new("--") {
                break;
            }
            let value = args.next()?;
            if option == OsStr::new(ACCOUNT_OPTION) {
                let (uid, gid) = value.to_str()?.split_once(':')?;
                ids = Some((uid.parse().ok()?, gid.parse().ok()?));
            } else if option == OsStr::new(LEASE_OPTION) {
                deadline = Some(LeaseDeadline::from_option(value.to_str()?)?);
            } else {
                let reach = Sandbox::reach_of(&option)?;
                sandbox = Some(sandbox.unwrap_or_else(Sandbox::default).told(value.into(), reach));
            }
        }
        let argv: Vec<OsString> = args.collect();
        (!argv.is_empty()).then_some(Self { grace: Duration::from_millis(grace), ids, sandbox, deadline, argv })
    }
}

async fn watch(order: &Order, outer: &OsStr) -> io::Result<u8> {
    adopt_orphans()?;
    // Installed before the program starts: a signal to our group must not end the guard first.
    let mut told_to_end = [SignalKind::terminate(), SignalKind::interrupt(), SignalKind::hangup()].map(signal);
    follow_outer(outer)?;
    let mut lifeline = pipe::Receiver::from_owned_fd(io::stdin().as_fd().try_clone_to_owned()?)?;
    let input = read_input(&mut lifeline).await?;
    let mut deadline = order.deadline;
    // The factory was stopped before it wrote the input: another factory may hold the job by now.
    if deadline.is_some_and(|deadline| deadline.has_passed()) {
        return Ok(GUARD_FAILED);
    }
    let mut child = match start(order) {
        Ok(child) => child,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            failed(&error);
            return Ok(PROGRAM_NOT_FOUND);
        }
        Err(error) => return Err(error),
    };
    let stdin = child.stdin.take();
    let [term, int, hup] = &mut told_to_end;
    tokio::select! {
        status = child.wait() => return Ok(code(exit_code(status?))),
        () = relay(&mut lifeline, input, stdin, &mut deadline) => {}
        () = told(term) => {}
        () = told(int) => {}
        () = told(hup) => {}
    }
    let until_killed = deadline.map_or(order.grace, |deadline| deadline.kill_at.remaining());
    // Named after the outer guard if that one leads it, also once it is dead.
    let group = Some(getpgrp()).filter(|group| is_named(*group, outer));
    end(&mut child, group, order.grace.min(until_killed)).await
}

fn start(order: &Order) -> io::Result<Child> {
    let Some((name, args)) = order.argv.split_first() else { return Err(io::ErrorKind::InvalidInput.into()) };
    let mut command = Command::new(name);
    if let Some((uid, gid)) = order.ids {
        command.uid(uid).gid(gid);
    }
    command.args(args).stdin(Stdio::piped());
    match &order.sandbox {
        Some(sandbox) => sandbox.spawn(&mut command),
        None => command.spawn(),
    }
}

async fn read_input(lifeline: &mut pipe::Receiver) -> io::Result<Vec<u8>> {
    let mut header = [0; HEADER_BYTES];
    lifeline.read_exact(&mut header).await?;
    let (kind, length) = parse_header(&header);
    if kind != INPUT {
        return Err(io::ErrorKind::InvalidData.into());
    }
    if length > STDIN_BYTES_MAX {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    let mut input = Vec::new();
    lifeline.take(length).read_to_end(&mut input).await?;
    // Truncated, the factory is gone: a program must not act on half of its input.
    if u64::try_from(input.len()).ok() == Some(length) { Ok(input) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}

fn parse_header(header: &[u8; HEADER_BYTES]) -> (u8, u64) {
    let [kind, length @ ..] = *header;
    (kind, u64::from_be_bytes(length))
}

/// Forwards the program's input, and updates the deadline. Resolves when the factory has closed its end of the pipe,
/// and when the deadline passes.
async fn relay(
    lifeline: &mut pipe::Receiver,
    first: Vec<u8>,
    mut stdin: Option<ChildStdin>,
    deadline: &mut Option<LeaseDeadline>,
) {
    let mut messages = Messages { waiting: BytesMut::from(first.as_slice()), ..Messages::default() };
    let mut chunk = vec![0; 16 * 1024];
    loop {
        if messages.waiting.is_empty() && messages.is_ended {
            stdin = None;
        }
        let write = async {
            match &mut stdin {
                Some(stdin) if !messages.waiting.is_empty() => stdin.write(&messages.waiting).await,
                _ => std::future::pending().await,
            }
        };
        tokio::select! {
            read = lifeline.read(&mut chunk) => match read {
                Ok(read @ 1..) => messages.take(&chunk[..read]),
                Ok(0) | Err(_) => return,
            },
            written = write => match written {
                Ok(written @ 1..) => messages.waiting.advance(written),
                // A program need not read its input.
                Ok(0) | Err(_) => stdin = None,
            },
            () = passing_of(deadline.map(|deadline| deadline.stop_at)) => return,
        }
        if let Some(renewed) = messages.deadline.take() {
            *deadline = Some(renewed);
        }
        if stdin.is_none() {
            messages.waiting.clear();
        }
    }
}

/// Resolves when an instant has passed.
#[expect(clippy::disallowed_methods, reason = "a guard lives by the machine's clock alone")]
async fn passing_of(instant: Option<BootInstant>) {
    let Some(instant) = instant else { return std::future::pending().await };
    loop {
        let remaining = instant.remaining();
        if remaining.is_zero() {
            return;
        }
        tokio::time::sleep(remaining.min(DEADLINE_CHECK_EVERY)).await;
    }
}

/// Decodes the pipe's content.
#[derive(Default)]
struct Messages {
    /// Received bytes, headers included.
    raw: BytesMut,
    /// Pending input of the program, whole messages only.
    waiting: BytesMut,
    /// The input is closed.
    is_ended: bool,
    /// Bytes of a dropped message that are still to be read.
    skip: u64,
    /// The latest deadline, until it is taken.
    deadline: Option<LeaseDeadline>,
}

impl Messages {
    fn take(&mut self, bytes: &[u8]) {
        self.raw.extend_from_slice(bytes);
        loop {
            let skipped = usize::try_from(self.skip).unwrap_or(usize::MAX).min(self.raw.len());
            self.raw.advance(skipped);
            self.skip -= u64::try_from(skipped).unwrap_or(self.skip);
            let Some((kind, length)) = self.raw.first_chunk().map(parse_header) else { return };
            if !self.wants(kind, length) {
                self.raw.advance(HEADER_BYTES);
                self.skip = length;
                continue;
            }
            let came = self.raw.len() - HEADER_BYTES;
            let Some(size) = usize::try_from(length).ok().filter(|size| *size <= came) else { return };
            self.raw.advance(HEADER_BYTES);
            let body = self.raw.split_to(size);
            match (kind, <[u8; DEADLINE_BYTES]>::try_from(&*body)) {
                (DEADLINE, Ok(bytes)) => self.deadline = Some(LeaseDeadline::from_bytes(bytes)),
                _ => self.waiting.unsplit(body),
            }
        }
    }

    /// Whether a message is kept. The end of the input is recorded here: deadlines continue after it.
    fn wants(&mut self, kind: u8, length: u64) -> bool {
        match kind {
            INPUT => {
                let queued = u64::try_from(self.waiting.len()).unwrap_or(u64::MAX);
                // A program that has read nothing of so much never will.
                self.is_ended |= length == 0 || length.saturating_add(queued) > STDIN_BYTES_MAX;
                !self.is_ended
            }
            DEADLINE => u64::try_from(DEADLINE_BYTES) == Ok(length),
            _ => false,
        }
    }
}

async fn told(signal: &mut io::Result<tokio::signal::unix::Signal>) {
    match signal {
        Ok(signal) => {
            signal.recv().await;
        }
        Err(_) => std::future::pending().await,
    }
}

fn signal_child(child: &Child, signal: Signal) {
    let id = child.id().and_then(|id| i32::try_from(id).ok());
    if let Some(pid) = id.and_then(Pid::from_raw) {
        let _ = kill_process(pid, signal);
    }
}

async fn end(child: &mut Child, group: Option<Pid>, grace: Duration) -> io::Result<u8> {
    match group {
        // The guard is in this group too, and has handlers for it.
        Some(group) => drop(kill_process_group(group, Signal::TERM)),
        None => signal_child(child, Signal::TERM),
    }
    let polite = tokio::time::timeout(grace, child.wait()).await;
    let status = match polite {
        Ok(status) => status,
        Err(_) => {
            child.start_kill()?;
            child.wait().await
        }
    };
    Ok(code(exit_code(status?)))
}

/// Orphans below us become our children, also after `setsid`: no process escapes.
fn adopt_orphans() -> io::Result<()> {
    #[cfg(target_os = "linux")]
    rustix::process::set_child_subreaper(Some(getpid()))?;
    Ok(())
}

/// Kills all remaining descendants. Each death may make another orphan our child, so it repeats until there is none.
fn end_descendants() {
    loop {
        let processes = all_processes();
        let mut below = vec![getpid().as_raw_nonzero().get()];
        let mut next = 0;
        while let Some(parent) = below.get(next).copied() {
            below.extend(processes.iter().filter(|found| found.parent == parent).map(|found| found.pid));
            next += 1;
        }
        for pid in below.into_iter().skip(1).filter_map(Pid::from_raw) {
            let _ = kill_process(pid, Signal::KILL);
        }
        // Without /proc no process was killed, and the factory ends the group; waiting could take forever.
        let options = if processes.is_empty() {
            rustix::process::WaitOptions::NOHANG
        } else {
            rustix::process::WaitOptions::empty()
        };
        match rustix::process::wait(options) {
            Ok(Some(_)) => {}
            Ok(None) | Err(_) => return,
        }
    }
}

fn failed(error: &dyn std::fmt::Display) -> u8 {
    // The guard's only own line of output; it appears among the program's.
    let _ = io::Write::write_fmt(&mut io::stderr(), format_args!("guard: {error}\n"));
    GUARD_FAILED
}

fn code(exit: i32) -> u8 {
    u8::try_from(exit).unwrap_or(GUARD_FAILED)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::PathAccess;

    #[test]
    fn a_guard_reads_back_the_command_line_that_was_made_for_it() {
        let argv: Vec<OsString> = ["sh", "-c", "--", "--grace-ms"].map(OsString::from).to_vec();
        let sandbox =
            Sandbox::default().with("/state", PathAccess::Nothing).with("/state/tree", PathAccess::Everything);
        let guard = ["giga".into(), "__guard".into()];
        let (grace, ids, now) = (Duration::from_millis(1500), Some((7, 8)), BootInstant::now());
        let deadline = Some(LeaseDeadline { stop_at: now, kill_at: now.after(grace) });
        let order = Order { grace, ids, sandbox: Some(sandbox.clone()), deadline, argv: argv.clone() };

        let order = Order::parse(order.command_line(&guard).into_iter().skip(2)).unwrap();

        assert_eq!((order.grace, order.ids, order.argv), (grace, ids, argv));
        assert_eq!((order.sandbox, order.deadline), (Some(sandbox), deadline));
    }

    // [I7]
    #[test]
    fn deadlines_are_read_after_the_end_of_the_input() {
        let now = BootInstant::now();
        let deadline = LeaseDeadline { stop_at: now, kill_at: now.after(Duration::from_secs(5)) };
        let sent = [Message::Input(b"one"), Message::Input(b""), Message::Input(b"late"), Message::Deadline(deadline)];
        let bytes: Vec<u8> = sent.iter().flat_map(Message::to_bytes).collect();

        // In one piece, and byte by byte.
        for size in [bytes.len(), 1] {
            let mut messages = Messages::default();
            bytes.chunks(size).for_each(|chunk| messages.take(chunk));

            assert_eq!((&*messages.waiting, messages.is_ended), (&b"one"[..], true));
            assert_eq!(messages.deadline, Some(deadline));
        }
    }

    #[test]
    fn a_guard_without_a_program_is_a_mistake() {
        for args in [
            &["--grace-ms", "5", "--"][..],
            &["--", "sh"],
            &["--grace-ms", "x", "--", "sh"],
            &["--grace-ms", "5", "--as", "--", "sh"],
            &["--grace-ms", "5", "--reach", "/", "--", "sh"],
            &[],
        ] {
            assert!(Order::parse(args.iter().map(OsString::from)).is_none(), "{args:?}");
        }
    }
}
