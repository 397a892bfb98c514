//! One benchmark from its start to its cleanup.

use tokio_util::sync::CancellationToken;

use crate::target::BenchSite;
use crate::{
    Benchmark, Coordinator, Error, Progress, Report, decide, depth, fanout, idle, latency, memory, throughput,
};

/// Runs one benchmark until it ends or `stop` is cancelled. Whatever the outcome, it cleans up.
pub async fn run(
    coordinator: Coordinator,
    benchmark: Benchmark,
    progress: Progress<'_>,
    stop: CancellationToken,
) -> Result<Report, Error> {
    let site = BenchSite::of(coordinator);
    let measuring = async {
        match benchmark {
            Benchmark::Latency(options) => latency::run(progress, &site, &options).await,
            Benchmark::Throughput(options) => throughput::run(progress, &site, &options).await,
            Benchmark::Depth(options) => depth::run(progress, &site, &options).await,
            Benchmark::Idle(options) => idle::run(progress, &site, &options).await,
            Benchmark::Fanout(options) => fanout::run(progress, &site, &options).await,
            Benchmark::Decide => decide::run(progress, &site),
            Benchmark::Memory(options) => memory::run(progress, &site, &options).await,
        }
    };
    let measured = tokio::select! {
        measured = measuring => measured,
        () = stop.cancelled() => Err(Error::failed("stopped before the measurement was over")),
    };
    match (measured, site.leave().await) {
        (Ok(report), Ok(())) => Ok(report),
        (Ok(_), Err(left)) => Err(left),
        (Err(failure), Ok(())) => Err(failure),
        (Err(failure), Err(left)) => Err(failure.hint(left.to_string())),
    }
}
