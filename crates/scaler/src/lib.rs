//! The scaler: it follows how many factories the pools of a coordinator should have, and starts what is missing [F9].
//!
//! It never stops a factory: the coordinator tells an idle one to leave. Without an answer of the coordinator the last one
//! holds, so a scaler never takes an outage for "nothing to do".

mod demand_feed;
#[cfg(feature = "grpc")]
pub mod grpc;
mod scaler;
mod starter;

pub use demand_feed::{DemandFeed, LatestDemand};
pub use scaler::{Scaler, ScalerOptions};
pub use starter::{FactoryExit, FactoryStarter, StartError, StartedFactory};
