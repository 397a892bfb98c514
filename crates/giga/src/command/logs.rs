//! `giga logs`: what a job's engine prints, while it prints it.

use std::time::Duration;

use domain::{Epoch, JobId};
use protocol::{Client, ClientError, LogStream, RunList};

use crate::cli::LogsArgs;
use crate::failure::Failure;
use crate::output::Scrubber;

use super::follow::{Follower, News};
use super::query::Query;
use super::wait::{read, read_behind, rests};
use super::{Context, job_id};

/// The pause before a lost stream is opened again.
const REOPEN_PAUSE: Duration = Duration::from_secs(1);

/// Shows what a job's engine prints.
pub(super) async fn logs(context: &Context<'_>, args: LogsArgs) -> Result<(), Failure> {
    let client = context.client()?;
    let id = job_id::find(&client, &args.id).await?;
    let reader = Reader { context, client: &client, id, args: &args };
    match (args.epoch.map(Epoch), args.follow) {
        (Some(epoch), _) => reader.print(epoch).await,
        (None, false) => match reader.latest(None).await? {
            Some(epoch) => reader.print(epoch).await,
            None => {
                context.out.note("it has not run yet: `giga explain ID` says why, `giga logs -f ID` waits for it");
                Ok(())
            }
        },
        (None, true) => reader.follow_runs().await,
    }
}

struct Reader<'c> {
    context: &'c Context<'c>,
    client: &'c Client,
    id: JobId,
    args: &'c LogsArgs,
}

impl Reader<'_> {
    /// One run after the other, until the job rests.
    async fn follow_runs(&self) -> Result<(), Failure> {
        // Opened before the job is read: whatever happens afterwards is in it.
        let path = format!("/jobs/{}/events/stream", self.id);
        let mut changes = Follower::open(self.context, self.client, path, None).await?;
        let mut shown = None;
        let mut job = read(self.client, self.id).await?;
        loop {
            if let Some(epoch) = self.latest(shown).await? {
                self.context.out.note(&format!("run with epoch {epoch}"));
                self.print(epoch).await?;
                shown = Some(epoch);
            } else if rests(&job) {
                return Ok(());
            } else {
                job = match changes.next().await? {
                    News::Happened { event: Some(event), .. } => read_behind(self.context, self.client, &event).await?,
                    News::Happened { event: None, .. } | News::Reset => read(self.client, self.id).await?,
                    News::Doing(_) => continue,
                };
            }
        }
    }

    /// The latest run behind `shown`.
    async fn latest(&self, shown: Option<Epoch>) -> Result<Option<Epoch>, Failure> {
        let runs: RunList = self.client.get(&format!("/jobs/{}/runs", self.id)).await?;
        let epochs = runs.items.iter().map(|run| run.epoch);
        Ok(epochs.filter(|epoch| shown.is_none_or(|shown| *epoch > shown)).max())
    }

    /// The output of one run: what there is, or all until it ends. A quiet or lost stream goes on where it stopped.
    async fn print(&self, epoch: Epoch) -> Result<(), Failure> {
        let mut sheet = Sheet::new(self.context, self.args.raw, epoch);
        let mut stream = self.open(epoch, 0).await?;
        loop {
            match stream.next().await {
                Ok(Some(bytes)) => sheet.write(&bytes)?,
                Ok(None) => return sheet.finish(),
                Err(ClientError::NoAnswer { .. }) if self.args.follow => stream = self.reopen(&sheet).await?,
                Err(error) => return Err(error.into()),
            }
        }
    }

    async fn open(&self, epoch: Epoch, offset: u64) -> Result<LogStream, ClientError> {
        let path = Query::new(format!("/jobs/{}/logs", self.id))
            .with("epoch", epoch.to_string())
            .with("offset", offset.to_string())
            .with("follow", self.args.follow.to_string());
        self.client.bytes(path.as_str()).await
    }

    async fn reopen(&self, sheet: &Sheet<'_>) -> Result<LogStream, ClientError> {
        loop {
            match self.open(sheet.epoch, sheet.length).await {
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
    epoch: Epoch,
    /// Bytes that have arrived.
    length: u64,
    scrubber: Scrubber,
    line: String,
}

impl<'c> Sheet<'c> {
    fn new(context: &'c Context<'c>, raw: bool, epoch: Epoch) -> Self {
        Self { context, raw, epoch, length: 0, scrubber: Scrubber::default(), line: String::new() }
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
        self.context.out.document(&serde_json::json!({"leaseEpoch": self.epoch, "line": line}))
    }
}
