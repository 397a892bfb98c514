//! A fake of the two model APIs that agent programs call, for tests: on a loopback port, with a script.
//!
//! The real `claude` and `codex` run against it without an account. It implements the parts of each API that they use.

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
