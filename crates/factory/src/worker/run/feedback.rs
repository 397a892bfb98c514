//! Work that was returned for changes: where it continues, and its agent's instructions [B5][F2b].

use domain::{Checkpoint, ChildResult, JobId, Manifest, RunKey, StageName};
use engines::Prompt;

use super::super::Worker;
use super::{Run, RunLocation};

impl Worker {
    /// Whether a saved commit is completed work rather than a checkpoint: then it is on the run's own ref, and nothing
    /// of it is uncommitted.
    pub(super) fn is_completed(&self, job: JobId, saved: &Checkpoint) -> bool {
        saved.git_ref == self.host.refs().run(RunKey { job, epoch: saved.epoch }).as_str()
    }

    /// The instructions for the run's agent.
    pub(super) fn prompt(&self, run: &Run, place: &RunLocation) -> Prompt {
        let assignment = &run.assignment;
        // The agent only sees these; the factory runs them.
        let shown = |commands: &[String]| commands.iter().map(|command| self.scrubber.text(command)).collect();
        Prompt {
            persona: assignment.persona.clone(),
            task: Manifest::prompt(&assignment.body_md).to_owned(),
            prepare: shown(&assignment.spec.prepare),
            verify: shown(&assignment.spec.verify),
            worktree: place.state.clone(),
            factory: Some(self.settings.name.clone()),
            previous: assignment.previous_run.clone(),
            answer: assignment.answer.clone(),
            changes: assignment.changes.clone(),
            conflict: assignment.conflict.clone(),
            message: assignment.message.clone(),
            children: assignment.children.iter().map(|child| with_branch(child, place)).collect(),
        }
    }
}

/// A child with the name of its branch: one that shipped, or one whose branch the worktree shows.
fn with_branch(child: &ChildResult, place: &RunLocation) -> ChildResult {
    let named = child.commit.as_ref().zip(place.repo.as_ref()).and_then(|(_, (mirror, _, worktree))| {
        let branch = mirror.pr_branch(child.id);
        let is_known = child.stage == StageName::Shipped || worktree.shows(&branch);
        is_known.then(|| branch.short().to_owned())
    });
    ChildResult { branch: named, ..child.clone() }
}
