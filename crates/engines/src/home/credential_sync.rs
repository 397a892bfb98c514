//! Copies an operator's credential into a job's home at the start of a run, and a refreshed one back at its end.
//!
//! Each copy holds one lock: on the operator's directory, so that all factories of a machine share it. A note beside the
//! home, where no agent can write, records the origin of the credential. It is written before the credential and removed
//! after it: a note that a crash left is a copy back that the next start has to do.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use domain::Clock;
use sandbox::{DirFd, DirLock, FileAttributes, UNFINISHED_SUFFIX, remove_file, replace_file};
use serde::{Deserialize, Serialize};
use tokio::runtime::{Handle, RuntimeFlavor};
use tracing::{info, warn};

use super::credential_file::{has_credential, refreshed, token_digest, without_withheld};
use super::operator_files::{OperatorFile, Writers, is_absence, put, read, read_operator_file};
use crate::registry::SignInMethod;

/// What the names of notes end with.
pub(super) const NOTE_SUFFIX: &str = ".credential-origin";

/// A copy takes milliseconds. A process that holds the lock for longer hangs, or is an agent that blocks it.
const LOCK_TRIES: u32 = 200;
const LOCK_RETRY_EVERY: Duration = Duration::from_millis(50);

/// A credential in a job's home. Dropping it copies a refreshed one back and removes it from the home.
pub(crate) struct CredentialSync {
    home: PathBuf,
    note: PathBuf,
    run: String,
    clock: Arc<dyn Clock>,
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Note {
    /// The copy that wrote it: a later run of the job may take over the home.
    run: String,
    /// The operator's directory, without links.
    directory: PathBuf,
    /// The operator's file in it.
    file: String,
    /// The name of the file in the home.
    name: String,
    /// The digest of the tokens that were copied.
    tokens: String,
}

impl CredentialSync {
    /// Copies the credential into a home that has no note. `None` if the operator has none.
    pub(super) fn start(
        (operator, writers): (&Path, Writers),
        home: &Path,
        (method, clock): (&SignInMethod, &Arc<dyn Clock>),
    ) -> io::Result<Option<Self>> {
        static COPIES: AtomicU64 = AtomicU64::new(0);
        let Some(OperatorFile { folder, .. }) = read_operator_file(operator, writers, method.file)? else {
            return Ok(None);
        };
        let _lock = lock(&DirFd::open_straight(&folder)?)?;
        let found = read_operator_file(operator, writers, method.file)?;
        let Some(OperatorFile { folder, name, bytes }) = found.filter(|file| has_credential(&file.bytes, method))
        else {
            return Ok(None);
        };
        let number = COPIES.fetch_add(1, Ordering::Relaxed);
        let run = format!("{}-{}-{number}", clock.now().as_millis(), std::process::id());
        let note = Note {
            run: run.clone(),
            directory: folder,
            file: name,
            name: method.file.to_owned(),
            tokens: token_digest(&bytes, method),
        };
        let sync = Self { home: home.to_owned(), note: note_of(home), run, clock: Arc::clone(clock) };
        replace_file(&sync.note, &serde_json::to_vec(&note)?)?;
        if let Err(error) = put(home, method.file, &without_withheld(&bytes, method)) {
            let _ = remove_file(&sync.note);
            return Err(error);
        }
        Ok(Some(sync))
    }
}

impl Drop for CredentialSync {
    fn drop(&mut self) {
        if let Err(error) = copy_back(&self.home, Some(&self.run), &*self.clock) {
            let home = self.home.display();
            warn!(%error, "Cannot copy the credential in {home} back: it stays there until the factory's next start");
        }
    }
}

/// The note of a home.
pub(super) fn note_of(home: &Path) -> PathBuf {
    let mut note = home.as_os_str().to_owned();
    note.push(NOTE_SUFFIX);
    note.into()
}

/// The run that copied the credential of a home.
pub(super) fn run_of(home: &Path) -> io::Result<Option<String>> {
    Ok(read_note(&note_of(home))?.map(|note| note.run))
}

/// Copies a refreshed credential back and removes it from the home, if the home has a note, and if `run` is given only if
/// the note is of that run. A rejected credential stays in the home. After an I/O error everything stays, note included.
pub(super) fn copy_back(home: &Path, run: Option<&str>, clock: &dyn Clock) -> io::Result<()> {
    let path = note_of(home);
    let Some(note) = read_note(&path)? else { return Ok(()) };
    let method =
        SignInMethod::in_file(&note.name).ok_or_else(|| io::Error::other("no engine has such a credential"))?;
    let operators = lock(&DirFd::open_straight(&note.directory)?)?;
    if run.is_some_and(|run| run != note.run) || read_note(&path)?.as_ref() != Some(&note) {
        return Ok(());
    }
    let shown = note.directory.join(&note.file).display().to_string();
    let Some(home_fd) = absent(DirFd::open(home))? else { return remove_file(&path) };
    let checked = match (absent(read(&home_fd, method.file))?, absent(read(&operators, &note.file))?) {
        (None, _) => Ok(None),
        (Some(_), None) => Err("the operator's file does not exist any more"),
        (Some(found), Some(current)) => {
            let merged = refreshed(&current, &found, &note.tokens, (method, clock.now()));
            merged.map(|merged| merged.map(|merged| (current, merged)))
        }
    };
    match checked {
        Ok(Some((current, merged))) => {
            replace(&operators, &note.file, &current, &merged)?;
            info!("Copied a refreshed credential back to {shown}");
            remove_credential(&home_fd, method)?;
        }
        Ok(None) => remove_credential(&home_fd, method)?,
        Err(why) => {
            warn!("Did not copy the credential in {} back to {shown}: {why}; it stays there", home.display());
        }
    }
    remove_file(&path)
}

fn read_note(path: &Path) -> io::Result<Option<Note>> {
    let Some(bytes) = absent(fs::read(path))? else { return Ok(None) };
    Ok(Some(serde_json::from_slice(&bytes)?))
}

/// Replaces the operator's file atomically, unless another program has changed it since it was read.
fn replace(operators: &DirFd, file: &str, current: &[u8], merged: &[u8]) -> io::Result<()> {
    let (_, before) = operators.file(file)?;
    let copy = operators.prepare(format!(".{file}{UNFINISHED_SUFFIX}"), merged, FileAttributes::found(&before))?;
    if read(operators, file)? != current {
        return Err(io::Error::other("the operator's file was changed at the same time"));
    }
    copy.install(file)
}

/// Removes the credential, and the temporary files beside it that a killed engine left.
fn remove_credential(home: &DirFd, method: &SignInMethod) -> io::Result<()> {
    for name in home.names()?.iter().filter(|name| name.to_string_lossy().contains(method.file)) {
        if home.is_folder(name)? {
            continue;
        }
        if let Err(error) = home.remove(name) {
            // An agent may have made its home read-only.
            home.set_mode(0o700).and_then(|()| home.remove(name)).map_err(|_| error)?;
        }
    }
    home.sync()
}

/// `None` if there is no regular file.
fn absent<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if is_absence(&error) || error.kind() == io::ErrorKind::FileTooLarge => Ok(None),
        Err(error) => Err(error),
    }
}

/// Waits for the lock on an operator's directory. On a multi-threaded runtime other tasks go on meanwhile.
fn lock(directory: &DirFd) -> io::Result<DirLock> {
    let wait = || {
        for _ in 0..LOCK_TRIES {
            if let Some(lock) = directory.try_lock()? {
                return Ok(lock);
            }
            std::thread::sleep(LOCK_RETRY_EVERY);
        }
        Err(io::Error::new(io::ErrorKind::TimedOut, "another process holds the lock on the operator's directory"))
    };
    match Handle::try_current().map(|runtime| runtime.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(wait),
        _ => wait(),
    }
}

#[cfg(test)]
mod tests;
