//! Output on its way to the coordinator: bounded, and what does not fit leaves a mark [J9].

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::scrub::{ScrubStream, Scrubber};

/// Output that waits for a slow coordinator, or one that is away.
const BACKLOG_BYTES_MAX: usize = 4 * 1024 * 1024;

/// What stands where a log ends before its engine did.
const CUT: &str = "[the rest is not shown: the limit `factory.limits.output` is reached]";

/// What an engine said and nobody has taken yet. Taking lines never waits: an engine is not held up by its log.
#[derive(Default)]
pub(super) struct LogBacklog {
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Default)]
struct State {
    scrub: Option<ScrubStream>,
    bytes: Vec<u8>,
    left_out: u64,
    is_closed: bool,
}

/// The end that lines go in at. Dropping it says that there will be no more.
pub(super) struct LogWriter {
    backlog: Arc<LogBacklog>,
    /// What the log may still take.
    left: AtomicU64,
    is_cut: AtomicBool,
}

/// Whether more lines may come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum More {
    MayCome,
    No,
}

impl LogBacklog {
    /// A log that shows none of the secrets that `scrubber` finds.
    pub(super) fn scrubbed(scrubber: &Scrubber) -> Self {
        let state = State { scrub: Some(scrubber.stream()), ..State::default() };
        Self { state: Mutex::new(state), changed: Notify::default() }
    }
}

impl LogWriter {
    /// Writes to a log that takes `bytes_max` in all.
    pub(super) fn new(backlog: &Arc<LogBacklog>, bytes_max: u64) -> Self {
        Self { backlog: Arc::clone(backlog), left: AtomicU64::new(bytes_max), is_cut: AtomicBool::new(false) }
    }

    /// Adds a line, or counts it when there is no room. The first that the log does not take any more leaves a word.
    pub(super) fn push(&self, line: &str) {
        let length = u64::try_from(line.len()).unwrap_or(u64::MAX);
        let left = self.left.load(Ordering::Relaxed);
        self.left.store(left.saturating_sub(length), Ordering::Relaxed);
        if left >= length {
            self.backlog.state.lock().push(line);
        } else if !self.is_cut.swap(true, Ordering::Relaxed) {
            self.backlog.state.lock().push(CUT);
        }
        self.backlog.changed.notify_one();
    }
}

impl Drop for LogWriter {
    fn drop(&mut self) {
        let mut state = self.backlog.state.lock();
        state.end();
        state.is_closed = true;
        self.backlog.changed.notify_one();
    }
}

impl LogBacklog {
    /// The oldest bytes, `size_max` at most. They stay until [`LogBacklog::sent`]: asking again gives the same.
    pub(super) fn first(&self, size_max: usize) -> (bytes::Bytes, More) {
        let state = self.state.lock();
        let size = state.bytes.len().min(size_max);
        let more = if state.is_closed { More::No } else { More::MayCome };
        (bytes::Bytes::copy_from_slice(&state.bytes[..size]), more)
    }

    /// The oldest bytes have arrived.
    pub(super) fn sent(&self, size: usize) {
        let mut state = self.state.lock();
        let size = size.min(state.bytes.len());
        state.bytes.drain(..size);
    }

    /// Resolves when something was added since the last time, or nothing more will be.
    pub(super) async fn changed(&self) {
        self.changed.notified().await;
    }
}

impl State {
    fn push(&mut self, line: &str) {
        if self.bytes.len() + line.len() > BACKLOG_BYTES_MAX {
            self.left_out += 1;
            return;
        }
        self.mark_what_is_missing();
        match &mut self.scrub {
            Some(scrub) => {
                // A secret may go on in the next line: the stream decides what can be shown.
                self.bytes.extend(scrub.push(line.as_bytes()));
                self.bytes.extend(scrub.push(b"\n"));
            }
            None => {
                self.bytes.extend_from_slice(line.as_bytes());
                self.bytes.push(b'\n');
            }
        }
    }

    fn end(&mut self) {
        if let Some(scrub) = &mut self.scrub {
            self.bytes.extend(scrub.flush());
        }
        self.mark_what_is_missing();
    }

    fn mark_what_is_missing(&mut self) {
        if self.left_out > 0 {
            let mark = format!("[{} lines left out: the coordinator was too slow or away]\n", self.left_out);
            self.bytes.extend_from_slice(mark.as_bytes());
            self.left_out = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_do_not_fit_are_counted_where_they_are_missing() {
        let backlog = Arc::new(LogBacklog::default());
        let writer = LogWriter::new(&backlog, u64::MAX);
        let long = "x".repeat(BACKLOG_BYTES_MAX - 1);
        writer.push(&long);
        writer.push("lost");
        writer.push("lost as well");
        backlog.sent(BACKLOG_BYTES_MAX);

        writer.push("taken");
        drop(writer);

        let expected = "[2 lines left out: the coordinator was too slow or away]\ntaken\n";
        assert_eq!(backlog.first(1024), (bytes::Bytes::from(expected), More::No));
    }

    #[test]
    fn lines_missing_at_the_end_are_marked_too() {
        let backlog = Arc::new(LogBacklog::default());
        let writer = LogWriter::new(&backlog, u64::MAX);
        writer.push(&"x".repeat(BACKLOG_BYTES_MAX - 1));
        writer.push("lost");

        drop(writer);

        backlog.sent(BACKLOG_BYTES_MAX);
        let expected = "[1 lines left out: the coordinator was too slow or away]\n";
        assert_eq!(backlog.first(1024), (bytes::Bytes::from(expected), More::No));
    }
}
