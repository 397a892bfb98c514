//! The settings of a factory.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use domain::{BranchName, BrokerConnector, Capability, Clock, CommitAuthor, EngineName, FactoryId, RepoName};
use engines::{EngineConfig, Price};
use forge::ForgeConfig;
use sandbox::{Account, EnvironmentConfig, Limits, SandboxMode, Secrets, secret_variables};
use workspace::{AfterShip, Git, GitConfig, Host, OperatorAccess, RefNames, RepoConfig, Repository, StateDir};

use super::WorkerError;
use super::sandbox_policy::settle;
use crate::detect::repos_under;

/// The settings of a factory, as plain values. The caller reads them from its configuration.
#[derive(Debug, Clone)]
pub struct WorkerSettings {
    /// Its name, as in its token.
    pub name: FactoryId,
    /// Concurrent jobs.
    pub seats: u32,
    /// Concurrent jobs by engine, where fewer.
    pub engine_seats: BTreeMap<EngineName, u32>,
    /// Concurrent jobs by repository, where fewer.
    pub repo_seats: BTreeMap<RepoName, u32>,
    /// Relative cost of a seat, 0 to 100.
    pub cost: u8,
    /// The state directory.
    pub state: PathBuf,
    /// The configured repositories.
    pub repos: BTreeMap<RepoName, RepoConfig>,
    /// A directory whose repositories are added.
    pub repo_base: Option<PathBuf>,
    /// The base branch of repositories found there.
    pub default_base: BranchName,
    /// The engines it offers.
    pub engines: BTreeMap<EngineName, EngineConfig>,
    /// The price of a million tokens of a model, for engines that report tokens only.
    pub prices: BTreeMap<String, Price>,
    /// Capabilities beyond what can be detected.
    pub capabilities: BTreeSet<Capability>,
    /// Tools to detect in addition to the built-in ones, each with a command line that shows it works.
    pub tools: BTreeMap<String, Vec<String>>,
    /// The environment of setup and verify commands.
    pub environment: EnvironmentConfig,
    /// How git reaches remotes.
    pub git: GitConfig,
    /// The author of the factory's commits.
    pub identity: CommitAuthor,
    /// Limits of time and output of programs.
    pub limits: Limits,
    /// Where pull requests are opened.
    pub forge: ForgeConfig,
    /// The prefix of the fleet's refs.
    pub ref_prefix: BranchName,
    /// Whether a merged branch is deleted.
    pub after_ship: AfterShip,
    /// How often a checkpoint is saved while an engine runs.
    pub checkpoint_every: Duration,
    /// How often capabilities are detected again.
    pub detect_every: Duration,
    /// How it polls for work.
    pub polling: Polling,
    /// How its disk is cleaned up.
    pub housekeeping: Housekeeping,
    /// The account that engines, setup and verify commands run under; its own when absent.
    pub run_as: Option<String>,
    /// Whether the kernel protects the factory's own files from these programs.
    pub confine: SandboxMode,
    /// Directories and files of the caller that agents cannot access, in addition to the built-in ones.
    pub hidden: Vec<PathBuf>,
    /// What agents can read in addition to shared paths, such as a directory in the home of the factory's account.
    pub readable: Vec<PathBuf>,
    /// What they can write to in addition to their run's own and temporary directories.
    pub writable: Vec<PathBuf>,
    /// What they cannot change, whatever else they can write to.
    pub fixed: Vec<PathBuf>,
    /// Secrets to scrub from logs, reports and messages, in addition to those found automatically.
    pub secrets: Secrets,
    /// The command line that runs a program under a guard; without one a killed factory leaves orphans.
    pub guard: Option<Vec<OsString>>,
    /// Connects to the broker, for a factory that receives from it; without it all offers come through the inbox.
    pub broker: Option<Arc<dyn BrokerConnector>>,
    /// How agents get the tools of their run [B11]; without it they have none.
    pub run_tools: Option<RunToolsCommand>,
}

/// The MCP server of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunToolsCommand {
    /// Its command line, to which the path of the run's socket is added.
    pub argv: Vec<OsString>,
    /// Whether a person can answer a question of an agent.
    pub has_answers: bool,
}

/// The default interval between polls of a factory that polls for work.
const POLL_EVERY: Duration = Duration::from_secs(15);

/// A day's leftovers are few, and a clean-up costs one request per job.
const GC_EVERY: Duration = Duration::from_hours(24);
/// Long enough to inspect a failure after a holiday.
const RETENTION: Duration = Duration::from_hours(14 * 24);
/// Enough for a worktree and its build.
const DISK_FLOOR_BYTES: u64 = 1024 * 1024 * 1024;

impl WorkerSettings {
    /// The host that these settings describe.
    pub(crate) fn host(&self, state: &StateDir, clock: Arc<dyn Clock>) -> Result<Host, WorkerError> {
        let confinement = settle(self.confine, self.confine.in_force())?;
        let path = std::env::var_os("PATH").unwrap_or_default();
        let git = Git::new(&path, &state.empty_home(), self.git.clone(), self.identity.clone(), &self.limits);
        let git = git.with_access_of(OperatorAccess::read(&path, self.git.home.clone().or_else(std::env::home_dir)));
        let host = Host::new(state.clone(), git, RefNames::under(self.ref_prefix.clone()), clock, &confinement);
        Ok(host.for_account(self.run_as.as_deref().map(Account::named).transpose()?)?)
    }

    /// The configured repositories, and those that were found.
    pub(crate) fn all_repos(&self, found: &BTreeMap<RepoName, PathBuf>) -> BTreeMap<RepoName, RepoConfig> {
        let found = found
            .iter()
            .map(|(repo, path)| (repo.clone(), RepoConfig::at(path.to_string_lossy(), self.default_base.clone())));
        found.chain(self.repos.clone()).collect()
    }

    pub(super) fn environments(&self) -> impl Iterator<Item = &EnvironmentConfig> {
        self.engines.values().map(|engine| &engine.environment).chain([&self.environment])
    }

    /// Every secret that these settings and this process's environment hold.
    pub(crate) fn known_secrets(&self) -> Vec<String> {
        let variables: Vec<(String, String)> = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect();
        let set = self.environments().flat_map(|environment| &environment.set);
        let variables = variables.iter().map(|(name, value)| (name, value));
        let named = variables.chain(set).map(|(name, value)| (name.as_str(), value.as_str()));
        let mut secrets = secret_variables(named);
        // A variable that the operator passes on is usually a credential, whatever its name is.
        let is_passed =
            |name: &str| self.environments().any(|environment| environment.pass.iter().any(|pass| pass == name));
        let is_secret = |value: &str| value.len() >= 16 && !value.contains(['/', ' ']);
        let passed =
            std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
        secrets.extend(passed.filter(|(name, value)| is_passed(name) && is_secret(value)).map(|(_, value)| value));
        secrets.extend(self.secrets.values().iter().cloned());
        secrets.extend(self.forge.known_token());
        let repositories = self.repositories();
        let logins = repositories.iter().filter_map(|repository| repository.remote().login());
        secrets.extend(logins.map(|(_, password)| password.to_owned()));
        secrets
    }

    /// The remotes of the configured repositories and of those in the base directory now.
    pub(super) fn repositories(&self) -> Vec<Repository> {
        let found = self.repo_base.as_deref().map(repos_under).unwrap_or_default();
        self.all_repos(&found).values().filter_map(|config| Repository::of(config).ok()).collect()
    }
}

/// How a factory cleans up its disk [F7][B10].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Housekeeping {
    /// The interval of clean-ups; never by itself when absent.
    pub every: Option<Duration>,
    /// How long failed and fenced worktrees are kept for a person.
    pub retention: Duration,
    /// With less free space it accepts no work.
    pub disk_floor_bytes: u64,
}

impl Default for Housekeeping {
    fn default() -> Self {
        Self { every: Some(GC_EVERY), retention: RETENTION, disk_floor_bytes: DISK_FLOOR_BYTES }
    }
}

/// How a factory polls for work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Polling {
    /// The pause between two polls; jittered, and longer while there is no work.
    pub every: Duration,
    /// Whether it polls only at the coordinator's request.
    pub when: PollWhen,
    /// Polls the queue's version before it claims, although the mode is `poll`.
    pub gated: bool,
}

/// When a factory polls for work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PollWhen {
    /// When the coordinator requires it.
    Told,
    /// Always, whatever the mode is: for networks that block offers.
    Always,
}

impl Default for Polling {
    fn default() -> Self {
        Self { every: POLL_EVERY, when: PollWhen::Told, gated: false }
    }
}
