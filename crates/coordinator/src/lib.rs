//! Use cases: submit, dispatch, grant, renew, report, steer, sweep.
//!
//! The coordinator owns policy, the broker owns transport, the store owns truth. Every change of a job goes through one
//! loop: read, decide, compare-and-set, announce.

mod commit;
mod coordinator;
mod dispatch;
mod error;
mod fleet;
mod maintenance;
mod pull_requests;
mod read;
mod state;
mod submit;
mod work;

pub use coordinator::purpose::Purpose;
pub use coordinator::settings::Settings;
pub use coordinator::{Coordinator, Ports};
pub use dispatch::inbox::Inbox;
pub use error::Error;
pub use fleet::principal::Principal;
pub use fleet::sessions::{NewSession, SignIn};
pub use fleet::tokens::Secret;
pub use maintenance::health::{Disk, NotReady};
pub use maintenance::notify::WebhookTarget;
pub use pull_requests::poller::ForgeHint;
pub use read::event_stream::{StreamItem, Subscriber};
pub use read::metrics::MetricsSnapshot;
pub use read::needs::NeedsFilter;
pub use submit::tracker::{IssueEvent, IssueRules, TrackerDelivery, TrackerEvent, TrackerSource};
pub use work::artifacts::{ArtifactContent, ArtifactUpload, NewArtifact, UploadStart};
pub use work::logs::{LogReader, LogStart};
pub use work::quota_windows::QuotaWindowPolicy;
