//! A coordinator that preempts a seat: the work is saved and released, and continues elsewhere [F4].

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use client::{HttpTransport, ResponseBody, TransportError, Trust, real_network};
use domain::{RunOutcome, StageName};
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use parking_lot::Mutex;
use protocol::{Directive, RenewResponse};
use testkit::host::{TestRemote, eventually};

use super::LONG;
use super::fleet::{Fleet, Line};
use super::worker_process::{Plant, settings};

/// The real network, with one more directive in the next answer to a renewal.
struct Adding {
    real: Arc<dyn HttpTransport>,
    directive: Mutex<Option<Directive>>,
}

impl Adding {
    fn new() -> Arc<Self> {
        Arc::new(Self { real: real_network(&Trust::Public).unwrap(), directive: Mutex::new(None) })
    }
}

#[async_trait]
impl HttpTransport for Adding {
    async fn exchange(&self, request: Request<Full<Bytes>>) -> Result<Response<ResponseBody>, TransportError> {
        let is_renewal = request.uri().path().ends_with("/renew");
        let response = self.real.exchange(request).await?;
        let Some(directive) = is_renewal.then(|| self.directive.lock().take()).flatten() else { return Ok(response) };
        let (head, body) = response.into_parts();
        let mut renewed: RenewResponse = serde_json::from_slice(&body.collect().await?.to_bytes()).unwrap();
        renewed.directives.push(directive);
        let body = Full::from(serde_json::to_vec(&renewed).unwrap());
        Ok(Response::from_parts(head, body.map_err(|never| match never {}).boxed_unsync()))
    }
}

// [F4]
#[tokio::test]
async fn a_preempted_run_saves_its_work_and_another_host_goes_on_with_it() {
    let (forge, fleet, network) = (TestRemote::new(), Fleet::start(LONG).await, Adding::new());
    let begun = forge.path("begun");
    let begin = format!("echo half > half.md; touch '{}'; exec sleep 600", begun.display());
    let first = fleet.enrol_over("first", network.clone()).await;
    let first = Plant::start(settings("first", &forge, &begin), first);
    let job = fleet.submit("").await;
    let lease_epoch = fleet.until_stage(job, StageName::Building).await.lease_epoch;
    eventually("the beginning", || begun.exists()).await;

    // Otherwise the job could come back to the seat that it left.
    fleet.drain("first").await;
    *network.directive.lock() = Some(Directive::Preempt { job_id: job, lease_epoch });
    let run = fleet.first_run(job).await;
    first.stop().await;
    let line = Line::to(&fleet).await;
    let second = settings("second", &forge, "cat half.md half.md > whole.md");
    let _second = Plant::start(second, fleet.enrol("second", &line).await);

    assert_eq!(run.outcome, Some(RunOutcome::Released));
    let done = fleet.until(job, "a promoted branch", |view| view.promoted_sha.is_some()).await;
    assert_eq!((done.attempts, done.lost_leases), (0, 0));
    assert_eq!(forge.file_at(&done.promoted_sha.unwrap(), "whole.md").as_deref(), Some("half\nhalf\n"));
}
