//! The place of a job in a tree of jobs [J4].

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::ids::JobId;

/// Levels of a tree, including its root.
pub const TREE_LEVELS_MAX: u8 = 16;

/// Jobs of a tree, including its root.
pub const TREE_JOBS_MAX: usize = 1_000;

/// Subtasks that the agents of one job can create.
pub const SUBTASKS_MAX: usize = 32;

/// The place of a child in its tree. Written once, with the job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct TreePlace {
    /// The parent.
    pub parent_id: JobId,
    /// The job at the top of the tree.
    pub root_id: JobId,
    /// Levels above the job: 1 for a child of the root.
    pub depth: u8,
}

impl TreePlace {
    /// The place of a child of `parent`; `None` below the last level.
    pub fn below(parent: JobId, place: Option<&Self>) -> Option<Self> {
        let (root_id, depth) = place.map_or((parent, 0), |place| (place.root_id, place.depth));
        let depth = depth.saturating_add(1);
        (depth < TREE_LEVELS_MAX).then_some(Self { parent_id: parent, root_id, depth })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // [J4] [attack: DAG bombs]
    #[test]
    fn a_tree_ends_at_its_last_level() {
        let root = JobId::from_bytes([1; 16]);
        let mut place = TreePlace::below(root, None);
        let mut levels = 1;
        while let Some(known) = place {
            assert_eq!((known.root_id, known.depth), (root, levels));
            levels += 1;
            place = TreePlace::below(JobId::from_bytes([levels; 16]), Some(&known));
        }

        assert_eq!(levels, TREE_LEVELS_MAX);
    }
}
