//! Why a database cannot be used, and what to do about it.

use super::url::Url;

/// Why a database cannot be used. Nothing was changed in it.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The address cannot be read.
    #[error("the address of the database cannot be used: {why}")]
    Url {
        /// What is wrong with it.
        why: String,
    },
    /// The server cannot be reached, or does not let us in.
    #[error("cannot use the database at {url}: check that the server runs, the user and the database ({why})")]
    Server {
        /// Where, without its password.
        url: String,
        /// What went wrong.
        why: String,
    },
    /// The authority that certificates are checked against cannot be used.
    #[error("cannot use the authority `{}` named by sslrootcert: {why}", path.display())]
    Authority {
        /// The file.
        path: std::path::PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// The server does not flush.
    #[error(
        "the server at {url} runs with fsync=off and may lose what it acknowledged: turn fsync on, or accept the loss by adding `fsync=off` to the address"
    )]
    NotDurable {
        /// Where, without its password.
        url: String,
    },
    /// The server lacks what we need.
    #[error("the server at {url} has version {found}: PostgreSQL 13 or newer is needed")]
    TooOld {
        /// Where, without its password.
        url: String,
        /// Its version.
        found: String,
    },
    /// Another coordinator works on it.
    #[error(
        "another coordinator works on the database at {url} ({holder}): a fleet has one coordinator at a time; stop that one, or use another database"
    )]
    Taken {
        /// Where, without its password.
        url: String,
        /// Which: its process, its machine, since when.
        holder: String,
    },
    /// Nobody has brought the schema up to date yet, and this is not the one to do it.
    #[error(
        "the database at {url} has schema {found}, and {known} is needed: start a coordinator of this program on it first, or use the program that it is from"
    )]
    Older {
        /// Where, without its password.
        url: String,
        /// Its schema; 0 when there is nothing of ours.
        found: i32,
        /// The schema that is needed.
        known: i32,
    },
    /// A newer program changed the schema.
    #[error(
        "the database at {url} has schema {found}, this program knows up to {known}: use the newer program, or restore a backup taken with this one"
    )]
    Newer {
        /// Where, without its password.
        url: String,
        /// Its schema.
        found: i32,
        /// The newest schema we know.
        known: i32,
    },
}

impl OpenError {
    pub(super) fn server(url: &Url) -> impl FnOnce(super::errors::ServerError) -> Self {
        let url = url.to_string();
        move |trouble| Self::Server { url, why: trouble.to_string() }
    }
}
