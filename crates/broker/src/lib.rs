//! Delivery of dispatches to factories. One adapter per feature, one conformance suite for all.

#[cfg(feature = "conformance")]
pub mod conformance;
#[cfg(feature = "embedded")]
mod embedded;
#[cfg(feature = "nats")]
mod nats;

#[cfg(feature = "embedded")]
pub use embedded::{Embedded, Settings};
#[cfg(feature = "nats")]
pub use nats::{Nats, NatsOptions, NatsUrl};
