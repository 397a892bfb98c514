//! Benchmarks of a fleet on this machine, measured over real HTTP on durable commits [P1]–[P7].

mod cleanup;
mod decide;
mod depth;
mod error;
mod fake_worker;
mod fanout;
mod idle;
mod latency;
mod memory;
mod options;
mod process;
mod report;
mod run;
mod seed;
mod statistics;
mod target;
mod throughput;
mod throwaway_nats;
mod throwaway_postgres;
mod watcher;
mod worker_pool;
mod workload;

pub use error::{Error, ErrorKind};
pub use options::{
    Benchmark, BrokerOption, Coordinator, DepthOptions, FanoutOptions, IdleOptions, LatencyOptions, MemoryOptions,
    StoreOption, ThroughputOptions,
};
pub use report::{Progress, Report};
pub use run::run;
