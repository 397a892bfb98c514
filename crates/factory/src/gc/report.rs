//! What a clean-up did, and what it left alone.

use serde::Serialize;

/// What came of a clean-up.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GcReport {
    /// Whether nothing was removed, and `removed` says what could be.
    pub dry_run: bool,
    /// How much space there is now that was taken before.
    pub freed_bytes: u64,
    /// What is gone.
    pub removed: Vec<GcItem>,
    /// What stays.
    pub kept: Vec<GcItem>,
}

/// One thing that a clean-up looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GcItem {
    /// What it is.
    pub kind: GcKind,
    /// Its name.
    pub name: String,
    /// The space on this host that it took; of what stays it is told of mirrors only.
    pub bytes: u64,
    /// Why it went, or stays.
    pub why: String,
}

/// What a clean-up looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum GcKind {
    /// The directory of a run.
    Worktree,
    /// A branch of ours on a remote.
    Ref,
    /// A local copy of a repository.
    Mirror,
    /// A directory that outlives worktrees.
    Cache,
    /// What an engine remembers of a job.
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

/// Something that stays.
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

    /// Something that was to go stays after all.
    pub(super) fn spared(&mut self, item: GcItem, why: impl Into<String>) {
        self.kept.push(GcItem { bytes: 0, why: why.into(), ..item });
    }
}
