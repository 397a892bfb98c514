//! Mirrors, worktrees and records with real git and real files.

#![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

mod hostile;
mod large_files;
mod locks;
mod mirrors;
mod promotion;
mod publishing;
mod records;
mod shipping;
mod worktrees;
