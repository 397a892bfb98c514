//! Time and chance: the machine's own, and ones that a test can hold in its hand.

mod manual;
mod system;

pub use manual::{ManualClock, SeededEntropy};
pub use system::{SystemClock, SystemEntropy};
