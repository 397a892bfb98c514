//! The handlers, by resource. Each translates a request, calls the coordinator and translates the answer.

pub(crate) mod artifacts;
pub(crate) mod backup;
pub(crate) mod batch;
pub(crate) mod budgets;
pub(crate) mod counts;
pub(crate) mod credentials;
pub(crate) mod events;
pub(crate) mod factories;
pub(crate) mod history;
pub(crate) mod identity;
pub(crate) mod inbox;
pub(crate) mod jobs;
pub(crate) mod logs;
pub(crate) mod modes;
pub(crate) mod needs;
pub(crate) mod operations;
pub(crate) mod products;
pub(crate) mod profiles;
pub(crate) mod review;
pub(crate) mod root;
pub(crate) mod sessions;
pub(crate) mod tokens;
pub(crate) mod tracker;
pub(crate) mod webhooks;
pub(crate) mod work;
