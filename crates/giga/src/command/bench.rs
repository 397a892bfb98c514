//! `giga bench`

use bench::{Benchmark, BrokerOption, Coordinator, Progress, StoreOption};

use crate::api::connect;
use crate::cli::{BenchArgs, BenchBroker, BenchCommand, BenchStore};
use crate::compose::{allow_many_connections, broker_connector, stop_on_signal};
use crate::config::{Origin, ReceiveFrom, is_loopback};
use crate::failure::Failure;
use crate::output::Table;

use super::Context;

/// Runs one benchmark, and prints a table or one line of JSON.
pub(super) async fn bench(context: &Context<'_>, args: BenchArgs) -> Result<(), Failure> {
    allow_many_connections();
    let stop = stop_on_signal();
    let coordinator = coordinator(context, args.store, args.broker)?;
    let progress = |text: &str| context.out.note(text);
    let report = bench::run(coordinator, benchmark(args.command), Progress(&progress), stop).await?;
    if context.out.is_json() {
        return context.out.document(&report.json);
    }
    let mut table = Table::new(report.headings, report.headings[0]);
    for row in report.rows {
        table.row(row.into_iter().map(Into::into).collect());
    }
    context.out.whole_table(&table)
}

/// The coordinator at --api, or one of our own.
fn coordinator(context: &Context<'_>, store: BenchStore, broker: BenchBroker) -> Result<Coordinator, Failure> {
    let api = &context.config.client.api;
    if matches!(api.origin, Origin::Flag(_)) {
        if !is_loopback(&api.value) {
            return Err(Failure::usage(format!("{} is not on this machine", api.value))
                .hint("a benchmark loads whatever it measures: run it where the coordinator runs"));
        }
        if broker == BenchBroker::Nats {
            return Err(Failure::usage("--broker is for a coordinator that the benchmark starts: leave --api away"));
        }
        return Ok(Coordinator::Running(connect(&context.config)?));
    }
    let store = match store {
        BenchStore::Named(store) => StoreOption::Named(store),
        BenchStore::ThrowawayPostgres => StoreOption::ThrowawayPostgres,
    };
    let (program, data) = (std::env::current_exe()?, context.config.data.path().to_owned());
    let broker = match (broker, broker_connector(ReceiveFrom::Broker)) {
        (BenchBroker::Embedded, _) => BrokerOption::Embedded,
        (BenchBroker::Nats, Ok(Some(connector))) => BrokerOption::ThrowawayNats(connector),
        (BenchBroker::Nats, _) => {
            return Err(Failure::usage("this build of giga cannot use a NATS server")
                .hint("build giga with `--features nats,throwaway-nats`"));
        }
    };
    Ok(Coordinator::Own { program, data, store, broker })
}

fn benchmark(command: BenchCommand) -> Benchmark {
    match command {
        BenchCommand::Latency(args) => {
            Benchmark::Latency(bench::LatencyOptions { rate: args.rate, seconds: args.seconds, budgets: args.budgets })
        }
        BenchCommand::Throughput(args) => Benchmark::Throughput(bench::ThroughputOptions {
            lives: args.jobs,
            factories: args.factories,
            seats: args.seats,
            submitters: args.submitters,
            budgets: args.budgets,
        }),
        BenchCommand::Depth(args) => Benchmark::Depth(bench::DepthOptions { stored: args.stored }),
        BenchCommand::Idle(args) => {
            Benchmark::Idle(bench::IdleOptions { factories: args.factories, seconds: args.seconds })
        }
        BenchCommand::Fanout(args) => Benchmark::Fanout(bench::FanoutOptions {
            clients: usize::try_from(args.clients).unwrap_or(usize::MAX),
            rate: args.rate,
            seconds: args.seconds,
        }),
        BenchCommand::Decide => Benchmark::Decide,
        BenchCommand::Memory(args) => {
            Benchmark::Memory(bench::MemoryOptions { stored: args.stored, open: args.open, resident: args.resident })
        }
    }
}

impl From<bench::Error> for Failure {
    fn from(error: bench::Error) -> Self {
        let failure = match error.kind {
            bench::ErrorKind::Usage(message) => Self::usage(message),
            bench::ErrorKind::Failed(message) => Self::failed(message),
            bench::ErrorKind::Client(error) => error.into(),
            bench::ErrorKind::Store(error) => crate::compose::stores::open_error(error).into(),
            bench::ErrorKind::Io(error) => error.into(),
        };
        match error.hint {
            Some(hint) => failure.hint(hint),
            None => failure,
        }
    }
}
