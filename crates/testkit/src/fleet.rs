//! A real coordinator with its HTTP server on a loopback port.

#![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use broker::Embedded;
use client::{Client, Endpoint, Trust};
use clock::SystemEntropy;
use coordinator::{Coordinator, Ports, Settings};
use domain::{Clock, FleetStore, JobHistory, JobStore};
use server::Server;
use store::{DirectoryBlobs, DirectoryLogs, SqliteStore};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// The maximum size of one run's log.
const LOG_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// A coordinator whose tasks run and whose server accepts requests.
pub struct RunningCoordinator {
    /// The address of the server.
    pub address: SocketAddr,
    /// The base address for clients.
    pub base: String,
    /// Stops the server.
    pub shutdown: CancellationToken,
    /// The server; it ends after the shutdown.
    pub serving: JoinSet<()>,
    /// The dispatcher, the timers and the sweep.
    pub running: JoinSet<()>,
}

impl RunningCoordinator {
    /// Runs a coordinator behind a server.
    pub fn start(coordinator: &Arc<Coordinator>, server: Server) -> Self {
        let (address, base, shutdown) = (server.address(), server.base(), CancellationToken::new());
        let (mut running, mut serving) = (JoinSet::new(), JoinSet::new());
        running.spawn({
            let coordinator = Arc::clone(coordinator);
            async move { coordinator.run().await }
        });
        serving.spawn(server.serve(Arc::clone(coordinator), shutdown.clone()));
        Self { address, base, shutdown, serving, running }
    }
}

/// Opens the database in a directory, or creates it.
pub fn open_store(dir: &Path) -> Arc<SqliteStore> {
    Arc::new(SqliteStore::open(dir.join("fleet.db"), store::Options::default()).unwrap())
}

/// Opens a coordinator on a store, with an embedded broker and logs in `dir`.
pub async fn open_coordinator<S: JobStore + JobHistory + FleetStore + 'static>(
    store: &Arc<S>,
    dir: &Path,
    clock: Arc<dyn Clock>,
    settings: Settings,
) -> Arc<Coordinator> {
    let ports = Ports {
        jobs: Arc::clone(store) as _,
        history: Arc::clone(store) as _,
        fleet: Arc::clone(store) as _,
        logs: Arc::new(DirectoryLogs::new(dir.join("logs"), LOG_BYTES_MAX)),
        blobs: Arc::new(DirectoryBlobs::new(dir.join("artifacts"))),
        leadership: Arc::new(domain::SoleLeader),
        broker: Arc::new(Embedded::new(broker::Settings::default(), Arc::clone(&clock))),
        clock,
        entropy: Arc::new(SystemEntropy),
    };
    Coordinator::open(ports, settings).await.unwrap()
}

/// A client of a coordinator.
pub fn client(base: &str, token: &str) -> Client {
    let endpoint = Endpoint { base: base.to_owned(), token: token.to_owned(), product: None, trust: Trust::Public };
    Client::new(endpoint).unwrap()
}
