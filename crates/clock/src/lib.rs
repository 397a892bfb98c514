//! Clock and entropy adapters: the operating system's, and deterministic ones for tests. The pauses between attempts.

mod backoff;
mod manual;
mod system;

pub use backoff::Backoff;
pub use manual::{ManualClock, SeededEntropy};
pub use system::{SystemClock, SystemEntropy};
