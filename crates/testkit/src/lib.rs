//! What the tests of several crates share.

pub mod page;
pub mod requirement;
