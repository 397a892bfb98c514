//! A PostgreSQL server for one benchmark, if this build has the feature.

use crate::Error;

/// A server that stops when this is dropped.
#[cfg(feature = "throwaway-postgres")]
pub(crate) struct ThrowawayPostgres(pgserver::Server);

#[cfg(feature = "throwaway-postgres")]
impl ThrowawayPostgres {
    pub(crate) fn start() -> Result<Self, Error> {
        let started = pgserver::Server::start_new(pgserver::Flushes::Real);
        started.map(Self).map_err(|error| Error::failed(error.to_string()))
    }

    pub(crate) fn url(&self) -> String {
        self.0.url()
    }
}

/// This build cannot start a server.
#[cfg(not(feature = "throwaway-postgres"))]
pub(crate) enum ThrowawayPostgres {}

#[cfg(not(feature = "throwaway-postgres"))]
impl ThrowawayPostgres {
    pub(crate) fn start() -> Result<Self, Error> {
        Err(Error::usage("this build of giga cannot start a PostgreSQL server")
            .hint("name a database: `--store postgres://…`, or build giga with `--features throwaway-postgres`"))
    }

    pub(crate) fn url(&self) -> String {
        match *self {}
    }
}
