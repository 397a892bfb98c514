//! Integration tests of the scheduler.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test may stop at the first surprise")]

mod choice;
mod demand;
mod explanation;
mod fair_share;
mod golden;
mod naive;
mod order;
mod preempt;
mod property;
mod reason;
mod scenario;
