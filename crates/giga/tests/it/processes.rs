//! The processes of the machine.

use std::path::Path;
use std::process::Child;
use std::time::Duration;

use clock::SystemClock;
use domain::Clock;
use rustix::process::{Pid, Signal, kill_process};

/// The command lines that name this directory: processes that a test has started and not ended.
pub(crate) fn naming(folder: &Path) -> Vec<String> {
    let folder = folder.to_str().unwrap();
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let lines = processes.filter_map(|process| std::fs::read(process.path().join("cmdline")).ok());
    let lines = lines.map(|line| String::from_utf8_lossy(&line).replace('\0', " "));
    lines.filter(|line| line.contains(folder)).collect()
}

/// The ids of this program's processes whose first argument is `word` and whose command line names this directory.
pub(crate) fn ours(folder: &Path, word: &str) -> Vec<Pid> {
    let folder = folder.to_str().unwrap();
    let is_ours = |line: &[u8]| {
        let line = String::from_utf8_lossy(line);
        line.split('\0').nth(1) == Some(word) && line.contains(folder)
    };
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let ours =
        processes.filter(|process| std::fs::read(process.path().join("cmdline")).is_ok_and(|line| is_ours(&line)));
    ours.filter_map(|process| process.file_name().to_str()?.parse().ok().and_then(Pid::from_raw)).collect()
}

pub(crate) fn send(signal: Signal, child: &Child) {
    let pid = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    kill_process(pid, signal).unwrap();
}

/// Whether something becomes so in time. For tests without a runtime.
#[must_use]
pub(crate) fn becomes_so(patience: Duration, mut is_so: impl FnMut() -> bool) -> bool {
    let clock = SystemClock::new();
    let deadline = clock.monotonic() + patience;
    while clock.monotonic() < deadline {
        if is_so() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    is_so()
}
