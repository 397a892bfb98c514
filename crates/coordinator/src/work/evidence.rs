//! The evidence of a finished run: the diff, the commits, the engine's final message [B4].

use domain::{Epoch, JobId, Refusal, RunOutcome};
use protocol::{CommitLine, DIFF_BYTES_MAX, EvidenceReport, EvidenceResponse, LeftBranch, RunEvidence};
use tracing::warn;

use crate::coordinator::Coordinator;
use crate::error::Error;
use crate::fleet::principal::Principal;
use crate::submit::invalid;
use crate::submit::sanitize::{escaped, short};

/// Commits of one run: more than any agent makes.
const COMMITS_MAX: usize = 1_000;

/// A commit's first line.
const SUBJECT_CHARS_MAX: usize = 300;

/// Refused tool calls of one run: further ones add no information.
const REFUSALS_MAX: usize = 20;

/// Branches that one run left commits on.
const BRANCHES_MAX: usize = 20;

/// The limit of an engine's final message: a few screens.
const ENDING_CHARS_MAX: usize = 64 * 1024;

impl Coordinator {
    /// Stores the evidence of a holder's run, and replaces the former one. Fenced like every other write.
    pub async fn keep_evidence(
        &self,
        who: &Principal,
        id: JobId,
        request: &EvidenceReport,
    ) -> Result<EvidenceResponse, Error> {
        let factory = who.factory()?;
        let job = self.workable(who, id).await?;
        let epoch = request.lease_epoch;
        // The run keeps its epoch until it ends, also while its job is completed and its branch is being moved.
        if job.value.run().is_none_or(|run| run.epoch != epoch || run.factory != *factory) {
            return Err(Refusal::StaleEpoch { shown: epoch, held: job.value.epoch() }.into());
        }
        let document = serde_json::to_vec(&bounded(request)).map_err(|error| invalid("evidence", error.to_string()))?;
        self.ports.logs.keep_evidence(id, epoch, &document).await?;
        Ok(EvidenceResponse { length: document.len() as u64 })
    }

    /// The evidence of one run of a job.
    pub async fn evidence(&self, who: &Principal, id: JobId, n: u32) -> Result<RunEvidence, Error> {
        let run = self.run_of(who, id, n).await?;
        let shown = self.shown_for(id, run.epoch).await?;
        // For other outcomes the message is the coordinator's own.
        let is_the_engines = matches!(run.outcome, Some(RunOutcome::Completed | RunOutcome::Asked));
        let message = run.message.filter(|_| is_the_engines);
        Ok(RunEvidence {
            run: run.n,
            epoch: run.epoch,
            engine: run.engine,
            outcome: run.outcome,
            sha: run.sha,
            verify: run.evidence,
            diff: shown.diff.as_deref().map(escaped),
            diff_cut: shown.diff_cut,
            commits: shown.commits.into_iter().map(safe_line).collect(),
            ending: shown.ending.or(message).as_deref().map(escaped),
            refused: shown.refused.iter().map(|call| escaped(call)).collect(),
            left_branches: shown.left_branches.into_iter().map(safe_branch).collect(),
            insights: run.insights,
        })
    }

    /// Evidence that a failed disk has damaged counts as absent: the rest of the run stays readable.
    async fn shown_for(&self, id: JobId, epoch: Epoch) -> Result<EvidenceReport, Error> {
        let Some(document) = self.ports.logs.evidence(id, epoch).await? else { return Ok(EvidenceReport::default()) };
        Ok(serde_json::from_slice(&document).unwrap_or_else(|_| {
            warn!(job.id = %id, lease.epoch = %epoch, "The evidence of a run of job {} is unreadable", self.label(id));
            EvidenceReport::default()
        }))
    }
}

fn safe_line(line: CommitLine) -> CommitLine {
    CommitLine { subject: escaped(&line.subject), ..line }
}

fn safe_branch(left: LeftBranch) -> LeftBranch {
    LeftBranch { name: escaped(&left.name), git_ref: escaped(&left.git_ref), ..left }
}

fn bounded(request: &EvidenceReport) -> EvidenceReport {
    let diff = request.diff.as_deref().map(|diff| &diff[..diff.floor_char_boundary(DIFF_BYTES_MAX)]);
    let is_cut = diff.map(str::len) != request.diff.as_ref().map(String::len);
    let line = |line: &CommitLine| CommitLine { subject: short(&line.subject, SUBJECT_CHARS_MAX), ..line.clone() };
    let branch = |left: &LeftBranch| LeftBranch {
        name: short(&left.name, SUBJECT_CHARS_MAX),
        git_ref: short(&left.git_ref, SUBJECT_CHARS_MAX),
        ..left.clone()
    };
    EvidenceReport {
        lease_epoch: request.lease_epoch,
        diff: diff.map(str::to_owned),
        diff_cut: request.diff_cut || is_cut,
        commits: request.commits.iter().take(COMMITS_MAX).map(line).collect(),
        ending: request.ending.as_deref().map(|ending| short(ending, ENDING_CHARS_MAX)),
        left_branches: request.left_branches.iter().take(BRANCHES_MAX).map(branch).collect(),
        refused: request.refused.iter().take(REFUSALS_MAX).map(|call| short(call, SUBJECT_CHARS_MAX)).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // [B4]
    #[test]
    fn a_large_diff_is_truncated_between_characters_and_flagged() {
        let large = EvidenceReport { diff: Some("é".repeat(DIFF_BYTES_MAX)), ..EvidenceReport::default() };
        let small = EvidenceReport { diff: Some("+é\n".to_owned()), ..EvidenceReport::default() };

        let kept = bounded(&large);

        assert_eq!((kept.diff.unwrap().len(), kept.diff_cut), (DIFF_BYTES_MAX, true));
        assert_eq!(bounded(&small), small);
    }
}
