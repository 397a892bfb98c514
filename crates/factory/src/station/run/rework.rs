//! Work that was sent back: where it goes on, and what it is told [B5].

use domain::{Checkpoint, JobId, Manifest};
use protocol::Assignment;

use super::super::Station;
use crate::run_key::RunKey;

impl Station {
    /// Whether a saved commit is completed work rather than work in progress: then it is on the run's own ref, and
    /// nothing of it is uncommitted.
    pub(super) fn is_completed(&self, job: JobId, saved: &Checkpoint) -> bool {
        saved.git_ref == self.host.refs.run(RunKey { job, epoch: saved.epoch }).as_str()
    }
}

/// What the engine is told: the manifest, a person's answer to what it asked, and what has to be changed about work that was
/// completed before.
pub(super) fn prompt_of(assignment: &Assignment) -> String {
    let prompt = Manifest::prompt(&assignment.body_md);
    let prompt = match &assignment.answer {
        None => prompt.to_owned(),
        Some(answer) => format!("{}\n\n---\n\n{}\n", prompt.trim_end(), answer.trim_end()),
    };
    match &assignment.changes {
        None => prompt,
        Some(changes) => format!(
            "{}\n\n---\n\nYou have worked on this before, and your commits are on this branch. The work was sent back and \
             has to be changed. What failed or was asked for is quoted below: mend it, keep what was right, and merge the \
             base branch if that is what stands in the way.\n\n{}\n",
            prompt.trim_end(),
            changes.trim_end()
        ),
    }
}
