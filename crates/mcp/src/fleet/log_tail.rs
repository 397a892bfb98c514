//! The end of a run's output.

use client::Client;
use domain::{JobId, clean_lines};

use super::answers::LogAnswer;
use crate::failure::ToolFailure;
use client::Query;

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
    let path = path.with("tail", length.to_string());
    let mut stream = client.bytes(path.as_str()).await?;
    let truncated = stream.offset().is_some_and(|offset| offset > 0);
    let mut bytes = Vec::new();
    while let Some(chunk) = stream.next().await? {
        bytes.extend_from_slice(&chunk);
        // The run goes on: its output may be longer by now than when it was asked for.
        if bytes.len() > TAIL_BYTES_MAX {
            break;
        }
    }
    Ok(LogAnswer { text: clean_lines(&String::from_utf8_lossy(&bytes)), truncated })
}
