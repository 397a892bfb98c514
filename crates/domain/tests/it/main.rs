//! Integration tests of the domain.
#![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

mod golden;
mod manifest;
mod stages;
