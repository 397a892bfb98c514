//! What starts a factory: a process, a command, a cloud.

use async_trait::async_trait;
use domain::{FactoryId, PoolName};
use futures_util::future::BoxFuture;

/// Starts factories of pools.
#[async_trait]
pub trait FactoryStarter: Send + Sync {
    /// Starts one factory. It joins by itself.
    async fn start(&self, pool: &PoolName) -> Result<StartedFactory, StartError>;
}

/// A factory that was started.
pub struct StartedFactory {
    /// The name under which it joins.
    pub name: FactoryId,
    /// Resolves when it has ended; absent where that cannot be observed.
    pub exit: Option<BoxFuture<'static, FactoryExit>>,
}

/// How a factory ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FactoryExit {
    /// It was told to leave, or to stop.
    Left,
    /// It failed.
    Failed(String),
}

/// A factory could not be started.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct StartError(pub String);
