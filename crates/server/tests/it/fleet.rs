//! A running coordinator with its server, and simulated factories.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use client::{Client, ClientError, EventStream};
use clock::{SeededEntropy, SystemClock, SystemEntropy};
use coordinator::{Coordinator, Settings};
use domain::{
    Backup, Clock, CommitSha, Entropy, Epoch, FactoryId, InstanceId, JobHistory, JobId, Message, Position, ProductId,
    Scope, StageName, StoredEvent, TokenScope,
};
use protocol::{
    AcceptRequest, AcceptResponse, CompletionReport, CompletionResponse, CreateTokenRequest, CreateTokenResponse,
    EnrolRequest, EnrolResponse, ErrandOutcome, ErrandReport, Heartbeat, HeartbeatResponse, JobDetail,
    PROTOCOL_VERSION, ProductSettings, StageResponse, StartReport, SubmitRequest, SubmitResponse,
};
use server::{BackupService, Limits, Options, Server};
use store::document::DocumentStore;
use store::document::simulated::{Faults, HastyClock, SimulatedDatabase};
use store::{PostgresOptions, PostgresStore, PostgresUrl, SqliteStore};
use tempfile::TempDir;
use testkit::fleet::{RunningCoordinator, client, open_coordinator, open_store};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::backup_service::FileBackupService;

/// The time-out of a step: no step takes longer, even on a slow machine.
const PATIENCE: Duration = Duration::from_secs(20);

/// A running coordinator with its server.
pub(crate) struct Fleet {
    pub(crate) address: SocketAddr,
    pub(crate) base: String,
    pub(crate) admin: Client,
    pub(crate) admin_token: String,
    pub(crate) shelf: Arc<FileBackupService>,
    pub(crate) store: Arc<SqliteStore>,
    pub(crate) shutdown: CancellationToken,
    pub(crate) serving: JoinSet<()>,
    pub(crate) coordinator: Arc<Coordinator>,
    _running: JoinSet<()>,
    dir: Arc<TempDir>,
    /// The server of its store, if that is PostgreSQL.
    _database: Option<pgserver::Server>,
}

/// The store that a fleet's coordinator works on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StoreKind {
    Sqlite,
    /// A server of its own; SQLite if the tester declared that there is no PostgreSQL.
    Postgres,
    /// A simulated document database.
    Simulated,
}

impl Fleet {
    pub(crate) async fn start() -> Self {
        Self::with(Options::default()).await
    }

    pub(crate) async fn limited(limits: Limits) -> Self {
        Self::with(Options { limits, ..Options::default() }).await
    }

    /// A fleet whose server has these options, on a port of its own.
    pub(crate) async fn with(options: Options) -> Self {
        Self::on(tempfile::tempdir().unwrap(), options).await
    }

    /// A fleet on the database in a directory; creates it if there is none.
    pub(crate) async fn on(dir: TempDir, options: Options) -> Self {
        let dir = Arc::new(dir);
        let store = open_store(dir.path());
        Self::over(options, Arc::new(SystemClock::new()), dir, store, None).await
    }

    /// A fleet whose coordinator works on another kind of store.
    pub(crate) async fn on_store_of(kind: StoreKind) -> Self {
        Self::on_store_with(kind, Options::default(), Arc::new(SystemClock::new())).await
    }

    /// The same, with these options and the test's own clock.
    pub(crate) async fn on_store_with(kind: StoreKind, options: Options, clock: Arc<dyn Clock>) -> Self {
        let dir = Arc::new(tempfile::tempdir().unwrap());
        let (file, settings) = (open_store(dir.path()), Settings::default());
        let database = match kind {
            StoreKind::Postgres => pgserver::for_test(pgserver::Flushes::None).unwrap(),
            StoreKind::Sqlite | StoreKind::Simulated => None,
        };
        let coordinator = match (kind, &database) {
            (_, Some(server)) => {
                let url = PostgresUrl::parse(&format!("{}?fsync=off", server.url())).unwrap();
                let store = PostgresStore::open(&url, PostgresOptions::default(), Arc::clone(&clock)).await.unwrap();
                open_coordinator(&Arc::new(store), dir.path(), clock, settings).await
            }
            (StoreKind::Simulated, None) => {
                let database = SimulatedDatabase::new(Faults::default(), Arc::new(SeededEntropy::new(17)));
                let (hasty, chance) = (Arc::new(HastyClock::default()), Arc::new(SeededEntropy::new(5)));
                let store = DocumentStore::open(Arc::new(database), hasty, chance).await.unwrap();
                open_coordinator(&Arc::new(store), dir.path(), clock, settings).await
            }
            (StoreKind::Sqlite | StoreKind::Postgres, None) => {
                open_coordinator(&file, dir.path(), clock, settings).await
            }
        };
        let mut fleet = Self::serve(options, coordinator, dir, file, None).await;
        fleet._database = database;
        fleet
    }

    /// A fleet with the test's own clock.
    pub(crate) async fn by(clock: Arc<dyn Clock>, limits: Limits) -> Self {
        let dir = Arc::new(tempfile::tempdir().unwrap());
        let store = open_store(dir.path());
        Self::over(Options { limits, ..Options::default() }, clock, dir, store, None).await
    }

    /// A fleet on an open store, in its directory.
    pub(crate) async fn on_store(dir: Arc<TempDir>, store: SqliteStore, admin_token: String) -> Self {
        let clock = Arc::new(SystemClock::new());
        Self::over(Options::default(), clock, dir, Arc::new(store), Some(admin_token)).await
    }

    /// Stops everything and closes the store; keeps the directory and the admin token.
    pub(crate) async fn end(self) -> (Arc<TempDir>, String) {
        self.coordinator.stop();
        self.shutdown.cancel();
        self.store.close().await.unwrap();
        (Arc::clone(&self.dir), self.admin_token.clone())
    }

    /// A copy of the database, as `copy.db` in a directory of its own.
    pub(crate) async fn copy_of_the_database(&self) -> TempDir {
        let folder = tempfile::tempdir().unwrap();
        self.store.back_up(&folder.path().join("copy.db"), self.coordinator.clock().now()).await.unwrap();
        folder
    }

    /// The same factory, with this fleet.
    pub(crate) fn rejoin(&self, worker: Worker) -> Worker {
        Worker { client: self.client(&worker.token), ..worker }
    }

    /// Another coordinator with its own server on the same store, after this one has stopped.
    pub(crate) async fn restarted(&self) -> Self {
        self.coordinator.stop();
        self.shutdown.cancel();
        let (dir, store) = (Arc::clone(&self.dir), Arc::clone(&self.store));
        let clock = Arc::new(SystemClock::new());
        Self::over(Options::default(), clock, dir, store, Some(self.admin_token.clone())).await
    }

    async fn over(
        options: Options,
        clock: Arc<dyn Clock>,
        dir: Arc<TempDir>,
        store: Arc<SqliteStore>,
        admin_token: Option<String>,
    ) -> Self {
        let coordinator = open_coordinator(&store, dir.path(), clock, Settings::default()).await;
        Self::serve(options, coordinator, dir, store, admin_token).await
    }

    async fn serve(
        options: Options,
        coordinator: Arc<Coordinator>,
        dir: Arc<TempDir>,
        store: Arc<SqliteStore>,
        admin_token: Option<String>,
    ) -> Self {
        let admin_token = match (admin_token, coordinator.first_admin_token().await.unwrap()) {
            (Some(known), _) => known,
            (None, Some(secret)) => secret.reveal().to_owned(),
            (None, None) => coordinator.local_admin_token().await.unwrap().reveal().to_owned(),
        };
        let listen = SocketAddr::new(options.listen.ip(), 0);
        let shelf = Arc::new(FileBackupService::new(Arc::clone(&store), dir.path()));
        let server = Server::bind(Options { listen, ..options })
            .await
            .unwrap()
            .with_backup_service(Arc::clone(&shelf) as Arc<dyn BackupService>);
        let RunningCoordinator { address, base, shutdown, serving, running } =
            RunningCoordinator::start(&coordinator, server);
        let admin = client(&base, &admin_token);
        Self {
            address,
            base,
            admin,
            admin_token,
            shelf,
            store,
            shutdown,
            serving,
            coordinator,
            _running: running,
            dir,
            _database: None,
        }
    }

    /// A client with a token.
    pub(crate) fn client(&self, token: &str) -> Client {
        client(&self.base, token)
    }

    /// The secret of a new token.
    pub(crate) async fn token(&self, grant: TokenScope) -> CreateTokenResponse {
        let request =
            CreateTokenRequest { name: "story".to_owned(), grant, ttl_seconds: None, owner: None, forge_login: None };
        self.admin.post("/tokens", &request).await.unwrap()
    }

    /// Registers a product.
    pub(crate) async fn product(&self, id: &str, settings: ProductSettings) {
        let path = format!("/products/{id}");
        let _: serde_json::Value = self.admin.call(http::Method::PUT, &path, Some(&settings)).await.unwrap();
    }

    /// A factory that has enrolled and sent a heartbeat.
    pub(crate) async fn factory(&self, name: &str) -> Worker {
        self.factory_for(name, &[]).await
    }

    /// A factory whose token is limited to these products; all when empty.
    pub(crate) async fn factory_for(&self, name: &str, products: &[&str]) -> Worker {
        let id: FactoryId = name.parse().unwrap();
        let products = products.iter().map(|product| product.parse().unwrap()).collect();
        let grant = TokenScope::Join { factory: Some(id.clone()), products, capabilities: BTreeSet::new(), pool: None };
        let join_token = self.token(grant).await.secret;
        let request = EnrolRequest { join_token, factory_id: id.clone(), nonce: None };
        let enrolled: EnrolResponse = self.client("").post("/factories/enroll", &request).await.unwrap();
        let instance = InstanceId::new(self.coordinator.clock().now(), random());
        let client = self.client(&enrolled.token);
        let worker = Worker { id, instance, client, token: enrolled.token };
        worker.beat().await.unwrap();
        worker
    }

    /// Submits a manifest.
    pub(crate) async fn submit(&self, body_md: &str) -> JobId {
        let request = SubmitRequest { body_md: body_md.to_owned(), ..SubmitRequest::default() };
        let submitted: SubmitResponse = self.admin.post("/jobs", &request).await.unwrap();
        submitted.job.id
    }

    /// The current state of a job.
    pub(crate) async fn job(&self, id: JobId) -> JobDetail {
        self.admin.get(&format!("/jobs/{id}")).await.unwrap()
    }

    /// The whole log, from the store itself.
    pub(crate) async fn log(&self) -> Vec<StoredEvent> {
        let mut log: Vec<StoredEvent> = Vec::new();
        loop {
            let after = log.last().map_or(Position(0), |last| last.position);
            let page = self.store.events(&Scope::Fleet, after, 1_000).await.unwrap();
            if page.is_empty() {
                return log;
            }
            log.extend(page);
        }
    }

    /// The files beside the database, in order of name.
    pub(crate) fn files(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.dir.path()).unwrap();
        let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort_unstable();
        names
    }

    /// The state that a rejected request must not change.
    pub(crate) async fn state(&self) -> (Vec<(ProductId, StageName, u64)>, Option<Position>) {
        let census = self.store.census().await.unwrap();
        (census, self.log().await.last().map(|last| last.position))
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        self.coordinator.stop();
        self.shutdown.cancel();
    }
}

/// A simulated factory.
pub(crate) struct Worker {
    pub(crate) id: FactoryId,
    pub(crate) instance: InstanceId,
    pub(crate) client: Client,
    pub(crate) token: String,
}

impl Worker {
    pub(crate) async fn beat(&self) -> Result<HeartbeatResponse, ClientError> {
        let beat = Heartbeat {
            instance: self.instance,
            capabilities: ["os:linux", "engine:command"].iter().map(|token| token.parse().unwrap()).collect(),
            repos: ["notes".parse().unwrap()].into(),
            clones: false,
            unavailable_repos: Default::default(),
            repo_identities: Default::default(),
            seat_limit: 8,
            engine_seats: Default::default(),
            repo_seats: Default::default(),
            cost: 0,
            engines: Vec::new(),
            load: 0.0,
            disk_free_bytes: None,
            version: "story".to_owned(),
            protocol: PROTOCOL_VERSION,
            leaving: false,
            receives: Default::default(),
            wants_broker_login: false,
            shadows: Vec::new(),
        };
        self.client.post("/factories/heartbeat", &beat).await
    }

    pub(crate) async fn inbox(&self) -> EventStream {
        let path = format!("/factories/{}/inbox?instance={}&credit=8", self.id, self.instance);
        self.client.events(&path, None).await.unwrap()
    }

    pub(crate) async fn accept(&self, offer: &Message) -> Result<AcceptResponse, ClientError> {
        self.accept_as(&self.claim(offer)).await
    }

    pub(crate) async fn accept_as(&self, claim: &AcceptRequest) -> Result<AcceptResponse, ClientError> {
        self.client.post("/accept", claim).await
    }

    /// An accept request with a new nonce.
    pub(crate) fn claim(&self, offer: &Message) -> AcceptRequest {
        AcceptRequest {
            job_id: offer.job_id,
            dispatch_seq: offer.dispatch_seq,
            claim_nonce: domain::ClaimNonce::from_bytes(random()),
            instance: self.instance,
            factory_id: Some(self.id.clone()),
        }
    }

    pub(crate) async fn start(&self, job: JobId, epoch: Epoch) -> Result<StageResponse, ClientError> {
        let request = StartReport { lease_epoch: epoch, engine: "command".parse().unwrap() };
        self.client.post(&format!("/jobs/{job}/start"), &request).await
    }

    pub(crate) async fn complete(
        &self,
        job: JobId,
        epoch: Epoch,
        sha: Option<CommitSha>,
    ) -> Result<CompletionResponse, ClientError> {
        let request = CompletionReport { lease_epoch: epoch, sha, ..CompletionReport::default() };
        self.client.post(&format!("/jobs/{job}/complete"), &request).await
    }

    pub(crate) async fn report(
        &self,
        job: JobId,
        epoch: Epoch,
        outcome: ErrandOutcome,
    ) -> Result<StageResponse, ClientError> {
        let request = ErrandReport { lease_epoch: epoch, outcome, pull_request: None, conflicts_with: None };
        self.client.post(&format!("/jobs/{job}/promote"), &request).await
    }

    /// Waits for the next offer and accepts it.
    pub(crate) async fn take_next(&self, inbox: &mut EventStream) -> AcceptResponse {
        let offer = next_offer(inbox).await;
        self.accept(&offer).await.unwrap()
    }
}

/// The next offer of an inbox.
pub(crate) async fn next_offer(inbox: &mut EventStream) -> Message {
    loop {
        let event = soon(inbox.next()).await.unwrap().expect("the inbox ended");
        if event.event == "dispatch" {
            return serde_json::from_str(&event.data).unwrap();
        }
    }
}

/// The result of a future, with a time-out.
pub(crate) async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.expect("it should have happened by now")
}

/// Polls until the condition is true.
pub(crate) async fn eventually<F: Future<Output = bool>>(what: &str, mut is_so: impl FnMut() -> F) {
    let clock = SystemClock::new();
    let asking = async {
        while !is_so().await {
            domain::Clock::sleep(&clock, Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, asking).await.unwrap_or_else(|_| panic!("{what}: not so after {PATIENCE:?}"));
}

/// Random bytes.
pub(crate) fn random<const N: usize>() -> [u8; N] {
    (&SystemEntropy as &dyn Entropy).bytes()
}

/// The code of an error.
pub(crate) fn code<T: std::fmt::Debug>(answer: Result<T, ClientError>) -> String {
    let error = answer.expect_err("it should have been refused");
    error.code().unwrap_or_else(|| panic!("no code in {error:?}")).to_owned()
}
