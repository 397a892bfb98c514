//! Pull-request reports of factories, and their effects [B5].

use domain::{
    FactoryId, Job, JobId, Refusal, Stage, StageEvent, StageName, Timestamp, Vote, VoteDecision, VoteOutcome,
};
use protocol::{
    ForgeApproval, PullRequestReport, PullRequestReportResponse, PullRequestState, ReviewComment, ReviewCommentKind,
};
use tracing::info;

use crate::commit::{AmendOutcome, Decision};
use crate::coordinator::Coordinator;
use crate::error::Error;
use crate::fleet::principal::Principal;
use crate::submit::sanitize::{cut, short};

/// The limit of the pull-request feedback for the next run: the ends of a few logs and a page of comments.
const CHANGES_CHARS_MAX: usize = 16_000;

/// The limit of one comment within that.
const COMMENT_CHARS_MAX: usize = 4_000;

/// Comments of one report, the last of them: as many as a job remembers as handled, so that none counts twice.
const COMMENTS_MAX: usize = 256;

/// Approvals of one report.
const APPROVALS_MAX: usize = 100;

/// Comments per rework round. Further ones wait for the next poll.
const FRESH_MAX: usize = 50;

impl Coordinator {
    /// Applies a factory's report: the pull request was merged or closed, or checks and reviewers ask for a rework. The
    /// coordinator accepts a report only from the factory that it asked last, so that no other factory decides about a
    /// pull request.
    pub async fn report_pull_request(
        &self,
        who: &Principal,
        id: JobId,
        report: &PullRequestReport,
    ) -> Result<PullRequestReportResponse, Error> {
        self.workable(who, id).await?;
        let factory = who.factory()?;
        if !self.was_asked_to_poll(id, factory) {
            return Err(Error::NotReady(format!("factory `{factory}` was not asked to poll this pull request")));
        }
        let comments = bounded(&report.comments);
        let amended = self.try_amend(id, |job| self.decide_by_report(job, who, report, &comments, self.now())).await?;
        let (job, is_changed) = match amended {
            AmendOutcome::Written(job) => (job, true),
            AmendOutcome::Kept(job) => (job, false),
        };
        let stage = job.value.stage().name();
        if !is_changed {
            return Ok(PullRequestReportResponse { stage, comment: None });
        }
        log_feedback(&job.value, factory);
        self.after_report(&job.value).await;
        Ok(PullRequestReportResponse { stage, comment: self.forge_comment(&job.value) })
    }

    fn decide_by_report(
        &self,
        job: Job,
        who: &Principal,
        report: &PullRequestReport,
        comments: &[ReviewComment],
        now: Timestamp,
    ) -> Result<Decision, Refusal> {
        let is_done = matches!(job.stage(), Stage::Review { .. } | Stage::Testing { .. });
        let is_this_one = job.pull_request().is_some_and(|request| request.number == report.number);
        // The factory that moves or merges the branch right now reports the outcome itself.
        if !is_done || !is_this_one || job.lease().is_some() {
            return Ok(Decision::Keep);
        }
        match &report.pull_request {
            PullRequestState::Merged { merge, by } => {
                let by = by.as_deref().map_or_else(|| "an unknown user".to_owned(), cut);
                let message = match job.completed() == Some(&report.head) {
                    true => format!("merged on the forge by {by}"),
                    false => {
                        format!("merged on the forge by {by}, as {} instead of the completed commit", report.head)
                    }
                };
                let message = match job.stage() {
                    Stage::Review { .. } => {
                        format!("{message}, before its review was complete ({} of {})", job.approvals(), quorum(&job))
                    }
                    _ => message,
                };
                let merged = StageEvent::Merged { merge: merge.clone(), message: Some(message) };
                job.apply(merged, now, who.actor()).map(Decision::Write)
            }
            PullRequestState::Closed => {
                let message = Some("its pull request was closed on the forge".to_owned());
                job.apply(StageEvent::Cancelled { message }, now, who.actor()).map(Decision::Write)
            }
            PullRequestState::Open => match job.stage() {
                Stage::Review { .. } if !report.approvals.is_empty() => {
                    let asked = self.decide_by_comments(job.clone(), who, report, comments, now)?;
                    // Requested changes come first: an approval beside them does not ship the work.
                    match asked {
                        Decision::Write(job) => Ok(Decision::Write(job)),
                        Decision::Keep => self.decide_by_approvals(job, &report.approvals, now),
                    }
                }
                _ => self.decide_by_comments(job, who, report, comments, now),
            },
        }
    }

    /// Counts approving reviews as votes of the people whose logins they have. A review of a stranger, of the author or of
    /// another commit counts nothing, and is no error.
    fn decide_by_approvals(
        &self,
        mut job: Job,
        approvals: &[ForgeApproval],
        now: Timestamp,
    ) -> Result<Decision, Refusal> {
        let before = job.seq();
        for approval in approvals.iter().take(APPROVALS_MAX) {
            let Some(voter) = self.forge_voter(&approval.login, job.product()) else { continue };
            let person = voter.person();
            let counts = job.completed() == Some(&approval.sha)
                && job.check_voter(person).is_ok()
                && job.vote_of(person).is_none();
            if !counts {
                continue;
            }
            let vote = Vote {
                by: person.to_owned(),
                decision: VoteDecision::Approve,
                comment: None,
                sha: Some(approval.sha.clone()),
                run: job.runs(),
                at: now,
                on_forge: true,
            };
            let VoteOutcome::Recorded(voted) = job.clone().vote(vote, now, voter.actor())? else { continue };
            job = voted;
        }
        if job.seq() == before {
            return Ok(Decision::Keep);
        }
        self.ship_if_wanted(job, now).map(Decision::Write)
    }

    fn decide_by_comments(
        &self,
        job: Job,
        who: &Principal,
        report: &PullRequestReport,
        comments: &[ReviewComment],
        now: Timestamp,
    ) -> Result<Decision, Refusal> {
        // Checks belong to one commit: those of another commit do not apply.
        let is_ours = job.promoted() == Some(&report.head);
        let counts = |comment: &&ReviewComment| {
            !job.has_answered(&comment.id) && (is_ours || comment.kind != ReviewCommentKind::Check)
        };
        let fresh: Vec<&ReviewComment> = fitting(comments.iter().filter(counts));
        if fresh.is_empty() || job.is_escalated() {
            return Ok(Decision::Keep);
        }
        let ids = fresh.iter().map(|comment| comment.id.clone()).collect();
        let summary = summary(&fresh);
        if job.feedback_rounds() >= self.settings.feedback_rounds_max {
            return Ok(Decision::Write(job.escalated(ids, summary, now, who.actor())));
        }
        job.sent_back(ids, summary, instructions(&fresh), now, who.actor()).map(Decision::Write)
    }

    /// The comment to post on the pull request.
    fn forge_comment(&self, job: &Job) -> Option<String> {
        let message = job.message().unwrap_or_default();
        let (round, of) = (job.feedback_rounds(), self.settings.feedback_rounds_max);
        match job.stage().name() {
            StageName::Queued => Some(format!("Changes requested: {message} (round {round} of {of}).")),
            StageName::Review | StageName::Testing if job.is_escalated() => {
                let rounds = domain::counted(round, "round");
                Some(format!("Stopped after {rounds}, needs a maintainer: {message}."))
            }
            StageName::Shipped | StageName::Failed => Some(format!("Done: {message}.")),
            _ => None,
        }
    }
}

fn quorum(job: &Job) -> u32 {
    job.required_review().map_or(0, |review| review.quorum)
}

fn log_feedback(job: &Job, factory: &FactoryId) {
    let (id, stage, message) = (job.id(), job.stage().name(), job.message().unwrap_or_default());
    info!(job.id = %id, job.stage = %stage, factory.id = %factory, "Pull request feedback for job {}: {message}", job.label());
}

/// Comments truncated and escaped for terminals.
fn bounded(comments: &[ReviewComment]) -> Vec<ReviewComment> {
    let bound = |comment: &ReviewComment| ReviewComment {
        id: short(&comment.id, 100),
        kind: comment.kind,
        from: short(&comment.from, 200),
        place: comment.place.as_deref().map(|place| short(place, 400)),
        text: short(&comment.text, COMMENT_CHARS_MAX),
    };
    comments.iter().skip(comments.len().saturating_sub(COMMENTS_MAX)).map(bound).collect()
}

/// The first of these comments, as many as fit into one run's feedback.
fn fitting<'a>(comments: impl Iterator<Item = &'a ReviewComment>) -> Vec<&'a ReviewComment> {
    let mut taken = Vec::new();
    let mut chars = 0;
    for comment in comments.take(FRESH_MAX) {
        chars += quoted(comment).chars().count();
        if chars > CHANGES_CHARS_MAX && !taken.is_empty() {
            break;
        }
        taken.push(comment);
    }
    taken
}

/// `2 failed checks (lint, test) and 1 comment`
fn summary(comments: &[&ReviewComment]) -> String {
    let checks: Vec<&str> = of_kind(comments, ReviewCommentKind::Check).map(|comment| comment.from.as_str()).collect();
    let plain = of_kind(comments, ReviewCommentKind::Comment).count();
    let failed = match checks.len() {
        0 => None,
        1 => Some(format!("1 failed check ({})", checks[0])),
        many => Some(format!("{many} failed checks ({})", checks.join(", "))),
    };
    let said = match plain {
        0 => None,
        1 => Some("1 comment".to_owned()),
        many => Some(format!("{many} comments")),
    };
    cut(&[failed, said].into_iter().flatten().collect::<Vec<_>>().join(" and "))
}

fn of_kind<'a>(comments: &'a [&'a ReviewComment], kind: ReviewCommentKind) -> impl Iterator<Item = &'a ReviewComment> {
    comments.iter().copied().filter(move |comment| comment.kind == kind)
}

/// The instructions of the next run, with every comment quoted.
fn instructions(comments: &[&ReviewComment]) -> String {
    let text: String = comments.iter().map(|comment| quoted(comment)).collect();
    short(&text, CHANGES_CHARS_MAX)
}

fn quoted(comment: &ReviewComment) -> String {
    let what = match comment.kind {
        ReviewCommentKind::Check => "The check",
        ReviewCommentKind::Comment => "A comment by",
    };
    let place = comment.place.as_deref().map_or_else(String::new, |place| format!(" on {place}"));
    let failed = if comment.kind == ReviewCommentKind::Check { " failed" } else { "" };
    let mut text = format!("{what} `{}`{place}{failed}:\n\n", comment.from);
    for line in comment.text.lines() {
        text.push_str(&format!("> {line}\n"));
    }
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn comment(kind: ReviewCommentKind, from: &str, text: &str) -> ReviewComment {
        ReviewComment { id: from.to_owned(), kind, from: from.to_owned(), place: None, text: text.to_owned() }
    }

    #[test]
    fn a_summary_counts_checks_and_comments_and_names_the_checks() {
        let all = [
            comment(ReviewCommentKind::Check, "lint", "no"),
            comment(ReviewCommentKind::Check, "test", "no"),
            comment(ReviewCommentKind::Comment, "ann", "why?"),
        ];

        assert_eq!(summary(&all.iter().collect::<Vec<_>>()), "2 failed checks (lint, test) and 1 comment");
        assert_eq!(summary(&[&all[2]]), "1 comment");
    }

    #[test]
    fn review_comments_are_quoted_line_by_line() {
        let check = comment(ReviewCommentKind::Check, "test", "one\n# two");

        assert_eq!(instructions(&[&check]), "The check `test` failed:\n\n> one\n> # two\n\n");
    }
}
