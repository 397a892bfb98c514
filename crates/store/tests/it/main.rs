//! The adapters against the suite, and each against what only it promises.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test may stop at the first surprise")]

mod golden;
mod logs;
mod memory;
mod postgres;
mod simulated;
mod sqlite;
