//! Everything that reads: lists, explanations, alerts, metrics and event streams.

pub(crate) mod alerts;
pub(crate) mod counts;
pub(crate) mod event_stream;
pub(crate) mod explain;
pub(crate) mod live;
pub(crate) mod metrics;
pub(crate) mod metrics_history;
pub(crate) mod needs;
pub(crate) mod queries;
