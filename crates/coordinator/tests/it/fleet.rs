//! A coordinator on a real store and a real broker, with fault injection, a manual clock and restarts.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use broker::Embedded;
use clock::{ManualClock, SeededEntropy, SystemClock};
use coordinator::{Coordinator, Error, Ports, Principal, Settings};
use domain::{
    Backup as _, BlobAttributes, BlobKey, BlobReader, BlobStore, BlobWriter, Broker, Clock, Collection, DispatchModes,
    Entropy, EventKind, Expected, FleetStore, Generation, JobEvent, JobHistory, JobId, JobStore, Leadership, Mode,
    Position, Scope, SoleLeader, StageName, StoreError, StoreGeneration, Timestamp,
};
use parking_lot::Mutex;
use protocol::{Action, ActionRequest, JobView, ProductSettings, SubmitRequest};
use store::document::DocumentStore;
use store::document::simulated::{Faults, HastyClock, STALE_READ, SimulatedDatabase};
use store::{
    DirectoryBlobs, DirectoryLogs, Exclusivity, MemoryStore, Options, PostgresOptions, PostgresStore, PostgresUrl,
    SqliteStore,
};
use tempfile::TempDir;

use crate::faulty_broker::FaultyBroker;
use crate::faulty_store::{FaultyStore, StoreFaults};
use crate::machine::Machine;

/// The parts that outlive a coordinator: the store, the clock, the settings. The embedded broker does not.
pub(crate) struct TestFleetBuilder {
    pub(crate) clock: ManualClock,
    /// How far the coordinator's wall clock is ahead.
    pub(crate) ahead: Arc<Mutex<Duration>>,
    pub(crate) store: Arc<StoreFaults>,
    backend: Backend,
    pub(crate) logs: DirectoryLogs,
    pub(crate) blobs: DirectoryBlobs,
    broker: Mutex<Arc<FaultyBroker>>,
    broker_settings: broker::Settings,
    entropy: Arc<SeededEntropy>,
    settings: Settings,
    admin: Mutex<Option<String>>,
    /// What proves that the coordinators lead.
    pub(crate) leadership: Mutex<Arc<dyn Leadership>>,
    _folder: TempDir,
}

/// The store of the jobs.
enum Backend {
    Memory(Arc<MemoryStore>),
    Sqlite(Arc<SqliteStore>),
    Simulated(Arc<SimulatedDatabase>),
    Postgres(Box<pgserver::Server>),
}

/// A backup of a store.
pub(crate) enum Backup {
    File(PathBuf),
    /// A snapshot by the database provider.
    Copy(Arc<SimulatedDatabase>),
}

/// The seed of the faults of a simulated database, unless `GIGA_WEAK_SEED` names another.
const WEAK_SEED: u64 = 17;

/// Idle rounds of a dispatcher before the queue counts as empty: a write that timed out and did not happen is repeated
/// in the next round. This many in a row do not occur.
const IDLE_ROUNDS_ON_A_BAD_DAY: usize = 6;

/// One store through all of its ports.
struct Stores {
    jobs: Arc<dyn JobStore>,
    history: Arc<dyn JobHistory>,
    fleet: Arc<dyn FleetStore>,
}

impl Stores {
    fn of<S: JobStore + JobHistory + FleetStore + 'static>(store: Arc<S>) -> Self {
        Self { jobs: Arc::clone(&store) as _, history: Arc::clone(&store) as _, fleet: store }
    }
}

impl TestFleetBuilder {
    /// On a fast in-memory store.
    pub(crate) fn memory() -> Self {
        Self::on(Backend::Memory(Arc::default()), tempfile::tempdir().unwrap())
    }

    /// On a real file.
    pub(crate) fn sqlite() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let sqlite = SqliteStore::open(folder.path().join("fleet.db"), Options::default()).unwrap();
        Self::on(Backend::Sqlite(Arc::new(sqlite)), folder)
    }

    /// On a simulated database with weak guarantees and many faults. Each coordinator is a separate process to it.
    pub(crate) fn simulated() -> Self {
        Self::weak_with(Faults::BAD_DAY)
    }

    /// On a simulated database with these faults.
    pub(crate) fn weak_with(faults: Faults) -> Self {
        let seed = std::env::var("GIGA_WEAK_SEED").map_or(WEAK_SEED, |seed| seed.parse().unwrap());
        eprintln!("the weak database's seed is {seed}: GIGA_WEAK_SEED={seed} tells the scenario again");
        let database = SimulatedDatabase::new(faults, Arc::new(SeededEntropy::new(seed)));
        Self::on(Backend::Simulated(Arc::new(database)), tempfile::tempdir().unwrap())
    }

    /// On a real server of its own. Each coordinator is a separate process to it. In memory if the tester declared that
    /// there is no PostgreSQL.
    pub(crate) fn postgres() -> Self {
        match pgserver::for_test(pgserver::Flushes::None).unwrap() {
            Some(server) => Self::on(Backend::Postgres(Box::new(server)), tempfile::tempdir().unwrap()),
            None => Self::memory(),
        }
    }

    fn on(backend: Backend, folder: TempDir) -> Self {
        let clock = ManualClock::default();
        let broker_settings = broker::Settings::default();
        Self {
            store: Arc::new(StoreFaults::new(11)),
            backend,
            logs: DirectoryLogs::new(folder.path().join("logs"), 1 << 20),
            blobs: DirectoryBlobs::new(folder.path().join("artifacts")),
            broker: Mutex::new(broker(&clock, broker_settings)),
            broker_settings,
            entropy: Arc::new(SeededEntropy::new(7)),
            settings: Settings::default(),
            admin: Mutex::default(),
            leadership: Mutex::new(Arc::new(SoleLeader)),
            clock,
            ahead: Arc::default(),
            _folder: folder,
        }
    }

    /// The file of a builder that has one.
    pub(crate) fn sqlite_file(&self) -> &SqliteStore {
        match &self.backend {
            Backend::Sqlite(sqlite) => sqlite,
            Backend::Memory(_) | Backend::Simulated(_) | Backend::Postgres(_) => panic!("the builder has no file"),
        }
    }

    /// Backs up the store.
    pub(crate) async fn back_up(&self, file: PathBuf) -> Backup {
        match &self.backend {
            Backend::Memory(_) => panic!("what is in memory only is not backed up"),
            Backend::Sqlite(sqlite) => drop(sqlite.back_up(&file, self.clock.now()).await.unwrap()),
            Backend::Simulated(database) => {
                let chance = Arc::new(SeededEntropy::new(WEAK_SEED));
                return Backup::Copy(Arc::new(database.copied(chance)));
            }
            Backend::Postgres(server) => {
                drop(postgres(server).await.back_up(&file, self.clock.now()).await.unwrap());
            }
        }
        Backup::File(file)
    }

    /// Another store, restored from a backup of this one. Clock, principals and broker stay the same: they outlive a
    /// store.
    pub(crate) async fn restored(&self, backup: &Backup) -> Self {
        let mut builder = match (&self.backend, backup) {
            (Backend::Postgres(_), Backup::File(file)) => {
                let builder = Self::postgres();
                if let Backend::Postgres(server) = &builder.backend {
                    postgres(server).await.restore(file, self.clock.now()).await.unwrap();
                }
                builder
            }
            (_, Backup::File(file)) => {
                let folder = tempfile::tempdir().unwrap();
                let path = folder.path().join("fleet.db");
                store::restore_closed(file, &path, self.clock.now()).unwrap();
                Self::on(Backend::Sqlite(Arc::new(SqliteStore::open(path, Options::default()).unwrap())), folder)
            }
            (_, Backup::Copy(database)) => {
                let database = Arc::new(database.copied(Arc::new(SeededEntropy::new(WEAK_SEED))));
                begin_anew(&simulated(&database).await, self.clock.now()).await;
                database.set_faults(Faults::BAD_DAY);
                Self::on(Backend::Simulated(database), tempfile::tempdir().unwrap())
            }
        };
        builder.clock = self.clock.clone();
        builder.entropy = Arc::clone(&self.entropy);
        builder.settings = self.settings.clone();
        builder.broker = Mutex::new(self.broker());
        builder.admin = Mutex::new(self.admin.lock().clone());
        builder
    }

    /// The store as a starting process opens it.
    async fn connect(&self) -> Stores {
        match &self.backend {
            Backend::Memory(memory) => Stores::of(Arc::clone(memory)),
            Backend::Sqlite(sqlite) => Stores::of(Arc::clone(sqlite)),
            Backend::Simulated(database) => Stores::of(Arc::new(simulated(database).await)),
            Backend::Postgres(server) => Stores::of(Arc::new(postgres(server).await)),
        }
    }

    /// Whether the log has one order for all jobs, and not only per job [J7].
    pub(crate) fn has_one_order(&self) -> bool {
        match &self.backend {
            Backend::Memory(_) | Backend::Sqlite(_) | Backend::Postgres(_) => true,
            Backend::Simulated(_) => false,
        }
    }

    /// Idle rounds of a dispatcher before the queue counts as empty.
    fn idle_rounds(&self) -> usize {
        match &self.backend {
            Backend::Memory(_) | Backend::Sqlite(_) | Backend::Postgres(_) => 1,
            Backend::Simulated(_) => IDLE_ROUNDS_ON_A_BAD_DAY,
        }
    }

    /// With other settings.
    pub(crate) fn with(mut self, change: impl FnOnce(&mut Settings)) -> Self {
        change(&mut self.settings);
        self
    }

    /// With a store that never loses an answer, whatever its other faults.
    pub(crate) fn answering(self) -> Self {
        if let Backend::Simulated(database) = &self.backend {
            database.set_faults(Faults { answers_lost: 0.0, requests_lost: 0.0, ..Faults::BAD_DAY });
        }
        self
    }

    /// How many reads a simulated database has answered with an older version.
    pub(crate) fn stale_reads(&self) -> u64 {
        match &self.backend {
            Backend::Simulated(database) => database.requests(STALE_READ),
            Backend::Memory(_) | Backend::Sqlite(_) | Backend::Postgres(_) => 0,
        }
    }

    /// With other broker settings.
    pub(crate) fn with_broker(mut self, change: impl FnOnce(&mut broker::Settings)) -> Self {
        change(&mut self.broker_settings);
        *self.broker.lock() = broker(&self.clock, self.broker_settings);
        self
    }

    pub(crate) fn broker(&self) -> Arc<FaultyBroker> {
        Arc::clone(&self.broker.lock())
    }

    /// A coordinator loaded from the store. Several may be open at once, and share the broker.
    pub(crate) async fn open(self: &Arc<Self>) -> Fleet {
        let (coordinator, history) = self.start().await;
        if let Some(secret) = coordinator.first_admin_token().await.unwrap() {
            *self.admin.lock() = Some(secret.reveal().to_owned());
        }
        let admin = coordinator.authenticate(self.admin.lock().as_deref().unwrap()).unwrap();
        Fleet { coordinator, admin, history, builder: Arc::clone(self) }
    }

    /// A new coordinator without any requests yet, and read access to its store.
    pub(crate) async fn start(&self) -> (Arc<Coordinator>, Arc<dyn JobHistory>) {
        let Stores { jobs, history, fleet } = self.connect().await;
        let store = Arc::new(FaultyStore::new(jobs, fleet, Arc::clone(&self.store)));
        let ports = Ports {
            jobs: Arc::clone(&store) as Arc<dyn JobStore>,
            history: Arc::clone(&history),
            fleet: store,
            logs: Arc::new(self.logs.clone()),
            blobs: Arc::new(SigningBlobs(self.blobs.clone())),
            leadership: self.leadership.lock().clone(),
            broker: self.broker() as Arc<dyn Broker>,
            clock: Arc::new(WallClock { clock: self.clock.clone(), ahead: Arc::clone(&self.ahead) }),
            entropy: Arc::clone(&self.entropy) as Arc<dyn Entropy>,
        };
        (Coordinator::open(ports, self.settings.clone()).await.unwrap(), history)
    }
}

/// A directory that signs URLs as an object store would, where the settings ask for them.
struct SigningBlobs(DirectoryBlobs);

#[async_trait]
impl BlobStore for SigningBlobs {
    async fn create(&self, key: &BlobKey, about: &BlobAttributes) -> Result<Box<dyn BlobWriter>, StoreError> {
        self.0.create(key, about).await
    }

    async fn open(&self, key: &BlobKey) -> Result<Option<Box<dyn BlobReader>>, StoreError> {
        self.0.open(key).await
    }

    async fn remove(&self, key: &BlobKey) -> Result<(), StoreError> {
        self.0.remove(key).await
    }

    async fn list(&self, job: JobId) -> Result<Vec<(BlobKey, Timestamp)>, StoreError> {
        self.0.list(job).await
    }

    async fn signed_url(&self, _: &BlobKey, valid: Duration) -> Result<Option<String>, StoreError> {
        Ok(Some(format!("https://objects.example/blob?seconds={}", valid.as_secs())))
    }
}

async fn simulated(database: &Arc<SimulatedDatabase>) -> DocumentStore {
    let (clock, chance) = (Arc::new(HastyClock::default()), Arc::new(SeededEntropy::new(5)));
    DocumentStore::open(Arc::clone(database) as _, clock, chance).await.unwrap()
}

/// The server does not flush, and some tests use several coordinators.
async fn postgres(server: &pgserver::Server) -> PostgresStore {
    let url = PostgresUrl::parse(&format!("{}?fsync=off", server.url())).unwrap();
    let options = PostgresOptions { tenancy: Exclusivity::Shared, ..PostgresOptions::default() };
    PostgresStore::open(&url, options, Arc::new(SystemClock::new())).await.unwrap()
}

/// The last write of a restore, for a store that its provider has restored.
async fn begin_anew(store: &dyn FleetStore, now: Timestamp) {
    let known = store.document(Collection::Meta, StoreGeneration::KEY).await.unwrap();
    let expected = known.as_ref().map_or(Expected::Absent, |known| Expected::At(known.revision));
    let former = known.map_or_else(StoreGeneration::default, |known| serde_json::from_value(known.value).unwrap());
    let generation = Generation::restored(former.generation, None, now);
    let lineage = StoreGeneration { generation, restored_at: Some(now), as_of: None };
    let document = serde_json::to_value(lineage).unwrap();
    store.put(Collection::Meta, StoreGeneration::KEY, expected, Some(document)).await.unwrap();
}

/// A clock whose wall time can be set, as operators and time servers do.
struct WallClock {
    clock: ManualClock,
    ahead: Arc<Mutex<Duration>>,
}

#[async_trait]
impl Clock for WallClock {
    fn now(&self) -> Timestamp {
        self.clock.now().after(*self.ahead.lock())
    }

    fn monotonic(&self) -> Duration {
        self.clock.monotonic()
    }

    async fn sleep(&self, span: Duration) {
        self.clock.sleep(span).await;
    }
}

fn broker(clock: &ManualClock, settings: broker::Settings) -> Arc<FaultyBroker> {
    Arc::new(FaultyBroker::new(Arc::new(Embedded::new(settings, Arc::new(clock.clone()))), 13))
}

/// One running coordinator, as its users see it.
pub(crate) struct Fleet {
    pub(crate) coordinator: Arc<Coordinator>,
    pub(crate) admin: Principal,
    pub(crate) builder: Arc<TestFleetBuilder>,
    history: Arc<dyn JobHistory>,
}

impl Fleet {
    /// A coordinator after its warm-up.
    pub(crate) async fn warm(builder: TestFleetBuilder) -> Self {
        let fleet = Arc::new(builder).open().await;
        fleet.warm_up();
        fleet
    }

    /// Advances the clock past the warm-up, in which no factory counts as missing.
    pub(crate) fn warm_up(&self) {
        self.builder.clock.advance(self.coordinator.settings().renew_every);
    }

    /// Kills the coordinator with its broker, and starts another one on the same store.
    pub(crate) async fn restarted(self) -> Self {
        let builder = Arc::clone(&self.builder);
        drop(self);
        *builder.broker.lock() = broker(&builder.clock, builder.broker_settings);
        builder.open().await
    }

    /// Random bytes of this test.
    pub(crate) fn bytes<const N: usize>(&self) -> [u8; N] {
        (self.builder.entropy.as_ref() as &dyn Entropy).bytes()
    }

    /// A number from 0 to `below` − 1.
    pub(crate) fn any(&self, below: usize) -> usize {
        (u64::from_le_bytes(self.bytes()) % below as u64) as usize
    }

    pub(crate) fn shuffle<T>(&self, items: &mut [T]) {
        for at in (1..items.len()).rev() {
            items.swap(at, self.any(at + 1));
        }
    }

    pub(crate) fn store(&self) -> &StoreFaults {
        &self.builder.store
    }

    pub(crate) async fn submit(&self, body: &str) -> JobId {
        self.try_submit(body, None).await.unwrap().id
    }

    pub(crate) async fn submit_as(&self, key: &str, body: &str) -> JobId {
        self.try_submit(body, Some(key)).await.unwrap().id
    }

    pub(crate) async fn try_submit(&self, body: &str, key: Option<&str>) -> Result<JobView, Error> {
        Ok(self.coordinator.submit(&self.admin, submit(body, key)).await?.job)
    }

    pub(crate) async fn job(&self, id: JobId) -> JobView {
        self.coordinator.job(&self.admin, id).await.unwrap().job
    }

    pub(crate) async fn stage(&self, id: JobId) -> StageName {
        self.job(id).await.stage
    }

    /// The events of a job, in order.
    pub(crate) async fn kinds(&self, id: JobId) -> Vec<EventKind> {
        let events = self.coordinator.events(&self.admin, id, Position(0), 1_000).await.unwrap().items;
        let numbers: Vec<u64> = events.iter().map(|event| event.seq.0).collect();
        assert_eq!(numbers, (1..=events.len() as u64).collect::<Vec<_>>(), "events have no gaps");
        events.into_iter().map(|event| event.kind).collect()
    }

    /// How often an event happened to a job.
    pub(crate) async fn count(&self, id: JobId, wanted: EventKind) -> usize {
        self.kinds(id).await.into_iter().filter(|kind| *kind == wanted).count()
    }

    /// All events, in order.
    pub(crate) async fn log(&self) -> Vec<(JobId, EventKind)> {
        let mut log = Vec::new();
        let mut after = Position(0);
        loop {
            let page = self.history.events(&Scope::Fleet, after, 5_000).await.unwrap();
            let Some(last) = page.last() else { return log };
            after = last.position;
            let events = page.iter().map(|recorded| serde_json::from_str::<JobEvent>(&recorded.json).unwrap());
            log.extend(events.map(|event| (event.job_id, event.kind)));
        }
    }

    /// The events of every job, in order.
    pub(crate) async fn stories(&self) -> HashMap<JobId, Vec<EventKind>> {
        let mut stories: HashMap<JobId, Vec<EventKind>> = HashMap::new();
        for (job, kind) in self.log().await {
            stories.entry(job).or_default().push(kind);
        }
        stories
    }

    pub(crate) async fn act(&self, id: JobId, action: Action) -> Result<JobView, Error> {
        self.coordinator.act(&self.admin, id, action, ActionRequest::default()).await
    }

    /// The store operations since the start, by kind.
    pub(crate) fn operations(&self) -> Vec<(&'static str, u64)> {
        self.history.operations()
    }

    /// Dispatches until the queue is empty.
    pub(crate) async fn dispatch(&self) -> usize {
        let (mut sent, mut idle) = (0, 0);
        while idle < self.builder.idle_rounds() {
            match self.coordinator.dispatch_round().await {
                0 => idle += 1,
                n => (sent, idle) = (sent + n, 0),
            }
        }
        sent
    }

    /// Advances time in small steps, with a tick at each, while these machines send heartbeats.
    pub(crate) async fn pass(&self, span: Duration, alive: &[&Machine]) {
        let step = self.coordinator.settings().lease_ttl / 9;
        let mut left = span;
        while !left.is_zero() {
            let next = left.min(step);
            self.builder.clock.advance(next);
            left -= next;
            for machine in alive {
                machine.renew(self).await;
            }
            self.coordinator.tick().await;
        }
    }

    /// Switches the mode of the whole fleet.
    pub(crate) async fn switch(&self, mode: Mode) {
        let flags = DispatchModes { mode, ..DispatchModes::default() };
        self.coordinator.put_flags(&self.admin, flags, None).await.unwrap();
    }

    pub(crate) async fn set_product(&self, settings: ProductSettings) {
        let default = domain::ProductId::default_product();
        self.coordinator.put_product(&self.admin, &default, settings).await.unwrap();
    }

    /// Makes the product ship automatically, so that a completed job is shipped.
    pub(crate) async fn ship_everything(&self) {
        self.set_product(ProductSettings { auto_ship: Some(true), ..ProductSettings::default() }).await;
    }
}

pub(crate) fn submit(body: &str, key: Option<&str>) -> SubmitRequest {
    SubmitRequest { body_md: body.to_owned(), idempotency_key: key.map(str::to_owned), ..SubmitRequest::default() }
}

/// A job without requirements and without a repository.
pub(crate) const PLAIN: &str = "# Mend the gate\n\nIt squeaks.\n";

/// A job with a repository.
pub(crate) const IN_REPO: &str = "---\ntitle: Mend the gate\nrepo: notes\n---\nIt squeaks.\n";
