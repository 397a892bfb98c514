//! Stages, fencing and effects of stage changes [J5][I1][I2].

mod documents;
mod effects;
mod feedback;
mod fence;
mod grid;
mod previous_run;
mod property;
mod restore;
mod sample;
