//! Runs the real binary and checks its output and exit code.

#![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

mod api_tools;
mod backup;
mod bench;
mod capabilities;
mod gc;
mod coordinator;
mod crash;
mod damaged_store;
mod dash;
mod docs;
mod doctor;
mod factory;
mod fleet;
mod reconnecting;
mod full_disk;
mod giga;
mod help;
mod terminal_escapes;
mod identity;
mod init;
mod enrolment;
mod links;
mod local;
mod mcp;
mod pages;
mod processes;
mod real_engines;
mod refusals;
mod repository;
mod secrets;
mod settings;
mod sign_in;
mod operator_actions;
mod submit;
mod web;
