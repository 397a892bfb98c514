//! The coordinator under test: a process of its own on a folder of its own, or one that runs already.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use ambient::SystemClock;
use domain::{Clock, FactoryId, Grant, ProductId};
use http::Method;
use protocol::{Client, Endpoint, Enroll, Enrolled, Metrics, NewToken, ProductSettings, TokenMade, Trust};
use tokio::process::{Child, Command};

use crate::cli::BenchArgs;
use crate::command::Context;
use crate::config::{Origin, StoreChoice};
use crate::failure::Failure;
use crate::fleet::make_private_folder;
use crate::fleet::stores::{self, Opened};

use super::hand::Hand;
use super::process;

/// A coordinator that does not start in this time never will.
const START_MAX: Duration = Duration::from_secs(120);

/// A stopping coordinator empties its log into its database.
const STOP_MAX: Duration = Duration::from_secs(60);

/// What each product of a benchmark is called; its own, so that a fleet that is in use is not disturbed.
const PRODUCT: &str = "bench";

/// Where benchmarks run.
pub(super) enum Site {
    /// On a coordinator that runs already.
    There(Client),
    /// On coordinators that are started in this folder, on this kind of store.
    Here {
        /// The folder for the data, on the disk that a coordinator of this configuration would use.
        folder: PathBuf,
        /// What `giga serve --store` takes; the default when absent.
        store: Option<String>,
    },
}

impl Site {
    pub(super) fn of(context: &Context<'_>, args: &BenchArgs) -> Result<Self, Failure> {
        if matches!(context.config.client.api.origin, Origin::Flag(_)) {
            return Ok(Self::There(crate::api::connect(&context.config)?));
        }
        let folder = context.config.data.path().join(format!("bench-{}", std::process::id()));
        Ok(Self::Here { folder, store: args.store.clone() })
    }

    /// A folder for a store of our own.
    pub(super) fn folder(&self, name: &str) -> Result<Folder, Failure> {
        match self {
            Self::There(_) => Err(Failure::usage("this benchmark starts coordinators of its own: leave --api away")),
            Self::Here { folder, .. } => Folder::make(&folder.join(name)),
        }
    }

    /// What `giga serve --store` takes.
    pub(super) fn store_name(&self) -> Option<&str> {
        match self {
            Self::There(_) => None,
            Self::Here { store, .. } => store.as_deref(),
        }
    }

    /// The store in a folder, while no coordinator runs on it.
    pub(super) async fn store(&self, folder: &Folder) -> Result<Opened, Failure> {
        let choice = match self.store_name() {
            Some(name) => name.parse().map_err(|error| Failure::usage(format!("--store: {error}")))?,
            None => StoreChoice::Sqlite,
        };
        Ok(stores::open(&choice, &folder.path().join("fleet.db"), Arc::new(SystemClock::new())).await?)
    }

    /// The coordinator to measure, fresh if it is ours.
    pub(super) async fn open(&self) -> Result<Ground, Failure> {
        match self {
            Self::There(client) => Ok(Ground::of(client.clone(), None)),
            Self::Here { folder, store } => {
                let folder = Folder::make(&folder.join("fleet"))?;
                Ground::start(folder, store.as_deref()).await
            }
        }
    }
}

/// A folder that is removed with everything in it.
pub(super) struct Folder(PathBuf);

impl Folder {
    pub(super) fn make(path: &Path) -> Result<Self, Failure> {
        make_private_folder(path)?;
        Ok(Self(path.to_owned()))
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What cannot be removed is left behind; its name says what it was.
        let _ = std::fs::remove_dir_all(&self.0);
        if let Some(parent) = self.0.parent() {
            let _ = std::fs::remove_dir(parent);
        }
    }
}

/// A coordinator to measure.
pub(super) struct Ground {
    admin: Client,
    server: Option<ServerProcess>,
    pub(super) clock: Arc<dyn Clock>,
}

struct ServerProcess {
    child: Child,
    folder: Folder,
}

impl Ground {
    fn of(admin: Client, server: Option<ServerProcess>) -> Self {
        Self { admin, server, clock: Arc::new(SystemClock::new()) }
    }

    /// Starts a coordinator on a folder, with whatever is in it.
    pub(super) async fn start(folder: Folder, store: Option<&str>) -> Result<Self, Failure> {
        let clock = SystemClock::new();
        let log = std::fs::File::create(folder.path().join("serve.log"))?;
        let mut command = Command::new(std::env::current_exe()?);
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("GIGA_") {
                command.env_remove(name);
            }
        }
        command.arg("serve").arg("--listen").arg("127.0.0.1:0").arg("--data").arg(folder.path());
        command.arg("--until-stdin-closes").current_dir(folder.path());
        if let Some(store) = store {
            command.arg("--store").arg(store);
        }
        // The log is written as it is for everybody; only nobody reads it here.
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(log).kill_on_drop(true);
        let mut child = command.spawn()?;
        let endpoint = folder.path().join("endpoint");
        let started = clock.monotonic();
        let base = loop {
            match std::fs::read_to_string(&endpoint) {
                Ok(base) if !base.is_empty() => break base,
                _ => clock.sleep(Duration::from_millis(1)).await,
            }
            let is_over = child.try_wait()?.is_some();
            if is_over || clock.monotonic().saturating_sub(started) > START_MAX {
                let log = std::fs::read_to_string(folder.path().join("serve.log")).unwrap_or_default();
                let last: Vec<&str> = log.lines().rev().take(3).collect();
                return Err(Failure::failed(format!("the coordinator did not start: {}", last.join(" / "))));
            }
        };
        let token = std::fs::read_to_string(folder.path().join("admin.token"))?.trim().to_owned();
        let admin = Client::new(Endpoint { base, token, product: None, trust: Trust::Public })?;
        Ok(Self::of(admin, Some(ServerProcess { child, folder })))
    }

    /// Ends the coordinator, if it is ours, and gives its folder back.
    pub(super) async fn stop(self) -> Result<Option<Folder>, Failure> {
        let Some(mut server) = self.server else { return Ok(None) };
        drop(server.child.stdin.take());
        if tokio::time::timeout(STOP_MAX, server.child.wait()).await.is_err() {
            server.child.kill().await?;
        }
        Ok(Some(server.folder))
    }

    /// Waits until the coordinator says that it can serve.
    pub(super) async fn is_ready(&self) -> Result<(), Failure> {
        while self.admin.get::<serde_json::Value>("/readyz").await.is_err() {
            self.clock.sleep(Duration::from_millis(2)).await;
        }
        Ok(())
    }

    /// A client that may do everything.
    pub(super) fn admin(&self) -> &Client {
        &self.admin
    }

    /// The process of the coordinator, if it is ours.
    pub(super) fn pid(&self) -> Option<u32> {
        self.server.as_ref().and_then(|server| server.child.id())
    }

    /// Processor time that the coordinator has used so far.
    pub(super) fn cpu_time(&self) -> Option<Duration> {
        self.pid().and_then(process::cpu_time)
    }

    /// The benchmarks' own product: what is done ships by itself.
    pub(super) async fn product(&self) -> Result<ProductId, Failure> {
        let product: ProductId = PRODUCT.parse().map_err(|error| Failure::failed(format!("{error}")))?;
        let settings = ProductSettings { auto_ship: Some(true), ..ProductSettings::default() };
        let _: serde_json::Value =
            self.admin.call(Method::PUT, &format!("/products/{product}"), Some(&settings)).await?;
        Ok(product)
    }

    /// A factory's client, enrolled and alive.
    pub(super) async fn hire(&self, name: &str, seats: u32) -> Result<Hand, Failure> {
        let factory: FactoryId = name.parse().map_err(|error| Failure::failed(format!("{error}")))?;
        let grant = Grant::Join {
            factory: Some(factory.clone()),
            products: std::iter::once(self.product_id()?).collect(),
            capabilities: std::collections::BTreeSet::new(),
        };
        let token = NewToken { name: format!("bench {name}"), grant, ttl_seconds: None };
        let made: TokenMade = self.admin.post("/tokens", &token).await?;
        let enroll = Enroll { join_token: made.secret, factory_id: factory.clone(), nonce: None };
        let enrolled: Enrolled = self.admin.post("/factories/enroll", &enroll).await?;
        let endpoint =
            Endpoint { base: self.admin.base().to_owned(), token: enrolled.token, product: None, trust: Trust::Public };
        let hand = Hand::new(factory, Client::new(endpoint)?, seats);
        hand.beat().await?;
        Ok(hand)
    }

    fn product_id(&self) -> Result<ProductId, Failure> {
        PRODUCT.parse().map_err(|error| Failure::failed(format!("{error}")))
    }

    /// Store operations so far, all kinds together.
    pub(super) async fn store_operations(&self) -> Result<u64, Failure> {
        let metrics: Metrics = self.admin.get("/metrics").await?;
        Ok(metrics.store_operations.values().sum())
    }
}
