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

/// Names the folder, or says `skip`.
const VARIABLE: &str = "GIGA_TEST_ENGINES";

impl Programs {
    /// The programs for a test. `None` where there are none, which is told on standard error.
    pub fn for_test() -> Option<Self> {
        match std::env::var(VARIABLE) {
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
