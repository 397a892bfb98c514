//! The server's settings.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use domain::TrackerName;

use crate::mount::Mount;
use crate::webhook_secret::WebhookSecret;

/// The default port.
const PORT: u16 = 7878;

/// The server's settings.
#[derive(Debug, Clone)]
pub struct Options {
    /// The listen address.
    pub listen: SocketAddr,
    /// The TLS certificate; plain HTTP without one.
    pub tls: Option<Tls>,
    /// A proxy in front terminates TLS, and names the client in `X-Forwarded-For`.
    pub behind_proxy: bool,
    /// Host names that clients may use, beside loopback and the listen address.
    pub allowed_hosts: Vec<String>,
    /// The secret that GitHub signs its webhooks with; without it none are accepted.
    pub webhook_secret: Option<WebhookSecret>,
    /// The secrets that trackers sign their webhooks with.
    pub tracker_secrets: BTreeMap<TrackerName, WebhookSecret>,
    /// The web UI is read from this directory instead of the binary: for development.
    pub web_dir: Option<PathBuf>,
    /// Services of other crates, behind the server's authentication.
    pub mounts: Vec<Mount>,
    /// Limits for clients.
    pub limits: Limits,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            listen: SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), PORT),
            tls: None,
            behind_proxy: false,
            allowed_hosts: Vec::new(),
            webhook_secret: None,
            tracker_secrets: BTreeMap::new(),
            web_dir: None,
            mounts: Vec::new(),
            limits: Limits::default(),
        }
    }
}

/// A certificate and its key, as PEM files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tls {
    /// The certificate, followed by its chain.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

/// Limits for clients: sizes, counts and times.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Concurrent connections; a further one replaces the one that has been idle the longest, or waits.
    pub connections_max: usize,
    /// How long a request's head may take, and how long a connection may idle between requests.
    pub header_time_max: Duration,
    /// How long a request's body may take.
    pub body_time_max: Duration,
    /// How long an answer may take before the client gets a time-out.
    pub request_time_max: Duration,
    /// How long a mounted service may take to begin its answer: longer than its own longest wait.
    pub mounted_time_max: Duration,
    /// How long a backup or a restore may take.
    pub transfer_time_max: Duration,
    /// The largest backup that is accepted.
    pub restore_len_max: u64,
    /// How long a client may read nothing before its connection is closed.
    pub write_stall_max: Duration,
    /// How long requests may take to finish once the server stops.
    pub shutdown_time_max: Duration,
    /// Open streams per token.
    pub streams_per_token_max: usize,
    /// The keep-alive interval of an idle stream.
    pub keep_alive_every: Duration,
    /// How often the tokens of open streams are checked.
    pub token_check_every: Duration,
    /// How long a stream's reader may take for one piece before it has to start over.
    pub slow_reader_max: Duration,
    /// Wrong tokens from one network within the window before it has to wait.
    pub wrong_tokens_max: u32,
    /// The window in which wrong tokens are counted.
    pub wrong_tokens_window: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            // A thousand factories with two connections each, two thousand watchers, and some for operators.
            connections_max: 8_192,
            header_time_max: Duration::from_secs(30),
            body_time_max: Duration::from_secs(20),
            // Our own client times out after 30 seconds and should get an answer first.
            request_time_max: Duration::from_secs(25),
            mounted_time_max: Duration::from_mins(2),
            // A store of a hundred million events at the speed of a slow network.
            transfer_time_max: Duration::from_hours(2),
            restore_len_max: 256 * 1024 * 1024 * 1024,
            write_stall_max: Duration::from_mins(1),
            shutdown_time_max: Duration::from_secs(10),
            streams_per_token_max: 256,
            keep_alive_every: Duration::from_secs(5),
            token_check_every: Duration::from_secs(2),
            slow_reader_max: Duration::from_secs(20),
            // A user who pastes the wrong token tries a few times; an attacker never stops.
            wrong_tokens_max: 30,
            wrong_tokens_window: Duration::from_mins(1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // [row 32]
    #[test]
    fn the_client_closes_idle_connections_before_the_server() {
        assert!(client::IDLE_TIME_MAX * 2 <= Limits::default().header_time_max);
    }
}
