//! What happens in the fleet, whatever happens to the connection.

use std::sync::Arc;
use std::time::Duration;

use domain::{Clock, JobEvent};
use protocol::{Client, EventStream};

/// The pause before a lost stream is opened again.
const PAUSE: Duration = Duration::from_millis(500);

/// What a feed brings.
pub(super) enum News {
    /// Something happened to a job.
    Happened(Box<JobEvent>),
    /// Something may have been missed: read the jobs afresh.
    Afresh,
}

/// A stream of events that is opened again whenever it ends.
pub(super) struct Feed {
    client: Client,
    clock: Arc<dyn Clock>,
    stream: Option<EventStream>,
}

impl Feed {
    pub(super) fn new(client: Client, clock: Arc<dyn Clock>) -> Self {
        Self { client, clock, stream: None }
    }

    /// Opens the stream, however long that takes.
    pub(super) async fn open(&mut self) {
        loop {
            match self.client.events("/events/stream", None).await {
                Ok(stream) => {
                    self.stream = Some(stream);
                    return;
                }
                Err(error) => tracing::debug!(%error, "The stream of events cannot be opened"),
            }
            self.clock.sleep(PAUSE).await;
        }
    }

    /// The next news. Dropping the future loses nothing.
    pub(super) async fn next(&mut self) -> News {
        loop {
            let Some(stream) = &mut self.stream else {
                self.open().await;
                return News::Afresh;
            };
            match stream.next().await {
                Ok(Some(event)) if event.event == "hello" => {}
                Ok(Some(event)) if event.event == "reset" => return News::Afresh,
                Ok(Some(event)) => match serde_json::from_str(&event.data) {
                    Ok(event) => return News::Happened(event),
                    Err(error) => tracing::debug!(%error, "Something unknown happened"),
                },
                Ok(None) | Err(_) => self.stream = None,
            }
        }
    }
}
