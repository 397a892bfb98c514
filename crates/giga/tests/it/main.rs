//! Runs the real binary and checks its output and exit code.

#![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

mod api_tools;
mod backup;
mod bench;
mod capabilities;
mod coordinator;
mod crash;
mod damaged_store;
mod dash;
mod deploy;
mod docs;
mod doctor;
mod enrolment;
mod factory;
mod fleet;
mod full_disk;
mod gc;
mod giga;
mod help;
mod identity;
mod init;
mod links;
mod local;
mod mcp;
#[cfg(all(feature = "failpoints", feature = "nats"))]
mod network;
mod on_demand;
mod operator_actions;
mod pages;
mod processes;
mod real_engines;
mod reconnecting;
mod refusals;
mod repository;
mod secrets;
mod settings;
mod several_coordinators;
mod sign_in;
mod submit;
mod terminal_escapes;
mod web;
mod webhooks;
