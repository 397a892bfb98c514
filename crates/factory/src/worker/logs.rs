//! Ships what an engine prints, while it prints it [J9].

use std::time::Duration;

use bytes::Bytes;
use protocol::AppendLogResponse;
use tracing::debug;

use super::Worker;
use super::log_buffer::{LogBuffer, MoreLines};
use domain::RunKey;

/// A chunk is sent when it has this size, or when its oldest line has waited this long.
const CHUNK_BYTES: usize = 64 * 1024;
const CHUNK_WAIT: Duration = Duration::from_millis(200);

/// The pause after a chunk that was not accepted.
const RETRY_EVERY: Duration = Duration::from_secs(1);

/// The first line of a log whose beginning is in another one.
const ELSEWHERE: &str = "[the beginning is elsewhere: the coordinator changed its log directory]\n";

/// How long the last lines are retried once the engine has ended: longer than a coordinator takes to restart.
pub(super) const LAST_LINES_MAX: Duration = Duration::from_secs(10);

impl Worker {
    /// Sends lines to the coordinator until there are no more. A log is best effort: what is not accepted for long
    /// after the engine's end is dropped.
    pub(super) async fn ship_log(&self, run: RunKey, backlog: &LogBuffer) {
        let RunKey { job, epoch } = run;
        let mut place = LogPlace::default();
        let mut given_up_at = None;
        loop {
            let (chunk, more) = backlog.first(CHUNK_BYTES);
            if chunk.is_empty() && more == MoreLines::No {
                return;
            }
            if chunk.is_empty() {
                backlog.changed().await;
                self.gather(backlog).await;
                continue;
            }
            let path = format!("/jobs/{job}/logs?leaseEpoch={epoch}&offset={}", place.offset);
            let size = chunk.len();
            match self.client.post_bytes::<AppendLogResponse>(&path, place.marked(chunk)).await {
                Ok(AppendLogResponse { length }) => {
                    given_up_at = None;
                    match place.advance(size, length) {
                        0 => self.clock.sleep(RETRY_EVERY).await,
                        taken => backlog.sent(taken),
                    }
                }
                Err(error) if error.is_final() => {
                    debug!(job.id = %job, %error, "The coordinator does not take the log of job {}", self.titles.label(job));
                    self.stop_if_not_ours(run, &error);
                    return;
                }
                Err(error) => {
                    let now = self.clock.monotonic();
                    if more == MoreLines::No && now >= *given_up_at.get_or_insert(now + LAST_LINES_MAX) {
                        debug!(job.id = %job, %error, "The last lines of job {} could not be delivered", self.titles.label(job));
                        return;
                    }
                    self.clock.sleep(RETRY_EVERY).await;
                }
            }
        }
    }

    /// Lets a chunk grow for a moment: many lines cost as little as one.
    async fn gather(&self, backlog: &LogBuffer) {
        let enough = async {
            loop {
                let (chunk, more) = backlog.first(CHUNK_BYTES);
                if chunk.len() == CHUNK_BYTES || more == MoreLines::No {
                    return;
                }
                backlog.changed().await;
            }
        };
        tokio::select! {
            () = enough => {}
            () = self.clock.sleep(CHUNK_WAIT) => {}
        }
    }
}

/// Where the next line goes in the coordinator's log.
#[derive(Debug, Default)]
struct LogPlace {
    offset: u64,
    /// The coordinator's log is another one than before, and its first line has to say so.
    is_other: bool,
}

impl LogPlace {
    /// The chunk as it is sent.
    fn marked(&self, chunk: Bytes) -> Bytes {
        if self.is_other { [ELSEWHERE.as_bytes(), &chunk].concat().into() } else { chunk }
    }

    /// Moves on after a chunk of `size` bytes, given the log's length: returns how many bytes of the chunk arrived. A
    /// log that is shorter than expected is another one, on another disk: it is continued at its end, and no line is
    /// dropped for it.
    fn advance(&mut self, size: usize, length: u64) -> usize {
        if length < self.offset {
            *self = Self { offset: length, is_other: true };
            return 0;
        }
        let mark = if self.is_other { ELSEWHERE.len() } else { 0 };
        let taken = usize::try_from(length - self.offset).unwrap_or(usize::MAX).min(size + mark);
        self.is_other &= taken < mark;
        self.offset = length;
        taken.saturating_sub(mark)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Appends as a log store does: a chunk that would leave a gap is not written.
    fn append(log: &mut Vec<u8>, offset: u64, chunk: &[u8]) -> u64 {
        let offset = usize::try_from(offset).unwrap();
        if offset <= log.len() && offset + chunk.len() > log.len() {
            let fresh = &chunk[log.len() - offset..];
            log.extend_from_slice(fresh);
        }
        log.len() as u64
    }

    // [J9]
    #[test]
    fn a_log_that_became_shorter_is_continued_without_dropping_lines() {
        let (mut log, mut place, mut requests) = (Vec::new(), LogPlace::default(), 0);
        let mut ship = |log: &mut Vec<u8>, mut text: &[u8]| {
            while !text.is_empty() {
                requests += 1;
                let length = append(log, place.offset, &place.marked(Bytes::copy_from_slice(text)));
                text = &text[place.advance(text.len(), length)..];
            }
        };
        ship(&mut log, b"one\ntwo\n");

        let mut elsewhere = Vec::new();
        ship(&mut elsewhere, b"three\n");
        ship(&mut elsewhere, b"four\n");

        assert_eq!(String::from_utf8(elsewhere).unwrap(), format!("{ELSEWHERE}three\nfour\n"));
        assert_eq!(requests, 4, "one request finds that the log is another one");
    }

    // [J9]
    #[test]
    fn a_chunk_of_which_nothing_arrived_is_sent_again() {
        let mut place = LogPlace { offset: 10, is_other: false };

        assert_eq!(place.advance(5, 10), 0);
        assert_eq!(place.advance(5, 13), 3);
        assert_eq!(place.advance(2, 100), 2, "a log at its limit counts what it discards");
        assert_eq!(place.offset, 100);
    }
}
