//! Which job goes to which factory, and why: a pure function over values [S1].
//!
//! What the answer may depend on comes in with the [`FleetView`]: there is no clock, no chance and no I/O in here. Two
//! indexes are kept up to date by their owner, so that a decision does not look at every factory or every job [S8]:
//! [`Fleet`] keeps factories that are alike together, ordered by load, and [`Queue`] keeps jobs of one shape together,
//! in the order of service.

mod choose;
mod claim;
mod constraints;
mod diagnose;
mod engine_unavailable;
mod errand;
mod explain;
mod fair_share;
mod filter;
mod fleet;
mod ineligible;
mod list_fmt;
mod overlay;
mod plan;
mod queue;
mod score;
mod unplaced;
mod view;

pub use claim::{SkippedJob, claim, passed_over};
pub use engine_unavailable::EngineUnavailable;
pub use errand::errand;
pub use explain::{ExplainedOutcome, Explanation, FactoryFit, explain, forecast};
pub use fleet::{FactoryState, Fleet, OfferPause, Presence, Seat};
pub use ineligible::Ineligible;
pub use plan::{Placement, Plan, UnplacedShape, plan};
pub use queue::{AGEING_STEP, Queue, WaitingJob};
pub use score::{Score, Weights};
pub use unplaced::{ClosestMatch, Unplaced};
pub use view::{Demand, FleetView};
