//! A fleet on a network that fails: links are cut one way and both ways, leaders die, processes are paused, clocks are wrong,
//! the broker is wiped and factories come and go, while jobs flow. Afterwards the recorded history is checked.
//!
//! Each process has a network namespace of its own, so this needs root and Linux. `GIGA_SOAK=1` draws faults for
//! `GIGA_SOAK_SECONDS` (half an hour when absent) from a printed seed, which `GIGA_NETWORK_SEED` repeats.

mod crowd;
mod faults;
mod fleet;
mod history;
mod namespaces;
mod scenario;
