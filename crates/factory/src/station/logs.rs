//! Shipping what an engine prints, while it prints it [J9].

use std::time::Duration;

use domain::{Epoch, JobId};
use protocol::LogAppended;
use tokio::sync::mpsc;
use tracing::debug;

use super::Station;

/// A chunk is sent when it has this much, or when the oldest byte in it has waited this long.
const CHUNK_BYTES: usize = 64 * 1024;
const CHUNK_WAIT: Duration = Duration::from_millis(200);

/// Output that waits for a slow coordinator. Beyond it the middle is left out, and the log says so.
const BACKLOG_BYTES_MAX: usize = 4 * 1024 * 1024;

impl Station {
    /// Sends lines to the coordinator until there are no more. A log is nobody's truth: what cannot be sent is dropped.
    pub(super) async fn ship_log(&self, job: JobId, epoch: Epoch, mut lines: mpsc::Receiver<String>) {
        let mut offset = 0;
        let mut backlog: Vec<u8> = Vec::new();
        let mut is_open = true;
        while is_open || !backlog.is_empty() {
            is_open = is_open && self.gather(&mut lines, &mut backlog).await;
            let size = backlog.len().min(CHUNK_BYTES);
            if size == 0 {
                continue;
            }
            let chunk = bytes::Bytes::copy_from_slice(&backlog[..size]);
            let path = format!("/jobs/{job}/logs?leaseEpoch={epoch}&offset={offset}");
            match self.client.post_bytes::<LogAppended>(&path, chunk).await {
                Ok(LogAppended { length }) => {
                    let taken = usize::try_from(length.saturating_sub(offset)).unwrap_or(size).min(size);
                    backlog.drain(..taken.max(1).min(size));
                    offset = length.max(offset);
                }
                Err(error) if error.is_final() => {
                    debug!(job.id = %job, %error, "The coordinator does not want the log of job `{job}`");
                    return;
                }
                Err(_) if !is_open => return,
                Err(_) => self.clock.sleep(Duration::from_secs(1)).await,
            }
        }
    }

    /// Takes lines until there is a chunk's worth or the wait is over; `false` when no more will come.
    async fn gather(&self, lines: &mut mpsc::Receiver<String>, backlog: &mut Vec<u8>) -> bool {
        let deadline = self.clock.sleep(CHUNK_WAIT);
        tokio::pin!(deadline);
        if backlog.is_empty() {
            // Nothing waits, so neither do we: the first line starts the clock.
            match lines.recv().await {
                Some(line) => push(backlog, &line),
                None => return false,
            }
        }
        while backlog.len() < CHUNK_BYTES {
            tokio::select! {
                line = lines.recv() => match line {
                    Some(line) => push(backlog, &line),
                    None => return false,
                },
                () = &mut deadline => return true,
            }
        }
        true
    }
}

fn push(backlog: &mut Vec<u8>, line: &str) {
    if backlog.len() > BACKLOG_BYTES_MAX {
        backlog.truncate(CHUNK_BYTES);
        backlog.extend_from_slice(b"\n[output left out: the coordinator was too slow or away]\n");
    }
    backlog.extend_from_slice(line.as_bytes());
    backlog.push(b'\n');
}
