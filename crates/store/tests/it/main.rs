//! Each adapter against the conformance suite, and tests of its own.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test may stop at the first surprise")]

#[cfg(feature = "object-store")]
mod azurite;
mod golden;
mod logs;
mod memory;
mod postgres;
mod simulated;
mod sqlite;
