//! Listening: bind, serve, stop.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use coordinator::Coordinator;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{info, warn};

use crate::app::App;
use crate::connection::Host;
use crate::connections::Connections;
use crate::options::Options;
use crate::routes;
use crate::tls::{self, CertificateError};
use crate::vault::Vault;

/// How long to wait when the system gives out no connections: it is usually out of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Why the server cannot listen.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// Tokens would travel in the clear.
    #[error(
        "`{address}` can be reached from other machines, and tokens would travel unencrypted: give a certificate and \
         its key, say that a proxy in front encrypts (`--behind-proxy`), or listen on 127.0.0.1"
    )]
    Unprotected {
        /// Where it was to listen.
        address: SocketAddr,
    },
    /// The certificate or its key cannot be used.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    /// The address cannot be had.
    #[error("cannot listen on `{address}`")]
    Address {
        /// Where it was to listen.
        address: SocketAddr,
        /// What the system says.
        #[source]
        source: std::io::Error,
    },
}

/// A server that listens and does not answer yet.
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    tls: Option<TlsAcceptor>,
    options: Options,
    vault: Option<Arc<dyn Vault>>,
}

impl Server {
    /// Takes the address. Connections wait until [`Server::serve`].
    pub async fn bind(options: Options) -> Result<Self, BindError> {
        let wanted = options.listen;
        if !wanted.ip().is_loopback() && options.tls.is_none() && !options.behind_proxy {
            return Err(BindError::Unprotected { address: wanted });
        }
        let tls = options.tls.as_ref().map(tls::acceptor).transpose()?;
        let listener = TcpListener::bind(wanted).await;
        let listener = listener.map_err(|source| BindError::Address { address: wanted, source })?;
        let address = listener.local_addr().map_err(|source| BindError::Address { address: wanted, source })?;
        Ok(Self { listener, address, tls, options, vault: None })
    }

    /// With a way to back the store up and to put a backup back.
    #[must_use]
    pub fn with_vault(self, vault: Arc<dyn Vault>) -> Self {
        Self { vault: Some(vault), ..self }
    }

    /// What it listens with, unless connections would have to be encrypted.
    pub(crate) fn into_plain_listener(self) -> Option<TcpListener> {
        self.tls.is_none().then_some(self.listener)
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The base address that clients on this machine reach it by.
    pub fn base(&self) -> String {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        format!("{scheme}://{}", self.address)
    }

    /// Answers until `shutdown`, then lets requests finish within their time and ends every held-open stream.
    pub async fn serve(self, coordinator: Arc<Coordinator>, shutdown: CancellationToken) {
        let app = App::new(Arc::clone(&coordinator), &self.options, self.address, shutdown.clone(), self.vault);
        let host = Host {
            router: routes::router(app.clone()),
            app: app.clone(),
            tls: self.tls,
            closing: shutdown.clone(),
            killed: CancellationToken::new(),
        };
        let connections = TaskTracker::new();
        info!(address = %self.address, "Listening on {}", self.address);
        tokio::select! {
            () = shutdown.cancelled() => {}
            () = accept(&self.listener, &host, &connections) => {}
            () = app.streams.watch(&coordinator, app.clock.as_ref(), app.limits.token_check_every) => {}
        }
        drop(self.listener);
        finish(&host, &connections).await;
        info!(address = %self.address, "Stopped listening on {}", self.address);
    }
}

async fn accept(listener: &TcpListener, host: &Host, connections: &TaskTracker) {
    let open = Arc::new(Connections::new(host.app.limits.connections_max, Arc::clone(&host.app.clock)));
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                let seat = open.admit().await;
                connections.spawn(host.clone().serve(stream, seat));
            }
            Err(error) => {
                warn!(%error, "Could not take a connection");
                host.app.clock.sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Connections end when their request is answered; changes that are under way are finished too. What takes too long
/// is left to the next start, which finds everything in the store.
async fn finish(host: &Host, connections: &TaskTracker) {
    let app = &host.app;
    connections.close();
    app.changes.close();
    let finished = async {
        connections.wait().await;
        app.changes.wait().await;
    };
    if tokio::time::timeout(app.limits.shutdown_time_max, finished).await.is_err() {
        warn!(connections = connections.len(), changes = app.changes.len(), "Some requests did not finish in time");
        host.killed.cancel();
        connections.wait().await;
    }
}
