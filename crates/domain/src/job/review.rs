//! Votes on completed work, and waits for people [T5][B6].

use serde_json::json;

use super::Job;
use crate::event::{Actor, EventKind};
use crate::refusal::Refusal;
use crate::review::{PersonWait, Review, Vote, VoteDecision, is_same_person};
use crate::stage::{BlockedOn, Stage, StageEvent};
use crate::time::Timestamp;

/// The outcome of a vote.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "it lives on the stack between a decision and its commit")]
pub enum VoteOutcome {
    /// It was recorded.
    Recorded(Job),
    /// The person cast the same vote before.
    Repeated,
}

impl Job {
    /// The person whose work it is: the owner of the token that submitted it.
    pub fn author(&self) -> &str {
        let submission = &self.submission;
        submission.owner.as_deref().unwrap_or(&submission.by)
    }

    /// The required review: of the manifest, or a stricter one that was requested later.
    pub fn required_review(&self) -> Option<&Review> {
        match &self.state.stage {
            Stage::Review { ballot, .. } => Some(ballot),
            _ => self.state.requested_review.as_ref().or(self.submission.spec.review.as_ref()),
        }
    }

    /// The votes on the last completed work.
    pub fn votes(&self) -> &[Vote] {
        &self.state.votes
    }

    /// The number of approvals of the last completed work.
    pub fn approvals(&self) -> u32 {
        let approvals = self.state.votes.iter().filter(|vote| vote.decision == VoteDecision::Approve).count();
        u32::try_from(approvals).unwrap_or(u32::MAX)
    }

    /// The vote of a person.
    pub fn vote_of(&self, person: &str) -> Option<&Vote> {
        self.state.votes.iter().find(|vote| is_same_person(&vote.by, person))
    }

    /// Why a person may not vote now.
    pub fn check_voter(&self, person: &str) -> Result<(), Refusal> {
        let Stage::Review { ballot, .. } = &self.state.stage else {
            let stage = self.state.stage.name();
            return Err(Refusal::IllegalTransition { stage, event: "reviewed", allowed: stage.moves().to_vec() });
        };
        if is_same_person(self.author(), person) {
            return Err(Refusal::OwnWork { person: person.to_owned() });
        }
        if !ballot.names(person) {
            return Err(Refusal::NotAReviewer { person: person.to_owned(), reviewers: ballot.reviewers.clone() });
        }
        Ok(())
    }

    /// Records a vote and what it decides. One vote per person and commit: a later one replaces the earlier one.
    pub fn vote(self, vote: Vote, at: Timestamp, by: Actor) -> Result<VoteOutcome, Refusal> {
        let is_repeated = |known: &Vote| known.decision == vote.decision && known.is_for(vote.sha.as_ref(), vote.run);
        if self.vote_of(&vote.by).is_some_and(is_repeated) {
            return Ok(VoteOutcome::Repeated);
        }
        self.check_voter(&vote.by)?;
        self.check_reviewed(&vote)?;
        let (decision, comment) = (vote.decision, vote.comment.clone());
        let job = self.with_vote(vote, at, by.clone());
        let quorum = job.required_review().map_or(1, |review| review.quorum);
        let job = match decision {
            VoteDecision::Approve if job.approvals() >= quorum => job.apply(StageEvent::Approved, at, by)?,
            VoteDecision::Approve => job,
            VoteDecision::Changes => {
                job.apply(StageEvent::ChangesRequested { message: comment }, at, by)?.with_new_rounds()
            }
            VoteDecision::Reject => job.apply(StageEvent::Rejected { message: comment }, at, by)?,
        };
        Ok(VoteOutcome::Recorded(job))
    }

    /// A vote counts for the work that its reviewer saw.
    fn check_reviewed(&self, vote: &Vote) -> Result<(), Refusal> {
        if vote.is_for(self.state.completed.as_ref(), self.state.runs) {
            return Ok(());
        }
        let named = |sha: Option<&crate::names::CommitSha>, run: u32| match sha {
            Some(sha) => format!("commit {sha}"),
            None => format!("run {run}, which has no commit"),
        };
        Err(Refusal::OtherCommit {
            shown: named(vote.sha.as_ref(), vote.run),
            current: named(self.state.completed.as_ref(), self.state.runs),
            sha: self.state.completed.clone(),
        })
    }

    fn with_vote(mut self, vote: Vote, at: Timestamp, by: Actor) -> Self {
        self.state.votes.retain(|known| !is_same_person(&known.by, &vote.by));
        let mut data = json!({
            "person": vote.by, "decision": vote.decision, "sha": vote.sha, "run": vote.run, "message": vote.comment,
        });
        if vote.on_forge {
            data["onForge"] = json!(true);
        }
        self.state.votes.push(vote);
        data["approvals"] = json!(self.approvals());
        data["quorum"] = json!(self.required_review().map(|review| review.quorum));
        self.record(EventKind::Voted, at, by, data);
        self
    }

    /// Requests a review of completed work, or a stricter one. Earlier votes on work that was ready to ship are void.
    pub fn request_review(
        self,
        review: Review,
        message: Option<String>,
        at: Timestamp,
        by: Actor,
    ) -> Result<Self, Refusal> {
        if let Some(required) = self.required_review()
            && !review.is_at_least(required)
        {
            return Err(Refusal::WeakerReview { quorum: required.quorum, reviewers: required.reviewers.clone() });
        }
        let was_in_review = matches!(self.state.stage, Stage::Review { .. });
        let mut job = self.apply(StageEvent::ReviewRequested { ballot: review.clone(), message }, at, by)?;
        job.state.requested_review = Some(review);
        if !was_in_review {
            job.state.votes.clear();
        }
        Ok(job)
    }

    /// Since when the job waits for a reviewer or for an answer.
    pub fn person_wait(&self) -> Option<PersonWait> {
        let waits = self.waits_for_person();
        // Documents of earlier versions have no beginning.
        let wait = || self.state.person_wait.unwrap_or(PersonWait { since: self.state.updated_at, reminders: 0 });
        waits.then(wait)
    }

    /// Records a reminder of a wait for a person.
    #[must_use]
    pub fn reminded(mut self, at: Timestamp, by: Actor) -> Self {
        let Some(wait) = self.person_wait() else { return self };
        self.state.person_wait = Some(PersonWait { reminders: wait.reminders + 1, ..wait });
        let mut data = json!({ "since": wait.since, "reminders": wait.reminders + 1 });
        match &self.state.stage {
            Stage::Blocked { on: BlockedOn::Question(question) } => data["question"] = json!(question),
            _ => {
                data["approvals"] = json!(self.approvals());
                data["quorum"] = json!(self.required_review().map(|review| review.quorum));
            }
        }
        self.record(EventKind::Reminded, at, by, data);
        self
    }

    /// Keeps the beginning of a wait for as long as it lasts.
    pub(super) fn note_person_wait(&mut self, at: Timestamp) {
        self.state.person_wait = match self.waits_for_person() {
            true => self.state.person_wait.or(Some(PersonWait { since: at, reminders: 0 })),
            false => None,
        };
    }

    fn waits_for_person(&self) -> bool {
        matches!(self.state.stage, Stage::Review { .. } | Stage::Blocked { on: BlockedOn::Question(_) })
    }
}
