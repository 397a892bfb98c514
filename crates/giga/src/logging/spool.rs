//! Lines on their way to standard error: written together, by a thread of their own, so that no request waits for a
//! terminal or a pipe.

use std::io::{self, Write};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use parking_lot::{Condvar, Mutex, MutexGuard};
use tracing_subscriber::fmt::MakeWriter;

/// Lines that come within this time are written together. The first after a pause goes out at once.
const GATHER: Duration = Duration::from_millis(10);

/// When this much is buffered, standard error has no reader: further lines are dropped and counted. A stopped terminal must
/// not stop a fleet.
const WAITING_LEN_MAX: usize = 4 * 1024 * 1024;

/// How long the process waits at its end for its last lines to be read.
const FINISH_MAX: Duration = Duration::from_secs(2);

/// Where lines wait. Clones are the same.
#[derive(Clone, Default)]
pub(super) struct Spool {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    waiting: Mutex<Waiting>,
    /// Something waits, or the end has come.
    filled: Condvar,
    /// Everything that waited is written.
    emptied: Condvar,
}

#[derive(Default)]
struct Waiting {
    lines: Vec<u8>,
    lost: u64,
    is_writing: bool,
    is_over: bool,
}

impl Spool {
    /// Begins to write what waits.
    pub(super) fn start(&self, to: impl Write + Send + 'static) -> io::Result<()> {
        let shared = Arc::clone(&self.shared);
        thread::Builder::new().name("log-writer".to_owned()).spawn(move || shared.write_on(to)).map(drop)
    }

    /// Waits until everything is written, but not for ever; lines that come later are written at once.
    pub(super) fn finish(&self) {
        let mut waiting = self.shared.waiting.lock();
        waiting.is_over = true;
        self.shared.filled.notify_all();
        let is_busy = |waiting: &mut Waiting| waiting.is_writing || !waiting.lines.is_empty();
        self.shared.emptied.wait_while_for(&mut waiting, is_busy, FINISH_MAX);
    }
}

impl Shared {
    fn write_on(&self, mut to: impl Write) {
        let mut lines = Vec::new();
        let mut waiting = self.waiting.lock();
        loop {
            self.filled.wait_while(&mut waiting, |waiting| waiting.lines.is_empty());
            std::mem::swap(&mut waiting.lines, &mut lines);
            match std::mem::take(&mut waiting.lost) {
                0 => {}
                lost => lines.extend_from_slice(
                    format!("({lost} log lines dropped: the terminal did not read them)\n").as_bytes(),
                ),
            }
            waiting.is_writing = true;
            // There is no place left to report that standard error cannot be written to.
            let _ = MutexGuard::unlocked(&mut waiting, || to.write_all(&lines).and_then(|()| to.flush()));
            lines.clear();
            waiting.is_writing = false;
            self.emptied.notify_all();
            let gathers = |waiting: &mut Waiting| !waiting.is_over;
            self.filled.wait_while_for(&mut waiting, gathers, GATHER);
        }
    }
}

impl Write for Spool {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let mut waiting = self.shared.waiting.lock();
        if waiting.lines.len() + line.len() > WAITING_LEN_MAX {
            waiting.lost += 1;
            return Ok(line.len());
        }
        let is_first = waiting.lines.is_empty();
        waiting.lines.extend_from_slice(line);
        if is_first {
            self.shared.filled.notify_all();
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Spool {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A slow terminal that shows what was written, piece by piece.
    #[derive(Clone, Default)]
    struct Terminal(Arc<Mutex<Vec<String>>>);

    impl Write for Terminal {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().push(String::from_utf8_lossy(bytes).into_owned());
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    // [P2]
    #[test]
    fn every_line_is_written_once_in_order_and_most_of_them_together() {
        let (spool, terminal) = (Spool::default(), Terminal::default());
        spool.start(terminal.clone()).unwrap();

        let lines: Vec<String> = (0..20_000).map(|n| format!("line {n} of a very busy log with a reader\n")).collect();
        let mut writer = spool.make_writer();
        for line in &lines {
            writer.write_all(line.as_bytes()).unwrap();
        }
        spool.finish();

        let written = terminal.0.lock();
        assert_eq!(written.concat(), lines.concat());
        assert!(written.len() < lines.len() / 10, "{} writes", written.len());
    }

    /// A stopped terminal.
    struct Stopped(std::sync::mpsc::Receiver<()>, Terminal);

    impl Write for Stopped {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let _ = self.0.recv();
            self.1.write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    // [P2]
    #[test]
    fn nobody_waits_for_a_terminal_that_stands_still_and_what_was_lost_is_said() {
        let (go, stopped) = std::sync::mpsc::channel();
        let (spool, terminal) = (Spool::default(), Terminal::default());
        spool.start(Stopped(stopped, terminal.clone())).unwrap();

        let line = vec![b'x'; 1024];
        let mut writer = spool.make_writer();
        for _ in 0..10_000 {
            writer.write_all(&line).unwrap();
        }
        drop(go);
        spool.finish();

        let written = terminal.0.lock().concat();
        // Not always at the end: a writer that starts late finds lines lost already, and room for those that follow.
        let is_said = written.contains("log lines dropped: the terminal did not read them)\n");
        assert!(is_said && written.len() < 9 * 1024 * 1024, "{} bytes", written.len());
    }

    // [P2]
    #[test]
    fn a_line_goes_out_although_nothing_follows_it() {
        let (spool, terminal) = (Spool::default(), Terminal::default());
        spool.start(terminal.clone()).unwrap();

        spool.make_writer().write_all(b"alone\n").unwrap();

        while terminal.0.lock().is_empty() {
            thread::yield_now();
        }
        assert_eq!(*terminal.0.lock(), ["alone\n"]);
    }
}
