//! Small objects by path, below one place: a directory, or a bucket.

use std::fmt;
use std::fs;
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use domain::StoreError;

use crate::private;

/// Objects that are written as a whole. Paths have `/` between their parts.
#[async_trait]
pub(crate) trait Objects: fmt::Debug + Send + Sync {
    /// Writes an object, or replaces it atomically. It is durable once this returns.
    async fn put(&self, path: &str, bytes: Vec<u8>) -> Result<(), StoreError>;
    /// These bytes of an object, or all of them; `None` if it does not exist.
    async fn get(&self, path: &str, range: Option<Range<u64>>) -> Result<Option<Vec<u8>>, StoreError>;
    /// The paths of all objects below a path, in no order.
    async fn list(&self, below: &str) -> Result<Vec<String>, StoreError>;
    /// Removes an object. One that does not exist is no error.
    async fn remove(&self, path: &str) -> Result<(), StoreError>;
}

/// Objects as files, readable by their owner only. Several machines may share the directory.
#[derive(Debug, Clone)]
pub(crate) struct DirectoryObjects {
    dir: PathBuf,
}

impl DirectoryObjects {
    pub(crate) fn new(dir: impl Into<PathBuf>) -> Self {
        Self { dir: dir.into() }
    }
}

#[async_trait]
impl Objects for DirectoryObjects {
    async fn put(&self, path: &str, bytes: Vec<u8>) -> Result<(), StoreError> {
        let place = self.dir.join(path);
        off_thread(move || write(&place, &bytes)).await
    }

    async fn get(&self, path: &str, range: Option<Range<u64>>) -> Result<Option<Vec<u8>>, StoreError> {
        let place = self.dir.join(path);
        off_thread(move || match read(&place, range) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        })
        .await
    }

    async fn list(&self, below: &str) -> Result<Vec<String>, StoreError> {
        let (dir, below) = (self.dir.clone(), below.to_owned());
        off_thread(move || {
            let mut found = Vec::new();
            walk(&dir, &below, &mut found)?;
            Ok(found)
        })
        .await
    }

    async fn remove(&self, path: &str) -> Result<(), StoreError> {
        let place = self.dir.join(path);
        off_thread(move || match fs::remove_file(place) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        })
        .await
    }
}

/// Writes a temporary file and renames it, so that no reader sees a partial object.
fn write(place: &Path, bytes: &[u8]) -> io::Result<()> {
    private::create_directory(place.parent().unwrap_or(Path::new(".")))?;
    // Another machine may write the same object at the same time.
    let unfinished = place.with_added_extension(format!("{:016x}.new", RandomState::new().hash_one(())));
    let write = || {
        let mut file = private::file().write(true).create_new(true).open(&unfinished)?;
        file.write_all(bytes)?;
        // Before the rename: otherwise a power failure can leave the name with an empty file.
        file.sync_all()?;
        fs::rename(&unfinished, place)?;
        private::flush_name(place)
    };
    write().inspect_err(|_| drop(fs::remove_file(&unfinished)))
}

fn read(place: &Path, range: Option<Range<u64>>) -> io::Result<Vec<u8>> {
    let Some(range) = range else { return fs::read(place) };
    let mut file = fs::File::open(place)?;
    file.seek(SeekFrom::Start(range.start))?;
    let mut bytes = Vec::new();
    file.take(range.end.saturating_sub(range.start)).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn walk(dir: &Path, below: &str, found: &mut Vec<String>) -> io::Result<()> {
    let entries = match fs::read_dir(dir.join(below)) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    for entry in entries {
        let entry = entry?;
        let Ok(name) = entry.file_name().into_string() else { continue };
        let path = format!("{below}/{name}");
        if entry.file_type()?.is_dir() {
            walk(dir, &path, found)?;
        } else {
            found.push(path);
        }
    }
    Ok(())
}

async fn off_thread<T: Send + 'static>(work: impl FnOnce() -> io::Result<T> + Send + 'static) -> Result<T, StoreError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) if matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded) => {
            Err(StoreError::DiskFull("cannot store the output of a run: free space on its disk".to_owned()))
        }
        Ok(Err(error)) => Err(StoreError::Unavailable(format!("the directory of logs: {error}"))),
        Err(_) => Err(StoreError::Unavailable("the process is shutting down".to_owned())),
    }
}
