//! The events of the queue's coordinator, with their failures recorded.

use client::{EventFeed, FeedItem};
use domain::JobEvent;

use crate::local::tracked_client::TrackedClient;

/// The stream of all events.
const STREAM: &str = "/events/stream";

/// What a feed brings.
pub(super) enum FeedMessage {
    /// A job changed.
    Happened(Box<JobEvent>),
    /// Events may have been missed: read the jobs again.
    Afresh,
    /// The stream is not connected; the next call tries again.
    Unavailable,
}

/// The events of all jobs.
pub(super) struct Feed {
    client: TrackedClient,
    events: EventFeed,
}

impl Feed {
    /// A feed that connects with its first message.
    pub(super) fn new(client: TrackedClient) -> Self {
        let events = client.feed(STREAM);
        Self { client, events }
    }

    /// The next message. Dropping the future loses nothing.
    pub(super) async fn next(&mut self) -> FeedMessage {
        loop {
            match self.events.next().await {
                Ok(FeedItem::Event { event: Some(event), .. }) => return FeedMessage::Happened(event),
                Ok(FeedItem::Event { event: None, json }) => tracing::debug!(%json, "Ignored an unknown event"),
                Ok(FeedItem::Progress(_)) => {}
                Ok(FeedItem::Reset) => return FeedMessage::Afresh,
                Ok(FeedItem::Reconnected) => {
                    self.client.succeed(STREAM);
                    return FeedMessage::Afresh;
                }
                Ok(FeedItem::Lost { attempts: 0, .. }) => {}
                Ok(FeedItem::Lost { why, .. }) => return self.failed(why),
                Err(error) => return self.failed(error.to_string()),
            }
        }
    }

    fn failed(&self, why: String) -> FeedMessage {
        tracing::debug!(error = %why, "The stream of events cannot be opened");
        self.client.fail(STREAM, why);
        FeedMessage::Unavailable
    }
}
