//! Local mode: a folder queue on one host [F8]. A Markdown file in `inbox/` is a job; the file moves as its job does.
//!
//! The store is the truth about jobs and the folders are what people see and touch. A small record per file says which
//! job it is and where we put it, so that a move of ours is told from a move of a person's.

mod folder;
mod intake;
mod keeper;
mod line;
mod once;
mod queue;
mod records;
mod reports;
mod teller;
mod whereabouts;
mod wish;

pub(crate) use keeper::{Keeper, Kept, Terms, Until};
pub(crate) use queue::Queue;
