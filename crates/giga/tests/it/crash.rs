//! Real processes, really killed: nothing is lost, nothing is done twice, saved work is resumed.
//!
//! The engine appends `job:epoch` to a file outside its worktree, so that "ran twice under one epoch" and "lost" are
//! counted and not assumed.

#[cfg(feature = "nats")]
mod broker;
mod fleet;
mod hosts;
mod kills;
mod many;
mod paused;
mod restoring;
mod stale;
mod steps;
mod trees;

/// How often a test repeats something: `full` times in a soak, a third of that otherwise.
fn repetitions(full: usize) -> usize {
    if std::env::var_os("GIGA_SOAK").is_some() { full } else { full / 3 }
}
