//! `giga backup restore`

use std::io::{BufRead, IsTerminal, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use client::Client;
use domain::{BackupSummary, Generation};
use protocol::{Health, REPLACE_EVERYTHING, RestoreSummary};
use store::{BackupError, OfflineAccess, RestoreOutcome, StoreUrl};
use tokio::fs::File;

use crate::cli::BackupRestoreArgs;
use crate::compose::{blobs, stores};
use crate::failure::{Exit, Failure};

use super::Context;
use super::backup::{describe, inspect};
use super::store_location::{StoreLocation, find};

/// How often a restarting coordinator is polled.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// How long a coordinator may take to start again: it lifts every open job first.
const PATIENCE: Duration = Duration::from_mins(5);

/// Replaces the coordinator's store with a backup.
pub(super) async fn restore(context: &Context<'_>, args: BackupRestoreArgs) -> Result<(), Failure> {
    let summary = inspect(&args.file).await?;
    let location = find(context).await?;
    if !args.yes {
        confirm(context, &location, &summary)?;
    }
    let restored = match location {
        StoreLocation::Running(client) => send(context, &client, &args.file, summary.bytes).await?,
        StoreLocation::Offline(url) => put_into(context, &args.file, &url).await?,
    };
    if context.out.is_json() {
        return context.out.document(&restored);
    }
    context.out.warning(&restored.notice);
    if let Some(kept) = &restored.kept {
        context.out.note(&format!("the previous store is kept beside it as {kept}"));
    }
    let jobs = if restored.backup.jobs == 1 { "1 job".to_owned() } else { format!("{} jobs", restored.backup.jobs) };
    context.out.line(&format!("restored {jobs}, generation {}", restored.generation))
}

/// Asks the user at the terminal; without a terminal, only the command line can confirm.
fn confirm(context: &Context<'_>, location: &StoreLocation, summary: &BackupSummary) -> Result<(), Failure> {
    let (stdin, mut stderr) = (std::io::stdin(), std::io::stderr());
    let what = match location {
        StoreLocation::Running(client) => format!("the store of the coordinator at {}", client.base()),
        StoreLocation::Offline(url) => match url.file(&context.config.data.database()) {
            Some(file) => format!("{}", file.display()),
            None => format!("the store at {url}"),
        },
    };
    if !stdin.is_terminal() || !stderr.is_terminal() {
        return Err(Failure::usage(format!("this replaces {what}")).hint("confirm with --yes"));
    }
    write!(stderr, "replace {what} with a backup {}? Type yes: ", describe(summary))?;
    stderr.flush()?;
    let mut answer = String::new();
    stdin.lock().read_line(&mut answer)?;
    if answer.trim() == "yes" { Ok(()) } else { Err(Failure::failed("nothing was changed")) }
}

/// Restores the evidence of runs in the coordinator's place of logs, then the store: in the other order a failure
/// between the two would leave a store without it. On its own it is evidence of unknown runs, and the next restore finds it.
async fn with_evidence(
    context: &Context<'_>,
    file: &Path,
    restoring: impl Future<Output = Result<RestoreOutcome, BackupError>>,
) -> Result<RestoreSummary, Failure> {
    let (backup, logs) = (file.to_owned(), blobs::logs(&context.config)?);
    let unpacking = tokio::task::spawn_blocking(move || store::unpack_evidence(&backup, &logs)).await;
    let unpacked = unpacking.context("the restore was interrupted")?.map_err(anyhow::Error::new)?;
    let restored = restoring.await;
    // A store that is in its place after all, or will be at the next start, needs it.
    if let Err(error) = &restored
        && !matches!(error, BackupError::Unknown(_) | BackupError::Open(_))
    {
        let taking_back = tokio::task::spawn_blocking(move || unpacked.remove_imported()).await;
        taking_back.context("the restore was interrupted")?;
    }
    Ok(told(restored.map_err(anyhow::Error::new)?))
}

/// Puts a backup into a store that no coordinator works on.
async fn put_into(context: &Context<'_>, file: &Path, url: &StoreUrl) -> Result<RestoreSummary, Failure> {
    let database = context.config.data.database();
    let offline = url.offline(&database, OfflineAccess::Replace, Arc::clone(&context.clock)).await;
    let offline = offline.map_err(stores::open_error)?;
    let restored = with_evidence(context, file, offline.restore(file, context.now())).await;
    offline.close().await.map_err(anyhow::Error::new)?;
    restored
}

fn told(done: RestoreOutcome) -> RestoreSummary {
    let kept = done.kept.and_then(|path| Some(path.file_name()?.to_string_lossy().into_owned()));
    let notice = RestoreSummary::notice(&done.backup);
    RestoreSummary { backup: done.backup, generation: done.generation, kept, notice }
}

/// Sends the backup to a coordinator that runs, and waits until it runs on it.
async fn send(context: &Context<'_>, client: &Client, file: &Path, len: u64) -> Result<RestoreSummary, Failure> {
    let open = File::open(file).await.with_context(|| format!("cannot read {}", file.display()))?;
    context.out.note(&format!("sending the backup to {}", client.base()));
    let path = format!("/restore?replace={REPLACE_EVERYTHING}");
    let restored: RestoreSummary = client.upload(&path, "application/vnd.sqlite3", open, len).await?;
    context.out.note("the coordinator restarts");
    wait_for(context, client, restored.generation).await?;
    Ok(restored)
}

async fn wait_for(context: &Context<'_>, client: &Client, generation: Generation) -> Result<(), Failure> {
    let deadline = context.clock.monotonic() + PATIENCE;
    loop {
        match client.get::<Health>("/healthz").await {
            Ok(health) if health.generation == generation => return Ok(()),
            _ if context.clock.monotonic() > deadline => {
                return Err(Failure::new(
                    Exit::Unreachable,
                    "the backup is restored, but the coordinator does not answer",
                )
                .hint("see its log; a restart completes the restore"));
            }
            _ => context.clock.sleep(LOOK_EVERY).await,
        }
    }
}
