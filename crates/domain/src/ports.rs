//! Ports of the coordinator. They require only what the weakest backend guarantees.

mod backup;
mod blob_store;
mod broker;
mod fleet_store;
mod item_tracker;
mod job_store;
mod leadership;
mod log_store;
mod webhook_receiver;

pub use backup::{Backup, BackupSummary};
pub use blob_store::{BlobAttributes, BlobReader, BlobStore, BlobWriter};
pub use broker::{
    Broker, BrokerConnector, BrokerError, BrokerLogin, Delivery, Message, MessageId, PUBLISH_WITHIN, PublishOutcome,
    Receipt, Receives, Subscription,
};
pub use fleet_store::{Collection, FleetStore};
pub use item_tracker::{ItemStatus, ItemTracker, TrackerError};
pub use job_store::{
    Body, Commit, CommitError, Cursor, Expected, IndexProgress, JobFilter, JobHistory, JobStore, Page, Scope,
    StoreError, Summary, UnreadableDocument,
};
pub use leadership::{Leader, Leadership, SoleLeader};
pub use log_store::LogStore;
pub use webhook_receiver::{WebhookDelivery, WebhookError, WebhookReceiver};
