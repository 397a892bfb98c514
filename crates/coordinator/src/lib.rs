//! Use cases: submit, dispatch, grant, renew, report, steer, sweep.
//!
//! The coordinator owns policy, the broker owns transport, the store owns truth. Every change of a job goes through one
//! loop: read, decide, commit if nobody was faster, announce.

mod accept;
mod actions;
mod alerts;
mod cas_documents;
mod claim;
mod closed;
mod commit;
mod coordinator;
mod deadlines;
mod deps;
mod dispatch;
mod engine_availability;
mod errands;
mod error;
mod event_stream;
mod evidence;
mod explain;
mod fast_path;
mod feedback;
mod fleet_state;
mod generation;
mod health;
mod inbox;
mod instances;
mod leases;
mod lifecycle;
mod logs;
mod manifest_cache;
mod metrics;
mod modes;
mod offers;
mod poller;
mod principal;
mod products;
mod progress;
mod quarantine;
mod queries;
mod quota;
mod quota_windows;
mod registry;
mod renewal;
mod report;
mod sanitize;
mod settings;
mod submit;
mod sweep;
mod tokens;
mod toposort;
mod validate;
mod visibility;

pub use coordinator::{Coordinator, Ports};
pub use error::Error;
pub use event_stream::{StreamItem, Subscriber};
pub use health::{Disk, NotReady};
pub use inbox::Inbox;
pub use logs::LogReader;
pub use metrics::MetricsSnapshot;
pub use poller::ForgeHint;
pub use principal::Principal;
pub use quota_windows::QuotaWindowPolicy;
pub use settings::Settings;
pub use tokens::Secret;
