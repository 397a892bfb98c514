//! Why the server could not be started.

use std::io;
use std::path::PathBuf;

/// Why the server could not be started.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// PostgreSQL is not installed.
    #[error(
        "PostgreSQL is not installed: install the server (Debian and Ubuntu: `apt-get install postgresql`, Fedora: \
         `dnf install postgresql-server`, macOS: `brew install postgresql`), or set GIGA_TEST_POSTGRES=skip to go without"
    )]
    NotInstalled,
    /// PostgreSQL refuses to run as root, and no other account exists.
    #[error("PostgreSQL does not run as root, and this machine has neither a user `postgres` nor `nobody`")]
    NoAccount,
    /// A file could not be read or written.
    #[error("cannot use `{}`", path.display())]
    Files {
        /// The file or directory.
        path: PathBuf,
        /// The I/O error.
        #[source]
        source: io::Error,
    },
    /// A program could not be started, or failed.
    #[error("`{program}` failed: {output}")]
    Program {
        /// The program's path.
        program: String,
        /// The program's output.
        output: String,
    },
    /// The server did not become ready in time.
    #[error("the server did not start in time; the end of its log: {log}")]
    NotReady {
        /// The end of the server's log.
        log: String,
    },
}

impl Error {
    pub(crate) fn files(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Files { path, source }
    }
}
