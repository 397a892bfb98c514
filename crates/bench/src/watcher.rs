//! A subscriber of the event stream that reads every event, as a browser would.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use client::Client;
use domain::ProductId;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::Error;

/// A reader of the fleet's event stream that counts what it sees.
pub(crate) struct Watcher {
    events: Arc<AtomicU64>,
    shipped: watch::Receiver<u64>,
    _task: JoinSet<()>,
}

impl Watcher {
    /// Opens the stream; from here on nothing of the product is missed.
    pub(crate) async fn open(client: &Client, product: &ProductId) -> Result<Self, Error> {
        let ours = format!("\"productId\":\"{product}\"");
        let mut stream = client.events("/events/stream", None).await?;
        let events = Arc::new(AtomicU64::new(0));
        let (ended, shipped) = watch::channel(0);
        // The first message confirms that the stream is open.
        stream.next().await?;
        let counted = Arc::clone(&events);
        let mut task = JoinSet::new();
        task.spawn(async move {
            while let Ok(Some(event)) = stream.next().await {
                // A subscriber that has missed events cannot count any more.
                if event.event == "reset" {
                    return;
                }
                if !event.data.contains(&ours) {
                    continue;
                }
                counted.fetch_add(1, Ordering::Relaxed);
                if event.data.contains(SHIPPED) {
                    ended.send_modify(|shipped| *shipped += 1);
                }
            }
        });
        Ok(Self { events, shipped, _task: task })
    }

    /// Events seen so far.
    pub(crate) fn events(&self) -> u64 {
        self.events.load(Ordering::Relaxed)
    }

    /// Lives that were seen to end so far.
    pub(crate) fn shipped(&self) -> u64 {
        *self.shipped.borrow()
    }

    /// Waits until this many lives were seen to end.
    pub(crate) async fn wait_for(&mut self, lives: u64) -> Result<(), Error> {
        match self.shipped.wait_for(|shipped| *shipped >= lives).await {
            Ok(_) => Ok(()),
            Err(_) => Err(Error::failed("the event stream ended, or fell behind, before the lives did")),
        }
    }
}

/// The mark of the last event of a life.
const SHIPPED: &str = "\"kind\":\"shipped\"";
