//! Errors of the client as errors of the port.

use std::error::Error;
use std::time::Duration;

use async_nats::jetstream::{self, ErrorCode};
use domain::BrokerError;

/// An error with all of its causes.
pub(super) fn unavailable(error: impl Error + 'static) -> BrokerError {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let next = error.to_string();
        if !text.contains(&next) {
            text = format!("{text}: {next}");
        }
        cause = error.source();
    }
    BrokerError::Unavailable(text)
}

/// Whether the server answered that the stream or the consumer does not exist.
pub(super) fn is_missing(error: &(dyn Error + 'static)) -> bool {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if let Some(answer) = error.downcast_ref::<jetstream::Error>() {
            return matches!(answer.error_code(), ErrorCode::STREAM_NOT_FOUND | ErrorCode::CONSUMER_NOT_FOUND);
        }
        let text = error.to_string();
        if text.contains("consumer not found") || text.contains("stream not found") {
            return true;
        }
        cause = error.source();
    }
    false
}

/// The answer within a time; a request that takes longer may still be executed.
pub(super) async fn within<T>(
    time: Duration,
    request: impl Future<Output = Result<T, BrokerError>>,
) -> Result<T, BrokerError> {
    match tokio::time::timeout(time, request).await {
        Ok(answer) => answer,
        Err(_) => Err(BrokerError::Unavailable(format!("no answer within {} s", time.as_secs()))),
    }
}
