//! A stand-in of the two model APIs that agents' programs call, for tests: on a port of this machine, with a script.
//!
//! The real `claude` and `codex` run against it without an account. It speaks as much of each API as they use.

mod anthropic;
mod http;
mod login;
mod openai;
mod programs;
mod script;
mod server;

pub use login::expired_codex_login;
pub use programs::{Agent, Programs};
pub use script::{Turn, Usage};
pub use server::{FakeModelApi, Request};
