//! The coordinator over HTTP: routes, held-open streams, authentication, and errors as problem details.
//!
//! Handlers are translation only: what may happen is decided in the coordinator.

mod answer;
mod api;
mod app;
mod body_budget;
mod caller;
mod connection;
mod connections;
mod etag;
mod exposition;
mod extract;
mod failures;
mod gate;
mod held_open;
mod hosts;
mod openapi;
mod options;
mod patience;
mod problem;
mod request_schema;
mod routes;
mod server;
mod streams;
mod tls;
mod unfinished;
mod vault;
mod waiting;
mod webhook_body;
mod webhook_secret;

pub use options::{Limits, Options, Tls};
pub use server::{BindError, Server, pin};
pub use tls::CertificateError;
pub use vault::{Vault, VaultError};
pub use webhook_secret::WebhookSecret;
