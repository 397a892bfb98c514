//! Programs under a guard, as real processes.

#![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

mod guards;
mod processes;
