//! Real processes, really killed: nothing is lost, nothing is done twice, saved work is resumed.
//!
//! The engine appends `job:epoch` to a file outside its worktree, so that "ran twice under one epoch" and "lost" are
//! counted and not assumed.

mod fleet;
mod hosts;
mod kills;
mod many;
mod paused;
mod restoring;
mod stale;
mod steps;
