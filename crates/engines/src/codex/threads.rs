//! The files in which Codex keeps its threads, and the cost that was reported to earlier runs of a job.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use domain::JobId;
use sandbox::{DirFd, make_private_folder, replace_file};
use serde::{Deserialize, Serialize};

use crate::home::is_plain;
use crate::prices::Tokens;

/// Whether a thread is on this host.
pub(super) fn is_here(folder: &Path, thread: &str) -> bool {
    file_of(folder, thread).is_some()
}

/// The file that holds a thread. The agent may have replaced it: no link is followed.
pub(super) fn file_of(folder: &Path, thread: &str) -> Option<File> {
    let ending = format!("-{thread}.jsonl");
    if !is_plain(thread) {
        return None;
    }
    let mut found = None;
    let sessions = DirFd::open_named(folder).and_then(|room| room.enter("sessions")).ok()?;
    sessions.each_file(3, &mut |folder, name| {
        if found.is_none() && name.to_string_lossy().ends_with(&ending) {
            found = folder.file(name).ok().map(|(file, _)| file);
        }
    });
    found
}

/// The usage of a job's threads. Codex counts a thread from its start; each run is charged its own share.
pub(super) struct Threads {
    file: PathBuf,
    used: BTreeMap<String, ThreadUsage>,
}

#[derive(Clone, Copy, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ThreadUsage {
    input: u64,
    cached: u64,
    output: u64,
}

impl Threads {
    pub(super) fn of(sessions: &Path, job: JobId) -> Self {
        let file = sessions.join(format!("{job}.threads.json"));
        let used = fs::read(&file).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default();
        Self { file, used }
    }

    /// The part of `total` that was not charged to an earlier run.
    pub(super) fn own_share(&self, thread: &str, total: Tokens) -> Tokens {
        let before = self.used.get(thread).copied().unwrap_or_default();
        Tokens {
            input: total.input.saturating_sub(before.input),
            cached: total.cached.saturating_sub(before.cached),
            output: total.output.saturating_sub(before.output),
        }
    }

    /// Records what a later run must not be charged again. An I/O error makes that run dearer and does not fail this
    /// one.
    pub(super) fn remember(&self, thread: &str, total: Tokens) {
        let mut used = self.used.clone();
        used.insert(thread.to_owned(), ThreadUsage { input: total.input, cached: total.cached, output: total.output });
        let bytes = serde_json::to_vec(&used).unwrap_or_default();
        let folder = self.file.parent().unwrap_or(Path::new("."));
        let written = make_private_folder(folder).and_then(|()| replace_file(&self.file, &bytes));
        if let Err(error) = written {
            tracing::warn!(%error, "What a thread has used up could not be written down");
        }
    }
}
