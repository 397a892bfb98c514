//! The coordinator: what it is made of, and who wakes whom.

pub(crate) mod settings;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use std::time::Duration;

use domain::{Actor, Broker, Clock, Entropy, FleetStore, Generation, JobHistory, JobId, JobStore, LogStore, Timestamp};
use parking_lot::Mutex;
use tokio::sync::{Notify, RwLock};
use tokio_util::sync::CancellationToken;

use crate::commit::quarantine::Quarantine;
use crate::coordinator::settings::Settings;
use crate::dispatch::claim::ClaimLocks;
use crate::dispatch::inbox::Inboxes;
use crate::dispatch::modes::Modes;
use crate::fleet::tokens::TokenBook;
use crate::maintenance::health::StoreHealth;
use crate::pull_requests::poller::PullRequestPoller;
use crate::read::event_stream::EventTail;
use crate::read::metrics::Counters;
use crate::state::manifest_cache::ManifestCache;
use crate::state::progress::ProgressBoard;
use crate::state::{FleetState, StateTime};
use crate::work::logs::LogNotifier;

/// Everything outside that a coordinator needs.
#[derive(Clone)]
pub struct Ports {
    /// Durable memory of jobs.
    pub jobs: Arc<dyn JobStore>,
    /// What people read.
    pub history: Arc<dyn JobHistory>,
    /// Durable memory of the fleet.
    pub fleet: Arc<dyn FleetStore>,
    /// What engines print.
    pub logs: Arc<dyn LogStore>,
    /// Delivery.
    pub broker: Arc<dyn Broker>,
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Chance.
    pub entropy: Arc<dyn Entropy>,
}

/// Decides who works on what, and keeps the books.
pub struct Coordinator {
    pub(crate) ports: Ports,
    pub(crate) settings: Settings,
    /// What is kept in memory about open work. Never locked across an await.
    pub(crate) state: Mutex<FleetState>,
    pub(crate) inboxes: Inboxes,
    pub(crate) tokens: TokenBook,
    pub(crate) tail: EventTail,
    pub(crate) manifests: ManifestCache,
    pub(crate) log_notifier: LogNotifier,
    pub(crate) progress: ProgressBoard,
    pub(crate) counters: Counters,
    pub(crate) health: StoreHealth,
    pub(crate) quarantine: Quarantine,
    /// Who looks at which pull request.
    pub(crate) pull_request_poller: PullRequestPoller,
    /// How work reaches factories.
    pub(crate) modes: Modes,
    pub(crate) claim_locks: ClaimLocks,
    /// Whoever counts free seats and takes them later, alone or beside others who keep what they count.
    pub(crate) seat_allocation: RwLock<()>,
    /// Whether the dispatcher runs: only then is anything offered by itself.
    pub(crate) dispatching: AtomicBool,
    /// Requests whose jobs are on their way into the store.
    pub(crate) arriving: AtomicUsize,
    /// Numbers the changes of jobs, see `Job::order`.
    pub(crate) order: AtomicU64,
    /// Something became dispatchable, or a seat came free.
    pub(crate) work: Notify,
    /// A deadline came nearer.
    pub(crate) timer: Notify,
    /// The mirror of the store in memory may be wrong: compare it now.
    pub(crate) needs_reconcile: AtomicBool,
    /// Which life of the store this is: read at the start, and nothing changes it while the store is open.
    pub(crate) generation: Generation,
    pub(crate) started_at: Timestamp,
    /// Random per start.
    pub(crate) incarnation: u64,
    /// The same on the monotonic clock, which nobody sets.
    pub(crate) started: Duration,
    pub(crate) stopping: CancellationToken,
}

impl Coordinator {
    /// A job's id, fresh.
    pub(crate) fn new_job_id(&self) -> JobId {
        JobId::new(self.ports.clock.now(), self.ports.entropy.bytes())
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.ports.clock.now()
    }

    /// A job by its short id, and by its title while it is open. Takes the desk's lock.
    pub(crate) fn label(&self, id: JobId) -> String {
        match self.state.lock().job(id) {
            Some(job) => job.value.label().to_string(),
            None => id.short().to_string(),
        }
    }

    /// Time that never jumps: the wall clock of the start, and what has passed since by the monotonic clock. Waiting times
    /// and deadlines are kept on it; what is stored and shown is by the wall clock (row 36).
    pub(crate) fn steady(&self) -> Timestamp {
        self.started_at.after(self.ports.clock.monotonic().saturating_sub(self.started))
    }

    /// A point in steady time by the wall clock, to be shown.
    pub(crate) fn wall_time(&self, steady: Timestamp) -> Timestamp {
        self.now().before(self.steady().since(steady))
    }

    /// Now, and when a lease that begins or is found now expires.
    pub(crate) fn moment(&self) -> StateTime {
        let lease_expires = self.ports.clock.monotonic() + self.settings.lease_ttl;
        StateTime { wall: self.now(), steady: self.steady(), lease_expires }
    }

    /// The clock that everything here goes by.
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.ports.clock
    }

    /// The settings in force.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Whether presence is still being learned after the start: no alarms, no re-targeting [I14].
    pub(crate) fn is_warming(&self) -> bool {
        self.uptime() < self.settings.renew_every
    }

    pub(crate) fn uptime(&self) -> Duration {
        self.ports.clock.monotonic().saturating_sub(self.started)
    }

    /// Resolves when the coordinator is stopping: held-open streams end then.
    pub async fn stopped(&self) {
        self.stopping.cancelled().await;
    }
}

pub(crate) const COORDINATOR: Actor = Actor::Coordinator;
