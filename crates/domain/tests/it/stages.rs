//! Stages, fencing and effects of stage changes [J5][I1][I2].

mod aftermath;
mod feedback;
mod fence;
mod grid;
mod previous;
mod property;
mod restoring;
mod sample;
mod stored;
