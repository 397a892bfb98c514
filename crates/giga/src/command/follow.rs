//! A feed of events that tells the user when the connection is lost.

use std::sync::Arc;

use client::{Client, EventFeed, FeedItem};

use crate::failure::Failure;

use super::Context;

/// Follows a stream of events.
pub(super) struct EventFollower<'c> {
    context: &'c Context<'c>,
    feed: EventFeed,
}

impl<'c> EventFollower<'c> {
    /// Opens a stream behind `after`, or from now on. The first connection must succeed; a later loss is recovered.
    pub(super) async fn open(
        context: &'c Context<'c>,
        client: &Client,
        path: String,
        after: Option<String>,
    ) -> Result<Self, Failure> {
        let mut feed = EventFeed::new(client.clone(), Arc::clone(&context.clock), path, after);
        feed.connect().await?;
        Ok(Self { context, feed })
    }

    /// The next item. Reports a lost connection once.
    pub(super) async fn next(&mut self) -> Result<FeedItem, Failure> {
        let item = self.feed.next().await?;
        if let FeedItem::Lost { attempts: 0, why } = &item {
            self.context.out.note(&format!("connection to the coordinator lost, reconnecting ({why})"));
        }
        Ok(item)
    }

    /// The id of the last event.
    pub(super) fn position(&self) -> Option<&str> {
        self.feed.position()
    }
}
