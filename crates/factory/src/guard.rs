//! The process between a factory and a program it runs, so that the program never outlives the factory.
//!
//! The factory starts its own binary in this mode, as the leader of a new process group. The guard's standard input is a
//! pipe whose other end only the factory holds: it brings what the program is to read, in frames, and stays open for as
//! long as the factory lives. When it closes, because the factory wants the end or because it was killed, the guard ends
//! the program, politely and then surely. It also ends whatever the program left behind, groups of their own included.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::AsFd;
use std::process::Stdio;
use std::time::Duration;

use bytes::{Buf, BytesMut};
use rustix::process::{Signal, getpgrp, getpid, kill_process_group};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::pipe;
use tokio::process::{Child, ChildStdin, Command};
use tokio::signal::unix::{SignalKind, signal};

use crate::process::{Account, Enclosure, all_processes, exit_code};

/// The exit code of a guard that could not do its work, as shells use it for a wrapper's own failure.
pub const GUARD_FAILED: u8 = 125;
/// The exit code when the program is not there.
pub const PROGRAM_NOT_FOUND: u8 = 127;

/// Prompts are text for a model; none is near this.
const STDIN_BYTES_MAX: u64 = 64 * 1024 * 1024;
const LENGTH_BYTES: usize = 8;
const GRACE_OPTION: &str = "--grace-ms";
const ACCOUNT_OPTION: &str = "--as";

/// Runs in the guard process: `args` are what followed the hidden subcommand. Gives the exit code to leave with.
pub fn run(args: impl IntoIterator<Item = OsString>) -> u8 {
    let Some(order) = Order::parse(args) else {
        return failed(&"expected `--grace-ms <n> [--as <uid>:<gid>] [<what it reaches> <path>] … -- <program> …`");
    };
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return failed(&error),
    };
    let code = runtime.block_on(watch(&order)).unwrap_or_else(|error| failed(&error));
    end_descendants();
    code
}

/// The command line that runs `argv` below `guard`. The guard itself stays who the factory is: a program under another
/// account cannot end it.
pub(crate) fn command_line(
    guard: &[OsString],
    grace: Duration,
    account: Option<&Account>,
    enclosure: Option<&Enclosure>,
    argv: &[OsString],
) -> Vec<OsString> {
    let mut options: Vec<OsString> = vec![GRACE_OPTION.into(), grace.as_millis().to_string().into()];
    if let Some(account) = account {
        options.extend([ACCOUNT_OPTION.into(), format!("{}:{}", account.uid(), account.gid()).into()]);
    }
    options.extend(enclosure.into_iter().flat_map(Enclosure::options));
    options.push("--".into());
    guard.iter().cloned().chain(options).chain(argv.iter().cloned()).collect()
}

/// What the guard reads: how long a piece of the program's input is, then the piece. The first piece is read whole
/// before the program starts; an empty one after it is the end of the input.
pub(crate) fn framed(piece: &[u8]) -> Vec<u8> {
    let mut framed = u64::try_from(piece.len()).unwrap_or(u64::MAX).to_be_bytes().to_vec();
    framed.extend(piece);
    framed
}

struct Order {
    grace: Duration,
    /// User and group that the program runs under, when they are not the guard's own.
    ids: Option<(u32, u32)>,
    /// What the program reaches, when that is not everything.
    enclosure: Option<Enclosure>,
    argv: Vec<OsString>,
}

impl Order {
    fn parse(args: impl IntoIterator<Item = OsString>) -> Option<Self> {
        let mut args = args.into_iter();
        let option = args.next().filter(|option| option == OsStr::new(GRACE_OPTION));
        let grace = option.and_then(|_| args.next())?.to_str()?.parse().ok()?;
        let (mut ids, mut enclosure) = (None, None);
        loop {
            let option = args.next()?;
            if option == OsStr::new("--") {
                break;
            }
            let value = args.next()?;
            if option == OsStr::new(ACCOUNT_OPTION) {
                let (uid, gid) = value.to_str()?.split_once(':')?;
                ids = Some((uid.parse().ok()?, gid.parse().ok()?));
            } else {
                let reach = Enclosure::reach_of(&option)?;
                enclosure = Some(enclosure.unwrap_or_else(Enclosure::default).told(value.into(), reach));
            }
        }
        let argv: Vec<OsString> = args.collect();
        (!argv.is_empty()).then_some(Self { grace: Duration::from_millis(grace), ids, enclosure, argv })
    }
}

async fn watch(order: &Order) -> io::Result<u8> {
    adopt_orphans()?;
    // Taken before the program starts: a signal to our group must not end us before it.
    let mut told_to_end = [SignalKind::terminate(), SignalKind::interrupt(), SignalKind::hangup()].map(signal);
    let mut lifeline = pipe::Receiver::from_owned_fd(io::stdin().as_fd().try_clone_to_owned()?)?;
    let input = read_input(&mut lifeline).await?;
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
        () = relay(&mut lifeline, input, stdin) => {}
        () = told(term) => {}
        () = told(int) => {}
        () = told(hup) => {}
    }
    end(&mut child, order.grace).await
}

fn start(order: &Order) -> io::Result<Child> {
    let Some((name, args)) = order.argv.split_first() else { return Err(io::ErrorKind::InvalidInput.into()) };
    let mut command = Command::new(name);
    if let Some((uid, gid)) = order.ids {
        command.uid(uid).gid(gid);
    }
    command.args(args).stdin(Stdio::piped());
    match &order.enclosure {
        Some(enclosure) => enclosure.spawn(&mut command),
        None => command.spawn(),
    }
}

async fn read_input(lifeline: &mut pipe::Receiver) -> io::Result<Vec<u8>> {
    let mut length = [0; LENGTH_BYTES];
    lifeline.read_exact(&mut length).await?;
    let length = u64::from_be_bytes(length);
    if length > STDIN_BYTES_MAX {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    let mut input = Vec::new();
    lifeline.take(length).read_to_end(&mut input).await?;
    // Cut short, the factory is gone: a program must not act on half of what it should have read.
    if u64::try_from(input.len()).ok() == Some(length) { Ok(input) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}

/// Passes on what the program is to read, and resolves when nobody holds the other end of the pipe any more.
async fn relay(lifeline: &mut pipe::Receiver, first: Vec<u8>, mut stdin: Option<ChildStdin>) {
    let mut pieces = Pieces { waiting: BytesMut::from(first.as_slice()), ..Pieces::default() };
    let mut chunk = vec![0; 16 * 1024];
    loop {
        if pieces.waiting.is_empty() && pieces.is_ended {
            stdin = None;
        }
        let write = async {
            match &mut stdin {
                Some(stdin) if !pieces.waiting.is_empty() => stdin.write(&pieces.waiting).await,
                _ => std::future::pending().await,
            }
        };
        tokio::select! {
            read = lifeline.read(&mut chunk) => match read {
                Ok(read @ 1..) => pieces.take(&chunk[..read]),
                Ok(0) | Err(_) => return,
            },
            written = write => match written {
                Ok(written @ 1..) => pieces.waiting.advance(written),
                // A program need not read what it is given.
                Ok(0) | Err(_) => stdin = None,
            },
        }
        if stdin.is_none() {
            pieces.waiting.clear();
        }
    }
}

/// The program's input on its way through the guard.
#[derive(Default)]
struct Pieces {
    /// Came in, frames and all.
    raw: BytesMut,
    /// Goes out, whole pieces only.
    waiting: BytesMut,
    is_ended: bool,
}

impl Pieces {
    fn take(&mut self, bytes: &[u8]) {
        if self.is_ended {
            return;
        }
        self.raw.extend_from_slice(bytes);
        while let Some((length, rest)) = self.raw.split_first_chunk::<LENGTH_BYTES>() {
            let length = u64::from_be_bytes(*length);
            let queued = u64::try_from(self.waiting.len()).unwrap_or(u64::MAX);
            // A program that reads nothing of so much never will.
            self.is_ended = length == 0 || length.saturating_add(queued) > STDIN_BYTES_MAX;
            let Ok(length) = usize::try_from(length) else { return };
            if self.is_ended || rest.len() < length {
                return;
            }
            self.raw.advance(LENGTH_BYTES);
            self.waiting.unsplit(self.raw.split_to(length));
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

async fn end(child: &mut Child, grace: Duration) -> io::Result<u8> {
    if getpgrp() == getpid() {
        // We are in this group too, and have handlers for it.
        let _ = kill_process_group(getpgrp(), Signal::TERM);
    } else if let Some(pid) = child.id().and_then(|id| i32::try_from(id).ok()).and_then(rustix::process::Pid::from_raw)
    {
        let _ = rustix::process::kill_process(pid, Signal::TERM);
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

/// Whoever below us loses its parent becomes our child, also after `setsid`: nobody slips away.
fn adopt_orphans() -> io::Result<()> {
    #[cfg(target_os = "linux")]
    rustix::process::set_child_subreaper(Some(getpid()))?;
    Ok(())
}

/// Kills all that is still below us. Each death may make another orphan ours, so it goes on until there is none.
fn end_descendants() {
    loop {
        let processes = all_processes();
        let mut below = vec![getpid().as_raw_nonzero().get()];
        let mut next = 0;
        while let Some(parent) = below.get(next).copied() {
            below.extend(processes.iter().filter(|found| found.parent == parent).map(|found| found.pid));
            next += 1;
        }
        for pid in below.into_iter().skip(1).filter_map(rustix::process::Pid::from_raw) {
            let _ = rustix::process::kill_process(pid, Signal::KILL);
        }
        // Without /proc nobody was killed, and the factory ends the group; waiting could take for ever.
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
    // The one line of output of our own; it shows up among the program's.
    let _ = io::Write::write_fmt(&mut io::stderr(), format_args!("guard: {error}\n"));
    GUARD_FAILED
}

fn code(exit: i32) -> u8 {
    u8::try_from(exit).unwrap_or(GUARD_FAILED)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::Reach;

    #[test]
    fn a_guard_reads_back_the_command_line_that_was_made_for_it() {
        let argv: Vec<OsString> = ["sh", "-c", "--", "--grace-ms"].map(OsString::from).to_vec();
        let enclosure = Enclosure::default().with("/state", Reach::Nothing).with("/state/tree", Reach::Everything);
        let guard = ["giga".into(), "__guard".into()];
        let line = command_line(&guard, Duration::from_millis(1500), None, Some(&enclosure), &argv);

        let order = Order::parse(line.into_iter().skip(2)).unwrap();

        assert_eq!((order.grace, order.ids, order.argv), (Duration::from_millis(1500), None, argv));
        assert_eq!(order.enclosure, Some(enclosure));
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
