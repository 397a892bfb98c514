//! The real agent programs, as `scripts/with-engines` installs them.

use std::path::{Path, PathBuf};

use testkit::requirement::Requirement;

/// An agent program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Agent {
    /// Claude Code.
    Claude,
    /// Codex.
    Codex,
}

/// The directory of the installed programs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Programs {
    folder: PathBuf,
}

/// The directories of the programs, or `skip`.
const VARIABLE: &str = "GIGA_TEST_ENGINES";
const OLDEST_VARIABLE: &str = "GIGA_TEST_ENGINES_OLDEST";

impl Programs {
    /// Returns the programs for a test. Returns `None` if they are not installed, and reports that on standard error.
    pub fn for_test() -> Option<Self> {
        Self::named_by(VARIABLE)
    }

    /// Returns the oldest supported versions, for tests that run them beside those of [`Programs::for_test`]. Returns
    /// `None` if they are not installed, and reports that on standard error.
    pub fn oldest() -> Option<Self> {
        Self::named_by(OLDEST_VARIABLE)
    }

    fn named_by(variable: &str) -> Option<Self> {
        match std::env::var(variable) {
            Ok(folder) if folder != "skip" => Some(Self { folder: folder.into() }),
            _ => {
                Requirement::Engines.skip("claude and codex are not installed: run scripts/with-engines");
                None
            }
        }
    }

    /// The path of one program.
    pub fn path(&self, agent: Agent) -> PathBuf {
        self.folder.join(match agent {
            Agent::Claude => "claude",
            Agent::Codex => "codex",
        })
    }

    /// The directory, for a search path.
    pub fn folder(&self) -> &Path {
        &self.folder
    }
}
