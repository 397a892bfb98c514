//! The coordinator: its ports, its state and the signals between its tasks.

pub(crate) mod purpose;
pub(crate) mod settings;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use std::time::Duration;

use domain::{
    Actor, BlobStore, Broker, Clock, Entropy, Epoch, FleetStore, Generation, JobHistory, JobId, JobStore, Leadership,
    LogStore, Timestamp,
};
use foldhash::HashMap;
use parking_lot::Mutex;
use tokio::sync::{Notify, RwLock};
use tokio_util::sync::CancellationToken;

use crate::commit::quarantine::Quarantine;
use crate::coordinator::purpose::StoreUse;
use crate::coordinator::settings::Settings;
use crate::dispatch::announcer::Announcer;
use crate::dispatch::claim::ClaimLocks;
use crate::dispatch::inbox::Inboxes;
use crate::dispatch::modes::Modes;
use crate::dispatch::publisher::Publisher;
use crate::dispatch::shadow::board::ShadowBoard;
use crate::error::Error;
use crate::fleet::budgets::writer::BudgetWriters;
use crate::fleet::sessions::SessionBook;
use crate::fleet::tokens::TokenBook;
use crate::maintenance::health::StoreHealth;
use crate::maintenance::notify::Notifier;
use crate::pull_requests::poller::PullRequestPoller;
use crate::read::event_stream::EventTail;
use crate::read::live::LiveBoard;
use crate::read::metrics::Counters;
use crate::read::metrics_history::HistoryRecorder;
use crate::state::manifest_cache::ManifestCache;
use crate::state::profiles::ProfileBook;
use crate::state::progress::ProgressBoard;
use crate::state::{FleetState, StateTime};
use crate::submit::tracker::TrackerBridge;
use crate::work::artifacts::ArtifactShelf;
use crate::work::logs::LogNotifier;
use crate::work::trees::grow::TreeGrowth;

/// The external dependencies of a coordinator.
#[derive(Clone)]
pub struct Ports {
    /// Stores jobs.
    pub jobs: Arc<dyn JobStore>,
    /// Stores events and runs for queries.
    pub history: Arc<dyn JobHistory>,
    /// Stores factories, products, tokens and settings.
    pub fleet: Arc<dyn FleetStore>,
    /// Stores engine output.
    pub logs: Arc<dyn LogStore>,
    /// Stores the bytes of artifacts.
    pub blobs: Arc<dyn BlobStore>,
    /// Delivers offers to factories.
    pub broker: Arc<dyn Broker>,
    /// Proves that this coordinator still leads.
    pub leadership: Arc<dyn Leadership>,
    /// The wall clock and the monotonic clock.
    pub clock: Arc<dyn Clock>,
    /// Random numbers.
    pub entropy: Arc<dyn Entropy>,
}

/// Schedules jobs, grants leases and records every change.
pub struct Coordinator {
    pub(crate) ports: Ports,
    /// The reads and writes of the store, by purpose.
    pub(crate) store_use: Arc<StoreUse>,
    pub(crate) settings: Settings,
    /// In-memory state of open jobs. Never locked across an await.
    pub(crate) state: Mutex<FleetState>,
    pub(crate) inboxes: Inboxes,
    /// Every version of every profile.
    pub(crate) profiles: parking_lot::RwLock<ProfileBook>,
    pub(crate) tokens: TokenBook,
    pub(crate) sessions: SessionBook,
    pub(crate) tail: EventTail,
    pub(crate) live: LiveBoard,
    pub(crate) manifests: ManifestCache,
    pub(crate) log_notifier: LogNotifier,
    pub(crate) progress: ProgressBoard,
    pub(crate) counters: Counters,
    pub(crate) metrics_history: HistoryRecorder,
    pub(crate) health: StoreHealth,
    pub(crate) quarantine: Quarantine,
    /// Decides which factory polls which pull request.
    pub(crate) pull_request_poller: PullRequestPoller,
    /// Messages on their way to the broker.
    pub(crate) publisher: Publisher,
    /// The dispatch modes.
    pub(crate) modes: Modes,
    /// The comparison of polling with push mode.
    pub(crate) shadow: ShadowBoard,
    pub(crate) claim_locks: ClaimLocks,
    /// Jobs that factories may claim by id.
    pub(crate) announcer: Announcer,
    /// Reads and writes of budgets.
    pub(crate) budgets: BudgetWriters,
    /// Runs that were asked to save their work and return their job, with the time on the monotonic clock.
    pub(crate) release_asked: Mutex<HashMap<(JobId, Epoch), Duration>>,
    /// The dispatcher holds it exclusively: it counts free seats and takes them later. Claims share it: they reserve
    /// the seats they count.
    pub(crate) seat_allocation: RwLock<()>,
    /// Whether the dispatcher runs. Jobs are offered only while it does.
    pub(crate) dispatching: AtomicBool,
    /// The trees that are being added to.
    pub(crate) trees: TreeGrowth,
    /// Items of trackers, and the status of their jobs.
    pub(crate) tracker: TrackerBridge,
    /// Outgoing webhooks.
    pub(crate) notifier: Notifier,
    /// Uploads of artifacts, and the jobs that have some.
    pub(crate) artifacts: ArtifactShelf,
    /// Submit requests whose jobs are being written.
    pub(crate) arriving: AtomicUsize,
    /// Numbers the changes of jobs, see `Job::order`.
    pub(crate) order: AtomicU64,
    /// A job became dispatchable, or a seat became free.
    pub(crate) work: Notify,
    /// The next deadline is earlier than before.
    pub(crate) timer: Notify,
    /// Memory may differ from the store: compare them now.
    pub(crate) needs_reconcile: AtomicBool,
    /// The generation of the store: read at the start, fixed while the store is open.
    pub(crate) generation: Generation,
    pub(crate) started_at: Timestamp,
    /// A random number per start.
    pub(crate) incarnation: u64,
    /// The start on the monotonic clock.
    pub(crate) started: Duration,
    pub(crate) stopping: CancellationToken,
}

impl Coordinator {
    /// A new job id.
    pub(crate) fn new_job_id(&self) -> JobId {
        JobId::new(self.ports.clock.now(), self.ports.entropy.bytes())
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.ports.clock.now()
    }

    /// A job by its short id, and by its title while it is open. Locks the state.
    pub(crate) fn label(&self, id: JobId) -> String {
        match self.state.lock().job(id) {
            Some(job) => job.value.label().to_string(),
            None => id.short().to_string(),
        }
    }

    /// Time without jumps: the wall clock at the start plus the monotonic time since then. Waiting times and deadlines
    /// use it; stored and displayed times use the wall clock (row 36).
    pub(crate) fn steady(&self) -> Timestamp {
        self.started_at.after(self.ports.clock.monotonic().saturating_sub(self.started))
    }

    /// Converts steady time to the wall clock, for display.
    pub(crate) fn wall_time(&self, steady: Timestamp) -> Timestamp {
        self.now().before(self.steady().since(steady))
    }

    /// Checks that this coordinator still leads. One that is cut off from the store may have been replaced: it must not
    /// extend leases that its successor revokes.
    pub fn lead(&self) -> Result<(), Error> {
        let Some(proved_at) = self.ports.leadership.proved_at() else { return Ok(()) };
        let age = self.ports.clock.monotonic().saturating_sub(proved_at);
        if age > self.settings.lease_ttl { Err(Error::NotLeading) } else { Ok(()) }
    }

    /// How much longer than a lease a new leader waits before it revokes one: the former leader may have extended it
    /// until its own proof ran out.
    pub(crate) fn handover(&self) -> Duration {
        if self.ports.leadership.was_taken_over() { self.settings.lease_ttl } else { Duration::ZERO }
    }

    /// Now, and the expiry of a lease that begins now.
    pub(crate) fn state_time(&self) -> StateTime {
        let lease_expires = self.ports.clock.monotonic() + self.settings.lease_ttl;
        StateTime { wall: self.now(), steady: self.steady(), lease_expires }
    }

    /// The clock that the coordinator uses.
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.ports.clock
    }

    /// The settings in force.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Whether factories may still be reconnecting after the start: no alerts, no re-targeting [I14].
    pub(crate) fn is_warming(&self) -> bool {
        self.uptime() < self.settings.renew_every
    }

    pub(crate) fn uptime(&self) -> Duration {
        self.ports.clock.monotonic().saturating_sub(self.started)
    }

    /// Resolves when the coordinator stops: open streams end then.
    pub async fn stopped(&self) {
        self.stopping.cancelled().await;
    }
}

pub(crate) const COORDINATOR: Actor = Actor::Coordinator;
