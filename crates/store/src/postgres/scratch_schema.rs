//! A separate schema for benchmarks, which leaves the fleets of the same database alone.

use std::sync::Arc;

use domain::Clock;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::connection::{ConnectWait, Connector, Session};
use super::open_error::OpenError;
use super::url::Url;

const ROOMS: &str = "SELECT string_agg(nspname, ' ') FROM pg_namespace WHERE nspname ~ '^giga_bench_[0-9]+$'";

/// A schema for one benchmark. If it is not removed, the next benchmark removes it.
pub struct ScratchSchema {
    url: Url,
    process: u32,
    clock: Arc<dyn Clock>,
}

impl ScratchSchema {
    /// Creates a schema for a process, and removes those of dead processes.
    pub async fn make(
        url: &Url,
        process: u32,
        is_dead: impl Fn(u32) -> bool,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, OpenError> {
        let room = Self { url: url.clone(), process, clock };
        let session = room.session().await?;
        let there = session.texts(ROOMS).await.map_err(OpenError::server(url))?.concat();
        let left = there.split_whitespace().filter_map(|name| name.strip_prefix("giga_bench_")?.parse().ok());
        for process in left.filter(|left| *left == process || is_dead(*left)) {
            session.run(&drop_schema(process)).await.map_err(OpenError::server(url))?;
        }
        session.run(&format!("CREATE SCHEMA giga_bench_{process}")).await.map_err(OpenError::server(url))?;
        Ok(room)
    }

    /// The URL of the schema in the database at `address`.
    pub fn address(&self, address: &str) -> String {
        let sign = if address.contains('?') { '&' } else { '?' };
        format!("{address}{sign}options=-csearch_path%3Dgiga_bench_{}", self.process)
    }

    /// Drops the schema with its content.
    pub async fn remove(self) -> Result<(), OpenError> {
        let session = self.session().await?;
        session.run(&drop_schema(self.process)).await.map_err(OpenError::server(&self.url))
    }

    async fn session(&self) -> Result<Session, OpenError> {
        let (tasks, closing) = (TaskTracker::new(), CancellationToken::new());
        let connector = Connector::new(self.url.clone(), Arc::clone(&self.clock), tasks, closing, Arc::default())?;
        connector.first(ConnectWait::None).await
    }
}

fn drop_schema(process: u32) -> String {
    format!("DROP SCHEMA IF EXISTS giga_bench_{process} CASCADE")
}
