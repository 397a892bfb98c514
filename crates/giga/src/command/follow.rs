//! A stream of events that survives lost connections and restarted coordinators.

use std::time::Duration;

use client::{Client, ClientError, EventStream};
use clock::Backoff;
use domain::JobEvent;
use protocol::{ProgressEvent, SseEvent};
use serde::Deserialize;
use serde_json::Value;

use crate::failure::Failure;

use super::Context;

/// The pause before a lost stream is opened again; doubled each time.
const PAUSE_FIRST: Duration = Duration::from_millis(500);

/// No pause is longer: a coordinator that comes back is noticed soon.
const PAUSE_MAX: Duration = Duration::from_secs(10);

/// What a stream brings.
#[derive(Debug)]
pub(super) enum StreamMessage {
    /// Something happened.
    Happened {
        /// As it was written down.
        json: Value,
        /// As we understand it; `None` when it is newer than we are.
        event: Option<Box<JobEvent>>,
    },
    /// An agent's progress. It can be ignored.
    Doing(Box<ProgressEvent>),
    /// Something may have been missed: read the state afresh.
    Reset,
}

/// A reader of a stream.
pub(super) struct EventFollower<'c> {
    context: &'c Context<'c>,
    client: &'c Client,
    path: String,
    after: Option<String>,
    stream: Option<EventStream>,
    backoff: Backoff,
}

impl<'c> EventFollower<'c> {
    /// Opens a stream behind `after`, or from now on. The first connection must succeed; a later loss is recovered.
    pub(super) async fn open(
        context: &'c Context<'c>,
        client: &'c Client,
        path: String,
        after: Option<String>,
    ) -> Result<Self, Failure> {
        let stream = client.events(&path, after.as_deref()).await?;
        Ok(Self { context, client, path, after, stream: Some(stream), backoff: Backoff::new(PAUSE_FIRST, PAUSE_MAX) })
    }

    /// The next news.
    pub(super) async fn next(&mut self) -> Result<StreamMessage, Failure> {
        loop {
            let Some(stream) = &mut self.stream else {
                self.reopen().await?;
                return Ok(StreamMessage::Reset);
            };
            match stream.next().await {
                Ok(Some(event)) => {
                    self.backoff.reset();
                    if let Some(news) = self.understood(event) {
                        return Ok(news);
                    }
                }
                Ok(None) => self.lost("the coordinator ended the stream"),
                Err(error) if error.is_final() => return Err(error.into()),
                Err(error) => self.lost(&error.to_string()),
            }
        }
    }

    /// Where the stream is: what it can be resumed behind.
    pub(super) fn position(&self) -> Option<&str> {
        self.after.as_deref()
    }

    fn understood(&mut self, event: SseEvent) -> Option<StreamMessage> {
        self.after = event.id.or_else(|| self.after.take());
        match event.event.as_str() {
            "job" => {}
            "reset" => return Some(StreamMessage::Reset),
            "progress" => {
                return serde_json::from_str(&event.data).ok().map(|news| StreamMessage::Doing(Box::new(news)));
            }
            // `hello`, and what changed beside jobs.
            _ => return None,
        }
        let json: Value = serde_json::from_str(&event.data).unwrap_or(Value::String(event.data));
        let event = JobEvent::deserialize(&json).ok().map(Box::new);
        Some(StreamMessage::Happened { json, event })
    }

    fn lost(&mut self, why: &str) {
        self.context.out.note(&format!("lost the stream ({why}), opening it again"));
        self.stream = None;
    }

    async fn reopen(&mut self) -> Result<(), ClientError> {
        loop {
            self.context.clock.sleep(self.backoff.next_pause()).await;
            match self.client.events(&self.path, self.after.as_deref()).await {
                Ok(stream) => {
                    self.stream = Some(stream);
                    return Ok(());
                }
                Err(error) if error.is_final() => return Err(error),
                Err(_) => {}
            }
        }
    }
}
