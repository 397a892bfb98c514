//! Its answer never fails once there was one, and is never 0 by mistake [F9].

use std::sync::Arc;
use std::time::Duration;

use client::Client;
use clock::SystemClock;
use coordinator::{Coordinator, Settings};
use domain::FactoryId;
use http::uri::PathAndQuery;
use protocol::{PoolSettings, SubmitRequest, SubmitResponse};
use scaler::DemandFeed;
use scaler::grpc::{
    ExternalScaler, GetMetricSpecResponse, GetMetricsRequest, GetMetricsResponse, IsActiveResponse, ScaledObjectRef,
};
use server::{Options, Server};
use store::SqliteStore;
use testkit::fleet::{RunningCoordinator, client, open_coordinator, open_store};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tonic::transport::Channel;
use tonic::{Code, Request, Status, Streaming};
use tonic_prost::ProstCodec;

const POOL: &str = "linux";

/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// A coordinator in a directory that outlives it.
struct Fleet {
    dir: tempfile::TempDir,
    token: String,
    running: Option<(Arc<Coordinator>, RunningCoordinator)>,
    address: std::net::SocketAddr,
}

impl Fleet {
    async fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let address = "127.0.0.1:0".parse().unwrap();
        let mut fleet = Self { dir, token: String::new(), running: None, address };
        fleet.run().await;
        fleet
    }

    /// Runs a coordinator at the address of the one before.
    async fn run(&mut self) {
        let store = open_store(self.dir.path());
        let clock = Arc::new(SystemClock::new());
        let coordinator = open_coordinator(&store, self.dir.path(), clock, Settings::default()).await;
        if let Some(token) = coordinator.first_admin_token().await.unwrap() {
            token.reveal().clone_into(&mut self.token);
        }
        let server = Server::bind(Options { listen: self.address, ..Options::default() }).await.unwrap();
        let running = RunningCoordinator::start(&coordinator, server);
        self.address = running.address;
        self.running = Some((coordinator, running));
    }

    /// Ends the coordinator with all of its connections: clients get no answer.
    async fn kill(&mut self) {
        let (coordinator, running) = self.running.take().unwrap();
        coordinator.stop();
        running.shutdown.cancel();
        running.serving.join_all().await;
        running.running.join_all().await;
        drop(coordinator);
        // The store is free when nothing of it is left.
        let database = self.dir.path().join("fleet.db");
        let freed = tokio::time::timeout(PATIENCE, async {
            while SqliteStore::open(&database, store::Options::default()).is_err() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        });
        freed.await.unwrap();
    }

    fn client(&self) -> Client {
        client(&format!("http://{}", self.address), &self.token)
    }

    async fn declare(&self) {
        let settings = PoolSettings {
            capabilities: Default::default(),
            engines: ["command".parse().unwrap()].into(),
            repos: Default::default(),
            clones: false,
            products: Default::default(),
            seats: Some(1),
            warm: 0,
            max: 5,
            cost: 0,
            start_within_ms: None,
            idle_after_ms: None,
        };
        let path = format!("/pools/{POOL}");
        let _: protocol::PoolView = self.client().call(http::Method::PUT, &path, Some(&settings)).await.unwrap();
    }

    async fn submit(&self, count: usize) {
        for _ in 0..count {
            let request = SubmitRequest { body_md: "# Mend the gate\n".to_owned(), ..SubmitRequest::default() };
            let _: SubmitResponse = self.client().post("/jobs", &request).await.unwrap();
        }
    }

    /// A member of the pool that holds nothing and reports once.
    async fn join(&self, name: &str) {
        let grant = domain::TokenScope::Join {
            factory: None,
            products: Default::default(),
            capabilities: Default::default(),
            pool: Some(POOL.parse().unwrap()),
        };
        let request = protocol::CreateTokenRequest {
            name: "join".to_owned(),
            grant,
            ttl_seconds: None,
            owner: None,
            forge_login: None,
        };
        let made: protocol::CreateTokenResponse = self.client().post("/tokens", &request).await.unwrap();
        let factory_id: FactoryId = name.parse().unwrap();
        let enrol = protocol::EnrolRequest { join_token: made.secret, factory_id, nonce: None };
        let enrolled: protocol::EnrolResponse = self.client().post("/factories/enroll", &enrol).await.unwrap();
        let beat = serde_json::json!({
            "instance": format!("01890000-0000-7000-8000-00000000000{}", name.trim_start_matches("linux-")),
            "capabilities": ["engine:command"],
            "seatLimit": 1,
            "protocol": protocol::PROTOCOL_VERSION,
        });
        let own = client(&format!("http://{}", self.address), &enrolled.token);
        let _: serde_json::Value = own.post("/factories/heartbeat", &beat).await.unwrap();
    }
}

/// A scaler beside the coordinator, and a client as KEDA is one.
struct Keda {
    channel: Channel,
    stop: CancellationToken,
    _tasks: JoinSet<()>,
}

impl Keda {
    async fn start(client: Client) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let stop = CancellationToken::new();
        let feed = DemandFeed::new(client, Arc::new(SystemClock::new()), Default::default());
        let service = ExternalScaler::new(feed.latest());
        let mut tasks = JoinSet::new();
        let (feeding, serving) = (stop.clone(), stop.clone());
        tasks.spawn(async move { feed.run(&feeding).await });
        tasks.spawn(async move { service.serve(listener, serving).await.unwrap() });
        let channel = Channel::from_shared(format!("http://{address}")).unwrap().connect().await.unwrap();
        Self { channel, stop, _tasks: tasks }
    }

    async fn call<Q, A>(&self, method: &str, message: Q) -> Result<A, Status>
    where
        Q: prost::Message + Default + Send + Sync + 'static,
        A: prost::Message + Default + Send + Sync + 'static,
    {
        let mut grpc = tonic::client::Grpc::new(self.channel.clone());
        grpc.ready().await.unwrap();
        let codec = ProstCodec::<Q, A>::default();
        Ok(grpc.unary(Request::new(message), path(method), codec).await?.into_inner())
    }

    async fn metric(&self, pool: &str) -> Result<f64, Status> {
        let request = GetMetricsRequest { scaled_object_ref: Some(trigger(pool)), metric_name: String::new() };
        let answer: GetMetricsResponse = self.call("GetMetrics", request).await?;
        assert_eq!(answer.metric_values.len(), 1);
        Ok(answer.metric_values[0].metric_value_float)
    }

    async fn is_active(&self) -> Result<bool, Status> {
        Ok(self.call::<_, IsActiveResponse>("IsActive", trigger(POOL)).await?.result)
    }

    async fn activity(&self) -> Streaming<IsActiveResponse> {
        let mut grpc = tonic::client::Grpc::new(self.channel.clone());
        grpc.ready().await.unwrap();
        let codec = ProstCodec::<ScaledObjectRef, IsActiveResponse>::default();
        let request = Request::new(trigger(POOL));
        grpc.server_streaming(request, path("StreamIsActive"), codec).await.unwrap().into_inner()
    }

    async fn until_metric(&self, wanted: f64) {
        let became = tokio::time::timeout(PATIENCE, async {
            while self.metric(POOL).await.ok() != Some(wanted) {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        });
        assert!(became.await.is_ok(), "the metric is {:?}, not {wanted}", self.metric(POOL).await);
    }
}

impl Drop for Keda {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

fn path(method: &str) -> PathAndQuery {
    format!("/externalscaler.ExternalScaler/{method}").parse().unwrap()
}

fn trigger(pool: &str) -> ScaledObjectRef {
    let scaler_metadata = [("pool".to_owned(), pool.to_owned())].into();
    ScaledObjectRef { name: "factories".to_owned(), namespace: "default".to_owned(), scaler_metadata }
}

// [F9]
#[tokio::test]
async fn keda_reads_how_many_factories_should_run() {
    let fleet = Fleet::start().await;
    fleet.declare().await;
    let keda = Keda::start(fleet.client()).await;
    keda.until_metric(0.0).await;
    assert!(!keda.is_active().await.unwrap());
    let mut activity = keda.activity().await;
    assert_eq!(activity.message().await.unwrap(), Some(IsActiveResponse { result: false }));

    fleet.submit(3).await;

    let pushed = tokio::time::timeout(PATIENCE, activity.message()).await.unwrap();
    assert_eq!(pushed.unwrap(), Some(IsActiveResponse { result: true }), "it is told, before it polls");
    keda.until_metric(3.0).await;
    assert!(keda.is_active().await.unwrap());
    let spec: GetMetricSpecResponse = keda.call("GetMetricSpec", trigger(POOL)).await.unwrap();
    assert_eq!(spec.metric_specs[0].target_size_float.to_string(), "1");
    assert_eq!(keda.metric("unknown").await.unwrap_err().code(), Code::NotFound);
    assert_eq!(keda.metric("").await.unwrap_err().code(), Code::InvalidArgument);
}

// [F9]
#[tokio::test]
async fn a_killed_coordinator_changes_no_answer_and_a_warming_one_never_lowers_it() {
    let mut fleet = Fleet::start().await;
    fleet.declare().await;
    fleet.submit(2).await;
    let keda = Keda::start(fleet.client()).await;
    keda.until_metric(2.0).await;

    fleet.kill().await;
    for _ in 0..20 {
        assert_eq!(keda.metric(POOL).await.unwrap().to_string(), "2");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }

    fleet.run().await;
    fleet.join("linux-1").await;
    fleet.join("linux-2").await;
    fleet.join("linux-3").await;
    keda.until_metric(2.0).await;
    // Two have a job; after the restart none is known to be gone.
    fleet.kill().await;
    fleet.run().await;
    keda.until_metric(3.0).await;
}

// [F9]
#[tokio::test]
async fn a_scaler_that_was_never_answered_fails_instead_of_assuming_zero() {
    let mut fleet = Fleet::start().await;
    fleet.declare().await;
    let unreachable = fleet.client();
    fleet.kill().await;
    let keda = Keda::start(unreachable).await;

    assert_eq!(keda.metric(POOL).await.unwrap_err().code(), Code::Unavailable);
    assert_eq!(keda.is_active().await.unwrap_err().code(), Code::Unavailable);

    fleet.run().await;
    keda.until_metric(0.0).await;
}
