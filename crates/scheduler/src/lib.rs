//! Placement of jobs on factories: a pure function over values [S1].
//!
//! All inputs are in the [`FleetView`]: no clock, no randomness, no I/O. The owner maintains two indexes, so that a
//! decision visits neither every factory nor every job [S8]: [`Fleet`] groups similar factories by load, and [`Queue`]
//! groups jobs of one shape in the order of service.

mod announce;
mod choose;
mod claim;
mod constraints;
mod demand;
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
mod pools;
mod preempt;
mod queue;
mod score;
mod unplaced;
mod view;
mod weigh;

pub use announce::{AnnouncementPlan, PastAnnouncements, announce, claim_named};
pub use claim::{SkippedJob, claim, skipped};
pub use demand::{PoolDemand, demand};
pub use engine_unavailable::EngineUnavailable;
pub use errand::errand;
pub use explain::{ExplainedOutcome, Explanation, FactoryFit, explain, forecast};
pub use fleet::{FactoryState, Fleet, OfferPause, Presence, Seat};
pub use ineligible::Ineligible;
pub use plan::{Placement, Plan, RunnerUp, UnplacedShape, plan};
pub use pools::{PoolState, Pools};
pub use preempt::{Eviction, PendingPreemption, PreemptibleRun, evictions};
pub use queue::{AGEING_STEP, Queue, WaitingJob};
pub use score::{Score, Weights};
pub use unplaced::{ClosestMatch, Unplaced};
pub use view::{Demand, FleetView};
pub use weigh::{WeighedClaim, weigh};
