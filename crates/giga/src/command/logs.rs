//! `giga logs`: what a job's engine prints, while it prints it.

use std::fmt;
use std::time::Duration;

use client::{Client, ClientError, FeedItem, LogStream};
use domain::{Epoch, JobId, Run};
use serde::Serialize;

use crate::cli::{LogsArgs, Tail};
use crate::failure::Failure;
use crate::output::Scrubber;

use super::follow::EventFollower;
use super::wait::{is_settled, read, read_behind};
use super::{Context, job_id};
use client::Query;

/// The longest tail that a coordinator returns.
const TAIL_MAX: u64 = 1024 * 1024;

/// The pause before a lost stream is opened again.
const REOPEN_PAUSE: Duration = Duration::from_secs(1);

/// Shows what a job's engine prints.
pub(super) async fn logs(context: &Context<'_>, args: LogsArgs) -> Result<(), Failure> {
    let client = context.client()?;
    let id = job_id::find(&client, &args.id).await?;
    let reader = Reader { context, client: &client, id, args: &args };
    match (args.run, args.epoch.map(Epoch), args.follow) {
        (Some(n), _, _) => reader.print(reader.numbered(n).await?).await,
        (None, Some(epoch), _) => reader.print(reader.under(epoch).await?).await,
        (None, None, false) => match reader.latest(None).await? {
            Some(log) => {
                if log.run.is_some_and(|n| n > 1) {
                    context.out.note(&format!("{log}, the latest; --run N shows another"));
                }
                reader.print(log).await
            }
            None => {
                let id = id.short();
                context.out.note(&format!(
                    "it has not run yet: `giga explain {id}` shows why, `giga logs -f {id}` waits for it"
                ));
                Ok(())
            }
        },
        (None, None, true) => reader.follow_runs().await,
    }
}

/// The log of one run.
#[derive(Debug, Clone, Copy)]
struct Log {
    /// The run's number; none for an epoch that no run is known of.
    run: Option<u32>,
    epoch: Epoch,
}

impl From<&Run> for Log {
    fn from(run: &Run) -> Self {
        Self { run: Some(run.n), epoch: run.epoch }
    }
}

impl fmt::Display for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.run {
            Some(n) => write!(f, "run {n} (epoch {})", self.epoch),
            None => write!(f, "the run with epoch {}", self.epoch),
        }
    }
}

/// Where a log is read from.
#[derive(Debug, Clone, Copy)]
enum Start {
    Offset(u64),
    Tail(u64),
}

/// Where the last lines of a text begin.
fn start_of_last_lines(text: &[u8], lines: usize) -> usize {
    let ends = text.iter().enumerate().rev().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at + 1);
    // The end of the last line is the end of the text.
    let mut starts = ends.filter(|at| *at < text.len());
    starts.nth(lines.saturating_sub(1)).unwrap_or(0)
}

struct Reader<'c> {
    context: &'c Context<'c>,
    client: &'c Client,
    id: JobId,
    args: &'c LogsArgs,
}

impl Reader<'_> {
    /// One run after the other, until the job finishes or needs attention.
    async fn follow_runs(&self) -> Result<(), Failure> {
        // Opened before the job is read: whatever happens afterwards is in it.
        let path = format!("/jobs/{}/events/stream", self.id);
        let mut changes = EventFollower::open(self.context, self.client, path, None).await?;
        let mut shown = None;
        let mut job = read(self.client, self.id).await?;
        loop {
            if let Some(log) = self.latest(shown).await? {
                self.context.out.note(&log.to_string());
                self.print(log).await?;
                shown = Some(log.epoch);
            } else if is_settled(&job) {
                return Ok(());
            } else {
                job = match changes.next().await? {
                    FeedItem::Event { event: Some(event), .. } => {
                        read_behind(self.context, self.client, &event).await?
                    }
                    FeedItem::Event { event: None, .. } | FeedItem::Reset | FeedItem::Reconnected => {
                        read(self.client, self.id).await?
                    }
                    FeedItem::Progress(_) | FeedItem::Lost { .. } => continue,
                };
            }
        }
    }

    /// The latest run behind `shown`.
    async fn latest(&self, shown: Option<Epoch>) -> Result<Option<Log>, Failure> {
        let runs = self.runs().await?;
        let unseen = runs.iter().filter(|run| shown.is_none_or(|shown| run.epoch > shown));
        Ok(unseen.max_by_key(|run| run.epoch).map(Log::from))
    }

    /// The run with a number.
    async fn numbered(&self, n: u32) -> Result<Log, Failure> {
        let runs = self.runs().await?;
        let found = runs.iter().find(|run| run.n == n).map(Log::from);
        found.ok_or_else(|| {
            let had = match runs.len() {
                0 => "it has not run yet".to_owned(),
                1 => "it has had 1 run".to_owned(),
                count => format!("it has had {count} runs"),
            };
            let id = self.id.short();
            Failure::not_found(format!("job {id} has no run {n}: {had}")).hint(format!("`giga runs {id}` lists them"))
        })
    }

    /// The run with an epoch. Its output may exist although the run is no longer known.
    async fn under(&self, epoch: Epoch) -> Result<Log, Failure> {
        let runs = self.runs().await?;
        Ok(runs.iter().find(|run| run.epoch == epoch).map_or(Log { run: None, epoch }, Log::from))
    }

    async fn runs(&self) -> Result<Vec<Run>, Failure> {
        Ok(self.client.runs(self.id).await?)
    }

    /// The output of one run: what exists, or all until it ends. An idle or lost stream is resumed at its position.
    async fn print(&self, log: Log) -> Result<(), Failure> {
        let start = self.start(log.epoch).await?;
        let mut sheet = Sheet::new(self.context, self.args.raw, log);
        let mut stream = self.open(log.epoch, start).await?;
        sheet.length = stream.offset().unwrap_or(0);
        loop {
            match stream.next().await {
                Ok(Some(bytes)) => sheet.write(&bytes)?,
                Ok(None) => return sheet.finish(),
                Err(ClientError::NoAnswer { .. }) if self.args.follow => stream = self.reopen(&sheet).await?,
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Where the requested part of a log begins.
    async fn start(&self, epoch: Epoch) -> Result<Start, Failure> {
        match self.args.tail {
            None => Ok(Start::Offset(0)),
            Some(Tail::Bytes(bytes)) => Ok(Start::Tail(bytes)),
            Some(Tail::Lines(lines)) => {
                let path = Query::new(format!("/jobs/{}/logs", self.id))
                    .with("epoch", epoch.to_string())
                    .with("tail", TAIL_MAX.to_string());
                let mut stream = self.client.bytes(path.as_str()).await?;
                let mut text = Vec::new();
                while let Some(bytes) = stream.next().await? {
                    text.extend_from_slice(&bytes);
                }
                let begins = stream.offset().unwrap_or(0);
                Ok(Start::Offset(begins + start_of_last_lines(&text, lines) as u64))
            }
        }
    }

    async fn open(&self, epoch: Epoch, start: Start) -> Result<LogStream, ClientError> {
        let path = Query::new(format!("/jobs/{}/logs", self.id))
            .with("epoch", epoch.to_string())
            .maybe(
                "offset",
                match start {
                    Start::Offset(offset) => Some(offset.to_string()),
                    Start::Tail(_) => None,
                },
            )
            .maybe(
                "tail",
                match start {
                    Start::Tail(bytes) => Some(bytes.to_string()),
                    Start::Offset(_) => None,
                },
            )
            .with("follow", self.args.follow.to_string());
        self.client.bytes(path.as_str()).await
    }

    async fn reopen(&self, sheet: &Sheet<'_>) -> Result<LogStream, ClientError> {
        loop {
            match self.open(sheet.log.epoch, Start::Offset(sheet.length)).await {
                Err(error) if !error.is_final() => self.context.clock.sleep(REOPEN_PAUSE).await,
                opened => return opened,
            }
        }
    }
}

/// Where the output goes: as it is, cleaned, or as JSON line by line.
struct Sheet<'c> {
    context: &'c Context<'c>,
    raw: bool,
    log: Log,
    /// Bytes that have arrived.
    length: u64,
    scrubber: Scrubber,
    line: String,
}

/// One line for programs.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct LogLine<'l> {
    #[serde(skip_serializing_if = "Option::is_none")]
    run: Option<u32>,
    lease_epoch: Epoch,
    line: &'l str,
}

impl<'c> Sheet<'c> {
    fn new(context: &'c Context<'c>, raw: bool, log: Log) -> Self {
        Self { context, raw, log, length: 0, scrubber: Scrubber::default(), line: String::new() }
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.length += bytes.len() as u64;
        if self.raw && !self.context.out.is_json() {
            return self.context.out.bytes(bytes);
        }
        let text = self.scrubber.scrub(bytes);
        if !self.context.out.is_json() {
            return self.context.out.bytes(text.as_bytes());
        }
        self.line.push_str(&text);
        while let Some(end) = self.line.find('\n') {
            let line: String = self.line.drain(..=end).collect();
            self.document(line.trim_end_matches('\n'))?;
        }
        Ok(())
    }

    fn finish(mut self) -> Result<(), Failure> {
        let rest = self.scrubber.finish();
        if !self.context.out.is_json() {
            return self.context.out.bytes(rest.as_bytes());
        }
        self.line.push_str(&rest);
        if self.line.is_empty() { Ok(()) } else { self.document(&self.line) }
    }

    fn document(&self, line: &str) -> Result<(), Failure> {
        self.context.out.document(&LogLine { run: self.log.run, lease_epoch: self.log.epoch, line })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_are_found_with_and_without_a_final_newline() {
        assert_eq!(start_of_last_lines(b"a\nb\nc\n", 1), 4);
        assert_eq!(start_of_last_lines(b"a\nb\nc", 2), 2);
        assert_eq!(start_of_last_lines(b"a\nb\n", 9), 0);
        assert_eq!(start_of_last_lines(b"", 3), 0);
    }
}
