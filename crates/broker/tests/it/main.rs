//! Integration tests of the broker adapters.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test may stop at the first surprise")]

mod embedded;
mod nats;
mod router;
