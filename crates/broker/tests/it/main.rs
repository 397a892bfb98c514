//! Integration tests of the broker adapters.

mod embedded;
mod nats;
mod router;
