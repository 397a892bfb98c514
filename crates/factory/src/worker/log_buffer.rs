//! Output waiting to be sent to the coordinator: bounded, with a mark where lines were dropped [J9].

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;
use sandbox::{ScrubStream, Scrubber};
use tokio::sync::Notify;

/// The size of output that waits for a slow or unavailable coordinator.
const BACKLOG_BYTES_MAX: usize = 4 * 1024 * 1024;

/// The length of a line in the log. A longer one is cut: no page can show it, and it would displace other lines.
const LINE_BYTES_MAX: usize = 256 * 1024;

/// The mark where a log was truncated.
const CUT: &str = "[the rest is not shown: the limit `factory.limits.output` is reached]";

/// Engine output that was not read yet. Adding lines never waits: the log does not slow an engine down.
#[derive(Default)]
pub(super) struct LogBuffer {
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Default)]
struct State {
    scrub: Option<ScrubStream>,
    bytes: Vec<u8>,
    last: LastLine,
    left_out: u64,
    is_closed: bool,
}

/// The last non-empty line that may be shown.
#[derive(Default)]
struct LastLine {
    unfinished: Vec<u8>,
    whole: Vec<u8>,
}

/// How much of a line is kept for the live view.
const LAST_LINE_BYTES_MAX: usize = 1024;

/// The writing end. Dropping it ends the log.
pub(super) struct LogWriter {
    backlog: Arc<LogBuffer>,
    /// The remaining size of the log.
    left: AtomicU64,
    is_cut: AtomicBool,
}

/// Whether more lines may come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MoreLines {
    MayCome,
    No,
}

impl LogBuffer {
    /// A log without the secrets that `scrubber` finds.
    pub(super) fn scrubbed(scrubber: &Scrubber) -> Self {
        let state = State { scrub: Some(scrubber.stream()), ..State::default() };
        Self { state: Mutex::new(state), changed: Notify::default() }
    }
}

impl LogWriter {
    /// Writes to a log of at most `bytes_max`.
    pub(super) fn new(backlog: &Arc<LogBuffer>, bytes_max: u64) -> Self {
        Self { backlog: Arc::clone(backlog), left: AtomicU64::new(bytes_max), is_cut: AtomicBool::new(false) }
    }

    /// Adds a line, or counts it as dropped when the buffer is full. The first line beyond the log's size leaves a
    /// mark.
    pub(super) fn push(&self, line: &str) {
        let cut = cut_line(line);
        let line = cut.as_deref().unwrap_or(line);
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

    /// The last non-empty line, without secrets. A line in which a secret may continue is not shown yet.
    pub(super) fn last_line(&self) -> Option<String> {
        let state = self.backlog.state.lock();
        Some(String::from_utf8_lossy(&state.last.whole).into_owned()).filter(|line| !line.is_empty())
    }

    /// Another writer takes over.
    pub(super) fn forget_last_line(&self) {
        self.backlog.state.lock().last.whole.clear();
    }
}

/// A line that is too long, cut, with its length.
fn cut_line(line: &str) -> Option<String> {
    (line.len() > LINE_BYTES_MAX).then(|| {
        let shown = &line[..line.floor_char_boundary(LINE_BYTES_MAX)];
        format!("{shown} [cut: the line has {} bytes]", line.len())
    })
}

impl Drop for LogWriter {
    fn drop(&mut self) {
        let mut state = self.backlog.state.lock();
        state.end();
        state.is_closed = true;
        self.backlog.changed.notify_one();
    }
}

impl LogBuffer {
    /// The oldest bytes, `size_max` at most. They stay until they are marked as sent: reading again returns the same.
    pub(super) fn first(&self, size_max: usize) -> (bytes::Bytes, MoreLines) {
        let state = self.state.lock();
        let size = state.bytes.len().min(size_max);
        let more = if state.is_closed { MoreLines::No } else { MoreLines::MayCome };
        (bytes::Bytes::copy_from_slice(&state.bytes[..size]), more)
    }

    /// The oldest bytes have arrived.
    pub(super) fn sent(&self, size: usize) {
        let mut state = self.state.lock();
        let size = size.min(state.bytes.len());
        state.bytes.drain(..size);
    }

    /// Resolves when something was added since the last call, or the log has ended.
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
        let begin = self.bytes.len();
        match &mut self.scrub {
            Some(scrub) => {
                // A secret may continue in the next line: the stream decides what can be shown.
                self.bytes.extend(scrub.push(line.as_bytes()));
                self.bytes.extend(scrub.push(b"\n"));
            }
            None => {
                self.bytes.extend_from_slice(line.as_bytes());
                self.bytes.push(b'\n');
            }
        }
        self.last.take(&self.bytes[begin..]);
    }

    fn end(&mut self) {
        if let Some(scrub) = &mut self.scrub {
            self.bytes.extend(scrub.flush());
        }
        self.mark_what_is_missing();
    }

    fn mark_what_is_missing(&mut self) {
        if self.left_out > 0 {
            let mark = format!(
                "[{} left out: the coordinator was too slow or away]\n",
                domain::counted(self.left_out, "line")
            );
            self.bytes.extend_from_slice(mark.as_bytes());
            self.left_out = 0;
        }
    }
}

impl LastLine {
    fn take(&mut self, bytes: &[u8]) {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            let room = LAST_LINE_BYTES_MAX.saturating_sub(self.unfinished.len());
            self.unfinished.extend_from_slice(&piece[..piece.len().min(room)]);
            if piece.ends_with(b"\n") {
                let line = std::mem::take(&mut self.unfinished);
                if !line.trim_ascii().is_empty() {
                    self.whole = line.trim_ascii().to_vec();
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fill(writer: &LogWriter) {
        let long = "x".repeat(LINE_BYTES_MAX - 1);
        (0..BACKLOG_BYTES_MAX / LINE_BYTES_MAX).for_each(|_| writer.push(&long));
    }

    #[test]
    fn the_last_line_is_one_that_says_something_and_none_of_a_secret() {
        let backlog = Arc::new(LogBuffer::scrubbed(&Scrubber::default()));
        let writer = LogWriter::new(&backlog, u64::MAX);
        let after = |lines: &[&str]| {
            lines.iter().for_each(|line| writer.push(line));
            writer.last_line()
        };

        assert_eq!(after(&[]), None);
        assert_eq!(after(&["step one", " step two ", "", " "]).as_deref(), Some("step two"));
        let key = ["-----BEGIN RSA PRIVATE KEY-----", "MIIEowIBAAKCAQEAyplanted", "bm90aGluZyBoZXJlIGVpdGhlcg"];
        let within = after(&key).unwrap();
        assert!(!within.contains("MIIE") && !within.contains("bm90"), "{within}");
        assert_eq!(after(&["-----END RSA PRIVATE KEY-----", "step three"]).as_deref(), Some("step three"));
        assert_eq!(after(&[&"x".repeat(5_000)]).map(|line| line.len()), Some(LAST_LINE_BYTES_MAX));
        writer.forget_last_line();
        assert_eq!(writer.last_line(), None);
    }

    // [J9]
    #[test]
    fn a_line_that_is_too_long_is_cut_and_shown() {
        let backlog = Arc::new(LogBuffer::default());
        let writer = LogWriter::new(&backlog, u64::MAX);

        writer.push(&"ä".repeat(5_000_000));
        writer.push("next");
        drop(writer);

        let shown = String::from_utf8(backlog.first(BACKLOG_BYTES_MAX).0.to_vec()).unwrap();
        assert!(shown.len() < LINE_BYTES_MAX + 100, "{}", shown.len());
        assert!(shown.ends_with(" [cut: the line has 10000000 bytes]\nnext\n"), "{}", &shown[LINE_BYTES_MAX - 10..]);
    }

    // [J9]
    #[test]
    fn lines_that_do_not_fit_are_counted_where_they_are_missing() {
        let backlog = Arc::new(LogBuffer::default());
        let writer = LogWriter::new(&backlog, u64::MAX);
        fill(&writer);
        writer.push("lost");
        writer.push("lost as well");
        backlog.sent(BACKLOG_BYTES_MAX);

        writer.push("taken");
        drop(writer);

        let expected = "[2 lines left out: the coordinator was too slow or away]\ntaken\n";
        assert_eq!(backlog.first(1024), (bytes::Bytes::from(expected), MoreLines::No));
    }

    #[test]
    fn lines_missing_at_the_end_are_marked_too() {
        let backlog = Arc::new(LogBuffer::default());
        let writer = LogWriter::new(&backlog, u64::MAX);
        fill(&writer);
        writer.push("lost");

        drop(writer);

        backlog.sent(BACKLOG_BYTES_MAX);
        let expected = "[1 line left out: the coordinator was too slow or away]\n";
        assert_eq!(backlog.first(1024), (bytes::Bytes::from(expected), MoreLines::No));
    }
}
