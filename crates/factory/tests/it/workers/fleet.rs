//! A real coordinator behind its HTTP server, and a flaky proxy to it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use client::{Client, Endpoint, HttpTransport, Trust};
use clock::SystemClock;
use coordinator::{Coordinator, Settings};
use domain::{Clock, EngineHealth, JobId, Mode, Run, StageName};
use protocol::{
    AlertCode, AlertList, EnrolRequest, FactoryView, JobDetail, JobExplanation, JobView, Progress, RunEvidence,
    SubmitRequest, SubmitResponse,
};
use server::{Options, Server};
use tempfile::TempDir;
use testkit::fleet::{RunningCoordinator, client, open_coordinator, open_store};
use testkit::host::{PATIENCE, clock};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;

/// A running coordinator with its server.
pub(crate) struct Fleet {
    pub(crate) address: SocketAddr,
    pub(crate) admin: Client,
    coordinator: Arc<Coordinator>,
    running: RunningCoordinator,
    _dir: TempDir,
}

impl Fleet {
    /// A coordinator with leases of this length, and short timeouts otherwise.
    pub(crate) async fn start(lease_ttl: Duration) -> Self {
        Self::start_with(lease_ttl, |_| {}).await
    }

    /// The same, with other settings.
    pub(crate) async fn start_with(lease_ttl: Duration, change: impl FnOnce(&mut Settings)) -> Self {
        Self::start_by(Arc::new(SystemClock::new()), lease_ttl, change).await
    }

    /// The same, with the test's own clock.
    pub(crate) async fn start_by(
        clock: Arc<dyn Clock>,
        lease_ttl: Duration,
        change: impl FnOnce(&mut Settings),
    ) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut settings = Settings {
            lease_ttl,
            renew_every: Duration::from_millis(500),
            stale_after: lease_ttl,
            accept_within: Duration::from_secs(1),
            sweep_every: Duration::from_secs(1),
            disk_free_min_bytes: 0,
            ..Settings::default()
        };
        change(&mut settings);
        let coordinator = open_coordinator(&open_store(dir.path()), dir.path(), clock, settings).await;
        let token = coordinator.first_admin_token().await.unwrap().unwrap();
        let listen = SocketAddr::from(([127, 0, 0, 1], 0));
        let server = Server::bind(Options { listen, ..Options::default() }).await.unwrap();
        let running = RunningCoordinator::start(&coordinator, server);
        let admin = client(&running.base, token.reveal());
        Self { address: running.address, admin, coordinator, running, _dir: dir }
    }

    /// The alerts that are open, by code and message.
    pub(crate) async fn alerts(&self) -> Vec<(AlertCode, String)> {
        let list: AlertList = self.admin.get("/alerts").await.unwrap();
        list.items.into_iter().map(|alert| (alert.code, alert.message)).collect()
    }

    /// Waits until an alert with this code is open, or is not.
    pub(crate) async fn until_alert(&self, code: AlertCode, is_open: bool) -> Option<String> {
        let clock = clock();
        loop {
            let found = self.alerts().await.into_iter().find(|(found, _)| *found == code);
            if found.is_some() == is_open {
                return found.map(|(_, message)| message);
            }
            assert!(clock.monotonic() < PATIENCE, "alert {code:?} is open: {}", !is_open);
            clock.sleep(Duration::from_millis(50)).await;
        }
    }

    /// A client with a new factory's own token, through the proxy `line`.
    pub(crate) async fn enrol(&self, name: &str, line: &Line) -> Client {
        client(&format!("http://{}", line.address), &self.factory_token(name).await)
    }

    /// The same, through a network of the test's own.
    pub(crate) async fn enrol_over(&self, name: &str, network: Arc<dyn HttpTransport>) -> Client {
        let endpoint = endpoint(&format!("http://{}", self.address), &self.factory_token(name).await);
        Client::over(network, endpoint).unwrap()
    }

    async fn factory_token(&self, name: &str) -> String {
        let join = self.coordinator.join_token(name.parse().unwrap()).await.unwrap();
        let request =
            EnrolRequest { join_token: join.reveal().to_owned(), factory_id: name.parse().unwrap(), nonce: None };
        let enrolled = self.coordinator.enroll(&request).await.unwrap();
        enrolled.token
    }

    pub(crate) async fn submit(&self, front_matter: &str) -> JobId {
        let body_md = format!("---\ntitle: Write it down\nrepo: notes\n{front_matter}---\nPlease.\n");
        let request = SubmitRequest { body_md, ..SubmitRequest::default() };
        let submitted: SubmitResponse = self.admin.post("/jobs", &request).await.unwrap();
        submitted.job.id
    }

    /// Sets the mode of the whole fleet.
    pub(crate) async fn switch(&self, mode: Mode) {
        self.admin.set_mode(None, Some(mode)).await.unwrap();
    }

    /// Drains a factory.
    pub(crate) async fn drain(&self, factory: &str) {
        let path = format!("/factories/{factory}/drain");
        let _: FactoryView = self.admin.post(&path, &serde_json::json!({ "draining": true })).await.unwrap();
    }

    pub(crate) async fn act(&self, job: JobId, action: &str) {
        self.act_with(job, action, &serde_json::json!({})).await;
    }

    /// The same with options.
    pub(crate) async fn act_with(&self, job: JobId, action: &str, options: &serde_json::Value) {
        let path = format!("/jobs/{job}/actions/{action}");
        let _: JobView = self.admin.post(&path, options).await.unwrap();
    }

    pub(crate) async fn job(&self, job: JobId) -> JobView {
        let detail: JobDetail = self.admin.get(&format!("/jobs/{job}")).await.unwrap();
        detail.job
    }

    /// The activity of a job's agent.
    pub(crate) async fn explain(&self, job: JobId) -> JobExplanation {
        self.admin.get(&format!("/jobs/{job}/explain")).await.unwrap()
    }

    pub(crate) async fn progress(&self, job: JobId) -> Option<Progress> {
        let detail: JobDetail = self.admin.get(&format!("/jobs/{job}")).await.unwrap();
        detail.progress
    }

    /// Waits until a job is as described.
    pub(crate) async fn until(&self, job: JobId, what: &str, is_so: impl Fn(&JobView) -> bool) -> JobView {
        let clock = SystemClock::new();
        loop {
            let view = self.job(job).await;
            if is_so(&view) {
                return view;
            }
            assert!(clock.monotonic() < PATIENCE, "{what} did not happen: {view:#?}");
            clock.sleep(Duration::from_millis(20)).await;
        }
    }

    pub(crate) async fn until_stage(&self, job: JobId, stage: StageName) -> JobView {
        self.until(job, &format!("stage {stage}"), |view| view.stage == stage).await
    }

    /// Waits until a factory offers so many seats.
    pub(crate) async fn until_seats(&self, factory: &str, seats: u32) {
        let clock = SystemClock::new();
        loop {
            let view: Result<FactoryView, _> = self.admin.get(&format!("/factories/{factory}")).await;
            if view.is_ok_and(|view| view.seat_limit == seats) {
                return;
            }
            assert!(clock.monotonic() < PATIENCE, "`{factory}` never offered {seats} seats");
            clock.sleep(Duration::from_millis(20)).await;
        }
    }

    /// A factory's report about its first engine.
    pub(crate) async fn engine(&self, factory: &str) -> Option<EngineHealth> {
        let view: Result<FactoryView, _> = self.admin.get(&format!("/factories/{factory}")).await;
        view.ok()?.engines.into_iter().next()
    }

    /// Answers the question that a job is parked on.
    pub(crate) async fn answer(&self, job: JobId, answer: &str) {
        let path = format!("/jobs/{job}/actions/requeue");
        let _: JobView = self.admin.post(&path, &serde_json::json!({ "message": answer })).await.unwrap();
    }

    pub(crate) async fn runs(&self, job: JobId) -> Vec<Run> {
        self.admin.runs(job).await.unwrap()
    }

    pub(crate) async fn evidence(&self, job: JobId, n: u32) -> RunEvidence {
        self.admin.get(&format!("/jobs/{job}/runs/{n}/evidence")).await.unwrap()
    }

    pub(crate) async fn log(&self, job: JobId) -> String {
        self.admin.get_text(&format!("/jobs/{job}/logs")).await.unwrap()
    }

    /// Waits until the first run of a job has ended.
    pub(crate) async fn first_run(&self, job: JobId) -> Run {
        let clock = SystemClock::new();
        loop {
            if let Some(run) = self.runs(job).await.into_iter().find(|run| run.n == 1 && run.ended_at.is_some()) {
                return run;
            }
            assert!(clock.monotonic() < PATIENCE, "the run did not end");
            clock.sleep(Duration::from_millis(20)).await;
        }
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        self.coordinator.stop();
        self.running.shutdown.cancel();
    }
}

/// A flaky proxy to the coordinator.
pub(crate) struct Line {
    pub(crate) address: SocketAddr,
    wire: watch::Sender<Wire>,
    calls: Arc<Notify>,
    _carrying: JoinSet<()>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wire {
    Whole,
    /// Connections break, new ones are closed.
    Cut,
    /// Connections stay, and no data passes.
    Dead,
}

impl Line {
    pub(crate) async fn to(fleet: &Fleet) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (wire, watched) = watch::channel(Wire::Whole);
        let mut carrying = JoinSet::new();
        let calls = Arc::new(Notify::new());
        carrying.spawn(carry(listener, fleet.address, watched, Arc::clone(&calls)));
        Self { address, wire, calls, _carrying: carrying }
    }

    /// Waits for a connection attempt.
    pub(crate) async fn until_called(&self) {
        assert!(tokio::time::timeout(PATIENCE, self.calls.notified()).await.is_ok(), "nobody calls");
    }

    /// Breaks it with connection resets.
    pub(crate) fn cut(&self) {
        self.wire.send_replace(Wire::Cut);
    }

    /// Breaks it silently: connections stay open without data.
    pub(crate) fn silence(&self) {
        self.wire.send_replace(Wire::Dead);
    }

    pub(crate) fn mend(&self) {
        self.wire.send_replace(Wire::Whole);
    }
}

async fn carry(listener: TcpListener, to: SocketAddr, wire: watch::Receiver<Wire>, called: Arc<Notify>) {
    let mut calls = JoinSet::new();
    while let Ok((near, _)) = listener.accept().await {
        called.notify_one();
        calls.spawn(carry_one(near, to, wire.clone()));
    }
}

async fn carry_one(mut near: TcpStream, to: SocketAddr, mut wire: watch::Receiver<Wire>) {
    let mut far = TcpStream::connect(to).await.unwrap();
    if *wire.borrow() == Wire::Whole {
        tokio::select! {
            _ = copy_bidirectional(&mut near, &mut far) => return,
            _ = wire.wait_for(|wire| *wire != Wire::Whole) => {}
        }
    }
    let _ = wire.wait_for(|wire| *wire != Wire::Dead).await;
}

fn endpoint(base: &str, token: &str) -> Endpoint {
    Endpoint { base: base.to_owned(), token: token.to_owned(), product: None, trust: Trust::Public }
}
