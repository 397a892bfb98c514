//! Settings from command line flags.

use std::net::SocketAddr;
use std::path::PathBuf;

use domain::{Capability, FactoryId, ProductId};

use crate::cli::GlobalArgs;
use crate::failure::Failure;

use super::secret::Secret;

/// Settings that flags give.
#[derive(Debug, Clone, Default)]
pub(crate) struct Overrides {
    /// `--data`
    pub(crate) data: Option<PathBuf>,
    /// `--api`
    pub(crate) api: Option<String>,
    /// `--token`
    pub(crate) token: Option<Secret>,
    /// `--product`
    pub(crate) product: Option<ProductId>,
    /// `--listen`
    pub(crate) listen: Option<SocketAddr>,
    /// `--tls-cert`
    pub(crate) tls_cert: Option<PathBuf>,
    /// `--tls-key`
    pub(crate) tls_key: Option<PathBuf>,
    /// `--behind-proxy`
    pub(crate) behind_proxy: Option<bool>,
    /// `--host`
    pub(crate) hosts: Option<Vec<String>>,
    /// `--advertise`
    pub(crate) advertise: Option<String>,
    /// `--store`
    pub(crate) store: Option<String>,
    /// `--broker`
    pub(crate) broker: Option<String>,
    /// `--name`
    pub(crate) factory_name: Option<FactoryId>,
    /// `--seats`
    pub(crate) seats: Option<u32>,
    /// `--state`
    pub(crate) state: Option<PathBuf>,
    /// `--repo-base`
    pub(crate) repo_base: Option<PathBuf>,
    /// `--capability`
    pub(crate) capabilities: Option<Vec<Capability>>,
    /// `--accept-data-loss`
    pub(crate) accept_data_loss: bool,
}

impl Overrides {
    /// These and the global flags.
    pub(super) fn with_global(self, global: &GlobalArgs) -> Result<Self, Failure> {
        let product = global.product.as_deref().map(str::parse).transpose();
        Ok(Self {
            data: global.data.clone(),
            api: global.api.clone(),
            token: global.token.as_deref().map(Secret::new),
            product: product.map_err(|error| Failure::usage(format!("--product: {error}")))?,
            ..self
        })
    }
}
