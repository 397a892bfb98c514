//! `giga bench`: what the fleet can do on this machine, measured over real HTTP on durable commits [P1]–[P6].

mod cleanup;
mod decide;
mod depth;
mod fake_worker;
mod idle;
mod latency;
mod memory;
mod process;
mod seed;
mod statistics;
mod target;
mod throughput;
mod watcher;
mod worker_pool;
mod workload;

use crate::cli::{BenchArgs, BenchCommand};
use crate::command::Context;
use crate::failure::Failure;

use target::BenchSite;

/// Runs one benchmark, and prints a table or one line of JSON. Whether it succeeds, fails or is stopped, it cleans up.
pub(crate) async fn bench(context: &Context<'_>, args: BenchArgs) -> Result<(), Failure> {
    crate::compose::allow_many_connections();
    let stop = crate::compose::stop_on_signal();
    let site = BenchSite::of(context, &args)?;
    let measuring = async {
        match args.command {
            BenchCommand::Latency(args) => latency::run(context, &site, &args).await,
            BenchCommand::Throughput(args) => throughput::run(context, &site, &args).await,
            BenchCommand::Depth(args) => depth::run(context, &site, &args).await,
            BenchCommand::Idle(args) => idle::run(context, &site, &args).await,
            BenchCommand::Decide => decide::run(context, &site),
            BenchCommand::Memory(args) => memory::run(context, &site, &args).await,
        }
    };
    let measured = tokio::select! {
        measured = measuring => measured,
        () = stop.cancelled() => Err(Failure::failed("stopped before the measurement was over")),
    };
    match (measured, site.leave().await) {
        (Ok(()), left) => left,
        (Err(failure), Ok(())) => Err(failure),
        (Err(failure), Err(left)) => Err(failure.hint(left.to_string())),
    }
}
