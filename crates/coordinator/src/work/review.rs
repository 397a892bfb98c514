//! Votes on completed work [T5].
//!
//! A vote, what it decides and the request to ship that may follow are one commit: a crash leaves either all or nothing
//! of it, and the repeated request finds the recorded vote.

use std::sync::Arc;

use domain::{
    Job, JobId, PERSON_CHARS_MAX, QUORUM_MAX, REVIEWERS_MAX, Refusal, Review, Revision, Stage, StageName, Timestamp,
    Versioned, Vote, VoteDecision, VoteOutcome,
};
use fail::fail_point;
use protocol::{JobView, ReviewRequest, VoteRequest, VoteRight};
use tracing::info;

use crate::commit::{Decision, Target};
use crate::coordinator::Coordinator;
use crate::error::Error;
use crate::fleet::principal::Principal;
use crate::submit::invalid;
use crate::submit::sanitize::cut;

impl Coordinator {
    /// Records the caller's vote on the work that the request names, if the job is still at `expected` where that is
    /// given. The vote that completes the quorum moves the job to `testing`.
    pub async fn vote(
        &self,
        who: &Principal,
        id: JobId,
        expected: Option<Revision>,
        request: &VoteRequest,
    ) -> Result<JobView, Error> {
        let before = self.reviewed_job(who, id).await?;
        who.require_voter(before.value.product())?;
        let comment = request.comment.as_deref().map(cut).filter(|comment| !comment.trim().is_empty());
        if request.decision == VoteDecision::Changes && comment.is_none() {
            return Err(invalid("comment", "say what has to change: the agent gets it".to_owned()));
        }
        if request.sha.is_some() == request.run.is_some() {
            return Err(invalid("sha", "name the reviewed commit; for work without one, name its `run`".to_owned()));
        }
        let vote = |job: &Job, at: Timestamp| Vote {
            by: who.person().to_owned(),
            decision: request.decision,
            comment: comment.clone(),
            sha: request.sha.clone(),
            // A commit identifies the work by itself.
            run: request.run.unwrap_or_else(|| job.runs()),
            at,
            on_forge: false,
        };
        fail_point!("vote::before_commit");
        let voted = self.amend(Target { id, expected }, |job| {
            let now = self.now();
            let vote = vote(&job, now);
            self.decide_by_vote(job, vote, now, who)
        });
        let after = voted.await?;
        fail_point!("vote::committed");
        info!(job.id = %id, by = %who.name, "`{}` voted `{}` on job {}", who.person(), request.decision.name(), after.value.label());
        self.after_report(&after.value).await;
        Ok(JobView::of(&after.value, after.revision))
    }

    /// A vote and its consequences, including the merge in a product that ships automatically.
    pub(crate) fn decide_by_vote(
        &self,
        job: Job,
        vote: Vote,
        now: Timestamp,
        who: &Principal,
    ) -> Result<Decision, Refusal> {
        match job.vote(vote, now, who.actor())? {
            VoteOutcome::Recorded(job) => self.ship_if_wanted(job, now).map(Decision::Write),
            VoteOutcome::Repeated => Ok(Decision::Keep),
        }
    }

    /// Requests a review of finished work, or a stricter one than the job's.
    pub async fn request_review(
        &self,
        who: &Principal,
        id: JobId,
        expected: Option<Revision>,
        request: &ReviewRequest,
    ) -> Result<JobView, Error> {
        let before = self.reviewed_job(who, id).await?;
        who.require_operator(before.value.product())?;
        check_reviewers(&request.reviewers)?;
        if request.quorum.is_some_and(|quorum| !(1..=QUORUM_MAX).contains(&quorum)) {
            return Err(invalid("quorum", format!("1 to {QUORUM_MAX}")));
        }
        let message = request.message.as_deref().map(cut);
        let wanted = |job: &Job| {
            let required = job.required_review();
            Review {
                quorum: request.quorum.or(required.map(|review| review.quorum)).unwrap_or(1),
                reviewers: match required {
                    Some(review) if request.reviewers.is_empty() => review.reviewers.clone(),
                    _ => request.reviewers.clone(),
                },
            }
        };
        check_reachable(&wanted(&before.value), before.value.author())?;
        let requested = self.amend(Target { id, expected }, |job| {
            let review = wanted(&job);
            // The same request again adds nothing.
            let is_known = matches!(job.stage(), Stage::Review { ballot, .. } if *ballot == review);
            if is_known && message.is_none() {
                return Ok(Decision::Keep);
            }
            job.request_review(review, message.clone(), self.now(), who.actor()).map(Decision::Write)
        });
        let after = requested.await?;
        info!(job.id = %id, by = %who.name, "`{}` requested a review of job {}", who.name, after.value.label());
        Ok(JobView::of(&after.value, after.revision))
    }

    async fn reviewed_job(&self, who: &Principal, id: JobId) -> Result<Versioned<Arc<Job>>, Error> {
        let job = self.look_up(id).await?;
        if who.sees(job.value.product()) { Ok(job) } else { Err(Error::NoSuchJob(id)) }
    }
}

/// Whether the caller may vote on a job now; `None` if it is not in review.
pub(crate) fn vote_right(who: &Principal, job: &Job) -> Option<VoteRight> {
    if job.stage().name() != StageName::Review {
        return None;
    }
    let refused = match who.require_voter(job.product()) {
        Ok(()) => job.check_voter(who.person()).err().map(|refusal| refusal.to_string()),
        Err(error) => Some(error.to_string()),
    };
    let cast = job.vote_of(who.person()).map(|vote| vote.decision);
    Some(VoteRight { allowed: refused.is_none(), why_not: refused, cast })
}

/// Whether a review waits for the caller's vote.
pub(crate) fn waits_for_vote_of(who: &Principal, job: &Job) -> bool {
    vote_right(who, job).is_some_and(|right| right.allowed && right.cast.is_none())
}

/// Rejects a review that can never be complete: the author of the job does not count.
pub(crate) fn check_reachable(review: &Review, author: &str) -> Result<(), Error> {
    if review.is_reachable(author) {
        return Ok(());
    }
    Err(invalid("review", unreachable_review(review, author)))
}

/// Why a review can never be complete.
pub(crate) fn unreachable_review(review: &Review, author: &str) -> String {
    format!(
        "{} required, but too few of the reviewers may vote: `{author}` submits the job, and the author never counts",
        domain::counted(review.quorum, "approval"),
    )
}

fn check_reviewers(reviewers: &[String]) -> Result<(), Error> {
    if reviewers.len() > REVIEWERS_MAX {
        return Err(invalid("reviewers", format!("at most {REVIEWERS_MAX}, found {}", reviewers.len())));
    }
    reviewers.iter().try_for_each(|reviewer| check_person("reviewers", reviewer))
}

/// Checks the name of a person.
pub(crate) fn check_person(what: &'static str, name: &str) -> Result<(), Error> {
    let length = name.chars().count();
    let is_name = (1..=PERSON_CHARS_MAX).contains(&length)
        && !name.trim().is_empty()
        && name.chars().all(domain::is_terminal_safe);
    if is_name { Ok(()) } else { Err(invalid(what, format!("1 to {PERSON_CHARS_MAX} printable characters"))) }
}
