//! The state shared by all handlers.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::Arc;

use bytes::Bytes;
use coordinator::{Coordinator, Principal};
use domain::{Clock, Leader, TrackerName};
use protocol::{CoordinatorAddress, Metrics};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::auth_rate_limit::AuthRateLimit;
use crate::backup_service::BackupService;
use crate::body_budget::BodyBudget;
use crate::host_check::AllowedHosts;
use crate::list_limit::ListLimit;
use crate::mount::Mount;
use crate::openapi;
use crate::options::{Limits, Options};
use crate::problem::Problem;
use crate::request_schema::RequestSchemas;
use crate::session_cookie::SessionCookie;
use crate::streams::Streams;
use crate::web::WebFiles;
use crate::webhook_body::WebhookBodies;
use crate::webhook_secret::WebhookSecret;

/// The state shared by all handlers. Clones share it.
#[derive(Clone)]
pub(crate) struct App {
    shared: Arc<Shared>,
}

/// The parts of an [`App`].
pub(crate) struct Shared {
    pub(crate) coordinator: Arc<Coordinator>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) limits: Limits,
    pub(crate) hosts: AllowedHosts,
    pub(crate) wrong_tokens: AuthRateLimit,
    pub(crate) streams: Arc<Streams>,
    /// The lists that are read, by token.
    pub(crate) lists: Arc<ListLimit>,
    /// The memory budget of request bodies.
    pub(crate) body_budget: BodyBudget,
    /// The memory budget of webhook bodies.
    pub(crate) webhook_bodies: WebhookBodies,
    /// Changes and backups in progress: each is finished, even if its client disconnects.
    pub(crate) changes: TaskTracker,
    pub(crate) proxy: Proxy,
    /// The address for other machines.
    pub(crate) reached_at: CoordinatorAddress,
    /// Whether only this machine can reach the server.
    pub(crate) reach: Exposure,
    /// The OpenAPI document as served.
    pub(crate) openapi: Bytes,
    /// The OpenAPI document compiled for request validation.
    pub(crate) request_schemas: RequestSchemas,
    pub(crate) mounts: Vec<Mount>,
    pub(crate) session_cookie: SessionCookie,
    pub(crate) web: WebFiles,
    /// This coordinator as the leader of several.
    pub(crate) leader: Option<Leader>,
    backups: Option<Arc<dyn BackupService>>,
    webhook_secret: Option<WebhookSecret>,
    tracker_secrets: BTreeMap<TrackerName, WebhookSecret>,
}

impl Shared {
    /// The metrics of the fleet, with the server's own counters.
    pub(crate) async fn metrics(&self, who: &Principal) -> Result<Metrics, Problem> {
        let metrics = self.coordinator.metrics(who).await?;
        Ok(Metrics { ignored_request_keys: self.request_schemas.ignored(), ..metrics })
    }

    /// The secret that GitHub signs its webhooks with.
    pub(crate) fn webhook_secret(&self) -> Option<&WebhookSecret> {
        self.webhook_secret.as_ref()
    }

    /// The secret that a tracker signs its webhooks with.
    pub(crate) fn tracker_secret(&self, name: &TrackerName) -> Option<&WebhookSecret> {
        self.tracker_secrets.get(name)
    }

    /// The service that makes and restores backups.
    pub(crate) fn backup_service(&self) -> Result<&Arc<dyn BackupService>, Problem> {
        self.backups.as_ref().ok_or_else(Problem::no_backup_service)
    }
}

/// Whether requests come through a trusted proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Proxy {
    /// The peer of a connection is the client.
    None,
    /// The last entry of `X-Forwarded-For` is the client.
    Trusted,
}

/// The network that can reach the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exposure {
    /// Only programs of this machine.
    Local,
    /// Other machines too.
    Network,
}

impl App {
    /// The shared state of a server that listens on `bound` until `closing`.
    pub(crate) fn new(
        coordinator: Arc<Coordinator>,
        options: &Options,
        bound: std::net::SocketAddr,
        reached_at: CoordinatorAddress,
        closing: CancellationToken,
        backups: Option<Arc<dyn BackupService>>,
        leader: Option<Leader>,
    ) -> Self {
        let clock = Arc::clone(coordinator.clock());
        let limits = options.limits.clone();
        let is_local = bound.ip().is_loopback() && !options.behind_proxy;
        let document = openapi::document();
        let shared = Shared {
            hosts: AllowedHosts::new(bound.ip(), &options.allowed_hosts),
            wrong_tokens: AuthRateLimit::new(Arc::clone(&clock), &limits),
            streams: Arc::new(Streams::new(limits.streams_per_token_max, closing)),
            lists: Arc::default(),
            body_budget: BodyBudget::default(),
            webhook_bodies: WebhookBodies::default(),
            changes: TaskTracker::new(),
            proxy: if options.behind_proxy { Proxy::Trusted } else { Proxy::None },
            reached_at,
            reach: if is_local { Exposure::Local } else { Exposure::Network },
            openapi: serde_json::to_vec_pretty(&document).unwrap_or_default().into(),
            request_schemas: RequestSchemas::of(&document),
            mounts: options.mounts.clone(),
            session_cookie: SessionCookie::new(options.tls.is_some() || options.behind_proxy, bound.port()),
            web: WebFiles::new(options.web_dir.clone()),
            leader,
            coordinator,
            clock,
            limits,
            backups,
            webhook_secret: options.webhook_secret.clone(),
            tracker_secrets: options.tracker_secrets.clone(),
        };
        Self { shared: Arc::new(shared) }
    }
}

impl Deref for App {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        &self.shared
    }
}
