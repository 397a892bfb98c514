//! Factories, products, tokens and what each token may see.

pub(crate) mod budgets;
pub(crate) mod pools;
pub(crate) mod principal;
pub(crate) mod products;
pub(crate) mod profiles;
pub(crate) mod registry;
pub(crate) mod sessions;
pub(crate) mod tokens;
pub(crate) mod visibility;
