//! Budgets: a product starts only what it can pay for [T2][I10].
//!
//! One document per product is compared and set by every reservation (row 17). What was spent follows from the product's
//! events. Without a ceiling, or with budgets switched off, nothing here reads or writes the store until a budget is shown.

pub(crate) mod grants;
pub(crate) mod ledger;
pub(crate) mod pauses;
pub(crate) mod settings;
pub(crate) mod usage;
pub(crate) mod view;
pub(crate) mod writer;
