//! Logs of runs as plain files: one directory per job, one file per epoch, and the run's evidence beside it.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use domain::{Epoch, JobId, LogStore, StoreError};
use parking_lot::Mutex;

use crate::private;

/// Logs in a directory: `<dir>/<last two digits of the job's id>/<job>/<epoch>.log`, evidence in `<epoch>.evidence`.
///
/// Ids begin with their creation time, so their last digits distribute jobs over directories.
#[derive(Debug, Clone)]
pub struct DirectoryLogs {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    dir: PathBuf,
    limit: u64,
    /// Serialises appends to one log, because each measures the file first. Logs share locks by job, which bounds
    /// their number.
    appending: [Mutex<()>; LOCKS],
}

/// Extension of the evidence files.
const EVIDENCE: &str = "evidence";

/// More locks than blocking threads on an ordinary machine, so that two jobs rarely share one.
const LOCKS: usize = 64;

impl DirectoryLogs {
    /// Logs under `dir`. Each is truncated at `limit_bytes_per_log`, with a last line that reports it.
    pub fn new(dir: impl Into<PathBuf>, limit_bytes_per_log: u64) -> Self {
        let appending = std::array::from_fn(|_| Mutex::new(()));
        Self { shared: Arc::new(Shared { dir: dir.into(), limit: limit_bytes_per_log, appending }) }
    }

    /// Visits every complete evidence document, in no order. A document that is removed meanwhile is skipped.
    #[cfg(feature = "sqlite")]
    pub(crate) fn each_evidence<E: From<io::Error>>(
        &self,
        mut show: impl FnMut(JobId, Epoch, Vec<u8>) -> Result<(), E>,
    ) -> Result<(), E> {
        for shelf in entries(&self.shared.dir)? {
            for folder in entries(&shelf)? {
                let Some(job) = name(&folder).and_then(|name| name.parse().ok()) else { continue };
                for file in entries(&folder)? {
                    let epoch =
                        name(&file).and_then(|name| name.strip_suffix(EVIDENCE)?.strip_suffix('.')?.parse().ok());
                    let Some(epoch) = epoch else { continue };
                    match fs::read(&file) {
                        Ok(document) if is_whole(&document) => show(job, Epoch(epoch), document)?,
                        Ok(_) => {}
                        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                        Err(error) => return Err(error.into()),
                    }
                }
            }
        }
        Ok(())
    }

    /// Stores a run's evidence. The caller must have exclusive access to the directory.
    #[cfg(feature = "sqlite")]
    pub(crate) fn add_evidence(&self, job: JobId, epoch: Epoch, document: &[u8]) -> io::Result<()> {
        self.shared.write_evidence(job, epoch, document)
    }

    /// Removes a run's evidence.
    #[cfg(feature = "sqlite")]
    pub(crate) fn remove_evidence(&self, job: JobId, epoch: Epoch) -> io::Result<()> {
        fs::remove_file(self.shared.evidence(job, epoch))
    }

    async fn off_thread<T: Send + 'static>(
        &self,
        job: JobId,
        work: impl FnOnce(&Shared) -> io::Result<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        let shared = Arc::clone(&self.shared);
        match tokio::task::spawn_blocking(move || work(&shared)).await {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(error)) if error.kind() == io::ErrorKind::StorageFull => {
                Err(StoreError::DiskFull(format!("cannot append to the log of job `{job}`: free space on its disk")))
            }
            Ok(Err(error)) => Err(StoreError::Unavailable(format!("the log of job `{job}`: {error}"))),
            Err(_) => Err(StoreError::Unavailable("the process is shutting down".to_owned())),
        }
    }
}

#[async_trait]
impl LogStore for DirectoryLogs {
    async fn append(&self, job: JobId, epoch: Epoch, offset: u64, chunk: &[u8]) -> Result<u64, StoreError> {
        let chunk = chunk.to_vec();
        self.off_thread(job, move |shared| shared.append(job, epoch, offset, &chunk)).await
    }

    async fn read(&self, job: JobId, epoch: Epoch, offset: u64, limit: u32) -> Result<Vec<u8>, StoreError> {
        self.off_thread(job, move |shared| read(&shared.file(job, epoch), offset, limit)).await
    }

    async fn logs(&self, job: JobId) -> Result<Vec<(Epoch, u64)>, StoreError> {
        self.off_thread(job, move |shared| list(&shared.folder(job))).await
    }

    async fn keep_evidence(&self, job: JobId, epoch: Epoch, document: &[u8]) -> Result<(), StoreError> {
        let document = document.to_vec();
        self.off_thread(job, move |shared| shared.keep_evidence(job, epoch, &document)).await
    }

    async fn evidence(&self, job: JobId, epoch: Epoch) -> Result<Option<Vec<u8>>, StoreError> {
        self.off_thread(job, move |shared| match fs::read(shared.evidence(job, epoch)) {
            Ok(document) => Ok(Some(document)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        })
        .await
    }
}

impl Shared {
    fn folder(&self, job: JobId) -> PathBuf {
        let name = job.to_string();
        self.dir.join(&name[name.len() - 2..]).join(name)
    }

    fn file(&self, job: JobId, epoch: Epoch) -> PathBuf {
        self.folder(job).join(format!("{epoch}.log"))
    }

    fn append(&self, job: JobId, epoch: Epoch, offset: u64, chunk: &[u8]) -> io::Result<u64> {
        let _one_at_a_time = self.appending[usize::from(job.as_bytes()[15]) % LOCKS].lock();
        private::create_directory(&self.folder(job))?;
        let mut file = private::file().append(true).create(true).open(self.file(job, epoch))?;
        let length = file.metadata()?.len();
        let end = offset.saturating_add(chunk.len() as u64);
        // A truncated log accepts further chunks and discards them; otherwise its writer would retry for ever.
        if length > self.limit {
            return Ok(end.max(length));
        }
        if offset > length || end <= length {
            return Ok(length);
        }
        let fresh = &chunk[position(length - offset)..];
        let room = position(self.limit - length);
        if fresh.len() <= room {
            file.write_all(fresh)?;
            return Ok(end);
        }
        let mut last = fresh[..room].to_vec();
        last.extend_from_slice(self.mark().as_bytes());
        file.write_all(&last)?;
        Ok(end.max(length + last.len() as u64))
    }

    fn evidence(&self, job: JobId, epoch: Epoch) -> PathBuf {
        self.folder(job).join(format!("{epoch}.{EVIDENCE}"))
    }

    fn keep_evidence(&self, job: JobId, epoch: Epoch, document: &[u8]) -> io::Result<()> {
        let _one_at_a_time = self.appending[usize::from(job.as_bytes()[15]) % LOCKS].lock();
        self.write_evidence(job, epoch, document)
    }

    /// Writes a temporary file and renames it, so that no reader sees a partial document. Durable once this returns.
    fn write_evidence(&self, job: JobId, epoch: Epoch, document: &[u8]) -> io::Result<()> {
        let folder = self.folder(job);
        private::create_directory(&folder)?;
        let (place, beside) = (self.evidence(job, epoch), folder.join(format!("{epoch}.evidence.new")));
        let mut file = private::file().write(true).create(true).truncate(true).open(&beside)?;
        file.write_all(document)?;
        // Flush before the rename: otherwise a power failure can leave the name with an empty file.
        file.sync_all()?;
        fs::rename(beside, &place)?;
        private::flush_name(&place)?;
        // The directory and its parent may be as new as the document: flush their names too.
        folder.parent().map_or(Ok(()), private::flush_name)
    }

    fn mark(&self) -> String {
        format!("\n[log truncated at its limit of {} bytes]\n", self.limit)
    }
}

fn read(path: &Path, offset: u64, limit: u32) -> io::Result<Vec<u8>> {
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    file.seek(SeekFrom::Start(offset))?;
    let mut bytes = Vec::new();
    file.take(u64::from(limit)).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn list(folder: &Path) -> io::Result<Vec<(Epoch, u64)>> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut logs = Vec::new();
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name();
        let epoch = name.to_str().and_then(|name| name.strip_suffix(".log")).and_then(|epoch| epoch.parse().ok());
        if let Some(epoch) = epoch {
            logs.push((Epoch(epoch), entry.metadata()?.len()));
        }
    }
    logs.sort_unstable();
    Ok(logs)
}

/// Reports whether a document is complete: one JSON value up to its end. A failing disk leaves a part of it, or zeros.
#[cfg(feature = "sqlite")]
fn is_whole(document: &[u8]) -> bool {
    serde_json::from_slice::<serde::de::IgnoredAny>(document).is_ok()
}

/// Lists a directory; empty if it does not exist or is a file.
#[cfg(feature = "sqlite")]
fn entries(folder: &Path) -> io::Result<Vec<PathBuf>> {
    match fs::read_dir(folder) {
        Ok(entries) => entries.map(|entry| Ok(entry?.path())).collect(),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

#[cfg(feature = "sqlite")]
fn name(path: &Path) -> Option<&str> {
    path.file_name()?.to_str()
}

/// Converts to an index; saturates beyond the address space.
fn position(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}
