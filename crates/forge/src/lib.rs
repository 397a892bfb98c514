//! Forges, where pull requests are opened, commented, polled and merged [F5].
//!
//! GitHub is reached by its REST API, with a token of the factory's own or through the program `gh`. Without a forge
//! everything is plain git. Every operation is idempotent: another factory may repeat it after a crash.

mod config;
mod error;
mod forge;
mod forges;
mod gh;
mod github;
mod http;
mod issues;
mod rest;
mod slug;
mod text;
mod token;

pub use config::{ForgeConfig, ForgeKind, GhConfig, MergeMethod, PullRequestConfig, PullRequestSettings};
pub use error::ForgeError;
pub use forge::{AutoMerge, Forge, MergeOrder, MergeOutcome, PullRequestDraft};
pub use forges::{Forges, ForgesError};
pub use issues::{IssueTracker, IssueTrackerConfig};
pub use slug::{Slug, SlugError};
pub use text::{VerifiedClaim, bare_pull_request_text, pull_request_text, status_comment};
pub use token::TokenSource;
