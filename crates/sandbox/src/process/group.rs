//! Process groups, and the marks by which a restarted factory recognises its own.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use rustix::process::{Pid, Signal, getpid, kill_process, kill_process_group};
use serde::{Deserialize, Serialize};
use tokio::process::Child;

use domain::RunKey;

/// The group that a child of ours leads.
#[derive(Debug, Clone, Copy)]
pub struct Group(Option<Pid>);

/// A process that cannot be confused with a later one of the same pid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProcessMark {
    /// Its number.
    pub pid: i32,
    /// Its start time, in ticks since boot; `None` where the system does not report it.
    pub started: Option<u64>,
}

impl Group {
    /// The group that `child` leads.
    pub fn of(child: &Child) -> Self {
        Self(child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw))
    }

    /// Sends SIGTERM to every member.
    pub fn terminate(self) {
        self.signal(Signal::TERM);
    }

    /// Sends SIGKILL to every member.
    pub fn kill(self) {
        self.signal(Signal::KILL);
    }

    /// Its mark, by which another process of the factory finds it again.
    pub fn mark(self) -> ProcessMark {
        let pid = self.0.map_or(0, |pid| pid.as_raw_nonzero().get());
        ProcessMark { pid, started: process(pid).map(|found| found.started) }
    }

    fn signal(self, signal: Signal) {
        if let Some(leader) = self.0 {
            // An empty group is what we want.
            let _ = kill_process_group(leader, signal);
        }
    }
}

/// Kills what a run left behind when its factory died: its group if the guard still leads it, and every process with
/// the run's name in its environment. Returns how many processes were killed.
pub fn kill_leftovers(run: RunKey, guard: Option<ProcessMark>) -> usize {
    let led = guard.filter(ProcessMark::is_running).and_then(|mark| Pid::from_raw(mark.pid));
    if let Some(leader) = led {
        let _ = kill_process_group(leader, Signal::KILL);
    }
    let wanted = [format!("GIGA_JOB_ID={}", run.job), format!("GIGA_EPOCH={}", run.epoch)];
    let myself = getpid();
    let named = all_processes().into_iter().filter_map(|found| Pid::from_raw(found.pid)).filter(|pid| *pid != myself);
    let killed = named.filter(|pid| carries(*pid, &wanted) && kill_process(*pid, Signal::KILL).is_ok()).count();
    killed + usize::from(led.is_some())
}

impl ProcessMark {
    /// Whether this very process still runs. Zombies do not count.
    pub fn is_running(&self) -> bool {
        self.started.is_some()
            && process(self.pid).is_some_and(|found| Some(found.started) == self.started && !found.dead)
    }
}

/// Keeps other processes of the same user from reading this one's memory and environment, where the factory's token is.
pub fn hide_from_siblings() {
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable) {
        tracing::warn!("Cannot hide this process from others of the same user: {error}");
    }
}

/// The exit code that a shell would show.
pub(crate) fn exit_code(status: ExitStatus) -> i32 {
    status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(-1)
}

/// An exit code for people: with the signal's name if there was one.
pub fn exit_words(code: i32) -> String {
    match code {
        129..=192 => format!("{} (exit code {code})", signal_name(code - 128)),
        _ => format!("exit code {code}"),
    }
}

/// The name of a signal, as `kill -l` shows it.
pub fn signal_name(signal: i32) -> String {
    const NAMES: [(Signal, &str); 20] = [
        (Signal::HUP, "SIGHUP"),
        (Signal::INT, "SIGINT"),
        (Signal::QUIT, "SIGQUIT"),
        (Signal::ILL, "SIGILL"),
        (Signal::TRAP, "SIGTRAP"),
        (Signal::ABORT, "SIGABRT"),
        (Signal::BUS, "SIGBUS"),
        (Signal::FPE, "SIGFPE"),
        (Signal::KILL, "SIGKILL"),
        (Signal::USR1, "SIGUSR1"),
        (Signal::SEGV, "SIGSEGV"),
        (Signal::USR2, "SIGUSR2"),
        (Signal::PIPE, "SIGPIPE"),
        (Signal::ALARM, "SIGALRM"),
        (Signal::TERM, "SIGTERM"),
        (Signal::STOP, "SIGSTOP"),
        (Signal::TSTP, "SIGTSTP"),
        (Signal::XCPU, "SIGXCPU"),
        (Signal::XFSZ, "SIGXFSZ"),
        (Signal::SYS, "SIGSYS"),
    ];
    let named = NAMES.iter().find(|(known, _)| known.as_raw() == signal);
    named.map_or_else(|| format!("signal {signal}"), |(_, name)| (*name).to_owned())
}

/// The `/proc` entry of a process.
pub(crate) struct ProcessInfo {
    pub pid: i32,
    pub parent: i32,
    started: u64,
    dead: bool,
}

/// All visible processes. Empty where there is no `/proc`.
pub(crate) fn all_processes() -> Vec<ProcessInfo> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).filter_map(process).collect()
}

fn process(pid: i32) -> Option<ProcessInfo> {
    let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
    let (parent, started, dead) = parse_stat(&String::from_utf8_lossy(&stat))?;
    Some(ProcessInfo { pid, parent, started, dead })
}

/// Parent, start time and whether it is dead. The name in brackets may hold anything, so fields count from its end.
fn parse_stat(stat: &str) -> Option<(i32, u64, bool)> {
    let (_, after_name) = stat.rsplit_once(')')?;
    let mut fields = after_name.split_whitespace();
    let dead = matches!(fields.next()?, "Z" | "X");
    let parent = fields.next()?.parse().ok()?;
    // The fields after the name begin with the third; the start time is the twenty-second.
    let started = fields.nth(17)?.parse().ok()?;
    Some((parent, started, dead))
}

fn carries(pid: Pid, wanted: &[String; 2]) -> bool {
    let environment = fs::read(format!("/proc/{}/environ", pid.as_raw_nonzero())).unwrap_or_default();
    let has = |wanted: &String| environment.split(|byte| *byte == 0).any(|variable| variable == wanted.as_bytes());
    wanted.iter().all(has)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_name_cannot_forge_the_fields_behind_it() {
        let stat = "42 (a) R 1 (b) S 7 1 1 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 1 0 98765 100 200";

        assert_eq!(parse_stat(stat), Some((7, 98_765, false)));
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_mark_with_another_start_time_is_another_process() {
        let pid = getpid().as_raw_nonzero().get();
        let mine = ProcessMark { pid, started: process(pid).map(|found| found.started) };
        let reused = ProcessMark { started: mine.started.map(|started| started + 1), ..mine };

        assert!(mine.is_running());
        assert!(!reused.is_running());
    }

    #[test]
    fn a_signal_is_told_by_its_name() {
        let told = [3, 137, 143, 139, 255].map(exit_words);

        let expected = [
            "exit code 3",
            "SIGKILL (exit code 137)",
            "SIGTERM (exit code 143)",
            "SIGSEGV (exit code 139)",
            "exit code 255",
        ];
        assert_eq!(told, expected);
        assert_eq!(signal_name(64), "signal 64");
    }
}
