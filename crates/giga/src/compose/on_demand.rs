//! `giga up --pool`: a coordinator whose factories are started on demand, as processes of this machine.

use std::collections::BTreeSet;
use std::sync::Arc;

use anyhow::Context;
use client::{Client, Endpoint, Trust};
use clock::{SystemClock, SystemEntropy};
use domain::{Capability, EngineName, Pool, PoolName};
use factory::Worker;
use protocol::PoolSettings;
use scaler::{DemandFeed, Scaler, ScalerOptions};
use tokio_util::sync::CancellationToken;

use super::coordinator::CoordinatorProcess;
use super::scaler::{ChildCommand, ChildEnding, JoinTokens, ProcessStarter};
use super::signals;
use crate::config::{Config, fingerprint};
use crate::failure::Failure;
use crate::output::Output;

/// The pool of this machine.
const POOL: &str = "local";

/// Runs a coordinator and a process scaler until they are stopped.
pub(super) async fn run(config: &Config, max: u32, out: &Output) -> anyhow::Result<()> {
    let stop = signals::stop_on_signal();
    super::allow_many_connections();
    let coordination = CoordinatorProcess::open(config, &stop).await?;
    let scaling = LocalScaling::prepare(config, &coordination, max, PoolTimes::default()).await?;
    let api = &coordination.api;
    out.note(&format!(
        "the fleet is up: coordinator at {api}, up to {} on demand",
        domain::counted(max, "factory").replace("factorys", "factories")
    ));
    out.note(&coordination.browser_note(config)?);
    if let Some(word) = crate::programs::word_on_engines(&config.factory) {
        out.note(&word);
    }
    // The coordinator outlives its factories, so that they can give back what they hold.
    let served = CancellationToken::new();
    let work = async {
        scaling.run(config, &stop).await;
        served.cancel();
    };
    let serve = async {
        let ran = coordination.run_on(config, served.clone(), |_| ()).await;
        // Without a coordinator there is nothing for its factories to do.
        stop.cancel();
        ran
    };
    let (ran, ()) = tokio::join!(serve, work);
    ran
}

/// The times of a pool, where they are not the defaults.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct PoolTimes {
    pub(super) idle_after_ms: Option<u64>,
}

/// What runs the factories of the local pool.
pub(super) struct LocalScaling {
    client: Client,
    api: String,
    certificate: Option<String>,
    pool: PoolName,
}

impl LocalScaling {
    /// Declares the pool of this machine with what its factories will offer.
    pub(super) async fn prepare(
        config: &Config,
        coordination: &CoordinatorProcess,
        max: u32,
        times: PoolTimes,
    ) -> anyhow::Result<Self> {
        let pool: PoolName = POOL.parse()?;
        let token = std::fs::read_to_string(config.data.admin_token()).context("cannot read the admin token")?;
        let token = token.trim().to_owned();
        let admin = coordination.coordinator.authenticate(&token)?;
        let (api, certificate) = (coordination.api.clone(), coordination.certificate.clone());
        let trust = certificate.as_deref().and_then(fingerprint).map_or(Trust::Public, Trust::Pinned);
        let client = Client::new(Endpoint { base: api.clone(), token, product: None, trust })?;
        let known = coordination.coordinator.pool(&admin, &pool).ok().map(|view| PoolSettings::of(&view.pool));
        let before = known.unwrap_or_else(|| PoolSettings {
            idle_after_ms: times.idle_after_ms,
            ..PoolSettings::of(&Pool::new(pool.clone(), max))
        });
        let settings =
            PoolSettings { max, warm: before.warm.min(max), ..offers(config, client.clone(), before).await? };
        if settings.engines.is_empty() {
            return Err(Failure::failed("this machine has no engine: its factories could run nothing")
                .hint("install an engine and sign in, or configure one under `[factory.engines]`; `giga doctor` shows what it finds")
                .into());
        }
        coordination.coordinator.put_pool(&admin, &pool, settings).await?;
        Ok(Self { client, api, certificate, pool })
    }

    /// Starts factories until `stop`; then they save their work and give it back.
    pub(super) async fn run(self, config: &Config, stop: &CancellationToken) {
        let clock = Arc::new(SystemClock::new());
        let starter = ProcessStarter {
            children: ChildCommand::of(config, &self.api, self.certificate),
            join: JoinTokens::Created(self.client.clone()),
            ending: ChildEnding::Farewell,
            stop: stop.clone(),
            taken: Arc::default(),
        };
        let feed = DemandFeed::new(self.client, clock.clone(), [self.pool].into());
        let scaler = Scaler::new(Arc::new(starter), clock, ScalerOptions::default());
        tokio::join!(feed.run(stop), scaler.run(feed.latest(), stop));
    }
}

/// The settings of the pool, with what a factory of this machine offers at the moment.
async fn offers(config: &Config, client: Client, before: PoolSettings) -> anyhow::Result<PoolSettings> {
    let state = config.data.path().join("survey");
    sandbox::make_private_folder(&state)?;
    let settings = factory::WorkerSettings { state, ..super::factory::settings(config)? };
    let found = Worker::survey(settings, client, Arc::new(SystemClock::new()), Arc::new(SystemEntropy)).await?;
    let family = |token: &Capability, family: &str| token.as_str().strip_prefix(family).map(str::to_owned);
    let engines: BTreeSet<EngineName> =
        found.capabilities.iter().filter_map(|token| family(token, "engine:")?.parse().ok()).collect();
    let is_own = |token: &&Capability| family(token, "engine:").is_none() && family(token, "repo:").is_none();
    Ok(PoolSettings {
        capabilities: found.capabilities.iter().filter(is_own).cloned().collect(),
        engines,
        repos: found.repos,
        clones: false,
        seats: Some(config.factory.seats.value),
        cost: config.factory.cost.value,
        ..before
    })
}
