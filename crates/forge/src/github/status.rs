//! Reads the state of a pull request.

use std::collections::BTreeMap;

use domain::CommitSha;
use protocol::{ForgeApproval, PullRequestReport, PullRequestState, ReviewComment, ReviewCommentKind};
use tracing::warn;

use super::GitHub;
use super::comments::is_by_a_fleet;
use super::wire::{Annotation, CheckRun, CheckRuns, Comment, GhPullRequest, Review, Statuses, User};
use crate::ForgeError;
use crate::text::is_ours;

/// Comments that are reported, the newest of them: fewer than the coordinator remembers as handled, so that none is
/// handled twice.
const REMARKS_MAX: usize = 200;

/// Approvals that are reported: more than any quorum.
const APPROVALS_MAX: usize = 100;

/// Annotations of a check that are reported.
const ANNOTATIONS_MAX: usize = 20;

/// The end of a check's output shows the failure.
const OUTPUT_CHARS_MAX: usize = 4_000;

/// A longer comment is truncated.
const COMMENT_CHARS_MAX: usize = 4_000;

impl GitHub {
    /// The state of the pull request and, while it is open, failed checks and comments.
    pub(super) async fn report_of(&self, number: u64) -> Result<PullRequestReport, ForgeError> {
        let request: GhPullRequest = self.api.get(&self.path(&format!("/pulls/{number}"))).await?;
        let standing = standing(&request);
        let (mut remarks, mut approvals) = (Vec::new(), Vec::new());
        if standing == PullRequestState::Open {
            remarks.extend(self.failed_checks(&request.head.sha).await?);
            remarks.truncate(REMARKS_MAX);
            let reviews: Vec<Review> = self.all(&format!("/pulls/{number}/reviews")).await?;
            approvals = approvals_of(&reviews);
            let comments = self.comments(number, reviews).await?;
            let unheard = (remarks.len() + comments.len()).saturating_sub(REMARKS_MAX);
            if unheard > 0 {
                warn!("{} has too many comments: the {unheard} oldest are not passed on", request.html_url);
            }
            remarks.extend(comments.into_iter().skip(unheard));
        }
        Ok(PullRequestReport { number, pull_request: standing, head: request.head.sha, comments: remarks, approvals })
    }

    /// Failed checks of a commit, once none of them runs any more, so that one run fixes them together.
    async fn failed_checks(&self, sha: &CommitSha) -> Result<Vec<ReviewComment>, ForgeError> {
        let checks = self.checks(sha).await?;
        if checks.iter().any(|check| check.state == CheckState::Running) {
            return Ok(Vec::new());
        }
        let mut failed = Vec::new();
        for check in checks.into_iter().filter(|check| check.state == CheckState::Failed) {
            let mut text = check.text;
            if text.trim().is_empty()
                && let Some(run) = check.run
            {
                text = self.log_of(run).await;
            }
            if let Some(run) = check.run.filter(|_| check.is_annotated) {
                text.push_str(&self.annotations(run).await);
            }
            let text = tail(&text);
            failed.push(ReviewComment {
                id: check.id,
                kind: ReviewCommentKind::Check,
                from: check.name,
                place: None,
                text,
            });
        }
        Ok(failed)
    }

    /// Every check of a commit, of either kind.
    pub(super) async fn checks(&self, sha: &CommitSha) -> Result<Vec<Check>, ForgeError> {
        let runs = self.every_page(&format!("/commits/{sha}/check-runs"), |page: CheckRuns| page.check_runs).await?;
        let statuses = self.every_page(&format!("/commits/{sha}/status"), |page: Statuses| page.statuses).await?;
        let runs = runs.into_iter().map(check);
        let statuses = statuses.into_iter().map(|status| Check {
            id: format!("status:{}", status.id),
            name: status.context,
            state: match status.state.as_str() {
                "failure" | "error" => CheckState::Failed,
                "pending" => CheckState::Running,
                _ => CheckState::Passed,
            },
            text: status.description.unwrap_or_default(),
            run: None,
            is_annotated: false,
        });
        Ok(runs.chain(statuses).collect())
    }

    /// The log of a GitHub Actions job, without its timestamps: such a check has no other output. Its number is the
    /// check's.
    async fn log_of(&self, check: u64) -> String {
        let log = self.api.text(&self.path(&format!("/actions/jobs/{check}/logs"))).await.unwrap_or_default();
        let untimed = |line: &str| match line.split_once("Z ") {
            Some((time, rest)) if time.len() < 30 && time.starts_with(|c: char| c.is_ascii_digit()) => rest.to_owned(),
            _ => line.to_owned(),
        };
        log.lines().map(untimed).collect::<Vec<_>>().join("\n")
    }

    async fn annotations(&self, check: u64) -> String {
        let path = self.path(&format!("/check-runs/{check}/annotations?per_page={ANNOTATIONS_MAX}"));
        // The failure is known without them.
        let annotations: Vec<Annotation> = self.api.get(&path).await.unwrap_or_default();
        let line = |annotation: &Annotation| {
            let place = annotation.start_line.map_or_else(String::new, |line| format!(":{line}"));
            format!("\n{}{place}: {}", annotation.path, annotation.message.as_deref().unwrap_or_default())
        };
        annotations.iter().map(line).collect()
    }

    /// Requested changes, oldest first: reviews that do not approve, comments on lines, and comments that mention the
    /// agent.
    async fn comments(&self, number: u64, reviews: Vec<Review>) -> Result<Vec<ReviewComment>, ForgeError> {
        let on_lines: Vec<Comment> = self.all(&format!("/pulls/{number}/comments")).await?;
        let in_general: Vec<Comment> = self.all(&format!("/issues/{number}/comments")).await?;
        let reviews = reviews.into_iter().filter_map(|review| self.asked_in_review(review));
        let on_lines = on_lines.into_iter().filter(|comment| !is_by_a_fleet(comment));
        let on_lines = on_lines.filter_map(|comment| {
            let place = comment.path.clone().map(|path| match comment.line {
                Some(line) => format!("{path}:{line}"),
                None => path,
            });
            self.asked(format!("line:{}", comment.id), comment, place)
        });
        let in_general = in_general.into_iter().filter(|comment| !is_by_a_fleet(comment));
        let in_general = in_general.filter_map(|comment| {
            let called = comment.body.as_deref().unwrap_or_default().trim_start();
            let rest = called.strip_prefix(&self.listening.mention)?;
            // `/gigantic` is not a command.
            if rest.starts_with(|c: char| c.is_alphanumeric()) {
                return None;
            }
            let body = Some(rest.trim().to_owned());
            self.asked(format!("comment:{}", comment.id), Comment { body, ..comment }, None)
        });
        let mut all: Vec<(String, ReviewComment)> = reviews.chain(on_lines).chain(in_general).collect();
        all.sort_by(|(one, _), (other, _)| one.cmp(other));
        Ok(all.into_iter().map(|(_, remark)| remark).collect())
    }

    fn asked_in_review(&self, review: Review) -> Option<(String, ReviewComment)> {
        let counts = matches!(review.state.as_str(), "CHANGES_REQUESTED" | "COMMENTED");
        let text = review.body.filter(|body| counts && !body.trim().is_empty() && !is_ours(body))?;
        let remark =
            self.remark(format!("review:{}", review.id), &review.author_association, review.user, None, &text)?;
        Some((review.submitted_at, remark))
    }

    fn asked(&self, id: String, comment: Comment, place: Option<String>) -> Option<(String, ReviewComment)> {
        let text = comment.body.filter(|body| !body.trim().is_empty())?;
        let remark = self.remark(id, &comment.author_association, comment.user, place, &text)?;
        Some((comment.created_at, remark))
    }

    /// Only comments of authors with the required association count: an agent follows them.
    fn remark(
        &self,
        id: String,
        association: &str,
        user: Option<User>,
        place: Option<String>,
        text: &str,
    ) -> Option<ReviewComment> {
        let counts = self.listening.to.iter().any(|to| to.eq_ignore_ascii_case(association));
        let from = user.map_or_else(|| "a deleted account".to_owned(), |user| user.login);
        let text = text.chars().take(COMMENT_CHARS_MAX).collect();
        counts.then_some(ReviewComment { id, kind: ReviewCommentKind::Comment, from, place, text })
    }
}

/// The approvals among reviews, oldest first: the last decision of each reviewer counts. A comment is no decision.
fn approvals_of(reviews: &[Review]) -> Vec<ForgeApproval> {
    let mut last: BTreeMap<&str, &Review> = BTreeMap::new();
    for review in reviews {
        let Some(user) = &review.user else { continue };
        let is_later = |known: &&Review| (&known.submitted_at, known.id) <= (&review.submitted_at, review.id);
        let is_decision = matches!(review.state.as_str(), "APPROVED" | "CHANGES_REQUESTED" | "DISMISSED");
        if is_decision && last.get(user.login.as_str()).is_none_or(is_later) {
            last.insert(&user.login, review);
        }
    }
    let approving = last.into_iter().filter(|(_, review)| review.state == "APPROVED");
    let approvals = approving.filter_map(|(login, review)| {
        let sha = review.commit_id.as_deref()?.parse().ok()?;
        Some(ForgeApproval { login: login.to_owned(), sha })
    });
    approvals.take(APPROVALS_MAX).collect()
}

/// A check of either kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Check {
    id: String,
    pub(super) name: String,
    pub(super) state: CheckState,
    text: String,
    /// The id of the check run, for details.
    run: Option<u64>,
    /// Whether it has annotations.
    is_annotated: bool,
}

/// The state of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CheckState {
    Running,
    Failed,
    Passed,
}

fn check(run: CheckRun) -> Check {
    let state = match (run.status.as_str(), run.conclusion.as_deref()) {
        ("completed", Some("failure" | "timed_out" | "startup_failure")) => CheckState::Failed,
        ("completed", _) => CheckState::Passed,
        _ => CheckState::Running,
    };
    let output = run.output;
    let parts = [output.title, output.summary, output.text];
    let text = parts.into_iter().flatten().collect::<Vec<_>>().join("\n\n");
    let is_annotated = output.annotations_count > 0;
    Check { id: format!("check:{}", run.id), name: run.name, state, text, run: Some(run.id), is_annotated }
}

fn standing(request: &GhPullRequest) -> PullRequestState {
    if request.merged {
        let by = request.merged_by.clone().map(|user| user.login);
        PullRequestState::Merged { merge: request.merge_commit_sha.clone(), by }
    } else if request.state == "closed" {
        PullRequestState::Closed
    } else {
        PullRequestState::Open
    }
}

fn tail(text: &str) -> String {
    let surplus = text.chars().count().saturating_sub(OUTPUT_CHARS_MAX);
    text.chars().skip(surplus).collect()
}
