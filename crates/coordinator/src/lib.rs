//! Use cases: submit, dispatch, grant, renew, report, steer, sweep.
//!
//! The coordinator owns policy, the broker owns transport, the store owns truth. Every change of a job goes through one
//! loop: read, decide, commit if nobody was faster, announce.

mod accept;
mod alerts;
mod fast_path;
mod manifest_cache;
mod claim;
mod closed;
mod commit;
mod coordinator;
mod deadlines;
mod deps;
mod fleet_state;
mod dispatch;
mod cas_documents;
mod errands;
mod error;
mod evidence;
mod explain;
mod metrics;
mod generation;
mod health;
mod inbox;
mod instances;
mod leases;
mod logs;
mod poller;
mod modes;
mod offers;
mod toposort;
mod validate;
mod principal;
mod products;
mod progress;
mod quarantine;
mod queries;
mod quota;
mod registry;
mod renewal;
mod report;
mod engine_availability;
mod settings;
mod feedback;
mod lifecycle;
mod actions;
mod submit;
mod sweep;
mod event_stream;
mod tokens;
mod visibility;
mod quota_windows;
mod sanitize;

pub use coordinator::{Coordinator, Ports};
pub use error::Error;
pub use metrics::MetricsSnapshot;
pub use health::{Disk, NotReady};
pub use inbox::Inbox;
pub use logs::LogReader;
pub use poller::ForgeHint;
pub use principal::Principal;
pub use settings::Settings;
pub use event_stream::{StreamItem, Subscriber};
pub use tokens::Secret;
pub use quota_windows::QuotaWindowPolicy;
