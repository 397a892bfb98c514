//! The coordinator over HTTP: routes, held-open streams, authentication, and errors as problem details.
//!
//! Handlers are translation only: what may happen is decided in the coordinator.

mod json_response;
mod api;
mod app;
mod body_budget;
mod auth;
mod connection;
mod connections;
mod etag;
mod exposition;
mod extract;
mod auth_rate_limit;
mod middleware;
mod streaming;
mod host_check;
mod openapi;
mod options;
mod write_timeout;
mod problem;
mod request_schema;
mod routes;
mod server;
mod streams;
mod tls;
mod run_to_completion;
mod backup_service;
mod startup;
mod webhook_body;
mod webhook_secret;

pub use options::{Limits, Options, Tls};
pub use server::{BindError, Server, pin};
pub use tls::CertificateError;
pub use backup_service::{BackupService, BackupServiceError};
pub use webhook_secret::WebhookSecret;
