//! A worker that is stopped while a lease is being granted to it.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use client::{HttpTransport, ResponseBody, TransportError, Trust, real_network};
use domain::{RunOutcome, StageName};
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use testkit::host::TestRemote;
use tokio_util::sync::CancellationToken;

use super::LONG;
use super::fleet::Fleet;
use super::worker_process::{Plant, settings};

/// The real network, on which the answer to an accept arrives after the worker has reported its stop.
struct Late {
    real: Arc<dyn HttpTransport>,
    leaving: CancellationToken,
}

#[async_trait]
impl HttpTransport for Late {
    async fn exchange(&self, request: Request<Full<Bytes>>) -> Result<Response<ResponseBody>, TransportError> {
        let is_accept = request.uri().path().ends_with("/accept");
        let is_farewell = {
            let body = request.body().clone().collect().await.unwrap().to_bytes();
            String::from_utf8_lossy(&body).contains(r#""leaving":true"#)
        };
        let response = self.real.exchange(request).await?;
        if is_farewell {
            self.leaving.cancel();
        }
        if is_accept {
            self.leaving.cancelled().await;
        }
        Ok(response)
    }
}

// [F6]
#[tokio::test]
async fn what_is_granted_in_the_instant_of_a_farewell_is_given_back_before_the_end() {
    let (forge, fleet) = (TestRemote::new(), Fleet::start(LONG).await);
    let network = Late { real: real_network(&Trust::Public).unwrap(), leaving: CancellationToken::new() };
    let client = fleet.enrol_over("parting", Arc::new(network)).await;
    let plant = Plant::start(settings("parting", &forge, "echo done > done.md"), client);
    let job = fleet.submit("").await;
    fleet.until_stage(job, StageName::Assigned).await;

    plant.stop().await;

    let view = fleet.job(job).await;
    assert_eq!((view.stage, view.attempts, view.lost_leases), (StageName::Queued, 0, 0));
    let run = fleet.first_run(job).await;
    assert_eq!((run.outcome, run.started_at), (Some(RunOutcome::Released), None));
    assert_eq!(run.message.as_deref(), Some("the factory is stopping"));
}
