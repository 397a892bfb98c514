//! Why a database cannot be used, with a remedy.

use super::url::Url;

/// Why a database cannot be used. It was not changed.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The URL is invalid.
    #[error("the address of the database cannot be used: {why}")]
    Url {
        /// The reason.
        why: String,
    },
    /// The server cannot be reached or rejects the login.
    #[error("cannot use the database at {url}: check that the server runs, the user and the database ({why})")]
    Server {
        /// The URL, without its password.
        url: String,
        /// The reason.
        why: String,
    },
    /// The certificate authority cannot be used.
    #[error("cannot use the authority `{}` named by sslrootcert: {why}", path.display())]
    Authority {
        /// The file.
        path: std::path::PathBuf,
        /// The reason.
        why: String,
    },
    /// The server does not flush commits.
    #[error(
        "the server at {url} runs with fsync=off and may lose acknowledged writes: turn fsync on, or accept the loss by adding `fsync=off` to the address"
    )]
    NotDurable {
        /// The URL, without its password.
        url: String,
    },
    /// The server's version is too old.
    #[error("the server at {url} has version {found}: PostgreSQL 13 or newer is needed")]
    TooOld {
        /// The URL, without its password.
        url: String,
        /// The server's version.
        found: String,
    },
    /// Another coordinator uses the database.
    #[error(
        "another coordinator uses the database at {url} ({holder}): a fleet has one coordinator at a time; stop the other one, or use another database"
    )]
    Taken {
        /// The URL, without its password.
        url: String,
        /// The holder: its process, its machine and its start time.
        holder: String,
    },
    /// The schema is outdated, and this process may not migrate it.
    #[error(
        "the database at {url} has schema {found}, and {known} is required: start a coordinator of this version on it first, or use the version that wrote it"
    )]
    Older {
        /// The URL, without its password.
        url: String,
        /// The database's schema version; 0 if it has no schema of this program.
        found: i32,
        /// The required schema version.
        known: i32,
    },
    /// A newer version migrated the schema.
    #[error(
        "the database at {url} has schema {found}, this version supports up to {known}: use the newer version, or restore a backup taken with this one"
    )]
    Newer {
        /// The URL, without its password.
        url: String,
        /// The database's schema version.
        found: i32,
        /// The newest schema version that this program supports.
        known: i32,
    },
}

impl OpenError {
    pub(super) fn server(url: &Url) -> impl FnOnce(super::errors::ServerError) -> Self {
        let url = url.to_string();
        move |trouble| Self::Server { url, why: trouble.to_string() }
    }
}
