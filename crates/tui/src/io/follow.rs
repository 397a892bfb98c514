//! The event stream: opened again whenever it is lost, from where it was lost.

use std::sync::Arc;
use std::time::Duration;

use clock::Backoff;
use domain::{Clock, Entropy, clean_line};
use protocol::SseEvent;
use tokio::sync::{Notify, mpsc};

use super::current_client::CurrentClient;
use super::read_error;
use crate::boundary::decode;
use crate::message::{Msg, ReadError, StreamMsg};

/// The pauses between attempts in the first minute of an outage.
const FIRST: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(5));

/// The longest pause later on.
const LATER_MAX: Duration = Duration::from_secs(30);

/// An outage that lasts longer is not over in a moment.
const FIRST_MINUTE: Duration = Duration::from_secs(60);

/// Follows the events of the fleet until its receiver is dropped.
pub(super) struct Follower {
    pub(super) client: CurrentClient,
    pub(super) news: mpsc::Sender<Msg>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) entropy: Arc<dyn Entropy>,
    /// Tries at once.
    pub(super) hurry: Arc<Notify>,
}

impl Follower {
    pub(super) async fn follow(self) {
        let mut after: Option<String> = None;
        let mut backoff = Backoff::new(FIRST.0, FIRST.1);
        let mut lost_at = self.clock.monotonic();
        loop {
            let (error, was_open) = self.listen(&mut after).await;
            if was_open {
                backoff.reset();
                lost_at = self.clock.monotonic();
            }
            if self.clock.monotonic().saturating_sub(lost_at) > FIRST_MINUTE {
                backoff = Backoff::new(FIRST.1, LATER_MAX);
                lost_at = self.clock.monotonic() + Duration::from_secs(u64::from(u32::MAX));
            }
            let pause = self.jittered(backoff.next_pause());
            let retry_at = self.clock.now().after(pause);
            let msg = match error {
                ReadError::SignedOut(why) => StreamMsg::SignedOut { why },
                ReadError::Unreachable(why) | ReadError::Refused(why) => StreamMsg::Lost { why, retry_at },
            };
            if self.news.send(Msg::Stream(msg)).await.is_err() {
                return;
            }
            tokio::select! {
                () = self.clock.sleep(pause) => {}
                () = self.hurry.notified() => {}
            }
        }
    }

    /// Listens until the stream is lost. Tells why, and whether it was open.
    async fn listen(&self, after: &mut Option<String>) -> (ReadError, bool) {
        let client = match self.client.reconnect() {
            Ok(client) => client,
            Err(error) => return (error, false),
        };
        let mut stream = match client.events("/events/stream", after.as_deref()).await {
            Ok(stream) => stream,
            Err(error) => return (read_error(&error), false),
        };
        let open = StreamMsg::Open { api: clean_line(client.base()) };
        if self.news.send(Msg::Stream(open)).await.is_err() {
            return (ReadError::Unreachable(String::new()), true);
        }
        loop {
            match stream.next().await {
                Ok(Some(event)) => {
                    if event.id.is_some() {
                        after.clone_from(&event.id);
                    }
                    let Some(news) = understood(&event) else { continue };
                    if self.news.send(Msg::Stream(news)).await.is_err() {
                        return (ReadError::Unreachable(String::new()), true);
                    }
                }
                Ok(None) => return (ReadError::Unreachable("the coordinator ended the stream".to_owned()), true),
                Err(error) => return (read_error(&error), true),
            }
        }
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
