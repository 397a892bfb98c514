//! One coordinator: store, broker, use cases and server, put together.

use std::io::Write;
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use clock::{SystemClock, SystemEntropy};
use coordinator::{Coordinator, Ports};
use domain::Clock;
use server::{BindError, Options, Server, Tls, WebhookSecret};
use store::{OpenStore, StorePlace};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::backup_service::StoreBackupService;
use super::blobs;
use super::brokers;
use super::space;
use super::stores;
use super::trackers;
use super::webhooks;
use crate::config::Config;
use crate::failure::Failure;
use crate::profile_files;

/// How long the first sign-in link works: the longest that the coordinator allows.
const LINK_SECONDS: u64 = 600;

/// A coordinator that is ready to run: the store is open, the address is ours.
pub(super) struct CoordinatorProcess {
    pub(super) coordinator: Arc<Coordinator>,
    /// Where clients of this machine reach it.
    pub(super) api: String,
    /// Where browsers reach it.
    browser_base: String,
    /// The fingerprint of its certificate, for these clients.
    pub(super) certificate: Option<String>,
    store: OpenStore,
    server: Server,
    endpoint: PathBuf,
    /// Another store is ready to be started with.
    restart: CancellationToken,
}

/// Why a coordinator ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CoordinatorExit {
    /// It was stopped.
    Stopped,
    /// A backup was put back: the next one starts on it.
    Restored,
}

impl CoordinatorProcess {
    /// Opens the store, takes the address, rebuilds memory. A second coordinator on the same directory is rejected here.
    /// On a disk without space it waits until there is some, or until `stop`.
    pub(super) async fn open(config: &Config, stop: &CancellationToken) -> anyhow::Result<Self> {
        Self::open_patiently(config, config.coordinator.listen.value, stop).await
    }

    async fn open_patiently(config: &Config, listen: SocketAddr, stop: &CancellationToken) -> anyhow::Result<Self> {
        let clock = SystemClock::new();
        let mut is_first = true;
        loop {
            let failure = match Self::open_at(config, listen).await {
                Err(failure) if space::is_the_reason(&failure, config.data.path()) => failure,
                opened => return opened,
            };
            let options = Options { listen, ..options(config)? };
            let waited = space::wait(config.data.path(), options, &failure, &clock, stop, is_first).await;
            waited.map_err(unbound)?;
            is_first = false;
            if stop.is_cancelled() {
                return Err(failure.context("stopped before there was space on the disk"));
            }
        }
    }

    async fn open_at(config: &Config, listen: SocketAddr) -> anyhow::Result<Self> {
        let data = config.data.path();
        // Before anything is created: an address, a certificate or a key that cannot be used leaves nothing behind.
        let server = Server::bind(Options { listen, ..options(config)? }).await.map_err(unbound)?;
        sandbox::make_private_folder(data)
            .with_context(|| format!("cannot create the data directory {}", data.display()))?;
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let store =
            stores::open(&config.coordinator.store.value, place(config, clock.as_ref()), Arc::clone(&clock)).await?;
        let LoadedCoordinator { coordinator, store, backups, restart } = load(config, store, clock).await?;
        let server = server.with_backup_service(backups);
        let browser_base = server.browser_base();
        let (api, certificate) = (server.base(), server.certificate().map(|certificate| server::pin(&certificate)));
        Ok(Self {
            coordinator,
            api,
            browser_base,
            certificate,
            store,
            server,
            endpoint: config.data.endpoint(),
            restart,
        })
    }

    /// A note for the user at the terminal: a link that signs a browser in, or how to get the web UI.
    pub(super) fn browser_note(&self, config: &Config) -> anyhow::Result<String> {
        if web_dir()?.is_none() && !server::has_web_ui() {
            return Ok("this build has no web UI: run `make web`, then build giga again".to_owned());
        }
        let token = std::fs::read_to_string(config.data.admin_token()).context("cannot read the admin token")?;
        let admin = self.coordinator.authenticate(token.trim())?;
        let (code, _) = self.coordinator.create_sign_in_code(&admin, Some(LINK_SECONDS))?;
        let (base, minutes) = (&self.browser_base, LINK_SECONDS / 60);
        Ok(format!("web UI: {base}/#code={}\n(the link works once, for {minutes} minutes)", code.reveal()))
    }

    /// Serves until `stop`. Each backup that is put back ends one coordinator and starts the next, at the same address;
    /// `meet` gets to know it.
    pub(super) async fn run_on(
        mut self,
        config: &Config,
        stop: CancellationToken,
        meet: impl Fn(&Arc<Coordinator>),
    ) -> anyhow::Result<()> {
        let listen = self.server.address();
        while self.run(stop.clone()).await? == CoordinatorExit::Restored {
            let opened = Self::open_patiently(config, listen, &stop).await;
            self = opened.context("cannot start again on the restored store")?;
            meet(&self.coordinator);
        }
        Ok(())
    }

    /// Serves until `stop` or a restore, then lets requests finish and closes the store.
    pub(super) async fn run(self, stop: CancellationToken) -> anyhow::Result<CoordinatorExit> {
        let certificate =
            self.certificate.as_ref().map_or_else(String::new, |certificate| format!("\n{certificate}\n"));
        write_private(&self.endpoint, format!("{}{certificate}", self.api).as_bytes())?;
        info!(api = %self.api, "The coordinator serves at {}", self.api);
        let closing = stop.child_token();
        let serving = self.server.serve(Arc::clone(&self.coordinator), closing.clone());
        let watch_for_stop = async {
            tokio::select! {
                () = stop.cancelled() => {}
                () = self.restart.cancelled() => closing.cancel(),
                () = self.store.lifecycle.deposed() => closing.cancel(),
            }
            self.coordinator.stop();
        };
        tokio::join!(serving, self.coordinator.run(), watch_for_stop, check_store(&self.store, &self.coordinator));
        let ended = if stop.is_cancelled() { CoordinatorExit::Stopped } else { CoordinatorExit::Restored };
        if ended == CoordinatorExit::Restored && !self.restart.is_cancelled() {
            self.store.lifecycle.close().await?;
            anyhow::bail!("another coordinator has taken the database over");
        }
        if ended == CoordinatorExit::Stopped {
            let _ = std::fs::remove_file(&self.endpoint);
        }
        self.store.lifecycle.close().await?;
        info!("The coordinator has stopped");
        Ok(ended)
    }
}

/// A coordinator in memory, with its open store.
pub(super) struct LoadedCoordinator {
    pub(super) coordinator: Arc<Coordinator>,
    pub(super) store: OpenStore,
    pub(super) backups: Arc<StoreBackupService>,
    /// A backup was restored: the store has to be opened again.
    pub(super) restart: CancellationToken,
}

/// Where the store is.
pub(super) fn place(config: &Config, clock: &dyn Clock) -> StorePlace {
    StorePlace {
        accept_data_loss: config.accept_data_loss.then(|| clock.now()),
        admin_token: Some(config.data.admin_token()),
        ..StorePlace::of(config.data.database())
    }
}

/// Loads a coordinator from an open store.
pub(super) async fn load(
    config: &Config,
    store: OpenStore,
    clock: Arc<dyn Clock>,
) -> anyhow::Result<LoadedCoordinator> {
    let data = config.data.path();
    let logs = blobs::logs(config)?;
    let ports = Ports {
        jobs: Arc::clone(&store.jobs),
        history: Arc::clone(&store.history),
        fleet: Arc::clone(&store.fleet),
        logs: Arc::new(logs.clone()),
        leadership: Arc::clone(&store.leadership),
        blobs: blobs::open(config)?,
        broker: brokers::open(&config.coordinator, Arc::clone(&clock)).await?,
        clock: Arc::clone(&clock),
        entropy: Arc::new(SystemEntropy),
    };
    let coordinator = Coordinator::open(ports, config.artifacts.set_in(config.coordinator.settings())).await?;
    coordinator.set_disk(space::disk(data));
    coordinator.set_trackers(trackers::sources(config, &clock)?);
    coordinator.set_webhooks(webhooks::targets(config, &clock)?);
    keep_admin_token(&coordinator, &config.data.admin_token()).await?;
    import_profiles(&coordinator, config.profiles()).await?;
    let restart = CancellationToken::new();
    let (database, generation) = (config.data.database(), coordinator.generation());
    let backups =
        StoreBackupService::open(Arc::clone(&store.lifecycle), logs, &database, generation, clock, restart.clone());
    let backups = backups.with_context(|| format!("cannot use the data directory {}", data.display()))?;
    Ok(LoadedCoordinator { coordinator, store, backups: Arc::new(backups), restart })
}

/// Reads the whole store once, beside the work, unless it is as a clean shutdown left it.
pub(super) async fn check_store(store: &OpenStore, coordinator: &Coordinator) {
    if !store.lifecycle.is_check_due() {
        return;
    }
    // A check that still runs at the stop ends on its own, and its result is dropped.
    let checked = tokio::select! {
        checked = store.lifecycle.check() => checked,
        () = coordinator.stopped() => return,
    };
    match checked {
        Ok(None) => info!("Checked the store: no damage found"),
        Ok(Some(why)) => coordinator.report_store_damage(&why),
        Err(error) => warn!(%error, "The store could not be checked"),
    }
}

/// Why it does not listen, with what to do where that is not in the words.
pub(super) fn unbound(error: BindError) -> anyhow::Error {
    match &error {
        BindError::Address { address, source } if source.kind() == std::io::ErrorKind::AddrInUse => {
            let hint = "stop what listens there (another coordinator?), or choose another address with --listen";
            Failure::failed(format!("cannot listen on {address}: another program has the address")).hint(hint).into()
        }
        _ => error.into(),
    }
}

fn half_of_a_pair(given: &str, missing: &str) -> Failure {
    Failure::usage(format!("`coordinator.{given}` is set without `coordinator.{missing}`"))
        .hint("a certificate needs its key: set both, or neither")
}

pub(super) fn options(config: &Config) -> anyhow::Result<Options> {
    let tls = match (&config.coordinator.tls_cert.value, &config.coordinator.tls_key.value) {
        (Some(certificate), Some(key)) => Some(Tls { certificate: certificate.clone(), key: key.clone() }),
        (None, None) => None,
        (Some(_), None) => return Err(half_of_a_pair("tls_cert", "tls_key").into()),
        (None, Some(_)) => return Err(half_of_a_pair("tls_key", "tls_cert").into()),
    };
    let webhook_secret = match &config.coordinator.github_webhook_secret_file.value {
        Some(path) => {
            let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
            Some(WebhookSecret::new(&text).with_context(|| format!("{} is empty", path.display()))?)
        }
        None => None,
    };
    Ok(Options {
        listen: config.coordinator.listen.value,
        tls,
        behind_proxy: config.coordinator.behind_proxy.value,
        allowed_hosts: config.coordinator.hosts.value.clone(),
        webhook_secret,
        tracker_secrets: trackers::secrets(config)?,
        web_dir: web_dir()?,
        mounts: vec![super::mcp::mount()],
        ..Options::default()
    })
}

/// The directory of GIGA_WEB_DIR, from which the web UI is read during its development.
fn web_dir() -> anyhow::Result<Option<PathBuf>> {
    let Some(dir) = std::env::var_os("GIGA_WEB_DIR").filter(|dir| !dir.is_empty()).map(PathBuf::from) else {
        return Ok(None);
    };
    if !dir.is_dir() {
        let failure = Failure::usage(format!("GIGA_WEB_DIR: {} is not a directory", dir.display()));
        return Err(failure.hint("`make web` builds the web UI in web/dist").into());
    }
    Ok(Some(dir))
}

/// Creates the profiles of the files whose text no version has. A file with an error is logged, and creates none.
async fn import_profiles(coordinator: &Coordinator, directory: Option<PathBuf>) -> anyhow::Result<()> {
    let (files, problems) = directory.map(|directory| profile_files::profiles_in(&directory)).unwrap_or_default();
    for problem in problems {
        warn!("Cannot read a profile: {problem}");
    }
    for file in files {
        let shown = file.path.display().to_string();
        let by = format!("file {}", file.path.file_name().unwrap_or_default().to_string_lossy());
        match coordinator.import_profile(file.name, &file.text, &by).await {
            Ok(_) => {}
            Err(error @ (coordinator::Error::Manifest(_) | coordinator::Error::Invalid { .. })) => {
                warn!("{shown} is not a profile: {error}");
            }
            Err(error) => return Err(error).with_context(|| format!("cannot create the profile of {shown}")),
        }
    }
    Ok(())
}

/// Sees to it that the file has an admin's token that works, readable by this user alone. A death between the token and
/// its file, or a file that is gone, would otherwise lock out all users for good. A token that does not work any more is
/// kept beside the new one.
async fn keep_admin_token(coordinator: &Coordinator, path: &Path) -> anyhow::Result<()> {
    let kept = std::fs::read_to_string(path).unwrap_or_default();
    if coordinator.authenticate(kept.trim()).is_ok_and(|who| who.require_admin().is_ok()) {
        return Ok(());
    }
    let secret = match coordinator.first_admin_token().await? {
        Some(secret) => secret,
        None => coordinator.local_admin_token().await?,
    };
    if !kept.trim().is_empty() {
        let aside = path.with_extension("token.replaced");
        write_private(&aside, kept.as_bytes())?;
        warn!("The store does not know the admin token in {}: it is kept in {}", path.display(), aside.display());
    }
    write_private(path, secret.reveal().as_bytes())?;
    info!("Made an admin token, kept in {}", path.display());
    Ok(())
}

/// Writes a file that only this user can read, whole or not at all.
pub(super) fn write_private(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    let unfinished = path.with_added_extension("new");
    let write = || {
        let mut file =
            std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&unfinished)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        std::fs::rename(&unfinished, path)
    };
    write().with_context(|| format!("cannot write {}", path.display()))
}
