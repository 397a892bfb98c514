//! The long-lived commands: the parts of a coordinator and a factory are composed here.

mod backup_service;
pub(crate) mod blobs;
mod board;
mod brokers;
mod coordinator;
mod demo;
pub(crate) mod demo_agent;
mod factory;
#[cfg(feature = "failpoints")]
pub(crate) mod kill_at;
mod local;
mod mcp;
mod on_demand;
mod scaler;
mod shared_coordinator;
mod signals;
mod space;
pub(crate) mod stores;
mod tally;
mod trackers;
mod webhooks;
mod workers;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio_util::sync::CancellationToken;

use crate::cli::UpArgs;
use crate::config::Config;
use crate::failure::Failure;
use crate::output::Output;

pub(crate) use brokers::connector as broker_connector;
use coordinator::CoordinatorProcess;
pub(crate) use factory::{
    clean_ups, client_variables, coordinator_of, factory_address, is_enrolled, settings as station_settings, states,
};
pub(crate) use local::local;
pub(crate) use scaler::{member_name, scaler};
pub(crate) use signals::stop_on_signal;
pub(crate) use webhooks::address_of;
use workers::{CurrentCoordinator, FactoryProcess, LocalApi};

/// Whether a process ends when its standard input does: how a child exits with its parent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ParentWatch {
    /// It ends by signal only.
    None,
    /// It ends when standard input is closed.
    Stdin,
    /// It finishes its jobs and ends when standard input is closed.
    Drain,
}

/// Whether a factory belongs to a pool.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Membership {
    /// It is one of its own: its registration outlives its process.
    #[default]
    None,
    /// It was started on demand: the coordinator removes it when its process ends.
    Pool,
}

/// Each factory and each watcher holds a connection open: as many files as this user may have.
pub(crate) fn allow_many_connections() {
    let limit = getrlimit(Resource::Nofile);
    // Where it is not allowed, what there is has to do.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}

/// Runs a coordinator until it is stopped.
pub(crate) async fn serve(config: &Config, parent_watch: ParentWatch, out: &Output) -> anyhow::Result<()> {
    let stop = signals::stop_on_signal();
    if parent_watch == ParentWatch::Stdin {
        signals::stop_when_stdin_closes(stop.clone());
    }
    allow_many_connections();
    let note = |api: &str| out.note(&format!("the coordinator serves at {api}; stop it with Ctrl-C"));
    if let Some(address) = &config.coordinator.advertise.value {
        return shared_coordinator::serve(config, address, stop, note).await;
    }
    let coordination = CoordinatorProcess::open(config, &stop).await?;
    note(&coordination.api);
    coordination.run_on(config, stop, |_| ()).await
}

/// Runs a factory until it is stopped; `join` is the one-time token it enrols with.
pub(crate) async fn factory(
    config: &Config,
    join: Option<&str>,
    parent_watch: ParentWatch,
    membership: Membership,
) -> anyhow::Result<()> {
    let stop = signals::stop_on_signal();
    let drain = CancellationToken::new();
    match parent_watch {
        ParentWatch::None => {}
        ParentWatch::Stdin => signals::stop_when_stdin_closes(stop.clone()),
        ParentWatch::Drain => signals::stop_when_stdin_closes(drain.clone()),
    }
    let api = factory_address(config, &config.factory.state.value);
    let surroundings = factory::FactorySurroundings { drain, membership, ..Default::default() };
    factory::run_beside(&surroundings, config, &api, join, parent_watch, stop).await
}

/// Runs a coordinator with local factories; `--demo` brings work along.
pub(crate) async fn up(config: &Config, args: &UpArgs, out: &Output) -> anyhow::Result<()> {
    if args.demo {
        return demo::run(args, out).await;
    }
    let on_demand = args.pool;
    if config.coordinator.advertise.value.is_some() {
        let failure =
            Failure::usage("`coordinator.advertise` makes this one of several coordinators, which `giga up` is not");
        return Err(failure.hint("start it with `giga serve`, and a factory with `giga factory run`").into());
    }
    if let Some(max) = on_demand {
        return on_demand::run(config, max, out).await;
    }
    let stop = signals::stop_on_signal();
    allow_many_connections();
    let coordination = CoordinatorProcess::open(config, &stop).await?;
    let worker = FactoryProcess::new(config.factory.name.value.clone());
    let (current, api) = (CurrentCoordinator::new(&coordination.coordinator), coordination.api.clone());
    let certificate = coordination.certificate.clone();
    out.note(&format!("the fleet is up: coordinator at {api}, factory `{}`", worker.name()));
    out.note(&coordination.browser_note(config)?);
    if let Some(word) = crate::programs::word_on_engines(&config.factory) {
        out.note(&word);
    }
    // The coordinator outlives its factories, so that they can give back what they hold.
    let served = CancellationToken::new();
    let work = async {
        let worked = worker
            .run(config, &current, LocalApi { url: &api, certificate: certificate.as_deref() }, stop.clone())
            .await;
        served.cancel();
        worked
    };
    let serve = async {
        let ran = coordination.run_on(config, served.clone(), |next| current.replace(next)).await;
        // Without a coordinator there is nothing for its factories to do.
        stop.cancel();
        ran
    };
    let (ran, worked) = tokio::join!(serve, work);
    ran.and(worked)
}
