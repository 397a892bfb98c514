//! A document database with weak guarantees, in memory, for tests: the rehearsal for a cloud's. It is atomic within one
//! partition, throttles, loses responses, and has a change feed that skips, repeats and reorders.

mod clock;
mod database;
mod faults;
mod feed;

pub use clock::HastyClock;
pub use database::{STALE_READ, SimulatedDatabase};
pub use faults::Faults;
pub use feed::PHYSICAL_PARTITIONS;
