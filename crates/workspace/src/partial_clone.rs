//! Which repositories are mirrored without the contents of old files [F3].
//!
//! The rule: the repository's configuration; else, when its mirror is first made, whether it is larger than
//! `partial_above_mib`, according to its forge or this machine's disk. The size of any other remote is unknown before
//! the fetch: it is fetched whole. A remote that does not support filters sends everything all the same.

use std::path::PathBuf;

use sandbox::{folder_bytes, make_private_folder, replace_file};
use tracing::info;

use crate::error::Error;
use crate::mirror::Mirror;
use crate::remote::Transport;

/// A file that marks a partial mirror, which its git has to know for as long as it lasts.
const MARK: &str = "gigafactory-partial";

impl Mirror {
    /// The same mirror, of a repository of this size.
    #[must_use]
    pub fn of_size(mut self, bytes: Option<u64>) -> Self {
        self.size_bytes = bytes;
        self
    }

    /// Whether its repository's size decides how it starts.
    pub fn is_undecided(&self) -> bool {
        self.partial.is_none() && !self.path().join("HEAD").exists()
    }

    /// Whether contents are fetched on demand.
    pub(crate) fn is_partial(&self) -> bool {
        self.partial == Some(true) || self.path().join(MARK).exists()
    }

    /// Decides how a new mirror starts. The caller must hold its lock.
    pub(crate) fn begin(&self) -> Result<(), Error> {
        let limit = self.host.git.partial_above_bytes();
        let by_size = || self.size_bytes.or_else(|| self.size_on_disk()).filter(|size| *size > limit);
        let Some(size) = self.is_undecided().then(by_size).flatten() else { return Ok(()) };
        info!("Repository `{}` has {size} bytes: it is mirrored without the contents of old files", self.repo);
        make_private_folder(self.path()).map_err(Error::disk("make", self.path()))?;
        let mark = self.path().join(MARK);
        replace_file(&mark, b"").map_err(Error::disk("write", &mark))
    }

    /// The size of a repository in a directory of this machine.
    fn size_on_disk(&self) -> Option<u64> {
        if self.remote().transport() != Transport::Folder {
            return None;
        }
        let folder = PathBuf::from(self.url().strip_prefix("file://").unwrap_or(self.url()));
        ["objects", ".git/objects"].map(|objects| folder.join(objects)).into_iter().find_map(|objects| {
            // Build output beside the repository is not part of it.
            objects.is_dir().then(|| folder_bytes(&objects))
        })
    }
}
