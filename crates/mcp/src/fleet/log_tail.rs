//! The end of a run's output.

use client::Client;
use domain::{JobId, clean_lines};

use super::answers::LogAnswer;
use super::query::Query;
use crate::failure::ToolFailure;

/// The default length: a screen or two.
const TAIL_BYTES: usize = 8_000;

/// The longest tail.
const TAIL_BYTES_MAX: usize = 64_000;

/// The tail of one run's log, without escape sequences.
pub(super) async fn read(
    client: &Client,
    id: JobId,
    run: Option<u32>,
    tail_bytes: Option<u32>,
) -> Result<LogAnswer, ToolFailure> {
    let length = tail_bytes.map_or(TAIL_BYTES, |bytes| usize::try_from(bytes).unwrap_or(TAIL_BYTES_MAX));
    let length = length.clamp(1, TAIL_BYTES_MAX);
    let mut path = Query::new(format!("/jobs/{id}/logs"));
    if let Some(number) = run {
        let runs = client.runs(id).await?;
        let found = runs.iter().find(|run| run.n == number).map(|run| run.epoch);
        let epoch = found.ok_or_else(|| {
            let text = format!("the job has no run {number}; it has had {}", runs.len());
            ToolFailure::new("no_such_run", text)
        })?;
        path = path.with("epoch", epoch.to_string());
    }
    let mut stream = client.bytes(path.as_str()).await?;
    let mut tail = Tail { bytes: Vec::new(), length, is_cut: false };
    while let Some(bytes) = stream.next().await? {
        tail.push(&bytes);
    }
    Ok(LogAnswer { text: tail.text(), truncated: tail.is_cut })
}

/// The last bytes of a stream.
struct Tail {
    bytes: Vec<u8>,
    length: usize,
    is_cut: bool,
}

impl Tail {
    fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        let surplus = self.bytes.len().saturating_sub(self.length);
        if surplus > 0 {
            self.bytes.drain(..surplus);
            self.is_cut = true;
        }
    }

    /// Begins with a whole line, if there is one.
    fn text(&self) -> String {
        let start = match self.bytes.iter().position(|byte| *byte == b'\n') {
            Some(end) if self.is_cut => end + 1,
            _ => 0,
        };
        clean_lines(&String::from_utf8_lossy(self.bytes.get(start..).unwrap_or_default()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tail_is_cut_at_a_line_and_has_no_escape_sequences() {
        let mut tail = Tail { bytes: Vec::new(), length: 30, is_cut: false };
        tail.push("first line\nsecond \u{1b}[31mred\u{1b}[0m\n".as_bytes());
        tail.push(b"third line\n");

        assert!(tail.is_cut);
        assert_eq!(tail.text(), "third line\n");

        let mut whole = Tail { bytes: Vec::new(), length: 1_000, is_cut: false };
        whole.push("a \u{1b}]52;c;eA==\u{7}b\n".as_bytes());
        assert_eq!((whole.text().as_str(), whole.is_cut), ("a b\n", false));
    }
}
