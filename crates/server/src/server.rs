//! Listening: bind, serve, stop.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use coordinator::Coordinator;
use protocol::CoordinatorAddress;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{info, warn};

use crate::app::App;
use crate::backup_service::BackupService;
use crate::connection::ConnectionContext;
use crate::connections::Connections;
use crate::options::Options;
use crate::routes;
use crate::tls::{self, CertificateError, TlsIdentity};

/// How long to wait when the system accepts no connections: it is usually out of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Why the server cannot listen.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// Tokens would be sent unencrypted.
    #[error(
        "`{address}` can be reached from other machines, and tokens would be sent unencrypted: configure a \
         certificate and its key, set `--behind-proxy` if a proxy terminates TLS, or listen on 127.0.0.1"
    )]
    Unprotected {
        /// The listen address.
        address: SocketAddr,
    },
    /// The certificate or its key is invalid.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    /// The address is not available.
    #[error("cannot listen on `{address}`")]
    Address {
        /// The listen address.
        address: SocketAddr,
        /// The system's error.
        #[source]
        source: std::io::Error,
    },
}

/// A server that listens and does not answer yet.
pub struct Server {
    pub(crate) listener: TcpListener,
    pub(crate) address: SocketAddr,
    pub(crate) tls: Option<TlsIdentity>,
    pub(crate) options: Options,
    backups: Option<Arc<dyn BackupService>>,
}

impl Server {
    /// Binds the address. Connections wait until [`Server::serve`].
    pub async fn bind(options: Options) -> Result<Self, BindError> {
        let wanted = options.listen;
        if !wanted.ip().is_loopback() && options.tls.is_none() && !options.behind_proxy {
            return Err(BindError::Unprotected { address: wanted });
        }
        let tls = options.tls.as_ref().map(tls::certified).transpose()?;
        let listener = TcpListener::bind(wanted).await;
        let listener = listener.map_err(|source| BindError::Address { address: wanted, source })?;
        let address = listener.local_addr().map_err(|source| BindError::Address { address: wanted, source })?;
        Ok(Self { listener, address, tls, options, backups: None })
    }

    /// Adds the service for backup and restore.
    #[must_use]
    pub fn with_backup_service(self, backups: Arc<dyn BackupService>) -> Self {
        Self { backups: Some(backups), ..self }
    }

    /// Its listener, unless it uses TLS.
    pub(crate) fn into_plain_listener(self) -> Option<TcpListener> {
        self.tls.is_none().then_some(self.listener)
    }

    /// The listen address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The base URL for clients on this machine.
    pub fn base(&self) -> String {
        let local = match self.address.ip() {
            IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
            IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
            ip => ip,
        };
        format!("{}://{}", self.scheme(), SocketAddr::new(local, self.address.port()))
    }

    /// The base URL for browsers: the one for other machines, unless only this machine can reach the server.
    pub fn browser_base(&self) -> String {
        let is_local = self.address.ip().is_loopback() && !self.options.behind_proxy;
        let public = self.reached_at().addresses.into_iter().next().filter(|_| !is_local);
        public.unwrap_or_else(|| self.base())
    }

    /// The SHA-256 of its certificate, which clients on this machine pin: the certificate is for other names than loopback.
    pub fn certificate(&self) -> Option<[u8; 32]> {
        self.tls.as_ref().map(|tls| tls.fingerprint)
    }

    fn scheme(&self) -> &'static str {
        if self.tls.is_some() { "https" } else { "http" }
    }

    /// The address for other machines.
    pub(crate) fn reached_at(&self) -> CoordinatorAddress {
        let (options, port) = (&self.options, self.address.port());
        let named = options.allowed_hosts.iter().map(|host| match options.behind_proxy {
            // The proxy uses the default port.
            true => format!("https://{host}"),
            false => format!("{}://{host}:{port}", self.scheme()),
        });
        let mut addresses: Vec<String> = named.collect();
        if addresses.is_empty() && !options.behind_proxy {
            let ip = Some(self.address.ip()).filter(|ip| !ip.is_unspecified()).or_else(outward_address);
            let ip = ip.filter(|ip| !ip.is_loopback());
            addresses.extend(ip.map(|ip| format!("{}://{}", self.scheme(), SocketAddr::new(ip, port))));
        }
        let own = self.tls.as_ref().filter(|tls| !tls.is_public);
        CoordinatorAddress { addresses, certificate: own.map(|tls| pin(&tls.fingerprint)) }
    }

    /// Serves until `shutdown`, then lets requests finish within their time and ends every open stream.
    pub async fn serve(self, coordinator: Arc<Coordinator>, shutdown: CancellationToken) {
        let reached_at = self.reached_at();
        let app = App::new(
            Arc::clone(&coordinator),
            &self.options,
            self.address,
            reached_at,
            shutdown.clone(),
            self.backups,
            None,
        );
        let host = ConnectionContext {
            router: watch::channel(routes::router(&app)).1,
            limits: Arc::new(app.limits.clone()),
            clock: Arc::clone(&app.clock),
            tls: self.tls.map(|tls| tls.acceptor),
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
        finish(&host, &connections, &app.changes).await;
        info!(address = %self.address, "Stopped listening on {}", self.address);
    }
}

/// The address that this machine uses towards other machines. Nothing is sent: connecting a datagram socket only picks
/// a route.
fn outward_address() -> Option<IpAddr> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).ok()?;
    socket.connect((Ipv4Addr::new(192, 0, 2, 1), 9)).ok()?;
    socket.local_addr().ok().map(|address| address.ip())
}

/// A fingerprint in the format of `client.ca`.
pub fn pin(fingerprint: &[u8; 32]) -> String {
    let digits = fingerprint.iter().map(|byte| format!("{byte:02x}"));
    digits.fold("sha256:".to_owned(), |text, digits| text + &digits)
}

pub(crate) async fn accept(listener: &TcpListener, host: &ConnectionContext, connections: &TaskTracker) {
    let open = Arc::new(Connections::new(host.limits.connections_max, Arc::clone(&host.clock)));
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                let seat = open.admit().await;
                connections.spawn(host.clone().serve(stream, seat));
            }
            Err(error) => {
                warn!(%error, "Could not accept a connection");
                host.clock.sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Connections end after their current request; changes in progress are finished too. A change that takes too long is
/// left to the next start, which finds everything in the store.
pub(crate) async fn finish(host: &ConnectionContext, connections: &TaskTracker, changes: &TaskTracker) {
    connections.close();
    changes.close();
    let finished = async {
        connections.wait().await;
        changes.wait().await;
    };
    if tokio::time::timeout(host.limits.shutdown_time_max, finished).await.is_err() {
        warn!(connections = connections.len(), changes = changes.len(), "Some requests did not finish in time");
        host.killed.cancel();
        connections.wait().await;
    }
}
