//! The output of an engine, from its tail on.

use client::Client;
use domain::{JobId, TerminalScrubber};
use tokio::sync::mpsc;

use super::read_error;
use crate::message::{LogMsg, LogPiece, Msg};

/// The part of a long output that is read.
const TAIL_BYTES: u32 = 256 * 1024;

/// Reads a log until it ends, or its receiver is dropped.
pub(super) async fn follow(client: Client, job: JobId, opening: u64, news: mpsc::Sender<Msg>) {
    let path = format!("/jobs/{job}/logs?tail={TAIL_BYTES}&follow=true");
    let mut stream = match client.bytes(&path).await {
        Ok(stream) => stream,
        Err(error) => {
            // A job that never ran has no output.
            let piece = match error.code() {
                Some("no_such_log" | "no_log") => LogPiece::End,
                _ => LogPiece::Failed(read_error(&error).text().to_owned()),
            };
            let _ = news.send(Msg::Log(LogMsg { opening, piece })).await;
            return;
        }
    };
    let mut scrubber = TerminalScrubber::default();
    loop {
        let piece = match stream.next().await {
            Ok(Some(bytes)) => LogPiece::Text(scrubber.scrub(&bytes)),
            Ok(None) => LogPiece::End,
            Err(error) => LogPiece::Failed(read_error(&error).text().to_owned()),
        };
        let is_over = !matches!(piece, LogPiece::Text(_));
        if news.send(Msg::Log(LogMsg { opening, piece })).await.is_err() || is_over {
            return;
        }
    }
}
