//! Detects the capabilities of this machine [F1].

mod memory;
mod tools;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use domain::{Capability, EngineHealth, RepoIdentity, RepoName};
use engines::{Engine, LoginState, Presence};
use parking_lot::Mutex;
use sandbox::{End, Environment, Launcher, find_program};
use tokio::task::JoinSet;

pub(crate) use memory::ProbeCache;
use memory::{ProbeResult, ToolState};
use tools::{TOOLS, Tool, VersionPattern};
use workspace::{Remote, RemoteError, RepoConfig, Repository, default_base};

/// The configured part of capabilities.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DetectConfig {
    /// Repositories that are configured.
    pub repos: BTreeMap<RepoName, RepoConfig>,
    /// A directory whose repositories are offered too (`AQ_FLEET_REPO_BASE`).
    pub repo_base: Option<PathBuf>,
    /// Capabilities that the operator adds: `gpu:l4`, `site:berlin`, …
    pub custom: BTreeSet<Capability>,
    /// Tools that are detected in addition to the built-in ones, each with a command line that shows it works; found by
    /// name alone when there is none.
    pub tools: BTreeMap<String, Vec<String>>,
}

/// What a factory advertises.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Capabilities {
    /// All capabilities, in order.
    pub capabilities: BTreeSet<Capability>,
    /// All available repositories.
    pub repos: BTreeSet<RepoName>,
    /// The locations of those that were found under the base directory.
    pub found_repos: BTreeMap<RepoName, PathBuf>,
    /// Those that are configured as missing directories of this machine, with the directories: they are not offered.
    pub absent_repos: BTreeMap<RepoName, PathBuf>,
    /// Those whose remote is unavailable, with the reason: they are not offered.
    pub unusable_repos: BTreeMap<RepoName, String>,
    /// The identity of each offered repository.
    pub identities: BTreeMap<RepoName, RepoIdentity>,
    /// Tools whose program exists and does not work in the agents' environment: they are not offered.
    pub broken_tools: BTreeMap<String, BrokenTool>,
    /// The engines that are present, each with its verified state [B9].
    pub engines: Vec<EngineHealth>,
}

/// A tool whose program is on the `PATH` and fails in the sandbox and the environment of agents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrokenTool {
    /// The program.
    pub program: PathBuf,
    /// Its last line of output, or its exit.
    pub message: String,
    /// The remedy.
    pub remedy: String,
}

/// Detects the machine as a program with `environment` would see it. Runs all programs concurrently.
pub async fn detect(
    config: &DetectConfig,
    engines: &[Arc<dyn Engine>],
    environment: &Environment,
    launcher: &Launcher,
) -> Capabilities {
    detect_again(config, engines, environment, launcher, &Mutex::default()).await
}

/// Like [`detect`], with earlier results: a tool that does not answer in time keeps its state, for a while.
pub(crate) async fn detect_again(
    config: &DetectConfig,
    engines: &[Arc<dyn Engine>],
    environment: &Environment,
    launcher: &Launcher,
    memory: &Mutex<ProbeCache>,
) -> Capabilities {
    let found_repos = config.repo_base.as_deref().map(repos_under).unwrap_or_default();
    let absent_repos = absent(&config.repos);
    let (mut unusable_repos, mut identities) = (BTreeMap::new(), BTreeMap::new());
    for (repo, result) in repositories(&config.repos, &found_repos) {
        match result {
            Ok(_) if absent_repos.contains_key(&repo) => {}
            Ok(repository) => drop(identities.insert(repo, repository.identity().clone())),
            Err(error) => drop(unusable_repos.insert(repo, error.to_string())),
        }
    }
    let repos: BTreeSet<RepoName> = identities.keys().cloned().collect();
    let mut capabilities = config.custom.clone();
    capabilities.extend(platform());
    capabilities.extend(repos.iter().map(Capability::repo));

    let mut probes = JoinSet::new();
    for tool in &TOOLS {
        let (environment, launcher) = (environment.clone(), launcher.clone());
        probes.spawn(async move { probe_tool(tool, &environment, &launcher).await });
    }
    for (name, command_line) in config.tools.clone() {
        let (environment, launcher) = (environment.clone(), launcher.clone());
        probes.spawn(async move { probe_named(&name, &command_line, &environment, &launcher).await });
    }
    let mut talks = JoinSet::new();
    for engine in engines.iter().cloned() {
        talks.spawn(async move { probe_engine(&*engine).await });
    }
    let (probed, broken): (Vec<ProbeResult>, Vec<_>) = probes.join_all().await.into_iter().unzip();
    let broken_tools = broken.into_iter().flatten().collect();
    let mut engines: Vec<EngineHealth> = talks.join_all().await.into_iter().flatten().collect();
    capabilities.extend(memory.lock().settle(probed));
    engines.sort_by(|one, other| one.name.cmp(&other.name));
    capabilities.extend(engines.iter().map(|engine| Capability::engine(&engine.name)));
    Capabilities { capabilities, repos, found_repos, absent_repos, unusable_repos, identities, broken_tools, engines }
}

/// The remotes of every configured or found repository. A configured one takes precedence over a found one of its name.
fn repositories(
    configured: &BTreeMap<RepoName, RepoConfig>,
    found: &BTreeMap<RepoName, PathBuf>,
) -> BTreeMap<RepoName, Result<Repository, RemoteError>> {
    // The base branch does not matter here.
    let at = |path: &PathBuf| RepoConfig::at(path.to_string_lossy(), default_base());
    let found = found.iter().map(|(repo, path)| (repo.clone(), Repository::of(&at(path))));
    found.chain(configured.iter().map(|(repo, config)| (repo.clone(), Repository::of(config)))).collect()
}

/// The repositories that are configured as directories of this machine.
pub(crate) fn local_repos(repos: &BTreeMap<RepoName, RepoConfig>) -> BTreeMap<RepoName, PathBuf> {
    let local = |(repo, config): (&RepoName, &RepoConfig)| {
        let remote = Remote::parse(&config.url).ok()?;
        Some((repo.clone(), remote.folder()?.to_owned()))
    };
    repos.iter().filter_map(local).collect()
}

fn absent(repos: &BTreeMap<RepoName, RepoConfig>) -> BTreeMap<RepoName, PathBuf> {
    let mut local = local_repos(repos);
    local.retain(|_, folder| is_absent(folder));
    local
}

/// The missing ones of the directories.
pub(crate) fn absent_among(folders: &[PathBuf]) -> BTreeSet<PathBuf> {
    folders.iter().filter(|folder| is_absent(folder)).cloned().collect()
}

/// Whether a directory is missing. If that is unknown, git decides.
fn is_absent(folder: &Path) -> bool {
    match fs::metadata(folder) {
        Ok(found) => !found.is_dir(),
        Err(error) => matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory),
    }
}

fn platform() -> Vec<Capability> {
    let os = match std::env::consts::OS {
        "macos" => "mac",
        other => other,
    };
    let arch = std::env::consts::ARCH;
    let other_name = match arch {
        "x86_64" => Some("arch:amd64".to_owned()),
        "aarch64" => Some("arch:arm64".to_owned()),
        _ => None,
    };
    let tokens = [Some(format!("os:{os}")), Some(format!("arch:{arch}")), other_name];
    tokens.into_iter().flatten().filter_map(|token| token.parse().ok()).collect()
}

/// Repositories directly under `base` with valid names.
pub(crate) fn repos_under(base: &Path) -> BTreeMap<RepoName, PathBuf> {
    let Ok(entries) = fs::read_dir(base) else { return BTreeMap::new() };
    let mut repos = BTreeMap::new();
    for entry in entries.flatten() {
        let path = entry.path();
        if !is_repo(&path) {
            continue;
        }
        let name = entry.file_name().to_string_lossy().into_owned();
        match name.strip_suffix(".git").unwrap_or(&name).parse() {
            Ok(repo) => drop(repos.insert(repo, path)),
            Err(error) => tracing::warn!("A repository is not offered: {error}"),
        }
    }
    repos
}

/// Whether a directory is a repository, bare or not.
pub(crate) fn is_repo(folder: &Path) -> bool {
    let is_bare = folder.join("HEAD").is_file() && folder.join("objects").is_dir();
    is_bare || folder.join(".git").exists()
}

/// What is known about an engine that is present. One that is not signed in is advertised all the same: the scheduler
/// skips it and explains why.
async fn probe_engine(engine: &dyn Engine) -> Option<EngineHealth> {
    let credential = engine.credential().map(str::to_owned);
    let known = EngineHealth {
        credential,
        login: engine.login_fingerprint(),
        billing: engine.billing(),
        ..EngineHealth::named(engine.name().clone())
    };
    match engine.detect().await {
        Presence::Ready { version, login } => {
            let (signed_in, problem) = match login {
                LoginState::Unknown => (None, None),
                LoginState::SignedIn => (Some(true), None),
                LoginState::SignedOut { why } => (Some(false), Some(why)),
                LoginState::Unreadable { why } => (None, Some(why)),
            };
            Some(EngineHealth { version, signed_in, problem, ..known })
        }
        Presence::Missing { why } => {
            tracing::info!("Engine `{}` is not offered: {why}", engine.name());
            None
        }
    }
}

async fn probe_tool(tool: &Tool, environment: &Environment, launcher: &Launcher) -> (ProbeResult, Broken) {
    let (mut answer, mut broken) = (ToolState::No, None);
    for command_line in tool.command_lines {
        match ask(command_line, environment, launcher).await {
            ProbeOutput::Said(output) => {
                (answer, broken) = (ToolState::Yes(tools::tokens(tool.name, tool.reading, &output)), None);
                break;
            }
            // Whatever delays this one delays the next as well.
            ProbeOutput::TooLate => {
                answer = ToolState::Late;
                break;
            }
            ProbeOutput::Failed(found) => drop(broken.get_or_insert((tool.name.to_owned(), found))),
            ProbeOutput::Nothing => {}
        }
    }
    (ProbeResult { tool: tool.name.to_owned(), answer }, broken)
}

/// A tool that does not work, by its name.
type Broken = Option<(String, BrokenTool)>;

/// A tool that the operator named, with the command line that shows it works; its name alone when there is none.
async fn probe_named(
    name: &str,
    command_line: &[String],
    environment: &Environment,
    launcher: &Launcher,
) -> (ProbeResult, Broken) {
    let asked = match command_line {
        [] => match find_program(name, environment.variable("PATH")) {
            Some(_) => ProbeOutput::Said(String::new()),
            None => ProbeOutput::Nothing,
        },
        given => {
            let command_line: Vec<&str> = given.iter().map(String::as_str).collect();
            ask(&command_line, environment, launcher).await
        }
    };
    let (answer, broken) = match asked {
        ProbeOutput::Said(_) => (ToolState::Yes(tools::tokens(name, VersionPattern::Nothing, "")), None),
        ProbeOutput::TooLate => (ToolState::Late, None),
        ProbeOutput::Failed(found) => (ToolState::No, Some((name.to_owned(), found))),
        ProbeOutput::Nothing => (ToolState::No, None),
    };
    (ProbeResult { tool: name.to_owned(), answer }, broken)
}

/// A program's answer.
enum ProbeOutput {
    /// It exists and succeeded.
    Said(String),
    /// It exists and timed out.
    TooLate,
    /// It exists and failed.
    Failed(BrokenTool),
    /// It does not exist.
    Nothing,
}

async fn ask(command_line: &[&str], environment: &Environment, launcher: &Launcher) -> ProbeOutput {
    let Some((name, args)) = command_line.split_first() else { return ProbeOutput::Nothing };
    let Some(file) = find_program(name, environment.variable("PATH")) else { return ProbeOutput::Nothing };
    let (finished, output) = match launcher.ask(file.clone(), args, environment).await {
        Ok(answer) => answer,
        Err(error) => return ProbeOutput::Failed(broken(file, &domain::error_chain(&error), launcher)),
    };
    match finished.end {
        End::Exited(0) => ProbeOutput::Said(output),
        End::TimedOut => ProbeOutput::TooLate,
        End::Exited(_) | End::FellSilent | End::Cancelled => ProbeOutput::Failed(broken(file, &output, launcher)),
    }
}

/// Only the last line of a failed program is shown.
const BROKEN_CHARS_MAX: usize = 300;

/// The diagnosis of a program that does not work in the agents' environment.
fn broken(program: PathBuf, output: &str, launcher: &Launcher) -> BrokenTool {
    let last = output.lines().rev().find(|line| !line.trim().is_empty());
    let message: String = last.map_or_else(|| "it ended with an error".to_owned(), domain::escape_for_terminal);
    let message: String = message.chars().take(BROKEN_CHARS_MAX).collect();
    let real = program.canonicalize().unwrap_or_else(|_| program.clone());
    let closed = [&program, &real].into_iter().find(|path| !launcher.reaches(path));
    let denied = ["ermission denied", "EACCES", "peration not permitted"].iter().any(|words| output.contains(words));
    let remedy = match (closed, launcher.account()) {
        (Some(path), _) => {
            format!("agents cannot read {}: add its directory to `read` under [factory]", path.display())
        }
        (None, Some(account)) if denied => {
            let name = account.name();
            format!("make the program and what it names readable for account `{name}` (`chmod -R o+rX`)")
        }
        (None, None) if denied && launcher.is_enclosed() => {
            "agents cannot read what it names: add the directory to `read` under [factory]".to_owned()
        }
        (None, _) if program.file_name() == Some(OsStr::new("docker")) => {
            "start the Docker daemon, and let the factory's account use it".to_owned()
        }
        (None, _) => "run it in a shell with an empty HOME: if it needs a variable, name that in `pass` under \
                      [factory.environment]"
            .to_owned(),
    };
    BrokenTool { program, message, remedy }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broken_tool_says_what_it_printed_and_what_helps() {
        let launcher = Launcher::unguarded(Arc::new(clock::SystemClock::new()));

        let found = broken(PathBuf::from("/bin/tool"), "first\nerror: RUSTUP_HOME is not set\n\n", &launcher);

        assert_eq!(found.message, "error: RUSTUP_HOME is not set");
        assert!(found.remedy.contains("`pass` under [factory.environment]"), "{}", found.remedy);
    }
}
