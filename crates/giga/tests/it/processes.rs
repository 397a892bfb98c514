//! The processes of the machine.

use std::path::Path;
use std::process::Child;
use std::time::Duration;

use ambient::SystemClock;
use domain::Clock;
use rustix::process::{Pid, Signal, kill_process};

/// The command lines that name this folder: whatever a test has started and not ended.
pub(crate) fn naming(folder: &Path) -> Vec<String> {
    let folder = folder.to_str().unwrap();
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let lines = processes.filter_map(|process| std::fs::read(process.path().join("cmdline")).ok());
    let lines = lines.map(|line| String::from_utf8_lossy(&line).replace('\0', " "));
    lines.filter(|line| line.contains(folder)).collect()
}

pub(crate) fn send(signal: Signal, child: &Child) {
    let pid = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    kill_process(pid, signal).unwrap();
}

/// Whether something becomes so in time. For tests without a runtime.
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
