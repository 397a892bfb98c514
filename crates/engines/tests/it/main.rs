//! Engines as real processes, and recordings of real ones.

#![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

mod acp;
mod commands;
mod devin;
mod golden;
mod guards;
mod limits;
mod prompts;
mod streams;
