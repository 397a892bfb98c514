//! The shape of a job: its constraints without its identity. Jobs of one shape can run on the same factories [S7].

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use utoipa::ToSchema;

use crate::names::{Capability, EngineName, FactoryId, ProductId, RepoIdentity, RepoName};

/// The constraints that decide where a job can run.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Shape {
    /// The product that owns the job: a factory's token may not cover it.
    pub product: ProductId,
    /// The repository it works in.
    pub repo: Option<RepoName>,
    /// Required capabilities, sorted and unique.
    pub capabilities: Vec<Capability>,
    /// Acceptable engines; any when empty.
    pub engines: Vec<EngineName>,
    /// The factory that the job is pinned to.
    pub pin: Option<FactoryId>,
    /// The required identity of `repo`, if it holds saved work of the job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<RepoIdentity>,
}

/// A short stable key of a shape, for columns and logs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema)]
#[serde(transparent)]
#[schema(value_type = i64)]
pub struct ShapeKey(pub i64);

impl Shape {
    /// The key: equal shapes have equal keys in every process and version.
    pub fn key(&self) -> ShapeKey {
        let mut hash = Sha256::new();
        let mut field = |text: &str| {
            hash.update(u32::try_from(text.len()).unwrap_or(u32::MAX).to_le_bytes());
            hash.update(text.as_bytes());
        };
        field(self.product.as_str());
        field(self.repo.as_ref().map_or("", RepoName::as_str));
        field(self.pin.as_ref().map_or("", FactoryId::as_str));
        for capability in &self.capabilities {
            field(capability.as_str());
        }
        // Separates the two lists, so that moving an item between them changes the key.
        field("");
        for engine in &self.engines {
            field(engine.as_str());
        }
        // Shapes without an identity keep the key of earlier versions.
        if let Some(identity) = &self.identity {
            field("");
            field(identity.as_str());
        }
        let digest = hash.finalize();
        let mut bytes = [0_u8; 8];
        bytes.copy_from_slice(&digest[..8]);
        ShapeKey(i64::from_le_bytes(bytes))
    }
}
