//! `giga backup create`

use std::fs::{File, OpenOptions};
use std::io::{IsTerminal, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;
use client::Client;
use domain::{BackupSummary, Timestamp};
use protocol::SUMMARY_HEADER;
use serde::Serialize;
use sha2::{Digest, Sha256};
use store::{OfflineAccess, StoreUrl};

use crate::cli::BackupCreateArgs;
use crate::compose::{blobs, stores};
use crate::failure::Failure;

use super::Context;
use super::store_location::{StoreLocation, find};

/// How often progress is shown: a second or so of a fast network.
const SHOWN_EVERY: u64 = 64 * 1024 * 1024;

/// What was written, for programs.
#[derive(Serialize)]
struct BackupReport<'t> {
    file: String,
    #[serde(flatten)]
    summary: &'t BackupSummary,
}

/// Checks a backup and shows its summary.
pub(super) async fn verify(context: &Context<'_>, file: &Path) -> Result<(), Failure> {
    let summary = inspect(file).await?;
    context.out.note(&format!("{} is a valid backup", file.display()));
    show(context, file, &summary)
}

/// Writes a backup to one file.
pub(super) async fn create(context: &Context<'_>, args: BackupCreateArgs) -> Result<(), Failure> {
    let file = args.file.unwrap_or_else(|| named_by_time(context.now()));
    if file.exists() {
        return Err(Failure::failed(format!("{} already exists", file.display())).hint("choose another file"));
    }
    let part = with_suffix(&file, ".part");
    // What an earlier try left is of no use.
    let _ = std::fs::remove_file(&part);
    let taken = match find(context).await? {
        StoreLocation::Running(client) => fetch(context, &client, &part).await,
        StoreLocation::Offline(store) => with_evidence(context, copy(context, &store, &part).await, &part).await,
    };
    let summary = match taken {
        Ok(summary) => summary,
        Err(failure) => {
            let _ = std::fs::remove_file(&part);
            return Err(failure);
        }
    };
    put_in_place(&part, &file).with_context(|| format!("cannot write {}", file.display()))?;
    context.out.note("a backup does not contain the output of engines: copy the directory `logs` too if you need it");
    show(context, &file, &summary)
}

/// Verifies a backup of any size, on a blocking thread.
pub(super) async fn inspect(file: &Path) -> Result<BackupSummary, Failure> {
    if !file.exists() {
        return Err(Failure::not_found(format!("no file {}", file.display())).hint("`giga backup create` writes one"));
    }
    let path = file.to_owned();
    let inspected = tokio::task::spawn_blocking(move || store::inspect_backup(&path)).await;
    Ok(inspected.context("the check was interrupted")?.map_err(anyhow::Error::new)?)
}

/// Copies a store without its coordinator; a database on a server even while it is in use: that changes nothing in it.
async fn copy(context: &Context<'_>, url: &StoreUrl, to: &Path) -> Result<BackupSummary, Failure> {
    let offline = url.offline(&context.config.data.database(), OfflineAccess::Read, Arc::clone(&context.clock)).await;
    let offline = offline.map_err(stores::open_error)?;
    let copied = offline.back_up(to, context.now()).await;
    offline.close().await.map_err(anyhow::Error::new)?;
    match copied {
        Err(error @ store::BackupError::NoDatabase(_)) => Err(Failure::not_found(error.to_string())
            .hint("name the coordinator with --api, or its data directory with --data")),
        copied => Ok(copied.map_err(anyhow::Error::new)?),
    }
}

/// Adds the evidence of runs, from the coordinator's place of logs.
async fn with_evidence(
    context: &Context<'_>,
    copied: Result<BackupSummary, Failure>,
    to: &Path,
) -> Result<BackupSummary, Failure> {
    copied?;
    let (to, logs) = (to.to_owned(), blobs::logs(&context.config)?);
    let packed = tokio::task::spawn_blocking(move || store::pack_evidence(&to, &logs)).await;
    Ok(packed.context("the copy was interrupted")?.map_err(anyhow::Error::new)?)
}

/// Takes a backup over the network and makes sure that it is the one that was sent.
async fn fetch(context: &Context<'_>, client: &Client, to: &Path) -> Result<BackupSummary, Failure> {
    context.out.note(&format!("copying the store of the coordinator at {}", client.base()));
    let mut download = client.download("/backup", SUMMARY_HEADER).await?;
    let told: Option<BackupSummary> = download.told.as_deref().and_then(|told| serde_json::from_str(told).ok());
    let told = told.context("the coordinator did not describe the backup")?;
    let mut file = private_file(to).with_context(|| format!("cannot write {}", to.display()))?;
    let (mut hash, mut len, mut shown) = (Sha256::new(), 0_u64, 0_u64);
    while let Some(bytes) = download.bytes.next().await? {
        file.write_all(&bytes)?;
        hash.update(&bytes);
        len += bytes.len() as u64;
        if len - shown >= SHOWN_EVERY {
            shown = len;
            progress(context, len, told.bytes);
        }
    }
    file.sync_all()?;
    let digest: String = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    if (len, &digest) != (told.bytes, &told.sha256) {
        return Err(Failure::failed(format!("the backup was interrupted after {len} of {} bytes", told.bytes))
            .hint("try again: the partial file was removed"));
    }
    // The same look that a restore will take, so that a surprise comes today.
    inspect(to).await
}

fn progress(context: &Context<'_>, len: u64, all: u64) {
    if std::io::stderr().is_terminal() {
        context.out.note(&format!("{} of {}", mebibytes(len), mebibytes(all)));
    }
}

fn private_file(path: &Path) -> std::io::Result<File> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

/// Gives a finished file its name, for good.
fn put_in_place(part: &Path, file: &Path) -> std::io::Result<()> {
    std::fs::rename(part, file)?;
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(folder)?.sync_all()
}

fn show(context: &Context<'_>, file: &Path, summary: &BackupSummary) -> Result<(), Failure> {
    if context.out.is_json() {
        return context.out.document(&BackupReport { file: file.display().to_string(), summary });
    }
    context.out.note(&describe(summary));
    context.out.note(&format!("sha256 {}", summary.sha256));
    context.out.line(&file.display().to_string())
}

/// A backup in one line.
pub(super) fn describe(summary: &BackupSummary) -> String {
    let as_of = summary.taken_at.map_or_else(String::new, |at| format!("as of {at}: "));
    let jobs = if summary.jobs == 1 { "1 job".to_owned() } else { format!("{} jobs", summary.jobs) };
    let events = if summary.events == 1 { "1 event".to_owned() } else { format!("{} events", summary.events) };
    format!(
        "{as_of}{jobs}, {} open; {events}; what backs {} of the runs; generation {}; {}",
        summary.open,
        summary.evidence,
        summary.generation,
        mebibytes(summary.bytes)
    )
}

fn mebibytes(bytes: u64) -> String {
    let tenths = bytes.saturating_mul(10) / (1024 * 1024);
    format!("{}.{} MiB", tenths / 10, tenths % 10)
}

fn named_by_time(now: Timestamp) -> PathBuf {
    let digits: String = now.to_string().chars().filter(char::is_ascii_alphanumeric).take(15).collect();
    PathBuf::from(format!("giga-backup-{digits}Z.db"))
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backup_without_a_name_is_named_by_its_time() {
        let name = named_by_time(Timestamp::from_millis(1_769_860_800_123));

        assert_eq!(name, Path::new("giga-backup-20260131T120000Z.db"));
    }

    #[test]
    fn sizes_are_short() {
        assert_eq!([mebibytes(0), mebibytes(1_600_000), mebibytes(1 << 31)], ["0.0 MiB", "1.5 MiB", "2048.0 MiB"]);
    }
}
