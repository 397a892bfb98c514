//! What a test needs from the machine. A test without it is skipped with a reason, or fails where it is required.
//!
//! `GIGA_REQUIRE` lists what the machine must have, separated by commas: `postgres,landlock,root`. `GIGA_SKIPPED` names a
//! file that collects the skipped tests.

use std::fmt;
use std::io::Write;

/// Something of the machine that not every machine has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Requirement {
    /// The programs of PostgreSQL.
    Postgres,
    /// A kernel with Landlock.
    Landlock,
    /// The tests run as root.
    Root,
    /// The real claude and codex.
    Engines,
    /// git-lfs.
    Lfs,
    /// schemathesis and the generator of TypeScript clients.
    ApiTools,
    /// The official Python SDK of MCP.
    McpClient,
    /// The server of NATS.
    Nats,
    /// Chromium, and the built web UI.
    Chromium,
    /// rustup, with a toolchain.
    Rustup,
    /// Azurite, the emulator of Azure Blob Storage.
    Azurite,
    /// tmux.
    Tmux,
    /// Network namespaces: root, and `ip`.
    Netns,
    /// The release build of `giga`.
    ReleaseBuild,
    /// A home directory of the account that runs the tests, with a readable file.
    Home,
}

impl Requirement {
    /// The name in `GIGA_REQUIRE`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Postgres => "postgres",
            Self::Landlock => "landlock",
            Self::Root => "root",
            Self::Engines => "engines",
            Self::Lfs => "lfs",
            Self::ApiTools => "api-tools",
            Self::McpClient => "mcp-client",
            Self::Nats => "nats",
            Self::Chromium => "chromium",
            Self::Rustup => "rustup",
            Self::Azurite => "azurite",
            Self::Tmux => "tmux",
            Self::Netns => "netns",
            Self::ReleaseBuild => "release-build",
            Self::Home => "home",
        }
    }

    /// Reports the running test as skipped. It returns, so that the test can.
    ///
    /// # Panics
    ///
    /// If `GIGA_REQUIRE` lists this requirement.
    pub fn skip(self, why: impl fmt::Display) {
        let required = std::env::var("GIGA_REQUIRE").unwrap_or_default();
        assert!(!lists(&required, self.name()), "this machine must have `{self}` (GIGA_REQUIRE): {why}");
        let test = std::thread::current().name().unwrap_or("a test").to_owned();
        let line = format!("skipped: {test} needs `{self}`: {why}");
        eprintln!("{line}");
        let Some(path) = std::env::var_os("GIGA_SKIPPED") else { return };
        let file = std::fs::OpenOptions::new().create(true).append(true).open(path);
        // One write for each line, so that lines of several processes stay whole.
        let _ = file.and_then(|mut file| file.write_all(format!("{line}\n").as_bytes()));
    }

    /// Whether the requirement is met; reports the running test as skipped otherwise.
    #[must_use]
    pub fn is_met(self, found: bool, why: impl fmt::Display) -> bool {
        if !found {
            self.skip(why);
        }
        found
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

fn lists(required: &str, name: &str) -> bool {
    required.split(',').any(|part| part.trim() == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_requirement_is_listed_by_its_whole_name() {
        assert!(lists("postgres, landlock", "landlock"));
        assert!(!lists("postgres,landlock-abi", "landlock"));
        assert!(!lists("", "root"));
    }
}
