//! Start and stop, sweeps, health, and a restored store.

pub(crate) mod generation;
pub(crate) mod health;
pub(crate) mod lifecycle;
pub(crate) mod notify;
pub(crate) mod reminders;
mod search_index;
pub(crate) mod sweep;
