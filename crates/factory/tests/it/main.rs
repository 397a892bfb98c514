//! The factory with real git, real processes and real files, as a worker of a real coordinator.

#![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

mod closed_directory;
mod detection;
mod forge;
mod golden;
mod guards;
mod workers;
mod verification;
