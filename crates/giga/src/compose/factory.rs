//! One factory: enrolled, configured, at work.

use std::convert::Infallible;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use client::{Client, ClientError, Endpoint, Trust};
use clock::{SystemClock, SystemEntropy};
use domain::{ClaimNonce, Entropy, FactoryId};
use factory::{DirectoryWatch, RunToolsCommand, Worker, WorkerError, WorkerSettings};
use protocol::{EnrolRequest, EnrolResponse};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use sandbox::Secrets;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};
use workspace::{AfterShip, Gc};

use super::coordinator::write_private;
use super::{Membership, ParentWatch};
use crate::config::{Config, FINGERPRINT, Origin, TokenSource, fingerprint, is_fingerprint, is_loopback};
use crate::failure::Failure;

/// How often enrolment is retried while the coordinator is unreachable.
const ENROL_EVERY: Duration = Duration::from_millis(300);

/// How often the machine is probed again for newly installed tools.
const DETECT_EVERY: Duration = Duration::from_mins(5);

/// What the process beside a factory means for its agents.
#[derive(Default)]
pub(super) struct FactorySurroundings {
    /// Directories and files that are hidden from them.
    pub(super) hidden: Vec<PathBuf>,
    /// Whether it ends before a person could answer a question.
    pub(super) is_unattended: bool,
    /// The factory finishes its jobs and ends.
    pub(super) drain: CancellationToken,
    /// Whether it belongs to a pool.
    pub(super) membership: Membership,
}

/// Runs a factory of the coordinator at `api` until `stop`.
pub(super) async fn run_beside(
    others: &FactorySurroundings,
    config: &Config,
    api: &str,
    join: Option<&str>,
    parent_watch: ParentWatch,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    sandbox::hide_from_siblings();
    let state = &config.factory.state.value;
    let (was_enrolled, before) = (is_enrolled(state), Noted::read(state));
    let mut ended = work(others, config, api, join, &stop).await?;
    if is_unauthenticated(&ended) && was_enrolled && join.is_some() {
        warn!("The coordinator rejected the token of this factory: enrolling again with the join token");
        std::fs::remove_file(token_path(state))?;
        ended = work(others, config, api, join, &stop).await?;
    }
    if !is_unauthenticated(&ended) {
        ended?;
        if others.membership == Membership::Pool {
            // The coordinator has removed it. The next factory here is another one, which finds the mirrors.
            forget_enrolment(state)?;
        }
        return Ok(());
    }
    if parent_watch == ParentWatch::Stdin {
        // The fleet's database is another one now: its next start brings a join token along.
        std::fs::remove_file(token_path(state))?;
    }
    // The token is for the coordinator that it worked for before.
    before.restore(state)?;
    Err(no_longer_enrolled(&registered_name(config), api).into())
}

/// Enrols the factory where it is not, and works until `stop` or until the coordinator rejects it.
async fn work(
    others: &FactorySurroundings,
    config: &Config,
    api: &str,
    join: Option<&str>,
    stop: &CancellationToken,
) -> anyhow::Result<Result<(), WorkerError>> {
    let mut settings = settings(config)?;
    settings.hidden.extend(others.hidden.iter().cloned());
    if let Some(tools) = &mut settings.run_tools {
        tools.has_answers = !others.is_unattended;
    }
    sandbox::make_private_folder(&settings.state)?;
    let token = token(config, api, &settings, join, stop).await?;
    settings.secrets = Secrets::new([token.clone()]);
    let client = Client::new(endpoint(config, &settings.state, api, token)?)?;
    note_coordinator(config, &settings.state, api);
    let station = Worker::open(settings, client, Arc::new(SystemClock::new()), Arc::new(SystemEntropy))?;
    Ok(tokio::select! {
        ended = Arc::clone(&station).run(stop.clone()) => ended,
        never = follow_settings(config, &station) => match never {},
        never = drain_on(&others.drain, &station) => match never {},
    })
}

/// Drains the factory when it was asked to: it is told to leave when its jobs have ended.
async fn drain_on(asked: &CancellationToken, station: &Worker) -> Infallible {
    asked.cancelled().await;
    info!("Finishing the running jobs, then leaving");
    station.drain().await;
    std::future::pending().await
}

/// Removes the token and the name of a factory that no longer exists.
fn forget_enrolment(state: &Path) -> std::io::Result<()> {
    for path in [token_path(state), name_path(state)] {
        match std::fs::remove_file(path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

fn is_unauthenticated(ended: &Result<(), WorkerError>) -> bool {
    matches!(ended, Err(WorkerError::Refused(error)) if error.code() == Some("unauthenticated"))
}

fn no_longer_enrolled(name: &FactoryId, api: &str) -> Failure {
    Failure::unauthorized(format!(
        "the coordinator at {api} no longer accepts the token of factory `{name}`: the factory was removed with \
         `giga factory prune`, or its token was revoked"
    ))
    .hint(format!(
        "to enrol it again, run `giga token create --join --factory {name}` where the coordinator is administered, then \
         `giga factory run --join TOKEN` here; if the coordinator is another one, check GIGA_API"
    ))
}

/// Makes the factory offer what its configuration names, as soon as the file changes. A file that cannot be read any more
/// changes nothing, and what takes effect at the next start is logged once.
async fn follow_settings(config: &Config, station: &Worker) -> Infallible {
    let folder = config.file.as_deref().and_then(|file| std::path::absolute(file).ok()?.parent().map(Path::to_owned));
    let Some(folder) = folder else { return std::future::pending().await };
    let mut watch = DirectoryWatch::on([folder], Arc::new(SystemClock::new()));
    let mut told = Vec::new();
    // What was changed since the file was read, while this factory waited to be let in, is news too.
    loop {
        match config.reload() {
            Ok(now) => {
                let later = counts_later(config, &now);
                if !later.is_empty() && later != told {
                    warn!("Changed settings count from the next start of this factory: {}", later.join(", "));
                }
                told = later;
                let own = now.factory;
                station.declare(own.capabilities.value.into_iter().collect(), own.tools.value);
            }
            Err(failure) => warn!("The changed settings are not used: {}", failure.message()),
        }
        watch.changed().await;
    }
}

/// The settings that have changed and that a factory takes up when it starts.
fn counts_later(before: &Config, now: &Config) -> Vec<&'static str> {
    let (before, now) = (&before.factory, &now.factory);
    let changed = [
        ("factory.engines", before.engines.value != now.engines.value),
        ("factory.repos", before.repos.value != now.repos.value),
        ("factory.repo_base", before.repo_base.value != now.repo_base.value),
        ("factory.environment", before.environment.value != now.environment.value),
        ("factory.prices", before.prices.value != now.prices.value),
        ("factory.limits", before.limits != now.limits),
        ("factory.forge", before.forge.value != now.forge.value),
        ("factory.git", before.git.value != now.git.value),
        ("factory.seats", before.seats.value != now.seats.value),
        ("factory.confine", before.confine.value != now.confine.value),
        ("factory.hide", before.hide.value != now.hide.value),
        ("factory.read", before.read.value != now.read.value),
        ("factory.write", before.write.value != now.write.value),
        ("factory.run_as", before.run_as.value != now.run_as.value),
    ];
    changed.into_iter().filter(|(_, has_changed)| *has_changed).map(|(name, _)| name).collect()
}

/// What a factory with this configuration works by.
pub(crate) fn settings(config: &Config) -> anyhow::Result<WorkerSettings> {
    let own = &config.factory;
    let exe = std::env::current_exe().context("cannot find this program's own file")?;
    let (polling, warnings) = own.polling.reconciled();
    for warning in warnings {
        warn!("{warning}");
    }
    let mut settings = WorkerSettings {
        name: registered_name(config),
        seats: own.seats.value,
        engine_seats: own.engine_seats.value.clone(),
        repo_seats: own.repo_seats.value.clone(),
        cost: own.cost.value,
        state: own.state.value.clone(),
        repos: own.repos.value.clone(),
        repo_base: own.repo_base.value.clone(),
        default_base: own.default_base.value.clone(),
        engines: own.engines.value.clone(),
        prices: own.prices.value.clone(),
        capabilities: own.capabilities.value.iter().cloned().collect(),
        tools: own.tools.value.clone(),
        environment: own.environment.value.clone(),
        git: own.git.value.clone(),
        identity: own.author.value.clone(),
        limits: own.limits.clone(),
        forge: own.forge.value.clone(),
        ref_prefix: own.ref_prefix.value.clone(),
        after_ship: if own.delete_branch.value { AfterShip::DeleteBranch } else { AfterShip::KeepBranch },
        checkpoint_every: own.checkpoint_every.value.0,
        detect_every: DETECT_EVERY,
        polling,
        housekeeping: own.housekeeping.reconciled(),
        run_as: own.run_as.value.clone(),
        confine: own.confine.value,
        hidden: hidden(config),
        readable: own.read.value.clone(),
        writable: own.write.value.clone(),
        fixed: Vec::new(),
        secrets: Secrets::default(),
        guard: Some(vec![exe.clone().into_os_string(), OsString::from("__guard")]),
        broker: super::brokers::connector(config.factory.receive.value)?,
        run_tools: Some(RunToolsCommand {
            argv: vec![exe.into_os_string(), OsString::from("mcp"), OsString::from("--run")],
            has_answers: true,
        }),
    };
    if let Some(file) = &config.file {
        settings.keep(file);
    }
    Ok(settings)
}

/// What is hidden from agents, beyond the factory's own directory.
fn hidden(config: &Config) -> Vec<PathBuf> {
    let token = match &config.client.token.value {
        TokenSource::File(path) | TokenSource::Beside(path) => Some(path.clone()),
        TokenSource::Given(_) | TokenSource::Nowhere => None,
    };
    let coordinator = [
        &config.coordinator.tls_key.value,
        &config.coordinator.github_webhook_secret_file.value,
        &config.coordinator.broker_credentials_file.value,
        &config.coordinator.broker_signing_key_file.value,
    ];
    let files = coordinator.into_iter().flatten().cloned().chain(token);
    files.chain([config.data.path().to_owned()]).chain(config.factory.hide.value.clone()).collect()
}

/// The factory's own token: from its state directory, or by enrolling with a one-time one.
async fn token(
    config: &Config,
    api: &str,
    settings: &WorkerSettings,
    join: Option<&str>,
    stop: &CancellationToken,
) -> anyhow::Result<String> {
    let path = token_path(&settings.state);
    if let Ok(token) = std::fs::read_to_string(&path) {
        return Ok(token.trim().to_owned());
    }
    let join = join.with_context(|| {
        format!(
            "factory `{}` is not enrolled: run `giga token create --join` on the coordinator's machine, and paste the whole \
             line that it prints (GIGA_API=… giga factory run --join …) here",
            settings.name
        )
    })?;
    let client = Client::enrolling(endpoint(config, &settings.state, api, String::new())?, join)?;
    let token = enrol(&client, &settings.name, join, stop).await?;
    write_private(&name_path(&settings.state), settings.name.as_str().as_bytes())?;
    write_private(&path, token.as_bytes())?;
    info!(factory.id = %settings.name, "Enrolled as factory `{}`", settings.name);
    Ok(token)
}

async fn enrol(client: &Client, name: &FactoryId, join: &str, stop: &CancellationToken) -> anyhow::Result<String> {
    let clock = SystemClock::new();
    let entropy: Arc<dyn Entropy> = Arc::new(SystemEntropy);
    // The same for every try: an answer that was lost is given again.
    let nonce = Some(ClaimNonce::new(domain::Clock::now(&clock), entropy.bytes()));
    let request = EnrolRequest { join_token: join.to_owned(), factory_id: name.clone(), nonce };
    let mut is_told = false;
    loop {
        let answer: Result<EnrolResponse, ClientError> = client.post("/factories/enroll", &request).await;
        match answer {
            Ok(enrolled) => return Ok(enrolled.token),
            Err(error) if error.is_final() || is_misled(&error) => return Err(not_enrolled(error, name).into()),
            Err(error) if !is_told => {
                is_told = true;
                warn!(%error, "The coordinator is not reachable yet, retrying: {error}");
            }
            Err(error) => debug!(%error, "The coordinator is not reachable yet"),
        }
        tokio::select! {
            () = stop.cancelled() => anyhow::bail!("stopped before the coordinator answered"),
            () = domain::Clock::sleep(&clock, ENROL_EVERY) => {}
        }
    }
}

/// Whether the address leads to something that is no coordinator of ours: to wait does not change that.
fn is_misled(error: &ClientError) -> bool {
    matches!(error, ClientError::Tls { .. } | ClientError::Unproven { .. })
}

fn not_enrolled(error: ClientError, name: &FactoryId) -> Failure {
    let hint = match error.code() {
        Some("unauthenticated") => {
            "check that it was copied whole, and that GIGA_API is the coordinator that made it; \
             `giga token create --join` makes another"
                .to_owned()
        }
        Some("forbidden") => format!(
            "`giga token create --join --factory {name}` on the coordinator's machine makes a join token for this name; \
             `--name` chooses another name"
        ),
        _ => return Failure::from(error),
    };
    match error {
        ClientError::Refused(problem) if problem.code == "unauthenticated" => {
            Failure::unauthorized("the coordinator does not know this join token").hint(hint)
        }
        error => Failure::unauthorized(format!("the coordinator rejected this join token: {error}")).hint(hint),
    }
}

fn endpoint(config: &Config, state: &Path, api: &str, token: String) -> anyhow::Result<Endpoint> {
    Ok(Endpoint { base: api.to_owned(), token, product: None, trust: trust(config, state, api)? })
}

/// The certificates that a factory accepts: those that its settings name, or those that it accepted from this coordinator
/// before.
fn trust(config: &Config, state: &Path, api: &str) -> Result<Trust, Failure> {
    let configured = crate::api::trust(config, api)?;
    let is_remembered = matches!(configured, Trust::Public) && coordinator_of(state).as_deref() == Some(api);
    let Some(text) = is_remembered.then(|| std::fs::read_to_string(ca_path(state)).ok()).flatten() else {
        return Ok(configured);
    };
    let pinned = fingerprint(text.trim()).map(Trust::Pinned);
    let authority = || CertificateDer::from_pem_slice(text.as_bytes()).map(|der| Trust::Authority(der.to_vec())).ok();
    pinned.or_else(authority).ok_or_else(|| {
        Failure::usage(format!("{} holds neither a fingerprint nor a certificate", ca_path(state).display()))
            .hint("remove the file, and set GIGA_CA or `client.ca`")
    })
}

/// The coordinator that a factory with this state directory works for: flag, variable, giga.toml, then the one that it
/// worked for last, then the default. Where a coordinator runs on this machine, its own record of its address is newer
/// than the factory's.
pub(crate) fn factory_address(config: &Config, state: &Path) -> String {
    let configured = &config.client.api;
    let remembered =
        coordinator_of(state).filter(|_| is_enrolled(state)).filter(|remembered| match configured.origin {
            Origin::Default => true,
            Origin::Beside(_) => !is_loopback(remembered),
            Origin::Flag(_) | Origin::Variable(_) | Origin::File { .. } | Origin::Derived { .. } => false,
        });
    remembered.unwrap_or_else(|| configured.value.clone())
}

/// The variables that a client on the machine of a joined factory needs, where no setting names a coordinator: the
/// address that the factory remembers and, if it keeps one, the certificate.
pub(crate) fn client_variables(config: &Config) -> Option<String> {
    let state = &config.factory.state.value;
    let api = factory_address(config, state);
    if config.client.api.origin != Origin::Default || api == config.client.api.value {
        return None;
    }
    let ca = std::fs::read_to_string(ca_path(state)).ok().map(|text| match is_fingerprint(Path::new(text.trim())) {
        true => format!(" GIGA_CA={}", text.trim()),
        false => format!(" GIGA_CA={}", ca_path(state).display()),
    });
    Some(format!("GIGA_API={api}{}", ca.unwrap_or_default()))
}

/// The name that the configured state directory is enrolled under; before that, the configured one.
fn registered_name(config: &Config) -> FactoryId {
    let (own, state) = (&config.factory.name, &config.factory.state.value);
    let written = std::fs::read_to_string(name_path(state)).ok();
    let registered: Option<FactoryId> = written.and_then(|name| name.trim().parse().ok());
    match registered {
        Some(registered) if is_enrolled(state) || own.origin == Origin::Default => registered,
        _ => own.value.clone(),
    }
}

/// The state directories of all factories of this machine: the configured one, those of `giga up`, and those of pools.
pub(crate) fn states(config: &Config) -> impl Iterator<Item = PathBuf> {
    let below = |path: &Path| std::fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path());
    let local: Vec<PathBuf> = below(&config.data.path().join("factories")).collect();
    let pools: Vec<PathBuf> = below(&config.data.path().join("pools")).flat_map(|pool| below(&pool)).collect();
    let all = std::iter::once(config.factory.state.value.clone()).chain(local).chain(pools);
    all.filter(|state| state.is_dir())
}

/// The clean-ups of all factories that have a state directory on this machine, each with the directory. A factory's own
/// token is for the coordinator that it works for, which its state directory names; it sees no more than its own jobs.
/// `operator` gives a client with the operator's token, for state directories without one.
pub(crate) fn clean_ups(
    config: &Config,
    operator: impl Fn() -> Result<Client, Failure>,
) -> Result<Vec<(PathBuf, Gc)>, Failure> {
    let clean_up = |state: PathBuf| {
        let own = WorkerSettings { state: state.clone(), ..settings(config)? };
        let client = match std::fs::read_to_string(token_path(&state)) {
            Ok(token) => {
                let api = coordinator_of(&state).unwrap_or_else(|| config.client.api.value.clone());
                Client::new(endpoint(config, &state, &api, token.trim().to_owned())?)?
            }
            Err(_) => operator()?,
        };
        let gc = own.gc(client, Arc::new(SystemClock::new())).map_err(anyhow::Error::from)?;
        Ok((state, gc))
    };
    states(config).map(clean_up).collect()
}

/// What a state directory records about the coordinator.
struct Noted([Option<String>; 2]);

impl Noted {
    fn paths(state: &Path) -> [PathBuf; 2] {
        [coordinator_path(state), ca_path(state)]
    }

    fn read(state: &Path) -> Self {
        Self(Self::paths(state).map(|path| std::fs::read_to_string(path).ok()))
    }

    /// Puts it back; without an earlier coordinator there is nothing to put back.
    fn restore(&self, state: &Path) -> anyhow::Result<()> {
        let [Some(_), _] = &self.0 else { return Ok(()) };
        for (path, text) in Self::paths(state).iter().zip(&self.0) {
            match text {
                Some(text) => write_private(path, text.as_bytes())?,
                None => drop(std::fs::remove_file(path)),
            }
        }
        Ok(())
    }
}

/// Writes down which coordinator a factory works for and whose certificates it accepts, for its next start and for commands
/// that run beside it without its settings. A factory works without this as well.
fn note_coordinator(config: &Config, state: &Path, api: &str) {
    let noted = note_trust(config, state, api).and_then(|()| match coordinator_of(state).as_deref() == Some(api) {
        true => Ok(()),
        false => write_private(&coordinator_path(state), api.as_bytes()),
    });
    if let Err(error) = noted {
        warn!(%error, "Cannot write {}: the next start needs GIGA_API again", coordinator_path(state).display());
    }
}

fn note_trust(config: &Config, state: &Path, api: &str) -> anyhow::Result<()> {
    let path = ca_path(state);
    let text = match trust(config, state, api)? {
        Trust::Public => {
            return match std::fs::remove_file(&path) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error.into()),
                _ => Ok(()),
            };
        }
        Trust::Pinned(pin) => {
            let digits: String = pin.iter().map(|byte| format!("{byte:02x}")).collect();
            format!("{FINGERPRINT}{digits}\n")
        }
        Trust::Authority(_) => match config.client.ca.value.as_ref().filter(|ca| !is_fingerprint(ca)) {
            Some(file) => std::fs::read_to_string(file)?,
            // It is the one that was remembered.
            None => return Ok(()),
        },
    };
    match std::fs::read_to_string(&path).is_ok_and(|before| before == text) {
        true => Ok(()),
        false => write_private(&path, text.as_bytes()),
    }
}

/// The coordinator that a factory with this state directory has worked for last.
pub(crate) fn coordinator_of(state: &Path) -> Option<String> {
    let api = std::fs::read_to_string(coordinator_path(state)).ok()?;
    Some(api.trim().to_owned()).filter(|api| !api.is_empty())
}

fn coordinator_path(state: &Path) -> PathBuf {
    state.join("coordinator.url")
}

fn ca_path(state: &Path) -> PathBuf {
    state.join("coordinator.ca")
}

pub(super) fn name_path(state: &Path) -> PathBuf {
    state.join("factory.name")
}

/// Whether a factory with this state directory has a token of its own.
pub(crate) fn is_enrolled(state: &Path) -> bool {
    token_path(state).exists()
}

fn token_path(state: &Path) -> PathBuf {
    state.join("factory.token")
}

/// Where the local fleet keeps the state of one of its factories.
pub(super) fn state_of(config: &Config, name: &FactoryId) -> PathBuf {
    let own = &config.factory;
    if own.state.origin != Origin::Default && own.name.value == *name {
        return own.state.value.clone();
    }
    config.data.path().join("factories").join(name.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_local_fleets_factory_keeps_its_state_where_the_file_says() {
        let set = crate::config::of_file("[factory]\nname = \"here\"\nstate = \"/srv/state\"\n").unwrap();
        let unset = crate::config::of_file("[factory]\nname = \"here\"\n").unwrap();
        let state = |config: &Config, name: &str| state_of(config, &name.parse().unwrap());

        assert_eq!(state(&set, "here"), Path::new("/srv/state"));
        assert!(state(&unset, "here").ends_with("factories/here"));
        assert!(state(&set, "other").ends_with("factories/other"));
    }
}
