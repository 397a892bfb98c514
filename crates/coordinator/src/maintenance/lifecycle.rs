//! Start and stop: the state is rebuilt from the store, then all tasks run until the stop.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use domain::{Collection, Expected, Pool, Product, ProductId, Session, Token, Versioned};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::coordinator::purpose::{self, Purpose};
use crate::coordinator::settings::Settings;
use crate::coordinator::{Coordinator, Ports};
use crate::dispatch::Publish;
use crate::error::Error;
use crate::fleet::registry::Registration;
use crate::maintenance::generation;
use crate::state::FleetState;
use crate::work::quota_windows::QuotaWindow;

impl Coordinator {
    /// A coordinator loaded from the store. Nothing runs yet: [`Coordinator::run`] does that.
    pub async fn open(ports: Ports, settings: Settings) -> Result<Arc<Self>, Error> {
        Purpose::Start.scope(Self::load(ports, settings)).await
    }

    async fn load(ports: Ports, settings: Settings) -> Result<Arc<Self>, Error> {
        let (ports, store_use) = purpose::counted(ports);
        let (settings, warnings) = settings.reconciled();
        for warning in warnings {
            warn!("{warning}");
        }
        let (started_at, started) = (ports.clock.now(), ports.clock.monotonic());
        let lineage = generation::store_generation(ports.fleet.as_ref(), started_at).await?;
        let incarnation = u64::from_le_bytes(ports.entropy.bytes());
        let coordinator = Arc::new(Self {
            ports,
            store_use,
            settings,
            state: Mutex::new(FleetState::default()),
            inboxes: Default::default(),
            profiles: Default::default(),
            tokens: Default::default(),
            sessions: Default::default(),
            tail: Default::default(),
            live: Default::default(),
            manifests: Default::default(),
            log_notifier: Default::default(),
            progress: Default::default(),
            counters: Default::default(),
            metrics_history: Default::default(),
            health: Default::default(),
            quarantine: Default::default(),
            pull_request_poller: Default::default(),
            publisher: Default::default(),
            modes: Default::default(),
            shadow: Default::default(),
            claim_locks: Default::default(),
            announcer: Default::default(),
            budgets: Default::default(),
            release_asked: Default::default(),
            seat_allocation: Default::default(),
            dispatching: AtomicBool::new(false),
            trees: Default::default(),
            tracker: Default::default(),
            notifier: Default::default(),
            artifacts: Default::default(),
            arriving: AtomicUsize::new(0),
            order: AtomicU64::new(0),
            work: Notify::new(),
            timer: Notify::new(),
            needs_reconcile: AtomicBool::new(false),
            generation: lineage.generation,
            started_at,
            incarnation,
            started,
            stopping: CancellationToken::new(),
        });
        coordinator.load_fleet().await?;
        coordinator.purge_tokens().await;
        coordinator.compare_open_jobs().await?;
        coordinator.restore_order();
        coordinator.migrate_open_jobs(&lineage).await;
        coordinator.settle_blocked().await;
        coordinator.follow_trees().await;
        coordinator.ship_ready().await;
        coordinator.republish();
        coordinator.repair_mirror().await;
        let open = coordinator.state.lock().open_count();
        info!(jobs.open = open, "Loaded {open} open jobs");
        Ok(coordinator)
    }

    /// Runs the dispatcher, the timer, the sweep and the pull-request poller until [`Coordinator::stop`].
    pub async fn run(&self) {
        self.work.notify_one();
        tokio::join!(
            Purpose::Dispatch.scope(self.run_dispatcher()),
            Purpose::Dispatch.scope(self.run_publisher()),
            Purpose::Deadline.scope(self.run_timer()),
            Purpose::Sweep.scope(self.run_sweep()),
            Purpose::PullRequests.scope(self.run_pull_request_poller()),
            Purpose::Budgets.scope(self.run_budgets()),
            Purpose::Health.scope(self.run_disk_watch()),
            Purpose::SearchIndex.scope(self.run_search_indexer()),
            Purpose::Tracker.scope(self.run_tracker()),
            Purpose::Webhooks.scope(self.run_webhooks()),
            Purpose::Artifacts.scope(self.run_artifact_collector())
        );
    }

    /// Stops all tasks and ends every open stream.
    pub fn stop(&self) {
        self.stopping.cancel();
    }

    /// Sorts the queue by the order of writes, and sets the number of the next change.
    fn restore_order(&self) {
        let mut state = self.state.lock();
        state.restore_order();
        self.order.store(state.last_order(), Ordering::Relaxed);
    }

    async fn load_fleet(&self) -> Result<(), Error> {
        for (_, product) in self.documents::<Product>(Collection::Products).await? {
            self.cache_product(product);
        }
        self.pause_unreadable_products();
        let default = ProductId::default_product();
        let has_default = || self.state.lock().has_product(&default);
        if !has_default() {
            let written = self.write_product(Product::new(default.clone()), Expected::Absent).await;
            // A coordinator that starts at the same time may have been first: that is fine.
            if !has_default() {
                written?;
            }
        }
        self.load_profiles().await?;
        self.load_flags().await?;
        self.load_comparison().await?;
        self.load_budgets().await?;
        self.tokens.load(self.documents::<Token>(Collection::Tokens).await?.into_iter());
        let sessions = self.documents::<Session>(Collection::Sessions).await?;
        self.sessions.load(sessions.into_iter(), self.generation);
        for (_, factory) in self.documents::<Registration>(Collection::Factories).await? {
            self.cache_factory(factory);
        }
        for (_, pool) in self.documents::<Pool>(Collection::Pools).await? {
            self.state.lock().put_pool(pool);
        }
        self.load_tracker_items().await?;
        self.load_artifact_records().await?;
        for (credential, window) in self.documents::<QuotaWindow>(Collection::Credentials).await? {
            self.cache_window(credential, window);
        }
        Ok(())
    }

    /// A product whose settings are unreadable counts as paused until an administrator sets them: its jobs stay queued.
    fn pause_unreadable_products(&self) {
        for (key, revision) in self.quarantine.of(Collection::Products) {
            let Ok(id) = key.parse::<ProductId>() else { continue };
            let value = Product { paused: true, ..Product::new(id) };
            self.cache_product(Versioned { value, revision });
        }
    }

    /// Republishes open offers: they may not have reached the broker before the last process ended, and an embedded
    /// broker has lost them. The broker drops duplicates.
    fn republish(&self) {
        let offered: Vec<_> = {
            let state = self.state.lock();
            state.jobs().filter(|job| job.value.dispatch().is_some()).map(|job| Arc::clone(&job.value)).collect()
        };
        for job in offered {
            self.publish(&job, Publish::Again);
        }
    }
}
