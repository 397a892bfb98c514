//! Files that a crash left, and caches of repositories that nobody works on.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::report::{GcItem, GcKind, GcReport};
use super::worktrees::modified;
use super::{Gc, GcPlan};
use crate::disk::{UNFINISHED_SUFFIX, folder_bytes, remove_file, remove_folder};
use crate::error::Error;
use crate::state::StateDir;

/// A file or folder that nobody reads any more.
#[derive(Debug)]
pub(super) struct Leftover {
    kind: GcKind,
    path: PathBuf,
    name: String,
    bytes: u64,
}

/// A file that is being written is done long before.
const UNFINISHED_FOR: Duration = Duration::from_hours(1);

impl Leftover {
    pub(super) fn item(&self) -> GcItem {
        let why = match self.kind {
            GcKind::Cache => "its repository is not configured here any more",
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
                if is_unfinished && self.is_idle_for(&path, UNFINISHED_FOR) {
                    plan.leftovers.push(self.leftover(GcKind::File, path));
                }
            }
        }
        let caches = state.caches();
        if !caches.is_dir() {
            return Ok(());
        }
        for product in entries(&caches)? {
            for path in entries(&product)? {
                let name = path.file_name().map(|name| format!("{}.git", name.to_string_lossy()));
                let repo = name.as_deref().and_then(StateDir::mirrored);
                let is_configured = repo.is_none_or(|repo| self.repos.contains_key(&repo));
                if !is_configured && self.is_idle_for(&path, self.retention) {
                    plan.leftovers.push(self.leftover(GcKind::Cache, path));
                }
            }
        }
        Ok(())
    }

    pub(super) fn remove_leftover(&self, doomed: &Leftover, report: &mut GcReport) {
        let item = doomed.item();
        let idle_for = if doomed.kind == GcKind::Cache { self.retention } else { UNFINISHED_FOR };
        if !self.is_idle_for(&doomed.path, idle_for) {
            return report.spared(item, "somebody wrote to it meanwhile");
        }
        let removed = match doomed.kind {
            GcKind::Cache => remove_folder(&doomed.path),
            _ => remove_file(&doomed.path),
        };
        match removed {
            Ok(()) => report.removed(item),
            Err(error) => report.spared(item, format!("it cannot be removed: {error}")),
        }
    }

    fn leftover(&self, kind: GcKind, path: PathBuf) -> Leftover {
        let name = path.strip_prefix(self.host.state.root()).unwrap_or(&path).display().to_string();
        Leftover { kind, bytes: folder_bytes(&path), name, path }
    }

    fn is_idle_for(&self, path: &Path, span: Duration) -> bool {
        let now = Duration::from_millis(u64::try_from(self.host.clock.now().as_millis()).unwrap_or(0));
        modified(path).is_some_and(|at| now.saturating_sub(at) >= span)
    }
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    if !folder.is_dir() {
        return Ok(Vec::new());
    }
    let entries = fs::read_dir(folder).map_err(Error::disk("list", folder))?;
    Ok(entries.flatten().map(|entry| entry.path()).collect())
}
