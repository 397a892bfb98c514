//! A program's output, line by line, within bounds.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use domain::Clock;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::sync::mpsc;

/// A line of output as it came, without its end. Bytes that are not UTF-8 are replaced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// Which stream it came from.
    pub source: Source,
    /// The text. A line that is too long is replaced by a note on its length.
    pub text: String,
}

/// One of a program's two output streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// Standard output.
    Out,
    /// Standard error.
    Err,
}

/// The longest line. Engines print whole files inside one line of JSON: the largest file, all of it escaped.
const LINE_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Reads both streams of a program, and records the time of its last output.
pub(super) struct OutputReader<'a> {
    output: mpsc::Sender<Line>,
    clock: &'a dyn Clock,
    started_at: Duration,
    heard_ms: AtomicU64,
    left: AtomicU64,
    cut: AtomicBool,
    left_out: AtomicU64,
}

/// A line that is being read.
#[derive(Default)]
struct PartialLine {
    bytes: Vec<u8>,
    /// Its length, if it is too long to be kept.
    too_long: Option<u64>,
}

impl<'a> OutputReader<'a> {
    pub(super) fn new(output: mpsc::Sender<Line>, clock: &'a dyn Clock, bytes_max: u64) -> Self {
        let started_at = clock.monotonic();
        let (heard_ms, left, cut) = (AtomicU64::new(0), AtomicU64::new(bytes_max), AtomicBool::new(false));
        Self { output, clock, started_at, heard_ms, left, cut, left_out: AtomicU64::new(0) }
    }

    /// How long there was no output.
    pub(super) fn quiet_for(&self) -> Duration {
        self.elapsed().saturating_sub(Duration::from_millis(self.heard_ms.load(Ordering::Relaxed)))
    }

    pub(super) fn was_cut(&self) -> bool {
        self.cut.load(Ordering::Relaxed)
    }

    /// The number of lines that were too long.
    pub(super) fn lines_left_out(&self) -> u64 {
        self.left_out.load(Ordering::Relaxed)
    }

    /// Reads one stream to its end.
    pub(super) async fn run(&self, stream: Option<impl AsyncRead + Unpin>, source: Source) {
        let Some(mut stream) = stream else { return };
        let mut chunk = vec![0; 16 * 1024];
        let mut line = PartialLine::default();
        while let Ok(read @ 1..) = stream.read(&mut chunk).await {
            self.heard_ms.store(u64::try_from(self.elapsed().as_millis()).unwrap_or(u64::MAX), Ordering::Relaxed);
            for piece in chunk[..read].split_inclusive(|byte| *byte == b'\n') {
                line.take(piece);
                if piece.ends_with(b"\n") {
                    self.finish(source, &mut line).await;
                }
            }
        }
        if !line.is_empty() {
            self.finish(source, &mut line).await;
        }
    }

    async fn finish(&self, source: Source, line: &mut PartialLine) {
        match line.too_long.take() {
            None => self.pass_on(source, &line.bytes).await,
            Some(length) => {
                self.left_out.fetch_add(1, Ordering::Relaxed);
                self.pass_on(source, format!("[a line of {length} bytes is left out]").as_bytes()).await;
            }
        }
        line.bytes.clear();
    }

    async fn pass_on(&self, source: Source, line: &[u8]) {
        let length = u64::try_from(line.len()).unwrap_or(u64::MAX);
        let taken = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(length));
        if taken.is_err() {
            self.cut.store(true, Ordering::Relaxed);
            self.left.store(0, Ordering::Relaxed);
            return;
        }
        let text = String::from_utf8_lossy(line);
        let text = text.strip_suffix('\n').unwrap_or(&text);
        let text = text.strip_suffix('\r').unwrap_or(text).to_owned();
        // The receiver may be gone; the program runs all the same.
        let _ = self.output.send(Line { source, text }).await;
    }

    fn elapsed(&self) -> Duration {
        self.clock.monotonic().saturating_sub(self.started_at)
    }
}

impl PartialLine {
    /// Appends to the line while it can be kept; then only counts, so that memory is bounded.
    fn take(&mut self, piece: &[u8]) {
        let length = u64::try_from(piece.len()).unwrap_or(u64::MAX);
        match &mut self.too_long {
            Some(counted) => *counted = counted.saturating_add(length),
            None if self.bytes.len() + piece.len() > LINE_BYTES_MAX => {
                self.too_long = u64::try_from(self.bytes.len() + piece.len()).ok();
                self.bytes = Vec::new();
            }
            None => self.bytes.extend_from_slice(piece),
        }
    }

    fn is_empty(&self) -> bool {
        self.bytes.is_empty() && self.too_long.is_none()
    }
}

#[cfg(test)]
mod tests {
    use clock::SystemClock;

    use super::*;

    /// The most memory that this process has used so far.
    fn peak_kib() -> u64 {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    }

    // [F2]
    #[tokio::test]
    async fn a_line_without_end_is_counted_and_the_stream_goes_on_in_the_same_memory() {
        let length: u64 = 512 * 1024 * 1024;
        let endless = tokio::io::repeat(b'x').take(length);
        let stream = endless.chain(&b"\n{\"type\":\"result\"}\n"[..]);
        let clock = SystemClock::new();
        let (sender, mut lines) = mpsc::channel(8);
        let tap = OutputReader::new(sender, &clock, u64::MAX);
        let before = peak_kib();

        tap.run(Some(stream), Source::Out).await;

        let heard = [lines.try_recv().unwrap().text, lines.try_recv().unwrap().text];
        let expected = [format!("[a line of {} bytes is left out]", length + 1), "{\"type\":\"result\"}".to_owned()];
        assert_eq!((heard, tap.lines_left_out()), (expected, 1));
        assert!(peak_kib() - before < 64 * 1024, "it took {} KiB", peak_kib() - before);
    }
}
