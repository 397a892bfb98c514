//! Stops the process dead at a named step, for tests that prove that nothing is lost there.

use std::sync::atomic::{AtomicU64, Ordering};

use rustix::process::{Signal, getpid, kill_process};

/// `GIGA_KILL_AT=step@n`: the process kills itself when it comes to `step` for the nth time; with `~` before it, it stops
/// there until the test lets it continue.
const VARIABLE: &str = "GIGA_KILL_AT";

/// `GIGA_GO_ROUND=step`: what can be done in another way is, so that the other way is the one that is tested.
const DETOUR: &str = "GIGA_GO_ROUND";

/// Arms the failpoint that the environment names. Only builds with failpoints have steps to stop at.
pub(crate) fn arm() -> anyhow::Result<()> {
    for step in std::env::var(DETOUR).iter().flat_map(|steps| steps.split(',')) {
        fail::cfg(step, "return").map_err(|why| anyhow::anyhow!("{DETOUR}: {why}"))?;
    }
    let Ok(wanted) = std::env::var(VARIABLE) else { return Ok(()) };
    for order in wanted.split(',').filter(|order| !order.is_empty()) {
        let (order, signal) = match order.strip_prefix('~') {
            Some(order) => (order, Signal::STOP),
            None => (order, Signal::KILL),
        };
        let (step, nth) = order.split_once('@').unwrap_or((order, "1"));
        let nth: u64 = nth.parse()?;
        let seen = AtomicU64::new(0);
        let end = move || {
            if seen.fetch_add(1, Ordering::SeqCst) + 1 == nth {
                let _ = kill_process(getpid(), signal);
            }
        };
        fail::cfg_callback(step, end).map_err(|why| anyhow::anyhow!("{VARIABLE}: {why}"))?;
    }
    Ok(())
}
