//! The report of a clean-up.

use serde::Serialize;

/// The result of a clean-up.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GcReport {
    /// Whether it was a dry run: nothing was removed, and `removed` lists what could be.
    pub dry_run: bool,
    /// The freed space.
    pub freed_bytes: u64,
    /// What was removed.
    pub removed: Vec<GcItem>,
    /// What stays.
    pub kept: Vec<GcItem>,
}

/// One item of a clean-up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GcItem {
    /// What it is.
    pub kind: GcKind,
    /// Its name.
    pub name: String,
    /// Its size on this host; of kept items only mirrors have one.
    pub bytes: u64,
    /// Why it was removed, or stays.
    pub why: String,
}

/// The kinds of items.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum GcKind {
    /// The directory of a run.
    Worktree,
    /// A branch of the fleet on a remote.
    Ref,
    /// A local copy of a repository.
    Mirror,
    /// A directory that outlives worktrees.
    Cache,
    /// An engine's conversations of a job.
    Conversation,
    /// A file that a crash left.
    File,
}

impl GcKind {
    /// Its name, as in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Worktree => "worktree",
            Self::Ref => "ref",
            Self::Mirror => "mirror",
            Self::Cache => "cache",
            Self::Conversation => "conversation",
            Self::File => "file",
        }
    }
}

/// A kept item.
#[derive(Debug)]
pub(super) struct KeptItem {
    pub(super) kind: GcKind,
    pub(super) name: String,
    pub(super) bytes: u64,
    pub(super) why: String,
}

impl From<KeptItem> for GcItem {
    fn from(kept: KeptItem) -> Self {
        Self { kind: kept.kind, name: kept.name, bytes: kept.bytes, why: kept.why }
    }
}

impl GcReport {
    pub(super) fn removed(&mut self, item: GcItem) {
        self.freed_bytes += item.bytes;
        self.removed.push(item);
    }

    /// An item that was to be removed and stays after all.
    pub(super) fn spared(&mut self, item: GcItem, why: impl Into<String>) {
        self.kept.push(GcItem { bytes: 0, why: why.into(), ..item });
    }
}
