//! The event stream: opened again whenever it is lost, from where it was lost.

use std::sync::Arc;
use std::time::Duration;

use client::{EventFeed, FeedFrame};
use domain::{Clock, Entropy, clean_line};
use protocol::SseEvent;
use tokio::sync::{Notify, mpsc};

use super::current_client::CurrentClient;
use super::read_error;
use crate::boundary::decode;
use crate::message::{Msg, ReadError, StreamMsg};

/// No pause between attempts is shorter.
const PAUSE_MIN: Duration = Duration::from_secs(1);

/// Follows the events of the fleet until its receiver is dropped.
pub(super) struct Follower {
    pub(super) client: CurrentClient,
    pub(super) news: mpsc::Sender<Msg>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) entropy: Arc<dyn Entropy>,
    /// Tries at once.
    pub(super) hurry: Arc<Notify>,
}

/// The dashboard has ended.
struct Ended;

impl Follower {
    pub(super) async fn follow(self) {
        let mut feed = None;
        while let Ok(error) = self.listen(&mut feed).await {
            let pause = feed.as_ref().map_or(PAUSE_MIN, |feed| feed.retry_in().max(PAUSE_MIN));
            let pause = self.jittered(pause);
            let retry_at = self.clock.now().after(pause);
            let msg = match error {
                ReadError::SignedOut(why) => StreamMsg::SignedOut { why },
                ReadError::Unreachable(why) | ReadError::Refused(why) => StreamMsg::Lost { why, retry_at },
            };
            if self.send(msg).await.is_err() {
                return;
            }
            tokio::select! {
                () = self.clock.sleep(pause) => {}
                () = self.hurry.notified() => {}
            }
        }
    }

    /// Listens until the stream is lost; returns why.
    async fn listen(&self, feed: &mut Option<EventFeed>) -> Result<ReadError, Ended> {
        let client = match self.client.reconnect() {
            Ok(client) => client,
            Err(error) => return Ok(error),
        };
        let api = clean_line(client.base());
        let feed = match feed {
            Some(feed) => {
                feed.use_client(client);
                feed
            }
            None => feed.insert(EventFeed::new(client, Arc::clone(&self.clock), "/events/stream", None)),
        };
        if let Err(error) = feed.connect().await {
            return Ok(read_error(&error));
        }
        self.send(StreamMsg::Open { api }).await?;
        loop {
            match feed.next_frame().await {
                Ok(FeedFrame::Event(event)) => {
                    if let Some(news) = understood(&event) {
                        self.send(news).await?;
                    }
                }
                Ok(FeedFrame::Lost { why, .. }) => return Ok(ReadError::Unreachable(clean_line(&why))),
                Ok(FeedFrame::Reconnected) => {}
                Err(error) => return Ok(read_error(&error)),
            }
        }
    }

    async fn send(&self, msg: StreamMsg) -> Result<(), Ended> {
        self.news.send(Msg::Stream(msg)).await.map_err(|_| Ended)
    }

    /// A quarter more or less, so that many clients do not come back at once.
    fn jittered(&self, pause: Duration) -> Duration {
        let mut byte = [0; 1];
        self.entropy.fill(&mut byte);
        pause.mul_f64(0.75 + f64::from(byte[0]) / 512.0)
    }
}

/// What a frame means; one of a newer coordinator may mean nothing to us.
fn understood(event: &SseEvent) -> Option<StreamMsg> {
    let data = &event.data;
    match event.event.as_str() {
        "hello" => decode(data).ok().map(StreamMsg::Hello),
        "job" => decode(data).ok().map(|event| StreamMsg::Job(Box::new(event))),
        "progress" => decode(data).ok().map(|event| StreamMsg::Progress(Box::new(event))),
        "factory" => Some(StreamMsg::Factory),
        "alert" => Some(StreamMsg::Alert),
        "needs" => Some(StreamMsg::Needs),
        "flags" => decode(data).ok().map(|modes| StreamMsg::Flags(Box::new(modes))),
        "metrics" => decode(data).ok().map(|metrics| StreamMsg::Metrics(Box::new(metrics))),
        "reset" => Some(StreamMsg::Reset),
        _ => None,
    }
}
