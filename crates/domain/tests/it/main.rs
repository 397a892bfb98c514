//! What the domain promises, seen from outside.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test may stop at the first surprise")]

mod golden;
mod manifest;
mod stages;
