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
    /// The text. A line longer than a mebibyte comes in pieces.
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

/// Engines print whole files inside one line of JSON; beyond this nobody reads a line as a whole.
pub(crate) const LINE_BYTES_MAX: usize = 1024 * 1024;

/// Reads both streams of a program, and remembers when it last said something.
pub(super) struct Tap<'a> {
    output: mpsc::Sender<Line>,
    clock: &'a dyn Clock,
    started_at: Duration,
    heard_ms: AtomicU64,
    left: AtomicU64,
    cut: AtomicBool,
}

impl<'a> Tap<'a> {
    pub(super) fn new(output: mpsc::Sender<Line>, clock: &'a dyn Clock, bytes_max: u64) -> Self {
        let started_at = clock.monotonic();
        let (heard_ms, left, cut) = (AtomicU64::new(0), AtomicU64::new(bytes_max), AtomicBool::new(false));
        Self { output, clock, started_at, heard_ms, left, cut }
    }

    /// How long nothing was said.
    pub(super) fn quiet_for(&self) -> Duration {
        self.elapsed().saturating_sub(Duration::from_millis(self.heard_ms.load(Ordering::Relaxed)))
    }

    pub(super) fn was_cut(&self) -> bool {
        self.cut.load(Ordering::Relaxed)
    }

    /// Reads one stream to its end.
    pub(super) async fn run(&self, stream: Option<impl AsyncRead + Unpin>, source: Source) {
        let Some(mut stream) = stream else { return };
        let mut chunk = vec![0; 16 * 1024];
        let mut line = Vec::new();
        while let Ok(read @ 1..) = stream.read(&mut chunk).await {
            self.heard_ms.store(u64::try_from(self.elapsed().as_millis()).unwrap_or(u64::MAX), Ordering::Relaxed);
            for piece in chunk[..read].split_inclusive(|byte| *byte == b'\n') {
                line.extend_from_slice(piece);
                if piece.ends_with(b"\n") || line.len() >= LINE_BYTES_MAX {
                    self.pass_on(source, &line).await;
                    line.clear();
                }
            }
        }
        if !line.is_empty() {
            self.pass_on(source, &line).await;
        }
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
        // Nobody need listen; the program runs all the same.
        let _ = self.output.send(Line { source, text }).await;
    }

    fn elapsed(&self) -> Duration {
        self.clock.monotonic().saturating_sub(self.started_at)
    }
}
