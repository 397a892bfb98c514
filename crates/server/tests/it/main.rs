//! End-to-end tests over HTTP, with a real store, a real broker and real connections.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test may stop at the first surprise")]

mod accepting;
mod archiving;
mod damage;
mod describing;
mod fleet;
mod guarding;
mod identity;
mod life;
mod limits;
mod many;
mod modes;
mod raw;
mod schema;
mod scopes;
mod serving;
mod shelf;
mod submitting;
mod switching;
mod trust;
mod watching;
mod webhooks;
