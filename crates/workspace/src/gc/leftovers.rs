//! Files that a crash left, and caches of repositories that are not in use.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use sandbox::{UNFINISHED_SUFFIX, folder_bytes, remove_file, remove_folder};

use super::report::{GcItem, GcKind, GcReport};
use super::worktrees::modified;
use super::{Gc, GcPlan};
use crate::error::Error;
use crate::runs::Runs;
use crate::state::StateDir;

/// A file or directory that is no longer read.
#[derive(Debug)]
pub(super) struct Leftover {
    kind: GcKind,
    path: PathBuf,
    name: String,
    bytes: u64,
}

/// A write in progress is complete long before.
const UNFINISHED_FOR: Duration = Duration::from_hours(1);

impl Leftover {
    pub(super) fn item(&self) -> GcItem {
        let why = match self.kind {
            GcKind::Cache => "its repository is not configured here any more",
            GcKind::Conversation => "no run has continued it within the retention time",
            _ => "a crash left it half written",
        };
        GcItem { kind: self.kind, name: self.name.clone(), bytes: self.bytes, why: why.to_owned() }
    }
}

impl Gc {
    pub(super) fn plan_leftovers(&self, plan: &mut GcPlan) -> Result<(), Error> {
        let state = &self.host.state;
        for folder in [state.root().to_owned(), state.runs(), state.outbox()] {
            for path in entries(&folder)? {
                let is_unfinished = path.to_string_lossy().ends_with(UNFINISHED_SUFFIX);
                if is_unfinished && self.is_idle(GcKind::File, &path) {
                    plan.leftovers.push(self.leftover(GcKind::File, path));
                }
            }
        }
        for engine in entries(&state.sessions())? {
            // The note of a credential is removed when that is copied back.
            let homes = entries(&engine)?.into_iter().filter(|path| !self.credentials.is_credential_note(path));
            let idle = homes.filter(|path| self.is_idle(GcKind::Conversation, path));
            plan.leftovers.extend(idle.map(|path| self.leftover(GcKind::Conversation, path)));
        }
        let caches = state.caches();
        if !caches.is_dir() {
            return Ok(());
        }
        for product in entries(&caches)? {
            for path in entries(&product)? {
                let repo = path.file_name().and_then(|name| StateDir::cached(&name.to_string_lossy()));
                let is_configured = repo.is_none_or(|repo| self.repos.contains_key(&repo));
                if !is_configured && self.is_idle(GcKind::Cache, &path) {
                    plan.leftovers.push(self.leftover(GcKind::Cache, path));
                }
            }
        }
        Ok(())
    }

    pub(super) fn remove_leftover(&self, doomed: &Leftover, report: &mut GcReport) {
        let item = doomed.item();
        if !self.is_idle(doomed.kind, &doomed.path) {
            return report.spared(item, "another process wrote to it meanwhile");
        }
        if doomed.kind == GcKind::Conversation && self.credentials.has_credential_note(&doomed.path) {
            return report.spared(item, "a credential in it cannot be copied back: see the factory's log");
        }
        let removed = match doomed.kind {
            GcKind::Cache | GcKind::Conversation => remove_folder(&doomed.path),
            _ => remove_file(&doomed.path),
        };
        match removed {
            Ok(()) => report.removed(item),
            Err(error) => report.spared(item, format!("it cannot be removed: {error}")),
        }
    }

    /// Whether a run of the conversation's job is active, or cannot be ruled out.
    pub(super) fn is_at_work(&self, conversation: &Path) -> bool {
        let name = conversation.file_name().unwrap_or_default().to_string_lossy();
        match Runs::under(&self.host.state).list() {
            Ok(listing) => listing.records.iter().any(|record| name.starts_with(&record.job.to_string())),
            Err(_) => true,
        }
    }

    fn leftover(&self, kind: GcKind, path: PathBuf) -> Leftover {
        let name = path.strip_prefix(self.host.state.root()).unwrap_or(&path).display().to_string();
        Leftover { kind, bytes: folder_bytes(&path), name, path }
    }

    /// Whether a path was not written for as long as its kind is kept, and no run may write it soon.
    fn is_idle(&self, kind: GcKind, path: &Path) -> bool {
        if kind == GcKind::Conversation && self.is_at_work(path) {
            return false;
        }
        let (written_at, idle_for) = match kind {
            GcKind::Conversation => (last_written(path), self.retention),
            GcKind::Cache => (modified(path), self.retention),
            _ => (modified(path), UNFINISHED_FOR),
        };
        let now = Duration::from_millis(u64::try_from(self.host.clock.now().as_millis()).unwrap_or(0));
        written_at.is_some_and(|at| now.saturating_sub(at) >= idle_for)
    }
}

/// The last modification in a directory. Links are not followed.
fn last_written(path: &Path) -> Option<Duration> {
    let is_folder = fs::symlink_metadata(path).is_ok_and(|found| found.is_dir());
    let inside = if is_folder { entries(path).unwrap_or_default() } else { Vec::new() };
    inside.iter().filter_map(|path| last_written(path)).chain(modified(path)).max()
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    if !folder.is_dir() {
        return Ok(Vec::new());
    }
    let entries = fs::read_dir(folder).map_err(Error::disk("list", folder))?;
    Ok(entries.flatten().map(|entry| entry.path()).collect())
}
