//! Durable store of the fleet's documents: factories, products, tokens.

use async_trait::async_trait;
use serde_json::Value;

use super::job_store::{CommitError, Expected, StoreError};
use crate::ids::Revision;
use crate::job::Versioned;

/// Small documents by key, with compare-and-set. Heartbeats never write them [I14].
#[async_trait]
pub trait FleetStore: Send + Sync {
    /// One document.
    async fn document(&self, collection: Collection, key: &str) -> Result<Option<Versioned<Value>>, StoreError>;
    /// Writes a document if `expected` holds; `None` removes it.
    async fn put(
        &self,
        collection: Collection,
        key: &str,
        expected: Expected,
        document: Option<Value>,
    ) -> Result<Revision, CommitError>;
    /// All documents of a collection, ordered by key.
    async fn documents(&self, collection: Collection) -> Result<Vec<(String, Versioned<Value>)>, StoreError>;
}

/// A collection of documents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Collection {
    /// Registered factories.
    Factories,
    /// Products.
    Products,
    /// Tokens, by the hash of their secret.
    Tokens,
    /// Browser sessions, by the hash of their cookie.
    Sessions,
    /// Metadata of the store.
    Meta,
    /// The dispatch modes.
    Flags,
    /// Credentials with an exhausted usage window.
    Credentials,
    /// Budgets of products, with what they have spent.
    Budgets,
    /// Versions of profiles.
    Profiles,
    /// Items of trackers, each with its job.
    TrackerItems,
    /// What each outgoing webhook has delivered.
    Webhooks,
    /// Jobs with artifacts in the blob store.
    Artifacts,
    /// Pools of factories that are started on demand.
    Pools,
    /// What the comparison of dispatch modes has counted, by product and hour.
    Shadow,
}

impl Collection {
    /// All of them.
    pub const ALL: [Self; 14] = [
        Self::Factories,
        Self::Products,
        Self::Tokens,
        Self::Sessions,
        Self::Flags,
        Self::Credentials,
        Self::Budgets,
        Self::Profiles,
        Self::TrackerItems,
        Self::Webhooks,
        Self::Artifacts,
        Self::Pools,
        Self::Shadow,
        Self::Meta,
    ];

    /// The name of the table or container.
    pub fn name(self) -> &'static str {
        match self {
            Self::Factories => "fleet_factories",
            Self::Products => "fleet_products",
            Self::Tokens => "fleet_tokens",
            Self::Sessions => "fleet_sessions",
            Self::Meta => "fleet_meta",
            Self::Flags => "fleet_flags",
            Self::Credentials => "fleet_credentials",
            Self::Budgets => "fleet_budgets",
            Self::Profiles => "fleet_profiles",
            Self::TrackerItems => "fleet_tracker_items",
            Self::Webhooks => "fleet_webhooks",
            Self::Artifacts => "fleet_artifacts",
            Self::Pools => "fleet_pools",
            Self::Shadow => "fleet_shadow",
        }
    }
}
