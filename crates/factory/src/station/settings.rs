//! What a factory is told.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use domain::{BranchName, Capability, EngineName, FactoryId, RepoName};

use crate::config::{EngineConfig, EnvironmentConfig, GitConfig, Identity, Limits, Price, RepoConfig};
use crate::ship::AfterShip;

/// What a factory is told. Whoever wires it reads these from somewhere.
#[derive(Debug, Clone)]
pub struct StationSettings {
    /// Its name, as its token says it.
    pub name: FactoryId,
    /// Jobs at one time.
    pub seats: u32,
    /// Jobs at one time by engine, where fewer.
    pub engine_seats: BTreeMap<EngineName, u32>,
    /// Relative cost of a seat, 0 to 100.
    pub cost: u8,
    /// The folder that belongs to it.
    pub state: PathBuf,
    /// The repositories it works on.
    pub repos: BTreeMap<RepoName, RepoConfig>,
    /// A folder whose repositories it works on too.
    pub repo_base: Option<PathBuf>,
    /// The base branch of repositories found there.
    pub default_base: BranchName,
    /// The engines it offers.
    pub engines: BTreeMap<EngineName, EngineConfig>,
    /// What a million tokens of a model cost, for engines that tell tokens only.
    pub prices: BTreeMap<String, Price>,
    /// Tokens beyond what can be detected.
    pub capabilities: BTreeSet<Capability>,
    /// What setup and verify commands find in their environment.
    pub environment: EnvironmentConfig,
    /// How git reaches remotes.
    pub git: GitConfig,
    /// Who our commits are by.
    pub identity: Identity,
    /// How long and how much programs may take.
    pub limits: Limits,
    /// What our refs begin with.
    pub ref_prefix: BranchName,
    /// What becomes of a merged branch.
    pub after_ship: AfterShip,
    /// How often work in progress is saved while an engine runs.
    pub checkpoint_every: Duration,
    /// How often the machine is looked at again.
    pub detect_every: Duration,
    /// How it asks for work by itself.
    pub polling: Polling,
    /// The command line that runs a program under guard; without one a killed factory leaves orphans.
    pub guard: Option<Vec<OsString>>,
}

/// How often a factory that has to ask for work does so, unless somebody says otherwise.
const POLL_EVERY: Duration = Duration::from_secs(15);

/// How a factory asks for work by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Polling {
    /// The pause between two askings; jittered, and longer while there is nothing to do.
    pub every: Duration,
    /// Whether it waits to be told.
    pub when: PollWhen,
    /// Asks whether the queue has moved before it asks for work, although the coordinator says `poll`.
    pub gated: bool,
}

/// When a factory asks for work by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PollWhen {
    /// When the coordinator says so.
    Told,
    /// Always, whatever the mode is: where offers do not get through.
    Always,
}

impl Default for Polling {
    fn default() -> Self {
        Self { every: POLL_EVERY, when: PollWhen::Told, gated: false }
    }
}
