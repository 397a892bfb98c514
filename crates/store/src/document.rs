//! Document databases: items in logical partitions, each written by compare-and-set.

pub mod simulated;
