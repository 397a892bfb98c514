//! A disk without space: how it is recognised, and waiting for it at the start.

use std::path::Path;
use std::time::Duration;

use coordinator::{Disk, NotReady};
use domain::{Clock, StoreError};
use server::{BindError, Options, Server};
use tokio_util::sync::CancellationToken;
use tracing::{error, info};

/// How often the disk is polled.
const POLL_EVERY: Duration = Duration::from_secs(1);

/// So much more than before is worth another try.
const GAIN_MIN: u64 = 64 * 1024;

/// Another try all the same after so many polls: the limit may be of another kind.
const TRY_EVERY: u32 = 30;

/// With less than this a failure to open a file is taken for a lack of space: SQLite has other words for some of them.
const FREE_MIN: u64 = 256 * 1024;

/// The bytes that are free on the disk of a directory, or of the nearest one above it that exists.
pub(super) fn free(directory: &Path) -> Option<u64> {
    let there = directory.ancestors().find(|above| above.is_dir())?;
    let found = rustix::fs::statvfs(there).ok()?;
    Some(found.f_bavail.saturating_mul(found.f_frsize))
}

/// The disk of the data directory, for the coordinator to poll.
pub(super) fn disk(data: &Path) -> Disk {
    let directory = data.to_owned();
    Disk { path: data.display().to_string(), free: Box::new(move || free(&directory)) }
}

/// Whether a start failed for lack of space.
pub(super) fn is_the_reason(failure: &anyhow::Error, data: &Path) -> bool {
    let is_tight = free(data).is_some_and(|free| free < FREE_MIN);
    failure.chain().any(|cause| {
        if let Some(error) = cause.downcast_ref::<std::io::Error>() {
            return error.kind() == std::io::ErrorKind::StorageFull;
        }
        if let Some(error) = cause.downcast_ref::<store::OpenError>() {
            let is_about_files = matches!(error, store::OpenError::Sqlite { .. } | store::OpenError::Files { .. });
            return error.is_disk_full() || (is_tight && is_about_files);
        }
        matches!(cause.downcast_ref::<StoreError>(), Some(StoreError::DiskFull(_)))
    })
}

/// Waits until there is more space than now. Meanwhile the address answers with the reason, where it can be had. Only the
/// first of several waits in a row is logged.
pub(super) async fn wait(
    data: &Path,
    options: Options,
    failure: &anyhow::Error,
    clock: &dyn Clock,
    stop: &CancellationToken,
    is_first: bool,
) -> Result<(), BindError> {
    let known = free(data);
    let bytes = known.map_or_else(String::new, |free| format!(" ({free} bytes free)"));
    let place = data.display();
    let message = format!(
        "no space left on the disk of {place}{bytes}: the coordinator starts once there is; free some space there"
    );
    if is_first {
        error!("Waiting: {message} ({failure:#})");
    }
    let server = Server::bind(options).await?;
    let over = CancellationToken::new();
    let polling = async {
        for _ in 0..TRY_EVERY {
            tokio::select! {
                () = clock.sleep(POLL_EVERY) => {}
                () = stop.cancelled() => break,
            }
            if matches!((known, free(data)), (Some(known), Some(now)) if now >= known.saturating_add(GAIN_MIN)) {
                info!("There is space again on the disk of {place}");
                break;
            }
        }
        over.cancel();
    };
    tokio::join!(server.wait(NotReady::DiskFull(message), over.clone()), polling);
    Ok(())
}
