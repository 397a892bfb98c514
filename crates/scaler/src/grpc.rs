//! KEDA's external scaler over gRPC.
//!
//! The messages are written down by their field numbers, so that no build needs a compiler for them.

use std::collections::HashMap;
use std::convert::Infallible;
use std::future::ready;
use std::task::{Context, Poll};

use futures_util::future::BoxFuture;
use futures_util::stream::{self, BoxStream, StreamExt as _};
use protocol::PoolScale;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tonic::body::Body;
use tonic::codegen::Service;
use tonic::server::{Grpc, NamedService};
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status};
use tonic_prost::ProstCodec;
use tower::service_fn;

use crate::demand_feed::LatestDemand;

/// The key of a trigger's metadata that names the pool.
const POOL_KEY: &str = "pool";

/// A trigger of KEDA.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ScaledObjectRef {
    /// The name of the scaled object or job.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Its namespace.
    #[prost(string, tag = "2")]
    pub namespace: String,
    /// The metadata of the trigger.
    #[prost(map = "string, string", tag = "3")]
    pub scaler_metadata: HashMap<String, String>,
}

/// Whether anything should run.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub struct IsActiveResponse {
    /// It should.
    #[prost(bool, tag = "1")]
    pub result: bool,
}

/// The metrics of a trigger.
#[derive(Clone, PartialEq, prost::Message)]
pub struct GetMetricSpecResponse {
    /// One for each metric.
    #[prost(message, repeated, tag = "1")]
    pub metric_specs: Vec<MetricSpec>,
}

/// A metric and its target.
#[derive(Clone, PartialEq, prost::Message)]
pub struct MetricSpec {
    /// Its name.
    #[prost(string, tag = "1")]
    pub metric_name: String,
    /// Its target, for versions of KEDA that know whole numbers only.
    #[prost(int64, tag = "2")]
    pub target_size: i64,
    /// Its target.
    #[prost(double, tag = "3")]
    pub target_size_float: f64,
}

/// Asks for the value of a metric.
#[derive(Clone, PartialEq, prost::Message)]
pub struct GetMetricsRequest {
    /// The trigger.
    #[prost(message, optional, tag = "1")]
    pub scaled_object_ref: Option<ScaledObjectRef>,
    /// The metric.
    #[prost(string, tag = "2")]
    pub metric_name: String,
}

/// The values of metrics.
#[derive(Clone, PartialEq, prost::Message)]
pub struct GetMetricsResponse {
    /// One for each metric.
    #[prost(message, repeated, tag = "1")]
    pub metric_values: Vec<MetricValue>,
}

/// A metric and its value.
#[derive(Clone, PartialEq, prost::Message)]
pub struct MetricValue {
    /// Its name.
    #[prost(string, tag = "1")]
    pub metric_name: String,
    /// Its value, for versions of KEDA that know whole numbers only.
    #[prost(int64, tag = "2")]
    pub metric_value: i64,
    /// Its value.
    #[prost(double, tag = "3")]
    pub metric_value_float: f64,
}

/// Answers from the last demand that is known. Without one every answer is an error: KEDA then keeps what runs.
#[derive(Clone)]
pub struct ExternalScaler {
    latest: LatestDemand,
}

impl ExternalScaler {
    /// A service that answers from this demand.
    pub fn new(latest: LatestDemand) -> Self {
        Self { latest }
    }

    /// Serves until `stop`.
    pub async fn serve(self, listener: TcpListener, stop: CancellationToken) -> Result<(), tonic::transport::Error> {
        let server = tonic::transport::Server::builder().add_service(self);
        server.serve_with_incoming_shutdown(TcpIncoming::from(listener), stop.cancelled_owned()).await
    }

    fn scale(&self, trigger: &ScaledObjectRef) -> Result<PoolScale, Status> {
        scale_of(&self.latest, pool_of(trigger)?)
    }

    fn is_active(&self, trigger: &ScaledObjectRef) -> Result<IsActiveResponse, Status> {
        Ok(IsActiveResponse { result: self.scale(trigger)?.wanted > 0 })
    }

    /// The demand of a pool, now and after each change.
    fn activity(&self, trigger: &ScaledObjectRef) -> Result<ActivityStream, Status> {
        let pool = pool_of(trigger)?.to_owned();
        let latest = self.latest.clone();
        let changes = stream::unfold((latest, true, None), move |(mut latest, is_first, told)| {
            let pool = pool.clone();
            async move {
                let mut is_due = is_first;
                loop {
                    if !is_due {
                        latest.changed().await.ok()?;
                    }
                    is_due = false;
                    latest.borrow_and_update();
                    // Nothing is known yet, or the pool is gone: the next answer counts.
                    let Ok(scale) = scale_of(&latest, &pool) else { continue };
                    if told != Some(scale.wanted) {
                        let active = IsActiveResponse { result: scale.wanted > 0 };
                        return Some((Ok(active), (latest, false, Some(scale.wanted))));
                    }
                }
            }
        });
        Ok(changes.boxed())
    }

    /// One metric, whose value is the number of factories that should run: the target of each is 1.
    fn metric_spec(&self, trigger: &ScaledObjectRef) -> Result<GetMetricSpecResponse, Status> {
        let metric_name = metric_name(pool_of(trigger)?);
        Ok(GetMetricSpecResponse {
            metric_specs: vec![MetricSpec { metric_name, target_size: 1, target_size_float: 1.0 }],
        })
    }

    fn metrics(&self, request: &GetMetricsRequest) -> Result<GetMetricsResponse, Status> {
        let trigger = request.scaled_object_ref.as_ref();
        let trigger = trigger.ok_or_else(|| Status::invalid_argument("the request names no scaled object"))?;
        let scale = self.scale(trigger)?;
        let metric_name = metric_name(pool_of(trigger)?);
        let value = MetricValue {
            metric_name,
            metric_value: i64::from(scale.wanted),
            metric_value_float: f64::from(scale.wanted),
        };
        Ok(GetMetricsResponse { metric_values: vec![value] })
    }
}

type ActivityStream = BoxStream<'static, Result<IsActiveResponse, Status>>;

fn pool_of(trigger: &ScaledObjectRef) -> Result<&str, Status> {
    let pool = trigger.scaler_metadata.get(POOL_KEY).map(String::as_str).filter(|pool| !pool.is_empty());
    pool.ok_or_else(|| Status::invalid_argument("the metadata of the trigger names no `pool`"))
}

fn scale_of(latest: &LatestDemand, pool: &str) -> Result<PoolScale, Status> {
    let latest = latest.borrow();
    let Some(answer) = latest.as_ref() else {
        return Err(Status::unavailable("the coordinator has not answered yet"));
    };
    let scale = answer.pools.iter().find(|scale| scale.pool.as_str() == pool);
    scale.cloned().ok_or_else(|| Status::not_found(format!("the coordinator has no pool `{pool}`")))
}

fn metric_name(pool: &str) -> String {
    format!("factories-{pool}")
}

impl NamedService for ExternalScaler {
    const NAME: &'static str = "externalscaler.ExternalScaler";
}

impl Service<http::Request<Body>> for ExternalScaler {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let own = self.clone();
        Box::pin(async move {
            let method = request.uri().path().rsplit('/').next().unwrap_or_default().to_owned();
            Ok(match method.as_str() {
                "IsActive" => {
                    let answer = service_fn(move |asked: Request<ScaledObjectRef>| {
                        ready(own.is_active(asked.get_ref()).map(Response::new))
                    });
                    Grpc::new(ProstCodec::default()).unary(answer, request).await
                }
                "StreamIsActive" => {
                    let answer = service_fn(move |asked: Request<ScaledObjectRef>| {
                        ready(own.activity(asked.get_ref()).map(Response::new))
                    });
                    Grpc::new(ProstCodec::default()).server_streaming(answer, request).await
                }
                "GetMetricSpec" => {
                    let answer = service_fn(move |asked: Request<ScaledObjectRef>| {
                        ready(own.metric_spec(asked.get_ref()).map(Response::new))
                    });
                    Grpc::new(ProstCodec::default()).unary(answer, request).await
                }
                "GetMetrics" => {
                    let answer = service_fn(move |asked: Request<GetMetricsRequest>| {
                        ready(own.metrics(asked.get_ref()).map(Response::new))
                    });
                    Grpc::new(ProstCodec::default()).unary(answer, request).await
                }
                _ => Status::unimplemented("KEDA's external scaler has no such method").into_http(),
            })
        })
    }
}
