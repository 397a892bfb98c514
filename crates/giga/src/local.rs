//! Local mode: a folder queue on one host [F8]. A Markdown file in `inbox/` is a job; the file moves to the folder of its job's stage.
//!
//! The store is the source of truth about jobs; the folders are the user interface. A small record per file identifies its
//! job and where we put it, so that a move of ours is distinguished from a move of the user.

mod console;
mod debounce;
mod file_location;
mod folder;
mod listing;
mod once;
mod queue;
mod records;
mod reports;
mod sync;
mod tracked_client;
mod user_action;

pub(crate) use listing::QueueListing;
pub(crate) use queue::Queue;
pub(crate) use sync::{QueueSync, SyncEnd, SyncOptions, Until};
