//! Copied credentials in the homes of engines.

use std::path::Path;

use domain::Clock;

/// The credentials that engines keep beside their conversations, which a clean-up must not delete.
pub trait EngineCredentials: Send + Sync {
    /// Copies refreshed credentials back that ended runs left in homes below `sessions`. Homes of active runs are skipped.
    fn recover_credentials(&self, sessions: &Path, clock: &dyn Clock, is_active: &dyn Fn(&Path) -> bool);

    /// Whether a home holds a credential that was not copied back, or that is unknown.
    fn has_credential_note(&self, home: &Path) -> bool;

    /// Whether a file beside the homes is the note of a credential.
    fn is_credential_note(&self, path: &Path) -> bool;
}
