//! The factory's host side with real git, real processes and real files, and as a worker of a real coordinator.

#![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

mod acp;
mod devin;
mod engines;
mod forge;
mod golden;
mod guards;
mod hostile;
mod large_files;
mod limits;
mod locks;
mod mirrors;
mod processes;
mod promotion;
mod prompts;
mod publishing;
mod records;
mod shipping;
mod stage;
mod stations;
mod streams;
mod verification;
mod worktrees;
