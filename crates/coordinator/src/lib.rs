//! Use cases: submit, dispatch, grant, renew, report, steer, sweep.
//!
//! The coordinator owns policy, the broker owns transport, the store owns truth. Every change of a job goes through one
//! loop: read, decide, commit if nobody was faster, announce.

mod accept;
mod alerts;
mod arrival;
mod bodies;
mod claim;
mod closed;
mod commit;
mod coordinator;
mod deadlines;
mod deps;
mod desk;
mod dispatch;
mod documents;
mod errands;
mod error;
mod evidence;
mod explain;
mod figures;
mod generation;
mod health;
mod inbox;
mod instances;
mod leases;
mod logs;
mod looks;
mod modes;
mod offers;
mod order;
mod prepare;
mod principal;
mod products;
mod progress;
mod quarantine;
mod queries;
mod quota;
mod registry;
mod renewal;
mod report;
mod rests;
mod settings;
mod sightings;
mod start;
mod steer;
mod submit;
mod sweep;
mod tail;
mod tokens;
mod visibility;
mod windows;
mod words;

pub use coordinator::{Coordinator, Ports};
pub use error::Error;
pub use figures::Figures;
pub use health::{Disk, NotReady};
pub use inbox::Inbox;
pub use logs::LogFollower;
pub use looks::ForgeHint;
pub use principal::Principal;
pub use settings::Settings;
pub use tail::{Followed, Follower};
pub use tokens::Secret;
pub use windows::WindowPolicy;
