//! What factories report about their jobs, and what people request for them.

pub(crate) mod actions;
pub(crate) mod artifacts;
pub(crate) mod engine_availability;
pub(crate) mod evidence;
pub(crate) mod logs;
pub(crate) mod quota;
pub(crate) mod quota_windows;
pub(crate) mod renewal;
pub(crate) mod report;
pub(crate) mod review;
pub(crate) mod trees;
