//! The stages of a job, the fence, and what a change brings with it [J5][I1][I2].

mod aftermath;
mod feedback;
mod fence;
mod grid;
mod previous;
mod property;
mod restoring;
mod sample;
mod stored;
