//! One request for the next message of a consumer, and the server's answers to it.

use std::time::Duration;

use async_nats::{Client, StatusCode, Subscriber};
use domain::BrokerError;
use futures_util::StreamExt;
use serde_json::json;

use super::error::unavailable;
use super::names::DISPATCH_STREAM;

/// How long the server keeps a request without a message.
const EXPIRES: Duration = Duration::from_secs(60);

/// How often the server shows that it still has the request.
const HEARTBEAT: Duration = Duration::from_secs(3);

/// After this long without a sign the request is lost: the connection broke, or the server restarted. With the check that
/// follows, a factory notices within ten seconds.
const SILENCE_MAX: Duration = Duration::from_secs(7);

/// A request that the server holds. It outlives a receiver that gives up.
pub(super) struct Pull {
    answers: Subscriber,
}

/// An answer.
pub(super) enum Pulled {
    /// A message.
    Message(async_nats::Message),
    /// The request has ended without a message.
    Ended,
    /// The consumer was deleted, or does not exist.
    NoConsumer,
}

impl Pull {
    pub(super) async fn send(client: &Client, consumer: &str) -> Result<Self, BrokerError> {
        let inbox = client.new_inbox();
        let answers = client.subscribe(inbox.clone()).await.map_err(unavailable)?;
        let (expires, heartbeat) = (EXPIRES.as_nanos(), HEARTBEAT.as_nanos());
        let (Ok(expires), Ok(heartbeat)) = (u64::try_from(expires), u64::try_from(heartbeat)) else {
            return Err(BrokerError::Unavailable("the times of a request are too long".to_owned()));
        };
        let request = json!({ "batch": 1, "expires": expires, "idle_heartbeat": heartbeat }).to_string();
        let subject = format!("$JS.API.CONSUMER.MSG.NEXT.{DISPATCH_STREAM}.{consumer}");
        client.publish_with_reply(subject, inbox, request.into()).await.map_err(unavailable)?;
        Ok(Self { answers })
    }

    /// Waits for the answer. A call that is cancelled loses nothing.
    pub(super) async fn answer(&mut self) -> Pulled {
        loop {
            let Ok(Some(answer)) = tokio::time::timeout(SILENCE_MAX, self.answers.next()).await else {
                return Pulled::Ended;
            };
            match answer.status {
                None | Some(StatusCode::OK) => return Pulled::Message(answer),
                Some(StatusCode::IDLE_HEARTBEAT) => {}
                Some(StatusCode::NO_RESPONDERS) => return Pulled::NoConsumer,
                Some(_) => {
                    let why = answer.description.unwrap_or_default();
                    let is_deleted = why.to_ascii_lowercase().contains("consumer deleted");
                    return if is_deleted { Pulled::NoConsumer } else { Pulled::Ended };
                }
            }
        }
    }
}
