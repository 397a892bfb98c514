//! The arguments of `bench`.

use std::str::FromStr;

use clap::{Args, Subcommand};
use store::StoreUrl;

/// Arguments of `bench`.
#[derive(Debug, Args)]
pub(crate) struct BenchArgs {
    /// Keep the jobs in `sqlite`, in `postgres` (a server that is started for this), or in postgres://…
    #[arg(long, global = true, value_name = "STORE", default_value = "sqlite")]
    pub(crate) store: BenchStore,
    #[command(subcommand)]
    pub(crate) command: BenchCommand,
}

/// What a benchmark's coordinator keeps its jobs in.
#[derive(Debug, Clone)]
pub(crate) enum BenchStore {
    /// What `giga serve --store` takes.
    Named(StoreUrl),
    /// A PostgreSQL server that is there for the benchmark alone.
    ThrowawayPostgres,
}

impl FromStr for BenchStore {
    type Err = <StoreUrl as FromStr>::Err;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "postgres" {
            return Ok(Self::ThrowawayPostgres);
        }
        text.parse().map(Self::Named)
    }
}

/// What can be measured. Each starts a coordinator of its own, unless --api names one.
#[derive(Debug, Subcommand)]
pub(crate) enum BenchCommand {
    /// From the submitter's answer to the factory's lease, at a steady rate
    Latency(BenchLatencyArgs),
    /// Whole lives of jobs per second
    Throughput(BenchThroughputArgs),
    /// What a million stored jobs add to the cost of an operation
    Depth(BenchDepthArgs),
    /// What idle factories cost in each dispatch mode
    Idle(BenchIdleArgs),
    /// One scheduling decision
    Decide,
    /// Memory and start-up time with many jobs
    Memory(BenchMemoryArgs),
}

/// Arguments of `bench latency`.
#[derive(Debug, Args)]
pub(crate) struct BenchLatencyArgs {
    /// Jobs per second
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=2_000))]
    pub(crate) rate: u32,
    /// How long to measure
    #[arg(long, value_name = "SECONDS", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=600))]
    pub(crate) seconds: u32,
}

/// Arguments of `bench throughput`.
#[derive(Debug, Args)]
pub(crate) struct BenchThroughputArgs {
    /// Lives that count, in each manner
    #[arg(long, value_name = "N", default_value_t = 30_000, value_parser = clap::value_parser!(u64).range(100..=1_000_000))]
    pub(crate) lives: u64,
    /// Factories that share the work
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub(crate) factories: u32,
    /// Seats of each factory
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub(crate) seats: u32,
    /// Callers that submit one job per request
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u64).range(1..=1_000))]
    pub(crate) submitters: u64,
}

/// Arguments of `bench depth`.
#[derive(Debug, Args)]
pub(crate) struct BenchDepthArgs {
    /// Stored jobs to compare 1,000 with
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1_000..=10_000_000))]
    pub(crate) stored: u64,
}

/// Arguments of `bench idle`.
#[derive(Debug, Args)]
pub(crate) struct BenchIdleArgs {
    /// Idle factories; can be repeated
    #[arg(long, value_name = "N", default_values_t = [0, 10, 100, 1_000], value_parser = clap::value_parser!(u32).range(0..=10_000))]
    pub(crate) factories: Vec<u32>,
    /// How long to watch each row of the table
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u32).range(3..=600))]
    pub(crate) seconds: u32,
}

/// Arguments of `bench memory`.
#[derive(Debug, Args)]
pub(crate) struct BenchMemoryArgs {
    /// Stored jobs
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(0..=10_000_000))]
    pub(crate) stored: u64,
    /// Open jobs for the start-up time
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(0..=1_000_000))]
    pub(crate) open: u64,
    /// Open jobs for the memory
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(0..=1_000_000))]
    pub(crate) resident: u64,
}
