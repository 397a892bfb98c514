//! One of several coordinators on one database: it follows the leader, and leads when there is none.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use clock::{SystemClock, SystemEntropy};
use domain::{Clock, Leader};
use http::Uri;
use server::{Server, SharedServer};
use store::{LeadershipClaim, PostgresOpenError, StorePlace};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::coordinator::{self, LoadedCoordinator, write_private};
use super::stores;
use crate::config::Config;
use crate::failure::Failure;

/// The pause before another attempt to follow or to lead. Another coordinator may lead meanwhile.
const TRY_AGAIN_AFTER: Duration = Duration::from_secs(1);

/// One coordinator, whatever its role.
struct Member<'a> {
    config: &'a Config,
    address: String,
    clock: Arc<dyn Clock>,
    server: SharedServer,
    /// The leader that requests are forwarded to.
    leader: watch::Sender<Option<Leader>>,
    stop: CancellationToken,
}

/// Runs one of several coordinators until it is stopped. `note` tells the user the address on this machine.
pub(super) async fn serve(
    config: &Config,
    address: &str,
    stop: CancellationToken,
    note: impl FnOnce(&str),
) -> anyhow::Result<()> {
    check(config, address)?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let network = client::real_network(&crate::api::trust(config, "")?).map_err(anyhow::Error::msg)?;
    let server = Server::bind(coordinator::options(config)?).await.map_err(coordinator::unbound)?;
    let data = config.data.path();
    sandbox::make_private_folder(data)
        .with_context(|| format!("cannot create the data directory {}", data.display()))?;
    let certificate = server.certificate().map(|certificate| format!("\n{}\n", server::pin(&certificate)));
    let api = server.base();
    write_private(&config.data.endpoint(), format!("{api}{}", certificate.unwrap_or_default()).as_bytes())?;
    note(&api);
    let (leader, known) = watch::channel(None);
    let shutdown = CancellationToken::new();
    let server = server.shared(Arc::clone(&clock), known, network, shutdown.clone());
    let member = Member { config, address: address.to_owned(), clock, server, leader, stop };
    let leading = async {
        let ended = member.follow_and_lead().await;
        shutdown.cancel();
        ended
    };
    let ((), ended) = tokio::join!(member.server.serve(), leading);
    let _ = std::fs::remove_file(config.data.endpoint());
    info!("The coordinator has stopped");
    ended
}

/// Checks that several coordinators are possible, and that they do not send tokens unencrypted.
fn check(config: &Config, address: &str) -> anyhow::Result<()> {
    if !config.coordinator.store.value.is_shared() {
        let hint = "set --store to the address of a PostgreSQL database, or start it without --advertise";
        return Err(Failure::usage("several coordinators need a PostgreSQL database").hint(hint).into());
    }
    let uri = address.parse::<Uri>().ok().filter(|uri| uri.path() == "/" && uri.query().is_none());
    let Some((scheme, host)) = uri.as_ref().and_then(|uri| Some((uri.scheme_str()?, uri.host()?))) else {
        let failure = Failure::usage(format!("--advertise: `{address}` is not an address"));
        return Err(failure.hint("write https://host:port, where the other coordinators reach this one").into());
    };
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let is_local = host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback());
    match scheme {
        "https" => Ok(()),
        "http" if is_local || config.coordinator.behind_proxy.value => Ok(()),
        "http" => {
            let failure = Failure::usage(format!("--advertise: tokens would be sent unencrypted to `{address}`"));
            Err(failure
                .hint("use https://, or --behind-proxy if the network between the coordinators is trusted")
                .into())
        }
        _ => Err(Failure::usage(format!("--advertise: `{address}` is neither http:// nor https://")).into()),
    }
}

impl Member<'_> {
    /// Follows, and leads whenever no other coordinator does, until the stop.
    async fn follow_and_lead(&self) -> anyhow::Result<()> {
        let store = &self.config.coordinator.store.value;
        let mut is_first = true;
        loop {
            info!("Standing by: requests are forwarded to the leader");
            let standing_by = store.stand_by(Arc::clone(&self.clock), &self.leader);
            let claim = tokio::select! {
                () = self.stop.cancelled() => return Ok(()),
                claim = standing_by => claim.map_err(stores::open_error),
            };
            let led = match claim {
                Ok(claim) => self.lead(claim).await,
                Err(error) => Err(error),
            };
            self.leader.send_replace(None);
            if self.stop.is_cancelled() {
                return led;
            }
            if let Err(error) = led {
                // What cannot work is reported when it is started.
                if is_first && !is_taken(&error) {
                    return Err(error);
                }
                warn!("Could not lead, standing by: {error:#}");
                tokio::select! {
                    () = self.stop.cancelled() => return Ok(()),
                    () = self.clock.sleep(TRY_AGAIN_AFTER) => {}
                }
            }
            is_first = false;
        }
    }

    /// Leads until the stop, a restore, or another coordinator's leadership.
    async fn lead(&self, claim: Option<LeadershipClaim>) -> anyhow::Result<()> {
        let place =
            StorePlace { address: Some(self.address.clone()), ..coordinator::place(self.config, self.clock.as_ref()) };
        let store = &self.config.coordinator.store.value;
        let opening = store.open_claimed(place, claim, Arc::clone(&self.clock), &SystemEntropy);
        let store = opening.await.map_err(stores::open_error)?;
        let lifecycle = Arc::clone(&store.lifecycle);
        let loaded = match coordinator::load(self.config, store, Arc::clone(&self.clock)).await {
            Ok(loaded) => loaded,
            Err(error) => {
                // The lock is free for another coordinator.
                lifecycle.close().await?;
                return Err(error);
            }
        };
        let LoadedCoordinator { coordinator, store, backups, restart } = loaded;
        let leader = lifecycle.leader();
        info!(term = leader.as_ref().map(|leader| leader.term), "Leading at {}", self.address);
        self.leader.send_replace(leader.clone());
        let until = CancellationToken::new();
        let watch = async {
            tokio::select! {
                () = self.stop.cancelled() => {}
                () = restart.cancelled() => {}
                () = lifecycle.deposed() => warn!("Another coordinator leads, standing by"),
            }
            // Requests wait for the next leader from here on.
            self.leader.send_replace(None);
            until.cancel();
        };
        let serving = async {
            self.server.lead(&coordinator, leader, backups, until.clone()).await;
            coordinator.stop();
        };
        tokio::join!(serving, coordinator.run(), watch, coordinator::check_store(&store, &coordinator));
        lifecycle.close().await?;
        Ok(())
    }
}

/// Whether another coordinator was faster.
fn is_taken(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref::<PostgresOpenError>(), Some(PostgresOpenError::Taken { .. }))
}
