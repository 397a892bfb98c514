//! Clock and entropy adapters: the operating system's, and deterministic ones for tests.

mod manual;
mod system;

pub use manual::{ManualClock, SeededEntropy};
pub use system::{SystemClock, SystemEntropy};
