//! `[factory]`: what a factory offers and how it works.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use domain::{BranchName, Capability, CommitAuthor, EngineName, FactoryId, RepoName};
use engines::{EngineConfig, Price};
use forge::{ForgeConfig, ForgeKind};
use sandbox::{EnvironmentConfig, Limits, SandboxMode};
use workspace::{GitConfig, RepoConfig};

use crate::failure::Failure;

use super::broker::ReceiveFrom;
use super::data::DataDir;
use super::duration::HumanDuration;
use super::file;
use super::housekeeping::HousekeepingConfig;
use super::limits;
use super::overrides::Overrides;
use super::polling::PollingConfig;
use super::resolver::{Resolver, SettingSource};
use super::setting::{DisplayedValue, Setting};

/// Two agents at a time is what an ordinary laptop bears beside its owner.
const SEATS: u32 = 2;

/// What a crash may cost: five minutes of an agent's work.
const CHECKPOINT_EVERY: HumanDuration = HumanDuration(Duration::from_mins(5));

/// The dearest that a seat can be.
const COST_MAX: u8 = 100;

/// The name of a machine that does not know its own.
const NAMELESS: &str = "factory-1";

/// What a factory offers and how it works.
#[derive(Debug)]
pub(crate) struct FactoryConfig {
    /// Its name in the fleet.
    pub(crate) name: Setting<FactoryId>,
    /// Jobs at one time.
    pub(crate) seats: Setting<u32>,
    /// Jobs at one time by engine, where fewer.
    pub(crate) engine_seats: Setting<BTreeMap<EngineName, u32>>,
    /// Jobs at one time by repository, where fewer.
    pub(crate) repo_seats: Setting<BTreeMap<RepoName, u32>>,
    /// What a seat costs relative to others.
    pub(crate) cost: Setting<u8>,
    /// Where mirrors, worktrees and records are kept.
    pub(crate) state: Setting<PathBuf>,
    /// A directory whose repositories are offered.
    pub(crate) repo_base: Setting<Option<PathBuf>>,
    /// The base branch of repositories found there.
    pub(crate) default_base: Setting<BranchName>,
    /// What its refs begin with.
    pub(crate) ref_prefix: Setting<BranchName>,
    /// Whether a merged branch is deleted.
    pub(crate) delete_branch: Setting<bool>,
    /// What it offers beyond what it finds by looking.
    pub(crate) capabilities: Setting<Vec<Capability>>,
    /// Tools that it looks for beside those that it always does.
    pub(crate) tools: Setting<BTreeMap<String, Vec<String>>>,
    /// How often work in progress is saved.
    pub(crate) checkpoint_every: Setting<HumanDuration>,
    /// Where its offers come from.
    pub(crate) receive: Setting<ReceiveFrom>,
    /// How it polls for work.
    pub(crate) polling: PollingConfig,
    /// How it keeps its disk in order.
    pub(crate) housekeeping: HousekeepingConfig,
    /// The account that its programs run under.
    pub(crate) run_as: Setting<Option<String>>,
    /// Whether the kernel keeps its programs from its own files.
    pub(crate) confine: Setting<SandboxMode>,
    /// What they are kept from beyond these.
    pub(crate) hide: Setting<Vec<PathBuf>>,
    /// What they can read although it is in the home of the account that runs the factory.
    pub(crate) read: Setting<Vec<PathBuf>>,
    /// What they can write to beyond their run's own directories.
    pub(crate) write: Setting<Vec<PathBuf>>,
    /// Engines that it offers, beside those that it finds.
    pub(crate) engines: Setting<BTreeMap<EngineName, EngineConfig>>,
    /// What a million tokens of a model cost.
    pub(crate) prices: Setting<BTreeMap<String, Price>>,
    /// Repositories that it can work on.
    pub(crate) repos: Setting<BTreeMap<RepoName, RepoConfig>>,
    /// What setup and verify commands find in their environment.
    pub(crate) environment: Setting<EnvironmentConfig>,
    /// How its git reaches remotes.
    pub(crate) git: Setting<GitConfig>,
    /// Where its pull requests are opened.
    pub(crate) forge: Setting<ForgeConfig>,
    /// Who its commits are by.
    pub(crate) author: Setting<CommitAuthor>,
    /// How long and how much its programs may take.
    pub(crate) limits: Limits,
}

impl FactoryConfig {
    pub(super) fn resolve(
        resolver: &mut Resolver,
        flags: &Overrides,
        file: file::Factory,
        data: &DataDir,
    ) -> Result<Self, Failure> {
        let name = SettingSource::new("factory.name")
            .flag("--name", flags.factory_name.clone())
            .env(&["GIGA_FACTORY_NAME"])
            .file(file.name);
        let seats =
            SettingSource::new("factory.seats").flag("--seats", flags.seats).env(&["GIGA_SEATS"]).file(file.seats);
        let state = SettingSource::new("factory.state")
            .flag("--state", flags.state.clone())
            .env(&["GIGA_STATE"])
            .file(resolver.placed(file.state));
        let repo_base = SettingSource::new("factory.repo_base")
            .flag("--repo-base", flags.repo_base.clone())
            .env(&["GIGA_REPO_BASE", "AQ_FLEET_REPO_BASE"])
            .file(resolver.placed(file.repo_base));
        let capabilities = SettingSource::new("factory.capabilities")
            .flag("--capability", flags.capabilities.clone())
            .env(&["GIGA_CAPABILITIES"])
            .file(file.capabilities);
        let checkpoint =
            SettingSource::new("factory.checkpoint_every").env(&["GIGA_CHECKPOINT_EVERY"]).file(file.checkpoint_every);
        let default_base =
            SettingSource::new("factory.default_base").env(&["GIGA_DEFAULT_BASE"]).file(file.default_base);
        let ref_prefix = SettingSource::new("factory.ref_prefix").env(&["GIGA_REF_PREFIX"]).file(file.ref_prefix);
        let delete_branch =
            SettingSource::new("factory.delete_branch").env(&["GIGA_DELETE_BRANCH"]).file(file.delete_branch);
        let polling = file::Polling { route: file.route, gate: file.gate, poll_every: file.poll_every };
        let housekeeping = file::Housekeeping {
            gc_every: file.gc_every,
            gc_retention: file.gc_retention,
            disk_floor_mib: file.disk_floor_mib,
        };
        let receive = SettingSource::new("factory.receive").env(&["GIGA_RECEIVE"]).file(file.receive);
        let run_as = SettingSource::new("factory.run_as").env(&["GIGA_RUN_AS"]).file(file.run_as);
        let confine = SettingSource::new("factory.confine").env(&["GIGA_CONFINE"]).file(file.confine);
        let placed = |paths: Option<Vec<toml::Spanned<PathBuf>>>| {
            let placed = paths?.into_iter().filter_map(|path| resolver.placed(Some(path)));
            Some(placed.map(toml::Spanned::into_inner).collect::<Vec<PathBuf>>())
        };
        let (hide, read, write) = (placed(file.hide), placed(file.read), placed(file.write));
        let (mut engines, mut repos) = (file.engines, file.repos);
        for engine in engines.iter_mut().flat_map(BTreeMap::values_mut) {
            engine
                .program
                .iter_mut()
                .chain(engine.argv.first_mut())
                .for_each(|program| resolver.placed_program(program));
        }
        for repo in repos.iter_mut().flat_map(BTreeMap::values_mut) {
            resolver.placed_repository(&mut repo.url);
        }
        Ok(Self {
            name: resolver.setting(name, machine_name)?,
            seats: resolver.setting(seats, || SEATS)?,
            engine_seats: resolver.table("factory.engine_seats", file.engine_seats, seats_by_name),
            repo_seats: resolver.table("factory.repo_seats", file.repo_seats, seats_by_name),
            cost: cost(resolver, file.cost)?,
            state: resolver.setting(state, || data.factory_state())?,
            repo_base: resolver.optional(repo_base)?,
            default_base: resolver.setting(default_base, || branch("main"))?,
            ref_prefix: resolver.setting(ref_prefix, || branch("aq"))?,
            delete_branch: resolver.setting(delete_branch, || true)?,
            capabilities: resolver.setting(capabilities, Vec::new)?,
            tools: tools(resolver, file.tools)?,
            checkpoint_every: resolver.setting(checkpoint, || CHECKPOINT_EVERY)?,
            receive: resolver.setting(receive, ReceiveFrom::default)?,
            polling: PollingConfig::resolve(resolver, polling)?,
            housekeeping: HousekeepingConfig::resolve(resolver, housekeeping)?,
            run_as: resolver.optional(run_as)?,
            confine: resolver.setting(confine, SandboxMode::default)?,
            hide: resolver.table("factory.hide", hide, DisplayedValue::shown),
            read: resolver.table("factory.read", read, DisplayedValue::shown),
            write: resolver.table("factory.write", write, DisplayedValue::shown),
            engines: resolver.table("factory.engines", engines, DisplayedValue::shown),
            prices: resolver.table("factory.prices", file.prices, DisplayedValue::shown),
            repos: resolver.table("factory.repos", repos, DisplayedValue::shown),
            environment: resolver.table("factory.environment", file.environment, what_programs_find),
            git: resolver.table("factory.git", file.git, how_git_reaches_remotes),
            forge: resolver.table("factory.forge", file.forge, which_forge),
            author: resolver.table("factory.author", file.author, |by| format!("{} <{}>", by.name(), by.email())),
            limits: limits::resolve(resolver, file.limits)?,
        })
    }
}

/// Tools by the names of their capabilities.
fn tools(
    resolver: &mut Resolver,
    file: Option<BTreeMap<String, Vec<String>>>,
) -> Result<Setting<BTreeMap<String, Vec<String>>>, Failure> {
    let tools = resolver.table("factory.tools", file, DisplayedValue::shown);
    for name in tools.value.keys() {
        let token: Result<Capability, _> = format!("has:{name}").parse();
        token.map_err(|error| Failure::usage(format!("{}: factory.tools: {error}", tools.origin)))?;
    }
    Ok(tools)
}

fn cost(resolver: &mut Resolver, file: Option<toml::Spanned<u8>>) -> Result<Setting<u8>, Failure> {
    let cost = resolver.setting(SettingSource::new("factory.cost").env(&["GIGA_COST"]).file(file), || 0)?;
    if cost.value > COST_MAX {
        return Err(Failure::usage(format!("{}: {} is not a cost: write 0 to {COST_MAX}", cost.origin, cost.value)));
    }
    Ok(cost)
}

fn seats_by_name<K: std::fmt::Display>(seats: &BTreeMap<K, u32>) -> String {
    seats.iter().map(|(name, seats)| format!("{name} {seats}")).collect::<Vec<_>>().shown()
}

/// Names alone: a value can be a secret.
fn what_programs_find(environment: &EnvironmentConfig) -> String {
    let home = environment.home.is_some().then_some("home");
    let names = environment.pass.iter().chain(environment.set.keys()).map(String::as_str);
    home.into_iter().chain(names).map(str::to_owned).collect::<Vec<_>>().shown()
}

/// The kind of forge and where its token is found, never the token.
fn which_forge(forge: &ForgeConfig) -> String {
    let api = forge.api.as_deref().unwrap_or("api.github.com");
    match forge.kind {
        ForgeKind::None => "-".to_owned(),
        ForgeKind::Github => format!("github at {api}"),
        ForgeKind::Gh => format!("gh for {api}"),
    }
}

/// A branch that is written down here.
fn branch(name: &'static str) -> BranchName {
    match name.parse() {
        Ok(branch) => branch,
        Err(_) => unreachable!("`{name}` is a branch"),
    }
}

fn how_git_reaches_remotes(git: &GitConfig) -> String {
    let ways = [
        git.home.is_some().then_some("home"),
        git.ssh_auth_sock.is_some().then_some("ssh agent"),
        git.askpass.is_some().then_some("askpass"),
    ];
    let ways: Vec<&str> = ways.into_iter().flatten().collect();
    if ways.is_empty() { "-".to_owned() } else { ways.join(", ") }
}

/// What the machine is called, as far as it can name a factory.
fn machine_name() -> FactoryId {
    let written_down = ["/proc/sys/kernel/hostname", "/etc/hostname"];
    let found = written_down.iter().find_map(|path| std::fs::read_to_string(path).ok());
    let found = found.or_else(asked_machine_name).unwrap_or_default();
    let label = found.trim().split('.').next().unwrap_or_default().to_ascii_lowercase();
    match label.parse().or_else(|_| NAMELESS.parse()) {
        Ok(name) => name,
        Err(_) => unreachable!("`{NAMELESS}` is a name"),
    }
}

/// Without a file, a program provides it.
fn asked_machine_name() -> Option<String> {
    let answer = std::process::Command::new("hostname").output().ok()?;
    String::from_utf8(answer.stdout).ok()
}
