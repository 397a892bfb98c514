//! Artifacts as plain files: one directory per job, one file per upload, named by its content.

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use domain::{BlobAttributes, BlobKey, BlobReader, BlobStore, BlobWriter, JobId, StoreError, Timestamp};
use tokio::fs::File;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::private;

/// Bytes of a blob in memory at one time.
const CHUNK_LEN: usize = 256 * 1024;

/// The end of the name of a file that is being written.
const UNFINISHED: &str = ".part";

/// Blobs in a directory: `<dir>/<last two digits of the job's id>/<job>/<sha256>-<upload>`.
#[derive(Debug, Clone)]
pub struct DirectoryBlobs {
    dir: PathBuf,
}

impl DirectoryBlobs {
    /// Blobs under `dir`, which is created with the first of them.
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Self { dir: dir.into() }
    }

    fn folder(&self, job: JobId) -> PathBuf {
        let name = job.to_string();
        self.dir.join(&name[name.len() - 2..]).join(name)
    }

    fn file(&self, key: &BlobKey) -> PathBuf {
        self.folder(key.job).join(key.file_name())
    }
}

#[async_trait]
impl BlobStore for DirectoryBlobs {
    async fn create(&self, key: &BlobKey, _: &BlobAttributes) -> Result<Box<dyn BlobWriter>, StoreError> {
        let place = self.file(key);
        let begin = || async {
            let unfinished = place.with_added_extension(&UNFINISHED[1..]);
            let (folder, at) = (self.folder(key.job), unfinished.clone());
            let file = off_thread(move || {
                private::create_directory(&folder)?;
                private::file().write(true).create_new(true).open(at)
            });
            Ok(FileWriter {
                file: File::from_std(file.await?),
                unfinished: RemovedOnDrop(unfinished),
                place: place.clone(),
            })
        };
        begin().await.map(|writer| Box::new(writer) as _).map_err(failure)
    }

    async fn open(&self, key: &BlobKey) -> Result<Option<Box<dyn BlobReader>>, StoreError> {
        let file = match File::open(self.file(key)).await {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failure(error)),
        };
        let bytes = file.metadata().await.map_err(failure)?.len();
        Ok(Some(Box::new(FileReader { file, bytes })))
    }

    async fn remove(&self, key: &BlobKey) -> Result<(), StoreError> {
        let (file, folder) = (self.file(key), self.folder(key.job));
        let removing = off_thread(move || {
            for file in [file.with_added_extension(&UNFINISHED[1..]), file] {
                match std::fs::remove_file(file) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                    _ => {}
                }
            }
            // Fails while the job has other artifacts.
            let _ = std::fs::remove_dir(folder);
            Ok(())
        });
        removing.await.map_err(failure)
    }

    async fn list(&self, job: JobId) -> Result<Vec<(BlobKey, Timestamp)>, StoreError> {
        let folder = self.folder(job);
        off_thread(move || list(&folder, job)).await.map_err(failure)
    }

    async fn signed_url(&self, _: &BlobKey, _: Duration) -> Result<Option<String>, StoreError> {
        Ok(None)
    }
}

fn list(folder: &Path, job: JobId) -> io::Result<Vec<(BlobKey, Timestamp)>> {
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name();
        let Some(name) = name.to_str() else { continue };
        // An unfinished one is removed by the same key.
        let Some(key) = BlobKey::of_file(job, name.strip_suffix(UNFINISHED).unwrap_or(name)) else { continue };
        let Ok(about) = entry.metadata() else { continue };
        let written = about.modified()?.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        found.push((key, Timestamp::from_millis(i64::try_from(written.as_millis()).unwrap_or(i64::MAX))));
    }
    Ok(found)
}

struct FileWriter {
    file: File,
    unfinished: RemovedOnDrop,
    place: PathBuf,
}

/// A file that is removed when this value is dropped.
struct RemovedOnDrop(PathBuf);

impl Drop for RemovedOnDrop {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[async_trait]
impl BlobWriter for FileWriter {
    async fn write(&mut self, bytes: &[u8]) -> Result<(), StoreError> {
        self.file.write_all(bytes).await.map_err(failure)
    }

    async fn finish(mut self: Box<Self>) -> Result<(), StoreError> {
        let finish = async {
            self.file.flush().await?;
            // Before the rename: otherwise a power failure can leave the name with an empty file.
            self.file.sync_all().await?;
            let (from, to) = (self.unfinished.0.clone(), self.place.clone());
            off_thread(move || {
                std::fs::rename(from, &to)?;
                private::flush_name(&to)?;
                // The directory and its parent may be as new as the file.
                to.parent().and_then(Path::parent).map_or(Ok(()), private::flush_name)
            })
            .await
        };
        finish.await.map_err(failure)
    }

    async fn abort(self: Box<Self>) {}
}

struct FileReader {
    file: File,
    bytes: u64,
}

#[async_trait]
impl BlobReader for FileReader {
    fn bytes(&self) -> u64 {
        self.bytes
    }

    async fn next(&mut self) -> Result<Option<Vec<u8>>, StoreError> {
        let mut chunk = vec![0; CHUNK_LEN];
        let len = self.file.read(&mut chunk).await.map_err(failure)?;
        chunk.truncate(len);
        Ok((len > 0).then_some(chunk))
    }
}

async fn off_thread<T: Send + 'static>(work: impl FnOnce() -> io::Result<T> + Send + 'static) -> io::Result<T> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|_| Err(io::ErrorKind::Interrupted.into()))
}

#[expect(clippy::needless_pass_by_value, reason = "it is the argument of `map_err`")]
fn failure(error: io::Error) -> StoreError {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            StoreError::DiskFull("cannot store the artifact: free space on its disk".to_owned())
        }
        _ => StoreError::Unavailable(format!("the directory of artifacts: {error}")),
    }
}
