//! Each adapter against the conformance suite, and tests of its own.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test may stop at the first surprise")]

mod golden;
mod logs;
mod memory;
mod postgres;
mod simulated;
mod sqlite;
