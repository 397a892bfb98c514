//! A stream of events that is opened again whenever its connection is lost.

use std::sync::Arc;
use std::time::Duration;

use clock::Backoff;
use domain::{Clock, JobEvent};
use protocol::{ProgressEvent, SseEvent};
use serde::Deserialize as _;
use serde_json::Value;

use super::{Client, ClientError, EventStream};

/// The pause before the first attempt to reconnect; doubled each time.
const PAUSE_FIRST: Duration = Duration::from_millis(500);

/// No pause is longer: a coordinator that comes back is noticed soon.
const PAUSE_MAX: Duration = Duration::from_secs(10);

/// An item of an [`EventFeed`].
#[derive(Debug)]
pub enum FeedItem {
    /// A job changed.
    Event {
        /// The event as it was sent.
        json: Value,
        /// The event as this version knows it; none for an unknown kind.
        event: Option<Box<JobEvent>>,
    },
    /// An agent made progress. Progress is not stored and may be missed.
    Progress(Box<ProgressEvent>),
    /// The coordinator dropped events: read the state again.
    Reset,
    /// The connection was lost, or an attempt to reconnect failed. The next call reconnects.
    Lost {
        /// The error.
        why: String,
        /// How many attempts to reconnect have failed since the loss.
        attempts: u32,
    },
    /// The feed is connected again and continues after the last event. Progress may have been missed.
    Reconnected,
}

/// A frame of an [`EventFeed`], for callers that need every kind of event.
#[derive(Debug)]
pub enum FeedFrame {
    /// An event.
    Event(SseEvent),
    /// The connection was lost, or an attempt to reconnect failed. The next call reconnects.
    Lost {
        /// The error.
        why: String,
        /// How many attempts to reconnect have failed since the loss.
        attempts: u32,
    },
    /// The feed is connected again and continues after the last event.
    Reconnected,
}

/// Events of a coordinator. Survives lost connections and restarts of the coordinator.
pub struct EventFeed {
    client: Client,
    clock: Arc<dyn Clock>,
    path: String,
    after: Option<String>,
    stream: Option<EventStream>,
    backoff: Backoff,
    attempts: u32,
    /// The time of the next attempt, on the monotonic clock.
    retry_at: Duration,
}

impl EventFeed {
    /// A feed of the stream at `path`: from `after` on, or from now on. Sends nothing yet.
    pub fn new(client: Client, clock: Arc<dyn Clock>, path: impl Into<String>, after: Option<String>) -> Self {
        let backoff = Backoff::new(PAUSE_FIRST, PAUSE_MAX);
        let (path, stream, attempts, retry_at) = (path.into(), None, 0, Duration::ZERO);
        Self { client, clock, path, after, stream, backoff, attempts, retry_at }
    }

    /// Connects now, in one attempt.
    pub async fn connect(&mut self) -> Result<(), ClientError> {
        let opened = self.client.events(&self.path, self.after.as_deref()).await;
        match opened {
            Ok(stream) => {
                self.stream = Some(stream);
                self.attempts = 0;
                Ok(())
            }
            Err(error) => {
                self.attempts = self.attempts.saturating_add(1);
                self.retry_later();
                Err(error)
            }
        }
    }

    /// The next item. A rejection is an error; every other failure is retried by the next call. Dropping the future
    /// loses nothing.
    pub async fn next(&mut self) -> Result<FeedItem, ClientError> {
        loop {
            match self.next_frame().await? {
                FeedFrame::Event(event) => {
                    if let Some(item) = item(event) {
                        return Ok(item);
                    }
                }
                FeedFrame::Lost { why, attempts } => return Ok(FeedItem::Lost { why, attempts }),
                FeedFrame::Reconnected => return Ok(FeedItem::Reconnected),
            }
        }
    }

    /// The same, with events of every kind as they were sent.
    pub async fn next_frame(&mut self) -> Result<FeedFrame, ClientError> {
        let Some(stream) = &mut self.stream else { return self.reconnect().await };
        match stream.next().await {
            Ok(Some(event)) => {
                self.backoff.reset();
                if event.id.is_some() {
                    self.after.clone_from(&event.id);
                }
                Ok(FeedFrame::Event(event))
            }
            Ok(None) => Ok(self.lost("the coordinator closed the stream".to_owned())),
            Err(error) => {
                let lost = self.lost(error.to_string());
                if error.is_final() { Err(error) } else { Ok(lost) }
            }
        }
    }

    /// Uses another client from the next connection on: the coordinator may have moved, or the token changed.
    pub fn use_client(&mut self, client: Client) {
        self.client = client;
    }

    /// The time until the next attempt is due.
    pub fn retry_in(&self) -> Duration {
        self.retry_at.saturating_sub(self.clock.monotonic())
    }

    /// The id of the last event, after which another feed can continue.
    pub fn position(&self) -> Option<&str> {
        self.after.as_deref()
    }

    async fn reconnect(&mut self) -> Result<FeedFrame, ClientError> {
        self.clock.sleep(self.retry_in()).await;
        match self.connect().await {
            Ok(()) => Ok(FeedFrame::Reconnected),
            Err(error) if error.is_final() => Err(error),
            Err(error) => Ok(FeedFrame::Lost { why: error.to_string(), attempts: self.attempts }),
        }
    }

    fn lost(&mut self, why: String) -> FeedFrame {
        self.stream = None;
        self.retry_later();
        FeedFrame::Lost { why, attempts: 0 }
    }

    /// The time of the next attempt is kept, so that a caller that drops the future does not postpone it.
    fn retry_later(&mut self) {
        self.retry_at = self.clock.monotonic() + self.backoff.next_pause();
    }
}

fn item(event: SseEvent) -> Option<FeedItem> {
    match event.event.as_str() {
        "job" => {}
        "reset" => return Some(FeedItem::Reset),
        "progress" => return serde_json::from_str(&event.data).ok().map(FeedItem::Progress),
        // `hello`, and what changed beside jobs.
        _ => return None,
    }
    let json: Value = serde_json::from_str(&event.data).unwrap_or(Value::String(event.data));
    let event = JobEvent::deserialize(&json).ok().map(Box::new);
    Some(FeedItem::Event { json, event })
}
