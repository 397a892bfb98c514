//! Health of a factory's engines, as the factory last verified it [B9].

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::budget::Billing;
use crate::names::{EngineName, FactoryId};
use crate::time::Timestamp;

/// One engine of a factory with one credential. An engine with several credentials has several of these.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct EngineHealth {
    /// The engine.
    pub name: EngineName,
    /// The version that the engine reports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Opaque id of the credential. Equal on every factory that uses the same login; never the secret itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credential: Option<String>,
    /// Fingerprint of the key or login on this factory; it changes when the login changes. Never the secret itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub login: Option<String>,
    /// Whether the factory verified the login. Absent when a check would cost money.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signed_in: Option<bool>,
    /// Why the engine cannot be used, and the remedy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// When the exhausted usage window resets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window_until: Option<Timestamp>,
    /// When the factory retries the engine by itself: `problem` is an outage of the provider.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_at: Option<Timestamp>,
    /// How the credential is billed; unknown counts as API dollars.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub billing: Option<Billing>,
}

impl EngineHealth {
    /// An engine with unknown health.
    pub fn named(name: EngineName) -> Self {
        Self {
            name,
            version: None,
            credential: None,
            login: None,
            signed_in: None,
            problem: None,
            window_until: None,
            retry_at: None,
            billing: None,
        }
    }

    /// Whether the engine can run jobs, usage windows aside. Unknown health counts as usable.
    pub fn is_usable(&self) -> bool {
        self.signed_in != Some(false) && self.problem.is_none()
    }

    /// The credential id that usage windows are recorded under. A credential without an id is private to its factory.
    pub fn credential_at(&self, factory: &FactoryId) -> String {
        self.credential.clone().unwrap_or_else(|| unnamed_credential(factory, &self.name))
    }
}

/// The id of a credential that its factory does not name.
pub fn unnamed_credential(factory: &FactoryId, engine: &EngineName) -> String {
    format!("{factory}/{engine}")
}
