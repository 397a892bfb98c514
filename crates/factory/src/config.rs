//! Host configuration of a factory. Plain values; the caller reads them from its configuration.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use domain::{BranchName, EngineName, RepoIdentity};
use sandbox::EnvironmentConfig;
use serde::de::value::MapAccessDeserializer;
use serde::de::{self, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use crate::engine::Permissions;

/// One repository that this factory can work on. In a file it is a table, or its URL alone.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields, remote = "Self")]
pub struct RepoConfig {
    /// Its location: `https://…`, `ssh://…`, `user@host:path`, or an absolute path on this machine. A working clone
    /// stands for its `origin`.
    pub url: String,
    /// The identity of the repository, if the URL of its remote does not contain it: behind a host alias of ssh, or
    /// shared by several machines over a file system. A URL, or `github.com/acme/notes`.
    #[serde(default, deserialize_with = "identity")]
    pub identity: Option<RepoIdentity>,
    /// The branch that work starts from and merges into, when the job names none.
    #[serde(default = "default_base")]
    pub base: BranchName,
    /// Commands that prepare a new worktree, run before the engine.
    #[serde(default)]
    pub setup: Vec<String>,
    /// Whether the contents of files are fetched on demand; decided by the repository's size when absent.
    #[serde(default)]
    pub partial: Option<bool>,
    /// Fetches the contents of files in large file storage, where `git-lfs` is installed.
    #[serde(default = "yes")]
    pub lfs: bool,
    /// Checks out submodules too, for reading.
    #[serde(default)]
    pub submodules: bool,
    /// Directories that outlive worktrees, by the variable that names each: `CARGO_TARGET_DIR = "target"`. Each product
    /// has its own.
    #[serde(default)]
    pub caches: BTreeMap<String, String>,
}

impl<'de> Deserialize<'de> for RepoConfig {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct AddressOrTable;

        impl<'de> Visitor<'de> for AddressOrTable {
            type Value = RepoConfig;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the repository's address in quotes, or a table with its `url`")
            }

            fn visit_str<E: de::Error>(self, url: &str) -> Result<RepoConfig, E> {
                Ok(RepoConfig::at(url, default_base()))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<RepoConfig, A::Error> {
                RepoConfig::deserialize(MapAccessDeserializer::new(map))
            }
        }

        deserializer.deserialize_any(AddressOrTable)
    }
}

impl RepoConfig {
    /// A repository at `url` with default settings.
    pub fn at(url: impl Into<String>, base: BranchName) -> Self {
        Self {
            url: url.into(),
            identity: None,
            base,
            setup: Vec::new(),
            partial: None,
            lfs: true,
            submodules: false,
            caches: BTreeMap::new(),
        }
    }
}

/// An invalid cache.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{variable} = \"{name}\"` is no cache: name a variable that no program is led astray by, and a plain folder name"
)]
pub struct CacheError {
    variable: String,
    name: String,
}

/// Variables that decide which programs run, or under which identity.
const NOT_FOR_CACHES: [&str; 7] = ["PATH", "HOME", "SHELL", "IFS", "ENV", "BASH_ENV", "TERM"];

impl RepoConfig {
    /// Rejects caches whose directory would be elsewhere, or whose variable has another meaning.
    pub(crate) fn check(&self) -> Result<(), CacheError> {
        let plain = |text: &str, more: fn(char) -> bool| {
            !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || more(c))
        };
        for (variable, name) in &self.caches {
            let is_variable = plain(variable, |c| c == '_')
                && !NOT_FOR_CACHES.contains(&variable.as_str())
                && !["LD_", "DYLD_", "GIT_", "GIGA_", "AQ_"].iter().any(|prefix| variable.starts_with(prefix));
            let is_name = plain(name, |c| matches!(c, '.' | '_' | '-')) && !name.starts_with(['.', '-']);
            if !is_variable || !is_name {
                let (variable, name) = (domain::escape_for_terminal(variable), domain::escape_for_terminal(name));
                return Err(CacheError { variable, name });
            }
        }
        Ok(())
    }
}

/// One engine that this factory offers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields, default)]
pub struct EngineConfig {
    /// Its kind. When absent, an engine with `argv` is a command, and one without has the kind of its name.
    pub kind: Option<EngineKind>,
    /// A command's program and its arguments; `{job_id} {epoch} {worktree} {title} {model}` are replaced inside each argument.
    pub argv: Vec<String>,
    /// The program of an engine that is no command, when it is not found under its default name.
    pub program: Option<String>,
    /// Additional arguments.
    pub args: Vec<String>,
    /// Retryable exit codes of a command; after the others the job goes to a person at once. Without a list every
    /// failure is retryable.
    pub retryable_exit_codes: Option<Vec<i32>>,
    /// Where a command prints its cost.
    pub reads: OutputPatterns,
    /// The model, when the job names none.
    pub model: Option<String>,
    /// Whose usage windows it uses: an opaque id, the engine's name when absent.
    pub credential: Option<String>,
    /// The permission mode of claude: `acceptEdits` with any shell command when absent. For other agents their own
    /// mode.
    pub permission_mode: Option<String>,
    /// How permission requests of an agent are answered that speaks the Agent Client Protocol.
    pub permissions: Permissions,
    /// Whether agents of claude and codex may fetch and search web pages with the engine's own tools. Off by default: a
    /// page can hold instructions for the agent. Without effect on other engines.
    pub web: bool,
    /// What codex may change: `workspace-write` when absent.
    pub sandbox: Option<String>,
    /// Turns of the conversation in one run, which are the model's answers: without effect on an engine that does not
    /// report them while it runs.
    pub turns_max: Option<u32>,
    /// The engine's environment in addition to the allow-list.
    pub environment: EnvironmentConfig,
}

/// The kind of an engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EngineKind {
    /// Any command line.
    Command,
    /// Claude Code.
    Claude,
    /// Codex.
    Codex,
    /// Devin in its simple mode.
    Devin,
    /// Any agent that speaks the Agent Client Protocol.
    Acp,
}

impl EngineConfig {
    /// The kind of the engine called `name`.
    pub fn kind(&self, name: &EngineName) -> EngineKind {
        let by_name = match name.as_str() {
            "claude" => EngineKind::Claude,
            "codex" => EngineKind::Codex,
            "devin" => EngineKind::Acp,
            _ => EngineKind::Command,
        };
        self.kind.unwrap_or(if self.argv.is_empty() { by_name } else { EngineKind::Command })
    }

    /// Whether the turns of the engine called `name` are known while it runs, so that `turns_max` can end it.
    pub(crate) fn tells_turns(&self, name: &EngineName) -> bool {
        match self.kind(name) {
            EngineKind::Claude | EngineKind::Codex | EngineKind::Acp => true,
            EngineKind::Devin => false,
            EngineKind::Command => self.reads.turns.is_some(),
        }
    }

    /// The program of the engine called `name`, if it has one.
    pub fn program(&self, name: &EngineName) -> Option<&str> {
        match self.kind(name) {
            EngineKind::Command | EngineKind::Acp if !self.argv.is_empty() => self.argv.first().map(String::as_str),
            kind => self.program.as_deref().or(kind.program()),
        }
    }
}

impl EngineKind {
    /// The default program of such an engine.
    pub fn program(self) -> Option<&'static str> {
        match self {
            Self::Command => None,
            Self::Claude => Some("claude"),
            Self::Codex => Some("codex"),
            Self::Devin | Self::Acp => Some("devin"),
        }
    }
}

/// Where a command prints its metrics. The last match counts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields, default)]
pub struct OutputPatterns {
    /// US dollars so far.
    pub cost_usd: Option<OutputPattern>,
    /// Tokens read so far.
    pub tokens_in: Option<OutputPattern>,
    /// Tokens written so far.
    pub tokens_out: Option<OutputPattern>,
    /// Turns so far.
    pub turns: Option<OutputPattern>,
}

/// How a metric is found in a line.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutputPattern {
    /// The first group of a regular expression, or all of it.
    Regex(String),
    /// A JSON pointer into a line that is JSON: `/usage/cost`.
    Pointer(String),
}

/// The price of a million tokens of a model, in US dollars.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub struct Price {
    /// Tokens read.
    pub input: f64,
    /// Tokens written.
    pub output: f64,
    /// Tokens read from a cache; as `input` when absent.
    #[serde(default)]
    pub cached: Option<f64>,
}

/// How the factory's own git reaches remotes.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields, default)]
pub struct GitConfig {
    /// The home directory in which git, its credential helpers and ssh find their settings and keys when they talk to a
    /// remote; that of the account that runs the factory when absent.
    pub home: Option<PathBuf>,
    /// The socket of the ssh agent, given to fetch and push only; that of the factory's environment when absent.
    pub ssh_auth_sock: Option<PathBuf>,
    /// A program that answers git's prompt for a user name or password, given to fetch and push only.
    pub askpass: Option<PathBuf>,
    /// Above this size a repository is mirrored without the contents of old files, unless it is configured itself.
    pub partial_above_mib: u64,
}

impl Default for GitConfig {
    fn default() -> Self {
        // A full copy of less takes minutes, and spares every agent a fetch from the remote.
        Self { home: None, ssh_auth_sock: None, askpass: None, partial_above_mib: 1024 }
    }
}

/// The author of the factory's commits.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "RawIdentity")]
pub struct Identity {
    name: String,
    email: String,
}

/// A name or address that would break git's line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` cannot be the author of a commit: it is empty, or holds `<`, `>` or a control character")]
pub struct IdentityError(String);

impl Identity {
    /// The author `name <email>`.
    pub fn new(name: &str, email: &str) -> Result<Self, IdentityError> {
        for text in [name, email] {
            let broken =
                text.trim().is_empty() || text.chars().any(|c| matches!(c, '<' | '>') || !domain::is_terminal_safe(c));
            if broken {
                return Err(IdentityError(domain::escape_for_terminal(text)));
            }
        }
        Ok(Self { name: name.to_owned(), email: email.to_owned() })
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The address.
    pub fn email(&self) -> &str {
        &self.email
    }
}

impl Default for Identity {
    fn default() -> Self {
        Self { name: "Gigafactory".to_owned(), email: "gigafactory@localhost".to_owned() }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawIdentity {
    name: String,
    email: String,
}

impl TryFrom<RawIdentity> for Identity {
    type Error = IdentityError;

    fn try_from(raw: RawIdentity) -> Result<Self, IdentityError> {
        Self::new(&raw.name, &raw.email)
    }
}

/// The identity of a URL, or one that is written as such.
fn identity<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<RepoIdentity>, D::Error> {
    let text = String::deserialize(deserializer)?;
    let found = RepoIdentity::of_url(&text).map_or_else(|| text.parse(), Ok);
    found.map(Some).map_err(serde::de::Error::custom)
}

fn yes() -> bool {
    true
}

pub(crate) fn default_base() -> BranchName {
    match "main".parse() {
        Ok(branch) => branch,
        Err(_) => unreachable!("`main` is a branch name"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repository_needs_only_its_address() {
        let config: RepoConfig = serde_json::from_str(r#"{"url": "https://forge.example/notes.git"}"#).unwrap();

        assert_eq!(config, RepoConfig::at("https://forge.example/notes.git", "main".parse().unwrap()));
    }

    // [§12]
    #[test]
    fn a_cache_is_a_plain_folder_under_a_harmless_variable() {
        let with = |variable: &str, name: &str| RepoConfig {
            caches: [(variable.to_owned(), name.to_owned())].into(),
            ..RepoConfig::at("/srv/notes", default_base())
        };

        assert_eq!(with("CARGO_TARGET_DIR", "target").check(), Ok(()));
        for (variable, name) in [
            ("PATH", "bin"),
            ("LD_PRELOAD", "x"),
            ("GIGA_TOKEN", "x"),
            ("A B", "x"),
            ("X", ".."),
            ("X", "a/b"),
            ("X", ""),
        ] {
            assert!(with(variable, name).check().is_err(), "{variable} {name}");
        }
    }

    // [F2]
    #[test]
    fn an_engine_is_what_it_says_it_is_or_what_its_name_or_its_command_line_says() {
        let kind = |name: &str, text: &str| {
            serde_json::from_str::<EngineConfig>(text).unwrap().kind(&name.parse::<EngineName>().unwrap())
        };

        assert_eq!(kind("claude", "{}"), EngineKind::Claude);
        assert_eq!(kind("claude", r#"{"argv": ["claude", "--print"]}"#), EngineKind::Command);
        assert_eq!(kind("cheap", r#"{"kind": "codex", "model": "small"}"#), EngineKind::Codex);
        assert_eq!(kind("mine", r#"{"argv": ["mine"]}"#), EngineKind::Command);
    }

    // [F2]
    #[test]
    fn turns_are_told_by_agents_that_are_followed_and_by_commands_that_print_them() {
        let tells = |name: &str, text: &str| {
            serde_json::from_str::<EngineConfig>(text).unwrap().tells_turns(&name.parse::<EngineName>().unwrap())
        };

        assert!(tells("claude", "{}") && tells("codex", "{}") && tells("devin", "{}"));
        assert!(!tells("devin", r#"{"kind": "devin"}"#) && !tells("mine", r#"{"argv": ["mine"]}"#));
        assert!(tells("mine", r#"{"argv": ["mine"], "reads": {"turns": {"pointer": "/turns"}}}"#));
    }

    #[test]
    fn an_author_that_would_forge_a_header_is_refused() {
        for name in ["", " ", "a <b>", "a\nparent 0"] {
            assert!(Identity::new(name, "a@b").is_err(), "{name:?}");
            assert!(Identity::new("a", name).is_err(), "{name:?}");
        }
    }
}
