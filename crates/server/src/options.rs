//! What can be set about the server.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use crate::webhook_secret::WebhookSecret;

/// The port that a coordinator listens on unless told otherwise.
const PORT: u16 = 7878;

/// What can be set about the server.
#[derive(Debug, Clone)]
pub struct Options {
    /// Where to listen.
    pub listen: SocketAddr,
    /// The certificate to show; plain HTTP without one.
    pub tls: Option<Tls>,
    /// A proxy in front encrypts, and names the client in `X-Forwarded-For`.
    pub behind_proxy: bool,
    /// Names that clients may call the server by, beside loopback and the address it listens on.
    pub allowed_hosts: Vec<String>,
    /// What GitHub signs its messages with; without it none are taken.
    pub webhook_secret: Option<WebhookSecret>,
    /// How much clients may ask of it.
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
            limits: Limits::default(),
        }
    }
}

/// A certificate and its key, as PEM files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tls {
    /// The certificate, followed by those that vouch for it.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

/// How much clients may ask of the server, and how long they may take.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Connections at one time; a further one takes the place of the one that has been idle for the longest, or waits.
    pub connections_max: usize,
    /// How long a request's head may take, and how long a connection may idle between requests.
    pub header_time_max: Duration,
    /// How long a request's body may take.
    pub body_time_max: Duration,
    /// How long an answer may take before the client hears that nothing is decided.
    pub request_time_max: Duration,
    /// How long a whole copy of the store may take to be made or to arrive.
    pub transfer_time_max: Duration,
    /// The longest backup that is taken in.
    pub restore_len_max: u64,
    /// How long a client may read nothing at all before its connection is cut.
    pub write_stall_max: Duration,
    /// How long requests may take to finish once the server stops.
    pub shutdown_time_max: Duration,
    /// Held-open streams of one token.
    pub streams_per_token_max: usize,
    /// How often a silent stream says that it is alive.
    pub keep_alive_every: Duration,
    /// How often the tokens of open streams are looked at again.
    pub token_check_every: Duration,
    /// How long a stream's reader may take over one piece before it has to start over.
    pub slow_reader_max: Duration,
    /// Wrong tokens from one network within the window before it has to wait.
    pub wrong_tokens_max: u32,
    /// The window in which wrong tokens are counted.
    pub wrong_tokens_window: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            // A thousand factories with two connections each, two thousand watchers, and room for people.
            connections_max: 8_192,
            header_time_max: Duration::from_secs(30),
            body_time_max: Duration::from_secs(20),
            // Our own client gives up after 30 seconds and should rather hear an answer.
            request_time_max: Duration::from_secs(25),
            // A store of a hundred million events at the speed of a slow network.
            transfer_time_max: Duration::from_hours(2),
            restore_len_max: 256 * 1024 * 1024 * 1024,
            write_stall_max: Duration::from_mins(1),
            shutdown_time_max: Duration::from_secs(10),
            streams_per_token_max: 256,
            keep_alive_every: Duration::from_secs(15),
            token_check_every: Duration::from_secs(2),
            slow_reader_max: Duration::from_secs(20),
            // A person who pastes the wrong token tries a few times; a guesser tries for ever.
            wrong_tokens_max: 30,
            wrong_tokens_window: Duration::from_mins(1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_client_lets_go_of_an_idle_connection_long_before_the_server_does() {
        assert!(protocol::IDLE_TIME_MAX * 2 <= Limits::default().header_time_max);
    }
}
