//! What happens in the fleet, whatever happens to the connection.

use std::sync::Arc;
use std::time::Duration;

use client::EventStream;
use domain::{Clock, JobEvent};

use crate::local::tracked_client::TrackedClient;

/// The pause before a lost stream is opened again.
const PAUSE: Duration = Duration::from_millis(500);

/// What a feed brings.
pub(super) enum FeedMessage {
    /// Something happened to a job.
    Happened(Box<JobEvent>),
    /// Something may have been missed: read the jobs afresh.
    Afresh,
}

/// The result of a try to open the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OpenAttempt {
    Yes,
    NotYet,
}

/// A stream of events that is opened again whenever it ends.
pub(super) struct Feed {
    line: TrackedClient,
    clock: Arc<dyn Clock>,
    stream: Option<EventStream>,
}

impl Feed {
    pub(super) fn new(line: TrackedClient, clock: Arc<dyn Clock>) -> Self {
        Self { line, clock, stream: None }
    }

    /// Opens the stream, or waits a little before the next try.
    pub(super) async fn open(&mut self) -> OpenAttempt {
        match self.line.events("/events/stream").await {
            Ok(stream) => {
                self.stream = Some(stream);
                return OpenAttempt::Yes;
            }
            Err(error) => tracing::debug!(%error, "The stream of events cannot be opened"),
        }
        self.clock.sleep(PAUSE).await;
        OpenAttempt::NotYet
    }

    /// The next news. Dropping the future loses nothing.
    pub(super) async fn next(&mut self) -> FeedMessage {
        loop {
            let Some(stream) = &mut self.stream else {
                match self.open().await {
                    OpenAttempt::Yes => return FeedMessage::Afresh,
                    OpenAttempt::NotYet => continue,
                }
            };
            match stream.next().await {
                Ok(Some(event)) if event.event == "reset" => return FeedMessage::Afresh,
                Ok(Some(event)) if event.event != "job" => {}
                Ok(Some(event)) => match serde_json::from_str(&event.data) {
                    Ok(event) => return FeedMessage::Happened(event),
                    Err(error) => tracing::debug!(%error, "Something unknown happened"),
                },
                Ok(None) | Err(_) => self.stream = None,
            }
        }
    }
}
