//! Evidence of runs inside a backup: documents in a collection that no store reads.

use std::fs::File;
use std::path::Path;

use domain::{BackupSummary, Epoch, JobId};
use rusqlite::{Connection, params};

use super::backup::{inspect_backup, open_alone, open_unchanged};
use super::backup_error::BackupError;
use crate::run_logs::RunLogs;

/// The collection of a backup that holds evidence.
pub(crate) const COLLECTION: &str = "fleet_evidence";

const ADD: &str = "INSERT OR REPLACE INTO fleet_documents (collection, key, rev, doc) VALUES (?1, ?2, 1, ?3)";
const ALL: &str = "SELECT key, doc FROM fleet_documents WHERE collection = ?1";
const REMOVE: &str = "DELETE FROM fleet_documents WHERE collection = ?1";

/// Adds the evidence in `logs` to a backup; returns the backup's new summary. Call it on a blocking thread of a runtime.
pub fn pack_evidence(backup: &Path, logs: &RunLogs) -> Result<BackupSummary, BackupError> {
    let wrong = |error| BackupError::sqlite(backup)(error);
    let mut connection = open_alone(backup).map_err(wrong)?;
    let transaction = connection.transaction().map_err(wrong)?;
    let mut add = transaction.prepare(ADD).map_err(wrong)?;
    let packed = logs.each_evidence(|job, epoch, document| {
        // Complete documents are JSON, and so text.
        let Ok(document) = String::from_utf8(document) else { return Ok(()) };
        add.execute(params![COLLECTION, format!("{job}/{epoch}"), document]).map(drop).map_err(EvidenceError::Database)
    });
    drop(add);
    packed.map_err(|broken| match broken {
        EvidenceError::Database(error) => wrong(error),
        EvidenceError::Files(error) => BackupError::files(backup)(error),
    })?;
    transaction.commit().map_err(wrong)?;
    connection.close().map_err(|(_, error)| wrong(error))?;
    let summary = inspect_backup(backup)?;
    File::open(backup).and_then(|file| file.sync_all()).map_err(BackupError::files(backup))?;
    Ok(summary)
}

/// Extracts a backup's evidence into `logs`, where none exists yet. An error leaves `logs` unchanged;
/// [`EvidenceImport::remove_imported`] undoes the import. Call it on a blocking thread of a runtime.
pub fn unpack_evidence(backup: &Path, logs: &RunLogs) -> Result<EvidenceImport, BackupError> {
    let mut unpacked = EvidenceImport { logs: logs.clone(), added: Vec::new() };
    match unpack(backup, &mut unpacked) {
        Ok(()) => Ok(unpacked),
        Err(error) => {
            unpacked.remove_imported();
            Err(error)
        }
    }
}

/// The evidence that an import added.
#[derive(Debug)]
#[must_use = "what was unpacked for a restore that fails has to be taken back"]
pub struct EvidenceImport {
    logs: RunLogs,
    added: Vec<(JobId, Epoch)>,
}

impl EvidenceImport {
    /// Removes the imported evidence. A document that cannot be removed belongs to no known run and is harmless.
    pub fn remove_imported(self) {
        for (job, epoch) in self.added {
            let _ = self.logs.remove_evidence(job, epoch);
        }
    }
}

fn unpack(backup: &Path, unpacked: &mut EvidenceImport) -> Result<(), BackupError> {
    let wrong = |error| BackupError::sqlite(backup)(error);
    let connection = open_unchanged(backup).map_err(wrong)?;
    let mut all = connection.prepare(ALL).map_err(wrong)?;
    let there = unpacked.logs.runs_with_evidence().map_err(BackupError::files(backup))?;
    let mut rows = all.query([COLLECTION]).map_err(wrong)?;
    while let Some(row) = rows.next().map_err(wrong)? {
        let (key, document): (String, String) = (row.get(0).map_err(wrong)?, row.get(1).map_err(wrong)?);
        let Some((job, epoch)) = run_of(&key) else { continue };
        if !there.contains(&(job, epoch)) {
            // Before it is written: a part of it is removed too.
            unpacked.added.push((job, epoch));
            unpacked.logs.add_evidence(job, epoch, document.as_bytes()).map_err(BackupError::files(backup))?;
        }
    }
    Ok(())
}

/// Removes the evidence from a backup that becomes a store.
pub(super) fn remove(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute(REMOVE, [COLLECTION]).map(drop)
}

/// The run that a document belongs to.
fn run_of(key: &str) -> Option<(JobId, Epoch)> {
    let (job, epoch) = key.split_once('/')?;
    Some((job.parse().ok()?, Epoch(epoch.parse().ok()?)))
}

enum EvidenceError {
    Files(std::io::Error),
    Database(rusqlite::Error),
}

impl From<std::io::Error> for EvidenceError {
    fn from(error: std::io::Error) -> Self {
        Self::Files(error)
    }
}
