//! Mirrors: those of repositories that are not in use, and those that need packing.

use std::collections::BTreeSet;
use std::fs;
use std::time::Duration;

use sandbox::{FileLock, folder_bytes, remove_file, remove_folder};

use super::report::{GcItem, GcKind, GcReport, KeptItem};
use super::worktrees::modified;
use super::{Gc, GcPlan};
use crate::error::Error;
use crate::mirror::Mirror;
use crate::state::MirrorName;

/// A mirror to remove or to pack.
#[derive(Debug)]
pub(super) struct IdleMirror {
    name: MirrorName,
    /// The displayed name: the repository's name while it is configured.
    shown: String,
    bytes: u64,
    fate: Fate,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// The repository is no longer in use here.
    Remove,
    /// It holds many loose objects.
    Pack,
}

/// Each is a file of its own; git packs by itself beyond this many.
const LOOSE_MAX: usize = 6_700;

impl IdleMirror {
    pub(super) fn item(&self) -> GcItem {
        let (bytes, why) = match self.fate {
            Fate::Remove => (self.bytes, "its repository is not configured here any more"),
            Fate::Pack => (0, "it was packed"),
        };
        GcItem { kind: GcKind::Mirror, name: self.shown.clone(), bytes, why: why.to_owned() }
    }
}

impl Gc {
    pub(super) fn plan_mirrors(&self, plan: &mut GcPlan) -> Result<(), Error> {
        for name in self.mirrored()? {
            let bytes = folder_bytes(&self.host.state.mirror(&name));
            let shown = self.configured(&name).map_or_else(|| name.to_string(), |mirror| mirror.repo().to_string());
            match self.fate_of(&name)? {
                Ok(fate) => plan.mirrors.push(IdleMirror { name, shown, bytes, fate }),
                Err(why) => plan.kept.push(KeptItem { kind: GcKind::Mirror, name: shown, bytes, why }),
            }
        }
        Ok(())
    }

    /// Removes or packs a mirror under its exclusive lock.
    pub(super) async fn tidy_mirror(&self, idle: IdleMirror, report: &mut GcReport) {
        let (item, name) = (idle.item(), &idle.name);
        let state = &self.host.state;
        let lock = match FileLock::try_take(&state.mirror_lock(name)) {
            Ok(Some(lock)) => lock,
            Ok(None) => return report.spared(item, "it is in use"),
            Err(error) => return report.spared(item, error.to_string()),
        };
        if !matches!(self.fate_of(name), Ok(Ok(fate)) if fate == idle.fate) {
            return report.spared(item, "it came into use while it was looked at");
        }
        let path = state.mirror(name);
        let done = match idle.fate {
            Fate::Remove => remove_folder(&path).map_err(Error::disk("remove", &path)),
            Fate::Pack => self.pack(name, &lock).await,
        };
        drop(lock);
        if let Err(error) = done {
            return report.spared(item, format!("it cannot be tidied: {error}"));
        }
        if idle.fate == Fate::Remove {
            // A waiting process holds it open, and makes the mirror again.
            let _ = remove_file(&state.mirror_lock(name));
        }
        let bytes = idle.bytes.saturating_sub(folder_bytes(&path));
        report.removed(GcItem { bytes, ..item });
    }

    /// Packs reachable objects; unreachable ones stay for two weeks, git's default.
    async fn pack(&self, name: &MirrorName, lock: &FileLock) -> Result<(), Error> {
        let Some(mirror) = self.configured(name) else { return Ok(()) };
        self.host.clear_mirror(name, lock)?;
        // Its settings could name a program that decides what to keep.
        mirror.seal()?;
        Ok(mirror.call("gc").under(lock).args(["--quiet"]).done().await?)
    }

    /// What to do with a mirror, or why nothing.
    fn fate_of(&self, name: &MirrorName) -> Result<Result<Fate, String>, Error> {
        if self.borrowed()?.contains(name) {
            return Ok(Err("worktrees borrow from it".to_owned()));
        }
        let path = self.host.state.mirror(name);
        if self.configured(name).is_some() {
            let loose = fs::read_dir(path.join("objects")).map_or(0, |fans| {
                fans.flatten()
                    .filter(|fan| fan.file_name().len() == 2)
                    .map(|fan| fs::read_dir(fan.path()).map_or(0, Iterator::count))
                    .sum()
            });
            return Ok(if loose > LOOSE_MAX { Ok(Fate::Pack) } else { Err("its repository is configured".to_owned()) });
        }
        let now = Duration::from_millis(u64::try_from(self.host.clock.now().as_millis()).unwrap_or(0));
        let used = [self.host.state.mirror_lock(name), path].iter().filter_map(|path| modified(path)).max();
        let idle_for = used.map_or(Duration::ZERO, |used| now.saturating_sub(used));
        Ok(if idle_for >= self.retention { Ok(Fate::Remove) } else { Err("it was in use not long ago".to_owned()) })
    }

    /// The mirror of a configured repository that has this name.
    fn configured(&self, name: &MirrorName) -> Option<Mirror> {
        self.repos.keys().filter_map(|repo| self.mirror(repo)).find(|mirror| mirror.name() == name)
    }

    /// Mirrors that a worktree borrows from. A directory without that record keeps them all.
    fn borrowed(&self) -> Result<BTreeSet<MirrorName>, Error> {
        let mut borrowed = BTreeSet::new();
        for run in self.host.worktrees()? {
            match self.host.worktree(run)? {
                Some(worktree) => drop(borrowed.insert(worktree.mirror())),
                None => borrowed.extend(self.mirrored()?),
            }
        }
        Ok(borrowed)
    }

    fn mirrored(&self) -> Result<Vec<MirrorName>, Error> {
        let folder = self.host.state.mirrors();
        let mut names = Vec::new();
        for entry in fs::read_dir(&folder).map_err(Error::disk("list", &folder))? {
            let name = entry.map_err(Error::disk("list", &folder))?.file_name();
            names.extend(name.to_str().and_then(MirrorName::in_directory));
        }
        names.sort();
        Ok(names)
    }
}
