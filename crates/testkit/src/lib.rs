//! Fixtures that the tests of several crates share. Only for `[dev-dependencies]`.

#[cfg(feature = "fleet")]
pub mod fleet;
mod golden;
#[cfg(feature = "host")]
pub mod host;
#[cfg(feature = "nats")]
pub mod nats_server;
pub mod page;
pub mod requirement;

pub use golden::{assert_golden, golden_matches};
