//! Pull requests: when factories poll them, and what follows from their state.

pub(crate) mod feedback;
pub(crate) mod poller;
