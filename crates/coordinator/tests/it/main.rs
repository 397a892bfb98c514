//! Fault-injection tests of the protocol: crashes, lost answers, repeated and reordered messages, races. Rows are those
//! of the list of flaws that a dispatcher must not have.
//!
//! Every test runs on the embedded stores and, by the macro below, on others; it takes its store from its parent
//! module.
#![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]
#![expect(clippy::duplicate_mod, reason = "one story is told on several stores")]

mod faulty_broker;
mod faulty_store;
mod fleet;
mod machine;
mod stores;

use stores::embedded::{lasting, quick, retold, share_of};

mod accepting;
mod answering;
mod arriving;
mod claiming;
mod counting;
mod cutting;
mod depending;
mod dispatching;
mod errands;
mod failing;
mod feeding;
mod following;
mod idle;
mod joining;
mod judging;
mod jumping;
mod leading;
mod leasing;
mod modes;
mod placing;
mod proving;
mod racing;
mod restoring;
mod seats;
mod showing;
mod sighting;
mod steering;
mod turning;
mod windows;

/// Repeats test modules on the stores of a module of `stores`.
macro_rules! stories_on {
    ($stores:ident: $($story:ident),+) => {
        #[path = "."]
        mod $stores {
            use crate::stores::$stores::{lasting, quick, retold, share_of};

            $(mod $story;)+
        }
    };
}

stories_on!(
    weak: accepting, answering, arriving, claiming, cutting, depending, dispatching, errands, failing, following, idle,
    joining, jumping,
    judging, leading, leasing, modes, placing, proving, racing, restoring, seats, showing, sighting, steering, turning,
    windows
);

// The tests in which the store matters. Not those that count the turns of the only thread: an answer from a server
// takes any number of them.
stories_on!(
    postgres: accepting, claiming, depending, dispatching, errands, following, leading, leasing, racing, restoring, seats, steering, windows
);
