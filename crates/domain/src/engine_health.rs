//! What a factory knows about an engine before it takes work for it [B9].

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::names::{EngineName, FactoryId};
use crate::time::Timestamp;

/// One engine of a factory under one login. An engine with several logins has several of these.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct EngineHealth {
    /// The engine.
    pub name: EngineName,
    /// The version that it says it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// An opaque id of the login that it uses: the same wherever the same login is used, and never the secret itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credential: Option<String>,
    /// A fingerprint of the key or login that it uses here: another one means that it was changed. Never the secret itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub login: Option<String>,
    /// Whether the login was tried and works; absent when that cannot be told without spending money.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signed_in: Option<bool>,
    /// Why it cannot be used, and what to do about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// When the usage window that is used up begins anew.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window_until: Option<Timestamp>,
    /// When the factory tries it again by itself: `problem` is an outage of its provider.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_at: Option<Timestamp>,
}

impl EngineHealth {
    /// An engine of which nothing is known but its name.
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
        }
    }

    /// Whether work may be given to it, windows aside. What cannot be told counts as well.
    pub fn is_usable(&self) -> bool {
        self.signed_in != Some(false) && self.problem.is_none()
    }

    /// The login under which its usage windows are kept. One that the factory does not name is the factory's own.
    pub fn credential_at(&self, factory: &FactoryId) -> String {
        self.credential.clone().unwrap_or_else(|| unnamed_credential(factory, &self.name))
    }
}

/// The id of a login that its factory does not name.
pub fn unnamed_credential(factory: &FactoryId, engine: &EngineName) -> String {
    format!("{factory}/{engine}")
}
