//! Document databases: items in logical partitions, compared and set one by one.

pub mod simulated;
