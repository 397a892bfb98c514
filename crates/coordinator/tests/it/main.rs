//! The protocol under fire: crashes, lost answers, repeated and reordered messages, races. Rows are those of the list of
//! flaws that a dispatcher like ours must not have.
#![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

mod accepting;
mod cutting;
mod depending;
mod dispatching;
mod errands;
mod faulty_broker;
mod faulty_store;
mod fleet;
mod following;
mod idle;
mod joining;
mod leading;
mod leasing;
mod machine;
mod placing;
mod racing;
mod restoring;
mod seats;
mod steering;
