//! The coordinator over HTTP: routes, streams, authentication, and errors as problem details.
//!
//! Handlers only translate: the coordinator decides.

mod api;
mod app;
mod auth;
mod auth_rate_limit;
mod backup_service;
mod body_budget;
mod build;
mod connection;
mod connections;
mod etag;
mod exposition;
mod extract;
mod follower;
mod forward;
mod host_check;
mod json_response;
mod list_limit;
mod middleware;
mod mount;
mod openapi;
mod options;
mod problem;
mod problem_code;
#[cfg(test)]
mod reference;
mod request_schema;
mod routes;
mod run_to_completion;
mod server;
mod session_cookie;
mod shared_server;
mod startup;
mod store_purpose;
mod streaming;
mod streams;
mod tls;
mod web;
mod webhook_body;
mod webhook_secret;
mod write_timeout;

pub use backup_service::{BackupService, BackupServiceError};
pub use mount::{CallerApi, Mount};
pub use options::{Limits, Options, Tls};
pub use server::{BindError, Server, pin};
pub use shared_server::SharedServer;
pub use tls::CertificateError;
pub use web::is_embedded as has_web_ui;
pub use webhook_secret::WebhookSecret;
