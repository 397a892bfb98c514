//! What engines are created with, and the engines that need no configuration.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use domain::{Clock, EngineName, JobId, RunInsights};
use parking_lot::RwLock;
use sandbox::{Account, End, Environment, EnvironmentConfig, Launcher, PathAccess, Program, find_program};
use sha2::{Digest, Sha256};

use super::descriptor::{EngineMaker, MakeSignedIn};
use super::home::{RefreshedFields, may_be_there};
use super::{Engine, EngineConfig, EngineError, EngineKind, EngineRequest, Presence, Prices, Session, TemplateError};

/// What all engines of a factory have in common.
#[derive(Clone)]
pub struct EngineContext {
    /// Starts the programs that detect engines.
    pub launcher: Launcher,
    /// The clock for a usage window's reset.
    pub clock: Arc<dyn Clock>,
    /// The directory of the engines' sessions.
    pub sessions: PathBuf,
    /// Prices of tokens.
    pub prices: Prices,
    /// The home that stays empty.
    pub empty_home: PathBuf,
    /// Directories that agents of any engine can write to.
    pub open: Vec<PathBuf>,
}

/// All engines of a factory, in the order of preference for a job that names none: the configured ones first, then
/// those whose program is found and signed in.
pub fn make_all(
    configured: &BTreeMap<EngineName, EngineConfig>,
    variables: &[(OsString, OsString)],
    bench: &EngineContext,
) -> Result<Vec<Arc<dyn Engine>>, TemplateError> {
    let mut engines = Vec::new();
    for (name, config) in configured {
        if config.turns_max.is_some() && !config.tells_turns(name) {
            tracing::warn!("`turns_max` has no effect on engine `{name}`, which does not tell its turns while it runs");
        }
        if config.web && !config.kind(name).descriptor().has_web_tools {
            let able = EngineKind::all().filter(|kind| kind.descriptor().has_web_tools).map(EngineKind::name);
            let able = able.collect::<Vec<_>>().join(" and ");
            tracing::warn!("`web` has no effect on engine `{name}`: only {able} have web tools that it controls");
        }
        engines.push(make(name, config, variables, bench)?);
    }
    let is_there = |kind| configured.iter().any(|(name, config)| config.kind(name) == kind);
    for kind in EngineKind::offered_unconfigured().filter(|kind| !is_there(*kind)) {
        if let Ok(name) = kind.name().parse::<EngineName>()
            && !configured.contains_key(&name)
        {
            let config = EngineConfig { kind: Some(kind), ..EngineConfig::default() };
            engines.push(Arc::new(DetectedEngine(make(&name, &config, variables, bench)?)));
        }
    }
    Ok(engines)
}

/// Whether each engine of a factory with this configuration could run here, in the environment of this process.
pub async fn presences(
    configured: &BTreeMap<EngineName, EngineConfig>,
    bench: &EngineContext,
) -> Result<Vec<(EngineName, Presence)>, TemplateError> {
    let mut found = Vec::new();
    for engine in make_all(configured, &std::env::vars_os().collect::<Vec<_>>(), bench)? {
        found.push((engine.name().clone(), engine.detect().await));
    }
    Ok(found)
}

/// The engine of a configuration, in an environment made from the factory's own `variables`.
fn make(
    name: &EngineName,
    config: &EngineConfig,
    variables: &[(OsString, OsString)],
    bench: &EngineContext,
) -> Result<Arc<dyn Engine>, TemplateError> {
    match config.kind(name).descriptor().maker {
        EngineMaker::Configured(make) => {
            let environment = environment(None, &config.environment, variables, &bench.empty_home);
            make(name.clone(), config, environment, bench)
        }
        EngineMaker::SignedIn { method, make } => {
            Ok(Arc::new(SignInEngine::new(name, config, (method, make), variables, bench)))
        }
    }
}

/// An engine with a sign-in: its credential may appear and disappear while the factory runs, so it is created again at
/// each detection.
struct SignInEngine {
    name: EngineName,
    config: EngineConfig,
    method: &'static SignInMethod,
    make: MakeSignedIn,
    variables: Vec<(OsString, OsString)>,
    bench: EngineContext,
    current: RwLock<Arc<dyn Engine>>,
}

impl SignInEngine {
    fn new(
        name: &EngineName,
        config: &EngineConfig,
        (method, make): (&'static SignInMethod, MakeSignedIn),
        variables: &[(OsString, OsString)],
        bench: &EngineContext,
    ) -> Self {
        let environment = environment(Some(method), &config.environment, variables, &bench.empty_home);
        let current = RwLock::new(make(name.clone(), config, environment, bench));
        Self {
            name: name.clone(),
            config: config.clone(),
            method,
            make,
            variables: variables.to_vec(),
            bench: bench.clone(),
            current,
        }
    }

    /// The environment of its runs with the present credential.
    fn environment(&self) -> Environment {
        environment(Some(self.method), &self.config.environment, &self.variables, &self.bench.empty_home)
    }
}

#[async_trait]
impl Engine for SignInEngine {
    fn name(&self) -> &EngineName {
        &self.name
    }

    fn credential(&self) -> Option<&str> {
        self.config.credential.as_deref()
    }

    fn billing(&self) -> Option<domain::Billing> {
        self.config.billing
    }

    fn login_files(&self) -> Vec<PathBuf> {
        let login = self.method;
        let named = self.environment().variable(login.folder_variable).map(PathBuf::from);
        let own = || self.variables.iter().find(|(name, _)| name == "HOME").map(|(_, home)| PathBuf::from(home));
        let home = || self.config.environment.home.clone().or_else(own).map(|home| home.join(login.folder));
        named.or_else(home).map(|folder| folder.join(login.file)).into_iter().collect()
    }

    fn login_fingerprint(&self) -> Option<String> {
        let own = self.method.variables.iter().map(|name| (*name).to_owned());
        let EnvironmentConfig { pass, set, .. } = &self.config.environment;
        let names: BTreeSet<String> = own.chain(pass.iter().cloned()).chain(set.keys().cloned()).collect();
        Some(fingerprint(&self.environment(), &names, &self.login_files()))
    }

    async fn detect(&self) -> Presence {
        let engine = (self.make)(self.name.clone(), &self.config, self.environment(), &self.bench);
        *self.current.write() = Arc::clone(&engine);
        engine.detect().await
    }

    fn left_behind(&self, job: JobId, session: &str) -> Option<RunInsights> {
        self.current.read().left_behind(job, session)
    }

    fn command(&self, request: &EngineRequest) -> Result<(Program, Box<dyn Session>), EngineError> {
        let engine = Arc::clone(&self.current.read());
        engine.command(request)
    }
}

/// A fingerprint of these variables and files. Of a file its time and its length count, not its content.
fn fingerprint(environment: &Environment, names: &BTreeSet<String>, files: &[PathBuf]) -> String {
    let mut hash = Sha256::new();
    for (name, value) in names.iter().filter_map(|name| Some((name, environment.variable(name)?))) {
        hash.update(format!("{name}={}\0", value.to_string_lossy()));
    }
    for found in files.iter().filter_map(|file| std::fs::metadata(file).ok()) {
        let written = found.modified().ok().and_then(|at| at.duration_since(std::time::UNIX_EPOCH).ok());
        hash.update(format!("{:?} {}\0", written, found.len()));
    }
    hash.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

/// The directories that hold a credential, except those at the default place of the factory's user.
pub fn login_folders(
    configured: &BTreeMap<EngineName, EngineConfig>,
    variables: &[(OsString, OsString)],
) -> Vec<PathBuf> {
    let names: Vec<&str> =
        EngineKind::all().filter_map(EngineKind::sign_in).map(|login| login.folder_variable).collect();
    let own = variables.iter().filter(|(name, _)| names.iter().any(|known| name == known));
    let own = own.map(|(_, folder)| PathBuf::from(folder));
    let engines =
        configured.iter().filter_map(|(name, config)| Some((&config.environment, config.kind(name).sign_in()?)));
    let named = engines.flat_map(|(environment, login)| {
        let set = environment.set.get(login.folder_variable).map(PathBuf::from);
        set.into_iter().chain(environment.home.as_ref().map(|home| home.join(login.folder)))
    });
    own.chain(named).collect()
}

/// An engine that is not configured: without a credential it is not offered.
struct DetectedEngine(Arc<dyn Engine>);

#[async_trait]
impl Engine for DetectedEngine {
    fn name(&self) -> &EngineName {
        self.0.name()
    }

    fn credential(&self) -> Option<&str> {
        self.0.credential()
    }

    fn billing(&self) -> Option<domain::Billing> {
        self.0.billing()
    }

    fn login_files(&self) -> Vec<PathBuf> {
        self.0.login_files()
    }

    fn login_fingerprint(&self) -> Option<String> {
        self.0.login_fingerprint()
    }

    async fn detect(&self) -> Presence {
        match self.0.detect().await {
            Presence::Ready { login: super::LoginState::SignedOut { why }, .. } => {
                Presence::Missing { why: format!("not signed in: {why}") }
            }
            presence => presence,
        }
    }

    fn left_behind(&self, job: JobId, session: &str) -> Option<RunInsights> {
        self.0.left_behind(job, session)
    }

    fn command(&self, request: &EngineRequest) -> Result<(Program, Box<dyn Session>), EngineError> {
        self.0.command(request)
    }
}

/// An engine is given only its own credential: the variables that hold one, or the directory of the factory's user.
fn environment(
    login: Option<&SignInMethod>,
    config: &EnvironmentConfig,
    variables: &[(OsString, OsString)],
    empty_home: &Path,
) -> Environment {
    let Some(login) = login else {
        return Environment::cleared(variables.iter().cloned(), empty_home, config);
    };
    let mut config = config.clone();
    config.pass.extend(login.variables.iter().map(|name| (*name).to_owned()));
    let cleared = Environment::cleared(variables.iter().cloned(), empty_home, &config);
    let own = variables.iter().find(|(name, _)| name == "HOME").map(|(_, home)| Path::new(home).join(login.folder));
    // Without a variable, an unreadable directory may have the only credential: the sign-in check reports it.
    let has = |file: PathBuf| if login.is_in(&cleared) { file.is_file() } else { may_be_there(&file) };
    match own.filter(|folder| login.files().any(|file| has(folder.join(file)))) {
        Some(folder) if config.home.is_none() && !is_set(&cleared, login.folder_variable) => {
            cleared.with(login.folder_variable, folder)
        }
        _ => cleared,
    }
}

/// How an engine signs in.
pub(super) struct SignInMethod {
    /// Variables that hold a credential, or name its service.
    pub(super) variables: &'static [&'static str],
    /// Those of them that are a credential.
    pub(super) keys: &'static [&'static str],
    /// The variable that names the engine's directory.
    pub(super) folder_variable: &'static str,
    /// That directory in a home.
    pub(super) folder: &'static str,
    /// The credential file in it.
    pub(super) file: &'static str,
    /// The settings files in it.
    pub(super) settings: &'static [&'static str],
    /// The part of such a file, by its name, that applies to a job.
    pub(super) fit: fn(&str, Vec<u8>) -> Option<Vec<u8>>,
    /// The part of the credential that the engine refreshes.
    pub(super) refreshes: RefreshedFields,
    /// The other content of the credential's file, useless to a job.
    pub(super) withheld: &'static [&'static str],
}

impl SignInMethod {
    /// The credential in a file of this name.
    pub(super) fn in_file(name: &str) -> Option<&'static Self> {
        EngineKind::all().filter_map(EngineKind::sign_in).find(|login| login.file == name)
    }

    /// Whether an environment holds a credential.
    pub(super) fn is_in(&self, environment: &Environment) -> bool {
        self.keys.iter().any(|key| is_set(environment, key))
    }

    /// Whether the directory of the credential is configured explicitly.
    pub(super) fn is_named_by(&self, config: &EnvironmentConfig) -> bool {
        config.set.contains_key(self.folder_variable) || config.pass.iter().any(|name| name == self.folder_variable)
    }

    /// The files of which a job gets a part.
    fn files(&self) -> impl Iterator<Item = &'static str> {
        self.settings.iter().copied().chain([self.file])
    }
}

/// A path without links in it, if it exists.
fn real(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

fn is_set(environment: &Environment, name: &str) -> bool {
    environment.variable(name).is_some_and(|value| !value.is_empty())
}

impl EngineContext {
    /// The path to a directory if agents can change its content or redirect the path: without the operator's links, and
    /// with the agent-writable part as it is named. `None` for one that only the operator can change.
    pub(super) fn open_way(&self, folder: &Path) -> Option<PathBuf> {
        let parent = folder.parent().filter(|_| self.is_open(folder))?;
        let is_within = |path: &&Path| self.open.iter().any(|open| real(path).starts_with(real(open)));
        let above: Vec<&Path> = parent.ancestors().collect();
        let root = above.into_iter().rev().find(is_within).unwrap_or(parent);
        Some(real(root).join(folder.strip_prefix(root).ok()?))
    }

    fn is_open(&self, folder: &Path) -> bool {
        let is_below = |open: &PathBuf| folder.starts_with(open) || real(folder).starts_with(real(open));
        let account = self.launcher.account().map(Account::uid);
        let is_theirs = || account.is_some() && std::fs::metadata(folder).ok().map(|found| found.uid()) == account;
        self.open.iter().any(is_below) || is_theirs()
    }

    /// The same, with directories that the detection of the program may read.
    pub(super) fn opening(&self, folders: Vec<PathBuf>) -> Self {
        let own = folders.into_iter().map(|folder| (folder, PathAccess::Read));
        Self { launcher: self.launcher.clone().reaching(own), ..self.clone() }
    }

    /// A program's version, or why it cannot be used.
    pub(super) async fn version(&self, program: &str, environment: &Environment) -> Result<String, String> {
        let shown = domain::escape_for_terminal(program);
        let absent = || format!("there is no program `{shown}`");
        let file = find_program(program, environment.variable("PATH")).ok_or_else(absent)?;
        match self.launcher.ask(file, &["--version"], environment).await {
            Ok((finished, answer)) if finished.end == End::Exited(0) => Ok(answer),
            Ok(_) => Err(format!("`{shown} --version` fails")),
            Err(_) => Err(absent()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOGIN: &str = r#"{"claudeAiOauth":{"accessToken":"a1","refreshToken":"r1","expiresAt":1}}"#;

    // [T8] [attack: a prompt-injected agent steals secrets]
    #[test]
    fn an_engine_gets_its_own_login_and_no_other() {
        let variables = [("ANTHROPIC_API_KEY", "a"), ("CODEX_API_KEY", "c"), ("GH_TOKEN", "g"), ("HOME", "/nowhere")];
        let variables = variables.map(|(name, value)| (OsString::from(name), OsString::from(value)));
        let names = |kind: &str| {
            let login = EngineKind::named(kind).unwrap().sign_in();
            let environment = environment(login, &EnvironmentConfig::default(), &variables, Path::new("/empty"));
            ["ANTHROPIC_API_KEY", "CODEX_API_KEY", "GH_TOKEN"].map(|name| environment.variable(name).is_some())
        };

        assert_eq!(names("claude"), [true, false, false]);
        assert_eq!(names("codex"), [false, true, false]);
        assert_eq!(names("command"), [false, false, false]);
    }

    #[tokio::test]
    async fn an_unconfigured_engine_is_offered_once_it_is_signed_in() {
        use std::os::unix::fs::PermissionsExt;

        let home = tempfile::tempdir().unwrap();
        let program = home.path().join("claude");
        std::fs::write(&program, "#!/bin/sh\necho '2.1.197 (Claude Code)'\n").unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        let variables = ["HOME", "PATH"].map(|name| (OsString::from(name), home.path().as_os_str().to_owned()));
        let clock: Arc<dyn Clock> = Arc::new(clock::SystemClock::new());
        let bench = EngineContext {
            launcher: Launcher::unguarded(Arc::clone(&clock)),
            clock,
            sessions: home.path().join("sessions"),
            prices: Prices::default(),
            empty_home: home.path().join("empty"),
            open: Vec::new(),
        };
        let engines = make_all(&BTreeMap::new(), &variables, &bench).unwrap();
        let claude = engines.iter().find(|engine| engine.name().as_str() == "claude").unwrap();
        let file = home.path().join(".claude/.credentials.json");

        assert!(matches!(claude.detect().await, Presence::Missing { .. }));
        assert_eq!(claude.login_files(), std::slice::from_ref(&file));
        std::fs::create_dir(home.path().join(".claude")).unwrap();
        std::fs::write(&file, r#"{"mcpOAuth":{"tracker":{"accessToken":"t"}}}"#).unwrap();
        assert!(matches!(claude.detect().await, Presence::Missing { .. }), "a login to something else is none");
        std::fs::write(&file, LOGIN).unwrap();

        let version = Some("2.1.197".to_owned());
        let login = super::super::LoginState::SignedIn;
        assert_eq!(claude.detect().await, Presence::Ready { version, login });
        assert_eq!(claude.login_files(), std::slice::from_ref(&file));
        std::fs::hard_link(&file, home.path().join("second-name")).unwrap();
        assert!(
            matches!(claude.detect().await, Presence::Missing { .. }),
            "a file that is not copied is no credential"
        );
    }

    // [B9]
    #[tokio::test]
    async fn a_login_that_cannot_be_looked_at_is_told_and_no_sign_out() {
        use std::os::unix::fs::PermissionsExt;

        let place = tempfile::tempdir().unwrap();
        for program in ["claude", "codex"] {
            let program = place.path().join(program);
            std::fs::write(&program, "#!/bin/sh\necho 1.2.3\n").unwrap();
            std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        }
        let home = place.path().join("x".repeat(300));
        let variables = [("HOME", home.as_os_str()), ("PATH", place.path().as_os_str())];
        let variables = variables.map(|(name, value)| (OsString::from(name), value.to_owned()));
        let clock: Arc<dyn Clock> = Arc::new(clock::SystemClock::new());
        let bench = EngineContext {
            launcher: Launcher::unguarded(Arc::clone(&clock)),
            clock,
            sessions: place.path().join("sessions"),
            prices: Prices::default(),
            empty_home: place.path().join("empty"),
            open: Vec::new(),
        };

        for engine in make_all(&BTreeMap::new(), &variables, &bench).unwrap() {
            let presence = engine.detect().await;
            let Presence::Ready { login: super::super::LoginState::Unreadable { why }, .. } = presence else {
                panic!("{presence:?}");
            };
            assert!(why.starts_with(home.to_str().unwrap()) && why.contains(" cannot be read: "), "{why}");
        }
    }

    #[test]
    fn a_folder_is_open_by_its_name_and_by_what_it_really_is() {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        std::fs::create_dir_all(at("home/.claude")).unwrap();
        std::fs::create_dir_all(at("operators/.claude")).unwrap();
        std::os::unix::fs::symlink(at("home"), at("spelled")).unwrap();
        std::os::unix::fs::symlink(at("operators"), at("home/way")).unwrap();
        let clock: Arc<dyn Clock> = Arc::new(clock::SystemClock::new());
        let bench = EngineContext {
            launcher: Launcher::unguarded(Arc::clone(&clock)),
            clock,
            sessions: at("sessions"),
            prices: Prices::default(),
            empty_home: at("empty"),
            open: vec![at("home")],
        };

        let folders = ["home/.claude", "spelled/.claude", "home/way/.claude", "operators/.claude", "none"];
        let ways = folders.map(|folder| bench.open_way(&at(folder)));

        let open = |way: &str| Some(place.path().canonicalize().unwrap().join(way));
        assert_eq!(ways, [open("home/.claude"), open("home/.claude"), open("home/way/.claude"), None, None]);
    }

    #[test]
    fn the_users_engine_directory_is_used_once_it_has_job_files() {
        let home = tempfile::tempdir().unwrap();
        let own = [(OsString::from("HOME"), home.path().as_os_str().to_owned())];
        let folder = |variables: &[(OsString, OsString)]| {
            let config = EnvironmentConfig::default();
            let environment = environment(Some(&crate::claude::LOGIN), &config, variables, Path::new("/empty"));
            environment.variable("CLAUDE_CONFIG_DIR").map(PathBuf::from)
        };

        std::fs::create_dir(home.path().join(".claude")).unwrap();
        std::fs::write(home.path().join(".claude/history.jsonl"), "").unwrap();
        assert_eq!(folder(&own), None);
        std::fs::write(home.path().join(".claude/CLAUDE.md"), "be brief").unwrap();
        assert_eq!(folder(&own), Some(home.path().join(".claude")));
    }
}
