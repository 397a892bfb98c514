//! What a job needs from a factory, without who it is: jobs of one shape can run in the same places [S7].

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use utoipa::ToSchema;

use crate::names::{Capability, EngineName, FactoryId, ProductId, RepoIdentity, RepoName};

/// Everything about a job that decides where it can run.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Shape {
    /// Whose job it is: a factory's token may not cover every product.
    pub product: ProductId,
    /// The repository it works in.
    pub repo: Option<RepoName>,
    /// Tokens that a factory must advertise, sorted, each once.
    pub capabilities: Vec<Capability>,
    /// Engines of which one must be there; any when empty.
    pub engines: Vec<EngineName>,
    /// The one factory that may run it.
    pub pin: Option<FactoryId>,
    /// Which repository `repo` has to be, because work of the job is saved there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<RepoIdentity>,
}

/// A short stable name of a shape, for columns and logs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema)]
#[serde(transparent)]
#[schema(value_type = i64)]
pub struct ShapeKey(pub i64);

impl Shape {
    /// The key of this shape: equal shapes have equal keys, in every process and for ever.
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
        // Separates the two lists, so that moving a word from one to the other changes the key.
        field("");
        for engine in &self.engines {
            field(engine.as_str());
        }
        // Jobs without saved work keep the key that they had before identities were known.
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
