//! The stream of dead letters: for monitoring only, so that the newest are enough.

use async_nats::jetstream::{consumer, context, message::PublishMessage, stream};
use domain::{BrokerError, Message};
use futures_util::StreamExt;
use serde::{Deserialize, Serialize};

use super::Nats;
use super::error::{is_missing, unavailable};
use super::names::{DEAD_LETTER_STREAM, DEAD_LETTER_SUBJECTS, dead_letter_subject};

/// Dead letters that are kept; the oldest are dropped.
const KEPT_MAX: i64 = 1_000;

/// A stored dead letter.
#[derive(Serialize, Deserialize)]
struct DeadLetter {
    message: Message,
    reason: String,
}

pub(super) fn stream() -> stream::Config {
    stream::Config {
        name: DEAD_LETTER_STREAM.to_owned(),
        subjects: vec![DEAD_LETTER_SUBJECTS.to_owned()],
        max_messages: KEPT_MAX,
        ..stream::Config::default()
    }
}

pub(super) async fn add(nats: &Nats, message: &Message, reason: &str) -> Result<(), BrokerError> {
    match add_once(nats, message, reason).await {
        Err(error) if error.kind() == context::PublishErrorKind::StreamNotFound => {
            nats.create_streams().await?;
            add_once(nats, message, reason).await.map_err(unavailable)
        }
        added => added.map_err(unavailable),
    }
}

async fn add_once(nats: &Nats, message: &Message, reason: &str) -> Result<(), context::PublishError> {
    let letter = DeadLetter { message: message.clone(), reason: reason.to_owned() };
    let publish = PublishMessage::build()
        .payload(serde_json::to_vec(&letter).unwrap_or_default().into())
        .message_id(message.id().to_string());
    nats.context.send_publish(dead_letter_subject(&message.target_factory_id), publish).await?.await?;
    Ok(())
}

/// The newest dead letters, newest last.
pub(super) async fn newest(nats: &Nats, limit: u16) -> Result<Vec<(Message, String)>, BrokerError> {
    let stream = match nats.context.get_stream(DEAD_LETTER_STREAM).await {
        Ok(stream) => stream,
        Err(error) if is_missing(&error) => return Ok(Vec::new()),
        Err(error) => return Err(unavailable(error)),
    };
    let state = &stream.cached_info().state;
    let count = state.messages.min(limit.into());
    if count == 0 {
        return Ok(Vec::new());
    }
    let first = (state.last_sequence + 1).saturating_sub(count).max(state.first_sequence);
    let config = consumer::pull::Config {
        deliver_policy: consumer::DeliverPolicy::ByStartSequence { start_sequence: first },
        ack_policy: consumer::AckPolicy::None,
        inactive_threshold: 5 * domain::PUBLISH_WITHIN,
        memory_storage: true,
        ..consumer::pull::Config::default()
    };
    let consumer = stream.create_consumer(config).await.map_err(unavailable)?;
    let wanted = usize::try_from(count).unwrap_or(usize::MAX);
    let mut page = consumer.fetch().max_messages(wanted).messages().await.map_err(unavailable)?;
    let mut letters = Vec::new();
    while letters.len() < wanted
        && let Some(Ok(stored)) = page.next().await
    {
        // One that another version wrote is left out.
        if let Ok(letter) = serde_json::from_slice::<DeadLetter>(&stored.payload) {
            letters.push((letter.message, letter.reason));
        }
    }
    Ok(letters)
}
