//! A throwaway PostgreSQL server for tests and benchmarks: a real server on a loopback port, removed with its owner.

mod account;
mod error;
mod leftovers;
mod programs;
mod server;
mod template;

pub use error::Error;
pub use programs::Programs;
pub use server::{Flushes, Server, for_test, for_test_at};
