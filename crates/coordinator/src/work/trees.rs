//! Trees of jobs [J4]: children are added to a parent, which follows them or runs after them.

pub(crate) mod descend;
pub(crate) mod grow;
pub(crate) mod rollup;
pub(crate) mod subtask_manifest;
pub(crate) mod subtasks;
