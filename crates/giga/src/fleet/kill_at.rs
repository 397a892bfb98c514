//! Stops the process dead at a named step, for tests that prove that nothing is lost there.

use std::sync::atomic::{AtomicU64, Ordering};

/// `GIGA_KILL_AT=step@n`: the process kills itself when it comes to `step` for the nth time.
const VARIABLE: &str = "GIGA_KILL_AT";

/// `GIGA_GO_ROUND=step`: what can be done in another way is, so that the other way is the one that is tested.
const DETOUR: &str = "GIGA_GO_ROUND";

/// Arms what the environment asks for. Only builds with failpoints have steps to stop at.
pub(crate) fn arm() -> anyhow::Result<()> {
    for step in std::env::var(DETOUR).iter().flat_map(|steps| steps.split(',')) {
        fail::cfg(step, "return").map_err(|why| anyhow::anyhow!("{DETOUR}: {why}"))?;
    }
    let Ok(wanted) = std::env::var(VARIABLE) else { return Ok(()) };
    for order in wanted.split(',').filter(|order| !order.is_empty()) {
        let (step, nth) = order.split_once('@').unwrap_or((order, "1"));
        let nth: u64 = nth.parse()?;
        let seen = AtomicU64::new(0);
        let kill = move || {
            if seen.fetch_add(1, Ordering::SeqCst) + 1 == nth {
                let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
            }
        };
        fail::cfg_callback(step, kill).map_err(|why| anyhow::anyhow!("{VARIABLE}: {why}"))?;
    }
    Ok(())
}
