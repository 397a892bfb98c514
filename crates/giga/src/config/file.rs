//! `giga.toml`: where it is found and what may be in it.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use domain::{BranchName, Capability, EngineName, FactoryId, ProductId, RepoName, WebhookName};
use serde::Deserialize;
use toml::Spanned;

use crate::failure::Failure;

use super::artifacts::Artifacts;
use super::broker::{BrokerChoice, ReceiveFrom};
use super::duration::HumanDuration;
use super::environment::Environment;
use super::log::LogFormat;
use super::secret::Secret;
use super::size::Size;
use super::store::StoreChoice;
use super::toml_errors;
use super::tracker::Tracker;
use super::webhook::Webhook;

/// The name of the configuration file.
const NAME: &str = "giga.toml";

/// The configuration file, read.
#[derive(Debug, Default)]
pub(super) struct File {
    pub(super) path: Option<PathBuf>,
    pub(super) text: String,
    pub(super) content: Content,
}

/// What may be in the file.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Content {
    pub(super) data: Option<Spanned<PathBuf>>,
    pub(super) client: Client,
    pub(super) coordinator: Coordinator,
    pub(super) factory: Factory,
    pub(super) tracker: Tracker,
    pub(super) webhooks: Option<BTreeMap<WebhookName, Webhook>>,
    pub(super) artifacts: Artifacts,
    pub(super) log: Log,
}

/// `[client]`
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Client {
    pub(super) api: Option<Spanned<String>>,
    pub(super) token: Option<Spanned<Secret>>,
    pub(super) token_file: Option<Spanned<PathBuf>>,
    pub(super) product: Option<Spanned<ProductId>>,
    pub(super) ca: Option<Spanned<PathBuf>>,
}

/// `[coordinator]`
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Coordinator {
    pub(super) store: Option<Spanned<StoreChoice>>,
    pub(super) broker: Option<Spanned<BrokerChoice>>,
    pub(super) broker_credentials_file: Option<Spanned<PathBuf>>,
    pub(super) broker_signing_key_file: Option<Spanned<PathBuf>>,
    pub(super) broker_account: Option<Spanned<String>>,
    pub(super) listen: Option<Spanned<SocketAddr>>,
    pub(super) tls_cert: Option<Spanned<PathBuf>>,
    pub(super) tls_key: Option<Spanned<PathBuf>>,
    pub(super) behind_proxy: Option<Spanned<bool>>,
    pub(super) hosts: Option<Spanned<Vec<String>>>,
    pub(super) advertise: Option<Spanned<String>>,
    pub(super) lease_ttl: Option<Spanned<HumanDuration>>,
    pub(super) renew_every: Option<Spanned<HumanDuration>>,
    pub(super) stale_after: Option<Spanned<HumanDuration>>,
    pub(super) accept_within: Option<Spanned<HumanDuration>>,
    pub(super) errand_within: Option<Spanned<HumanDuration>>,
    pub(super) look_every: Option<Spanned<HumanDuration>>,
    pub(super) feedback_rounds_max: Option<Spanned<u32>>,
    pub(super) conflict_rounds_max: Option<Spanned<u32>>,
    pub(super) github_webhook_secret_file: Option<Spanned<PathBuf>>,
    pub(super) profiles: Option<Spanned<PathBuf>>,
    pub(super) starving_after: Option<Spanned<HumanDuration>>,
    pub(super) remind_after: Option<Spanned<HumanDuration>>,
    pub(super) question_expires_after: Option<Spanned<HumanDuration>>,
    pub(super) sweep_every: Option<Spanned<HumanDuration>>,
    pub(super) token_overlap: Option<Spanned<HumanDuration>>,
    pub(super) disk_free_min_mib: Option<Spanned<u32>>,
    pub(super) preemption: Option<Spanned<bool>>,
    pub(super) preemption_grace: Option<Spanned<HumanDuration>>,
    pub(super) quota_resume: Option<Spanned<bool>>,
    pub(super) budgets: Option<Spanned<bool>>,
    pub(super) shadow: Option<Spanned<bool>>,
    pub(super) retry: Retry,
}

/// `[coordinator.retry]`
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Retry {
    pub(super) attempts_max: Option<Spanned<u32>>,
    pub(super) backoff: Option<Spanned<HumanDuration>>,
    pub(super) backoff_max: Option<Spanned<HumanDuration>>,
    pub(super) lost_leases_max: Option<Spanned<u32>>,
    pub(super) unaccepted_max: Option<Spanned<u32>>,
}

/// `[factory]`
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Factory {
    pub(super) name: Option<Spanned<FactoryId>>,
    pub(super) seats: Option<Spanned<u32>>,
    pub(super) engine_seats: Option<BTreeMap<EngineName, u32>>,
    pub(super) repo_seats: Option<BTreeMap<RepoName, u32>>,
    pub(super) cost: Option<Spanned<u8>>,
    pub(super) state: Option<Spanned<PathBuf>>,
    pub(super) repo_base: Option<Spanned<PathBuf>>,
    pub(super) default_base: Option<Spanned<BranchName>>,
    pub(super) ref_prefix: Option<Spanned<BranchName>>,
    pub(super) delete_branch: Option<Spanned<bool>>,
    pub(super) capabilities: Option<Spanned<Vec<Capability>>>,
    pub(super) tools: Option<BTreeMap<String, Vec<String>>>,
    pub(super) checkpoint_every: Option<Spanned<HumanDuration>>,
    pub(super) receive: Option<Spanned<ReceiveFrom>>,
    pub(super) route: Option<Spanned<bool>>,
    pub(super) gate: Option<Spanned<bool>>,
    pub(super) poll_every: Option<Spanned<HumanDuration>>,
    pub(super) gc_every: Option<Spanned<HumanDuration>>,
    pub(super) gc_retention: Option<Spanned<HumanDuration>>,
    pub(super) disk_floor_mib: Option<Spanned<u32>>,
    pub(super) run_as: Option<Spanned<String>>,
    pub(super) confine: Option<Spanned<sandbox::SandboxMode>>,
    pub(super) hide: Option<Vec<Spanned<PathBuf>>>,
    pub(super) read: Option<Vec<Spanned<PathBuf>>>,
    pub(super) write: Option<Vec<Spanned<PathBuf>>>,
    pub(super) engines: Option<BTreeMap<EngineName, engines::EngineConfig>>,
    pub(super) prices: Option<BTreeMap<String, engines::Price>>,
    pub(super) repos: Option<BTreeMap<RepoName, workspace::RepoConfig>>,
    pub(super) environment: Option<sandbox::EnvironmentConfig>,
    pub(super) git: Option<workspace::GitConfig>,
    pub(super) forge: Option<forge::ForgeConfig>,
    pub(super) author: Option<domain::CommitAuthor>,
    pub(super) limits: Limits,
}

/// `[factory.limits]`: each by a name that takes a unit, or by an older one that ends in its unit.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Limits {
    pub(super) wall: Option<Spanned<HumanDuration>>,
    pub(super) idle: Option<Spanned<HumanDuration>>,
    pub(super) tool_idle: Option<Spanned<HumanDuration>>,
    pub(super) grace: Option<Spanned<HumanDuration>>,
    pub(super) verify: Option<Spanned<HumanDuration>>,
    pub(super) disk: Option<Spanned<Size>>,
    pub(super) disk_free: Option<Spanned<Size>>,
    pub(super) disk_every: Option<Spanned<HumanDuration>>,
    pub(super) output: Option<Spanned<Size>>,
    pub(super) git_local: Option<Spanned<HumanDuration>>,
    pub(super) git_network: Option<Spanned<HumanDuration>>,
    pub(super) remote_away: Option<Spanned<HumanDuration>>,
    pub(super) engine_wall_ms: Option<Spanned<u64>>,
    pub(super) engine_idle_ms: Option<Spanned<u64>>,
    pub(super) grace_ms: Option<Spanned<u64>>,
    pub(super) verify_wall_ms: Option<Spanned<u64>>,
    pub(super) worktree_growth_mib_max: Option<Spanned<u64>>,
    pub(super) disk_free_mib_min: Option<Spanned<u64>>,
    pub(super) disk_every_ms: Option<Spanned<u64>>,
    pub(super) output_bytes_max: Option<Spanned<u64>>,
    pub(super) git_local_ms: Option<Spanned<u64>>,
    pub(super) git_network_ms: Option<Spanned<u64>>,
}

/// The part of `[factory]` that is about asking for work.
#[derive(Debug, Default)]
pub(super) struct Polling {
    pub(super) route: Option<Spanned<bool>>,
    pub(super) gate: Option<Spanned<bool>>,
    pub(super) poll_every: Option<Spanned<HumanDuration>>,
}

/// The part of `[factory]` that is about its disk.
#[derive(Debug, Default)]
pub(super) struct Housekeeping {
    pub(super) gc_every: Option<Spanned<HumanDuration>>,
    pub(super) gc_retention: Option<Spanned<HumanDuration>>,
    pub(super) disk_floor_mib: Option<Spanned<u32>>,
}

/// `[log]`
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Log {
    pub(super) format: Option<Spanned<LogFormat>>,
    pub(super) level: Option<Spanned<String>>,
}

impl File {
    /// The file that was named, or the first that exists: in the working directory, in the configuration directory.
    pub(super) fn find(asked: Option<&Path>, environment: &Environment) -> Result<Self, Failure> {
        if let Some(path) = asked {
            return Self::read(path)?.ok_or_else(|| {
                Failure::usage(format!("--config names a file that does not exist: {}", path.display()))
                    .hint("`giga init` writes a giga.toml")
            });
        }
        if let Some(path) = environment.get("GIGA_CONFIG").map(Path::new) {
            return Self::read(path)?.ok_or_else(|| {
                Failure::usage(format!("GIGA_CONFIG names a file that does not exist: {}", path.display()))
                    .hint("unset GIGA_CONFIG, or set it to your giga.toml; `giga init` writes one")
            });
        }
        let in_config_folder = environment.config_folder().map(|folder| folder.join(NAME));
        for path in [Some(PathBuf::from(NAME)), in_config_folder].into_iter().flatten() {
            if let Some(file) = Self::read(&path)? {
                return Ok(file);
            }
        }
        Ok(Self::default())
    }

    fn read(path: &Path) -> Result<Option<Self>, Failure> {
        match std::fs::read_to_string(path) {
            Ok(text) => Self::parse(path, text).map(Some),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Failure::usage(format!("cannot read {}: {error}", path.display()))),
        }
    }

    pub(super) fn parse(path: &Path, text: String) -> Result<Self, Failure> {
        let content = toml_errors::parse(path, &text)?;
        Ok(Self { path: Some(path.to_owned()), text, content })
    }
}

/// The line of a byte, counted from 1.
pub(super) fn line_at(text: &str, at: usize) -> usize {
    1 + text.bytes().take(at).filter(|byte| *byte == b'\n').count()
}
