//! One of several coordinators: the same listener serves as the leader or as a follower, whose role can change.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use axum::Router;
use client::HttpTransport;
use coordinator::Coordinator;
use domain::{Clock, Leader};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{info, warn};

use crate::app::App;
use crate::backup_service::BackupService;
use crate::connection::ConnectionContext;
use crate::follower;
use crate::forward::Forwarder;
use crate::host_check::AllowedHosts;
use crate::routes;
use crate::server::{self, Server};

/// A server that listens, and follows until it leads.
pub struct SharedServer {
    server: Server,
    host: ConnectionContext,
    roles: watch::Sender<Router>,
    following: Router,
}

impl Server {
    /// The server of one of several coordinators. `leader` is the one that leads now, `network` reaches it. It serves
    /// until `shutdown`.
    pub fn shared(
        self,
        clock: Arc<dyn Clock>,
        leader: watch::Receiver<Option<Leader>>,
        network: Arc<dyn HttpTransport>,
        shutdown: CancellationToken,
    ) -> SharedServer {
        let limits = Arc::new(self.options.limits.clone());
        let forwarder = Forwarder {
            leader,
            network,
            clock: Arc::clone(&clock),
            hosts: AllowedHosts::new(self.address.ip(), &self.options.allowed_hosts),
            behind_proxy: self.options.behind_proxy,
            limits: Arc::clone(&limits),
            closing: shutdown.clone(),
            forwarded: AtomicU64::new(0),
        };
        let following = follower::router(Arc::new(forwarder));
        let (roles, router) = watch::channel(following.clone());
        let host = ConnectionContext {
            router,
            limits,
            clock,
            tls: self.tls.as_ref().map(|tls| tls.acceptor.clone()),
            closing: shutdown,
            killed: CancellationToken::new(),
        };
        SharedServer { server: self, host, roles, following }
    }
}

impl SharedServer {
    /// Serves until the shutdown, then lets requests finish within their time.
    pub async fn serve(&self) {
        let connections = TaskTracker::new();
        let address = self.server.address;
        info!(%address, "Listening on {address}");
        tokio::select! {
            () = self.host.closing.cancelled() => {}
            () = server::accept(&self.server.listener, &self.host, &connections) => {}
        }
        server::finish(&self.host, &connections, &TaskTracker::new()).await;
        info!(%address, "Stopped listening on {address}");
    }

    /// Serves as the leader until `until`. Then every stream ends, changes in progress are finished, and requests are
    /// forwarded to the next leader.
    pub async fn lead(
        &self,
        coordinator: &Arc<Coordinator>,
        leader: Option<Leader>,
        backups: Arc<dyn BackupService>,
        until: CancellationToken,
    ) {
        let (options, address) = (&self.server.options, self.server.address);
        let reached_at = self.server.reached_at();
        let backups = Some(backups);
        let app = App::new(Arc::clone(coordinator), options, address, reached_at, until.clone(), backups, leader);
        drop(self.roles.send_replace(routes::router(&app)));
        tokio::select! {
            () = until.cancelled() => {}
            () = app.streams.watch(coordinator, app.clock.as_ref(), app.limits.token_check_every) => {}
        }
        drop(self.roles.send_replace(self.following.clone()));
        app.changes.close();
        if tokio::time::timeout(app.limits.shutdown_time_max, app.changes.wait()).await.is_err() {
            warn!(changes = app.changes.len(), "Some changes did not finish in time");
        }
    }
}
