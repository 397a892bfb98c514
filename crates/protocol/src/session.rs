//! Browser sessions.

use std::collections::BTreeSet;
use std::fmt;

use domain::{ProductId, Timestamp, TokenScope};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The header with a page's half of its session. The cookie has the other half.
pub const SESSION_HEADER: &str = "x-giga-session";

/// Signs a browser in: with a token, or with a one-time code.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SignInRequest {
    /// The secret of a token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// A code of `POST /session/codes`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
}

impl fmt::Debug for SignInRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SignInRequest(…)")
    }
}

/// A new session. The answer sets its cookie too.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SignInResponse {
    /// The page's half: it sends it with every request, in the header `x-giga-session`.
    pub session: String,
    /// The owner of the session.
    pub principal: PrincipalView,
    /// When the session ends.
    pub expires_at: Timestamp,
}

impl fmt::Debug for SignInResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SignInResponse").field("principal", &self.principal).finish_non_exhaustive()
    }
}

/// The caller, and the coordinator that answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionView {
    /// The caller.
    pub principal: PrincipalView,
    /// The coordinator.
    pub coordinator: CoordinatorView,
    /// When the session ends, or the token expires; absent for a token that never does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
}

/// The owner of a token or of a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PrincipalView {
    /// Its name: the author in events.
    pub name: String,
    /// Its role.
    pub role: Role,
    /// The products that it is limited to; all when empty.
    pub products: BTreeSet<ProductId>,
}

/// The role of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Full access.
    Admin,
    /// Submits jobs and acts on them.
    Operator,
    /// Reads only.
    Viewer,
    /// A factory.
    Factory,
    /// Enrols one factory.
    Join,
}

impl From<&TokenScope> for Role {
    fn from(scope: &TokenScope) -> Self {
        match scope {
            TokenScope::Admin => Self::Admin,
            TokenScope::Operator { .. } => Self::Operator,
            TokenScope::Viewer { .. } => Self::Viewer,
            TokenScope::Factory { .. } => Self::Factory,
            TokenScope::Join { .. } => Self::Join,
        }
    }
}

/// A coordinator, as pages show it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CoordinatorView {
    /// The name of its host.
    pub name: String,
    /// Its version.
    pub version: String,
}

/// Asks for a one-time code.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CreateCodeRequest {
    /// Lifetime in seconds; five minutes when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl_seconds: Option<u64>,
}

/// A one-time code that signs a browser in with the caller's token.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SignInCode {
    /// The code.
    pub code: String,
    /// The address of the page that uses the code.
    pub url: String,
    /// When the code expires.
    pub expires_at: Timestamp,
}

impl fmt::Debug for SignInCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SignInCode").field("expires_at", &self.expires_at).finish_non_exhaustive()
    }
}
