//! Delivery of dispatches to factories. One adapter per feature, one conformance suite for all.

#[cfg(feature = "conformance")]
pub mod conformance;
#[cfg(feature = "embedded")]
mod embedded;
#[cfg(feature = "nats")]
mod nats;
mod router;

#[cfg(feature = "embedded")]
pub use embedded::{Embedded, Settings};
#[cfg(feature = "nats")]
pub use nats::{LoginSigner, Nats, NatsConnector, NatsOptions, NatsUrl};
pub use router::Router;
