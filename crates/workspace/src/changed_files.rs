//! The files of a worktree that an agent has changed so far, for the live view.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::error::Error;
use crate::mirror::Mirror;
use crate::worktree::{FOR_THE_FACTORY, Worktree};

/// At most this many are sorted and listed.
const ORDERED_MAX: usize = 2_000;

impl Mirror {
    /// The files that differ from the checkout, committed or not, the latest last: at most `count_max`. Safe while the
    /// agent works. Contents are not compared: a file that was rewritten with the same content counts as well.
    pub async fn changed_files(&self, worktree: &Worktree, count_max: usize) -> Result<Vec<PathBuf>, Error> {
        self.seal()?;
        let index = worktree.index();
        let call = |verb| {
            let call = self.call(verb).work_tree(worktree.path()).index(&index);
            call.on_agents_files(self.host.sandbox(worktree))
        };
        let changed = ["--name-only", "-z", "--no-ext-diff", "--ignore-submodules=all"];
        let changed = call("diff-files").args(changed).output().await?;
        let untracked = call("ls-files").args(["--others", "--exclude-standard", "-z"]).output().await?;
        let names: BTreeSet<&[u8]> = changed.split(is_end).chain(untracked.split(is_end)).filter(is_work).collect();
        // Files that were given to another account look changed although they were not written.
        let handed_over_at = match &self.host.account {
            Some(_) => modified(&index).map_err(Error::disk("read", &index))?,
            None => SystemTime::UNIX_EPOCH,
        };
        let mut files: Vec<_> = names.into_iter().take(ORDERED_MAX).map(|name| touch(worktree, name)).collect();
        files.retain(|(touched_at, _)| touched_at.is_none_or(|touched_at| touched_at > handed_over_at));
        files.sort();
        let surplus = files.len().saturating_sub(count_max);
        Ok(files.into_iter().skip(surplus).map(|(_, file)| file).collect())
    }
}

fn is_end(byte: &u8) -> bool {
    *byte == 0
}

/// Whether a file is part of the work: neither a nested repository nor a file for the factory alone.
fn is_work(name: &&[u8]) -> bool {
    let is_for_us = FOR_THE_FACTORY.iter().any(|file| file.as_bytes() == *name);
    !name.is_empty() && !name.ends_with(b"/") && !is_for_us
}

/// A file and its modification time, which is unknown for a deleted one.
fn touch(worktree: &Worktree, name: &[u8]) -> (Option<SystemTime>, PathBuf) {
    let file = PathBuf::from(OsStr::from_bytes(name));
    (modified(&worktree.path().join(&file)).ok(), file)
}

fn modified(path: &Path) -> io::Result<SystemTime> {
    fs::symlink_metadata(path)?.modified()
}
