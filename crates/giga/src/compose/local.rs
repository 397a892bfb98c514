//! `giga local`: a coordinator, a factory and the synchronisation of a folder queue, in one process without setup.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use client::{Client, Endpoint, Trust};
use clock::SystemClock;
use coordinator::Coordinator;
use domain::{Clock, ProductId};
use http::Method;
use protocol::ProductSettings;
use tokio_util::sync::CancellationToken;

use super::coordinator::CoordinatorProcess;
use super::factory::FactorySurroundings;
use super::{ParentWatch, factory, signals};
use crate::cli::LocalArgs;
use crate::config::Config;
use crate::failure::Failure;
use crate::local::{Queue, QueueSync, SyncEnd, SyncOptions, Until};
use crate::output::Output;

/// A process that still holds the store after this long is not about to exit.
const IN_USE_MAX: Duration = Duration::from_secs(2);
const IN_USE_PAUSE: Duration = Duration::from_millis(50);

/// Serves a folder queue until it is stopped, or until all its jobs have ended.
pub(crate) async fn local(config: &Config, args: &LocalArgs, out: &Output) -> Result<(), Failure> {
    let stop = signals::stop_on_signal();
    let root = std::path::absolute(&args.dir)?;
    // With `--once` the folder has to exist.
    if args.once && !root.is_dir() {
        return Err(Failure::usage(format!("no directory {}", shown(&args.dir)))
            .hint("check the name; `giga local` without --once creates it"));
    }
    let queue = Queue::open(&root)?;
    let coordination = open(config, &stop).await?;
    let (coordinator, api) = (Arc::clone(&coordination.coordinator), coordination.api.clone());
    // The coordinator outlives the factory, so that it can give back what it holds.
    let served = CancellationToken::new();
    let work = async {
        let shop = LocalFleet { config, args, out, api: &api, coordinator: &coordinator };
        let worked = shop.work(queue, &stop).await;
        served.cancel();
        worked
    };
    let serve = async {
        let ran = coordination.run_on(config, served.clone(), |_| ()).await;
        // Without a coordinator there is nothing to keep.
        stop.cancel();
        ran
    };
    let (ran, worked) = tokio::join!(serve, work);
    // A coordinator that failed is why whatever it kept has stopped.
    ran?;
    worked
}

/// Opens the store. A program that a killed process was just starting has its files for a moment longer.
async fn open(config: &Config, stop: &CancellationToken) -> anyhow::Result<CoordinatorProcess> {
    let clock = SystemClock::new();
    let deadline = clock.monotonic() + IN_USE_MAX;
    loop {
        match CoordinatorProcess::open(config, stop).await {
            Err(error) if is_in_use(&error) && clock.monotonic() < deadline => clock.sleep(IN_USE_PAUSE).await,
            opened => return opened,
        }
    }
}

fn is_in_use(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(store::OpenError::InUse { .. }))
}

/// What works beside the coordinator.
struct LocalFleet<'s> {
    config: &'s Config,
    args: &'s LocalArgs,
    out: &'s Output,
    api: &'s str,
    coordinator: &'s Coordinator,
}

impl LocalFleet<'_> {
    async fn work(&self, queue: Queue, stop: &CancellationToken) -> Result<(), Failure> {
        let client = self.client()?;
        self.settle_product(&client).await?;
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let mut sync = QueueSync::open(queue, self.terms(), client, clock, self.out)?;
        // Files first: what the user did while the process was stopped is applied before anything runs.
        tokio::select! {
            begun = sync.begin() => begun?,
            () = stop.cancelled() => {
                return if self.args.once { sync.verdict(SyncEnd::UntilStopped) } else { Ok(()) };
            }
        }
        self.greet();
        let over = stop.child_token();
        let build = async {
            let built = self.build(over.clone()).await;
            over.cancel();
            built
        };
        let keep = async {
            let kept = sync.keep(&over).await;
            over.cancel();
            kept
        };
        let (built, kept) = tokio::join!(build, keep);
        sync.settle().await;
        built?;
        let kept = kept?;
        if self.args.once { sync.verdict(kept) } else { Ok(()) }
    }

    /// The factory, enrolled again if the store has forgotten it.
    async fn build(&self, over: CancellationToken) -> anyhow::Result<()> {
        let own = &self.config.factory;
        loop {
            let had_token = factory::is_enrolled(&own.state.value);
            let join = match had_token {
                true => None,
                false => Some(self.coordinator.join_token(own.name.value.clone()).await?),
            };
            let join = join.as_ref().map(coordinator::Secret::reveal);
            // As for a factory that its fleet started: one that is not known any more drops its token.
            // The folder of a file decides about its job: an agent that could move one would approve its own work.
            let others = FactorySurroundings {
                hidden: vec![std::path::absolute(&self.args.dir)?],
                is_unattended: self.args.once,
                ..FactorySurroundings::default()
            };
            let ended =
                factory::run_beside(&others, self.config, self.api, join, ParentWatch::Stdin, over.clone()).await;
            let is_forgotten = had_token && !factory::is_enrolled(&own.state.value);
            if !is_forgotten || over.is_cancelled() {
                return ended;
            }
        }
    }

    fn client(&self) -> Result<Client, Failure> {
        let token = std::fs::read_to_string(self.config.data.admin_token()).context("cannot read the queue's token")?;
        let token = token.trim().to_owned();
        Ok(Client::new(Endpoint { base: self.api.to_owned(), token, product: None, trust: Trust::Public })?)
    }

    /// The product of the files is created automatically. Whether it ships automatically is set anew at each start:
    /// a user who leaves `--ship` out does not expect a merge because it was given last week.
    async fn settle_product(&self, client: &Client) -> Result<(), Failure> {
        let product = self.config.client.product.value.clone().unwrap_or_else(ProductId::default_product);
        let settings = ProductSettings { auto_ship: Some(self.args.ship), ..ProductSettings::default() };
        let _: domain::Product = client.call(Method::PUT, &format!("/products/{product}"), Some(&settings)).await?;
        Ok(())
    }

    fn terms(&self) -> SyncOptions {
        SyncOptions {
            records: self.config.data.path().join("files"),
            product: self.config.client.product.value.clone(),
            sweep_every: self.config.factory.polling.reconciled().0.every,
            until: if self.args.once { Until::AllEnded } else { Until::Stopped },
        }
    }

    fn greet(&self) {
        if let Some(word) = crate::programs::word_on_engines(&self.config.factory) {
            self.out.note(&word);
        }
        if !self.args.once {
            let inbox = shown(&self.args.dir.join("inbox"));
            self.out.note(&format!("drop jobs into {inbox}; stop with Ctrl-C"));
        }
    }
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}
