//! End-to-end tests over HTTP, with a real store, a real broker and real connections.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test may stop at the first surprise")]

mod accept;
mod artifacts;
mod backup;
mod backup_service;
mod batch;
mod budgets;
mod data_loss;
mod event_streams;
mod fleet;
mod foreign_factory;
mod hostile_clients;
mod http2;
mod identity;
mod job_lifecycle;
mod job_trees;
mod limits;
mod listening;
mod lists;
mod mode_switch;
mod modes;
mod mount;
mod needs;
mod openapi;
mod profiles;
mod raw;
mod review;
mod schema;
mod scopes;
mod sessions;
mod submit;
mod tracker;
mod web;
mod webhooks;
