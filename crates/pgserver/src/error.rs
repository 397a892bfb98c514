//! Why there is no server.

use std::io;
use std::path::PathBuf;

/// Why there is no server.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The programs are not on this machine.
    #[error(
        "PostgreSQL is not installed: install the server (Debian and Ubuntu: `apt-get install postgresql`, Fedora: \
         `dnf install postgresql-server`, macOS: `brew install postgresql`), or set GIGA_TEST_POSTGRES=skip to go without"
    )]
    NotInstalled,
    /// PostgreSQL refuses to run as root, and there is nobody else to run it.
    #[error("PostgreSQL does not run as root, and this machine has neither a user `postgres` nor `nobody`")]
    NoAccount,
    /// A file could not be read or written.
    #[error("cannot use `{}`", path.display())]
    Files {
        /// Which.
        path: PathBuf,
        /// What the system says.
        #[source]
        source: io::Error,
    },
    /// A program could not be run, or failed.
    #[error("`{program}` failed: {output}")]
    Program {
        /// Which.
        program: String,
        /// What it said.
        output: String,
    },
    /// The server did not come up.
    #[error("the server did not come up in time; the end of its log: {log}")]
    NotReady {
        /// The end of its log.
        log: String,
    },
}

impl Error {
    pub(crate) fn files(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Files { path, source }
    }
}
