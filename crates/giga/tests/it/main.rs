//! Runs the real binary and checks its output and exit code.

#![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

mod api_tools;
mod archiving;
mod bench;
mod capabilities;
mod cleaning;
mod coordinator;
mod crash;
mod damage;
mod dash;
mod docs;
mod doctor;
mod factory;
mod fleet;
mod following;
mod full_disk;
mod giga;
mod help;
mod hygiene;
mod identity;
mod init;
mod joining;
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
mod steering;
mod submit;
mod web;
