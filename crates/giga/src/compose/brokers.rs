//! The broker of a coordinator, and how a factory connects to it.

#[cfg(feature = "nats")]
use std::path::Path;
use std::sync::Arc;

use broker::{Embedded, Settings};
use domain::{Broker, BrokerConnector, Clock};

use crate::config::{BrokerChoice, CoordinatorConfig, ReceiveFrom};
use crate::failure::Failure;

/// The coordinator's broker. A server that is away delays no start.
pub(super) async fn open(config: &CoordinatorConfig, clock: Arc<dyn Clock>) -> anyhow::Result<Arc<dyn Broker>> {
    let local: Arc<dyn Broker> = Arc::new(Embedded::new(Settings::default(), Arc::clone(&clock)));
    match &config.broker.value {
        BrokerChoice::Embedded => Ok(local),
        BrokerChoice::Nats(address) => nats(config, address, local, clock).await,
    }
}

#[cfg(feature = "nats")]
async fn nats(
    config: &CoordinatorConfig,
    address: &str,
    local: Arc<dyn Broker>,
    clock: Arc<dyn Clock>,
) -> anyhow::Result<Arc<dyn Broker>> {
    use broker::{LoginSigner, Nats, NatsOptions, Router};

    let url = address.parse().map_err(|why| Failure::usage(format!("coordinator.broker: {why}")))?;
    let credentials = config.broker_credentials_file.value.as_deref().map(read).transpose()?;
    let account = config.broker_account.value.as_deref();
    let signer = match config.broker_signing_key_file.value.as_deref() {
        Some(path) => {
            let signer = LoginSigner::new(&read(path)?, account);
            Some(Arc::new(signer.map_err(|why| Failure::usage(format!("{}: {why}", path.display())))?))
        }
        None => None,
    };
    if signer.is_none() {
        tracing::warn!(
            "coordinator.broker_signing_key_file is not set: factories get no login for the broker and receive through \
             their inboxes"
        );
    }
    let network = Nats::connect(&url, NatsOptions { credentials, signer, ..NatsOptions::default() }).await?;
    Ok(Arc::new(Router::new(local, Arc::new(network), clock)))
}

#[cfg(not(feature = "nats"))]
async fn nats(
    _: &CoordinatorConfig,
    _: &str,
    _: Arc<dyn Broker>,
    _: Arc<dyn Clock>,
) -> anyhow::Result<Arc<dyn Broker>> {
    Err(without_nats("coordinator.broker").into())
}

/// How a factory connects to the broker, if it receives from it.
pub(crate) fn connector(receive: ReceiveFrom) -> Result<Option<Arc<dyn BrokerConnector>>, Failure> {
    match receive {
        ReceiveFrom::Inbox => Ok(None),
        #[cfg(feature = "nats")]
        ReceiveFrom::Broker => Ok(Some(Arc::new(broker::NatsConnector))),
        #[cfg(not(feature = "nats"))]
        ReceiveFrom::Broker => Err(without_nats("factory.receive")),
    }
}

#[cfg(not(feature = "nats"))]
fn without_nats(setting: &str) -> Failure {
    Failure::usage(format!("{setting} needs NATS, and this build of giga has none"))
        .hint("build it with `cargo build --release --features giga/nats`")
}

#[cfg(feature = "nats")]
fn read(path: &Path) -> Result<String, Failure> {
    std::fs::read_to_string(path).map_err(|error| Failure::usage(format!("cannot read {}: {error}", path.display())))
}
