//! Ships what an engine prints, while it prints it [J9].

use std::time::Duration;

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

/// How long the last lines are retried once the engine has ended: longer than a coordinator takes to restart.
pub(super) const LAST_LINES_MAX: Duration = Duration::from_secs(10);

impl Worker {
    /// Sends lines to the coordinator until there are no more. A log is best effort: what is not accepted for long
    /// after the engine's end is dropped.
    pub(super) async fn ship_log(&self, run: RunKey, backlog: &LogBuffer) {
        let RunKey { job, epoch } = run;
        let mut offset = 0;
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
            let size = chunk.len();
            let path = format!("/jobs/{job}/logs?leaseEpoch={epoch}&offset={offset}");
            match self.client.post_bytes::<AppendLogResponse>(&path, chunk).await {
                Ok(AppendLogResponse { length }) => {
                    let taken = usize::try_from(length.saturating_sub(offset)).unwrap_or(size).min(size);
                    backlog.sent(taken.max(1));
                    offset = length.max(offset);
                    given_up_at = None;
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
