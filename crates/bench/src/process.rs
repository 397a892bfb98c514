//! Process statistics from the operating system.

use std::time::Duration;

/// Clock ticks of `/proc`, as every Linux on our machines has them.
const TICKS_PER_SECOND: u64 = 100;

/// Processor time that a process has used so far; nothing where there is no `/proc`.
pub(crate) fn cpu_time(pid: u32) -> Option<Duration> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name, in brackets, may contain anything; utime and stime are the 12th and 13th fields behind it.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let ticks = fields.next()?.parse::<u64>().ok()? + fields.next()?.parse::<u64>().ok()?;
    Some(Duration::from_millis(ticks * 1_000 / TICKS_PER_SECOND))
}

/// Memory that a process has resident, in megabytes.
pub(crate) fn resident_mb(pid: u32) -> Option<f64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:"))?;
    let kilobytes: f64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kilobytes / 1_024.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_uses_memory() {
        let pid = std::process::id();

        assert!(resident_mb(pid).is_some_and(|mb| mb > 1.0));
        assert!(cpu_time(pid).is_some());
        assert_eq!(cpu_time(0), None);
    }
}
