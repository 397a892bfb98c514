//! The real programs, as `scripts/with-engines` installs them.

use std::path::{Path, PathBuf};

/// One of the programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Agent {
    /// Claude Code.
    Claude,
    /// Codex.
    Codex,
}

/// The folder that the programs are in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Programs {
    folder: PathBuf,
}

/// Name the directories, or say `skip`.
const VARIABLE: &str = "GIGA_TEST_ENGINES";
const OLDEST_VARIABLE: &str = "GIGA_TEST_ENGINES_OLDEST";

impl Programs {
    /// The programs for a test. `None` where there are none, which is told on standard error.
    pub fn for_test() -> Option<Self> {
        Self::named_by(VARIABLE)
    }

    /// The oldest supported versions, for tests that run them beside those of [`Programs::for_test`]. `None` where they are
    /// not installed, which standard error reports.
    pub fn oldest() -> Option<Self> {
        Self::named_by(OLDEST_VARIABLE)
    }

    fn named_by(variable: &str) -> Option<Self> {
        match std::env::var(variable) {
            Ok(folder) if folder != "skip" => Some(Self { folder: folder.into() }),
            _ => {
                eprintln!("SKIPPED: the real claude and codex are not here (`make test-engines` installs them)");
                None
            }
        }
    }

    /// Where one of them is.
    pub fn path(&self, agent: Agent) -> PathBuf {
        self.folder.join(match agent {
            Agent::Claude => "claude",
            Agent::Codex => "codex",
        })
    }

    /// The folder itself, for a search path.
    pub fn folder(&self) -> &Path {
        &self.folder
    }
}
