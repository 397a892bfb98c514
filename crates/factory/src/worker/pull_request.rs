//! The pull request of a job: opened after the branch was moved, merged by the recorded commit [F5][I15].

use domain::{JobId, ProductId, RepoName, StageName};
use fail::fail_point;
use forge::{
    AutoMerge, Forge, ForgeError, MergeOrder, MergeOutcome, PullRequestDraft, bare_pull_request_text, status_comment,
};
use protocol::{ErrandOutcome, PollPullRequest, PromoteOrder};
use tracing::warn;
use workspace::AfterShip;

use super::Worker;
use super::errand::{ErrandResult, ErrandSubject, failed};

/// A title is one line in a list.
const TITLE_CHARS_MAX: usize = 200;

impl Worker {
    /// Opens the pull request of a branch at its commit, or updates it. Without a forge there is only the branch.
    pub(super) async fn open_request(&self, subject: &ErrandSubject, order: &PromoteOrder) -> ErrandResult {
        let repo = subject.mirror.repo();
        let Some(forge) = self.forges.of(repo, &subject.config.url) else { return ErrandOutcome::Done.into() };
        let settings = self.forges.config().settings(repo, &subject.product);
        let proposal = PullRequestDraft {
            job: subject.job,
            branch: subject.mirror.pr_branch(subject.job).short().to_owned(),
            base: subject.base.clone(),
            title: titled(&settings.title, subject),
            body: order.request_text.clone().unwrap_or_else(|| bare_pull_request_text(&subject.title)),
            draft: settings.draft,
            labels: settings.labels,
            reviewers: settings.reviewers,
        };
        let request = match forge.open(&proposal).await {
            Ok(request) => request,
            Err(error) => return outcome_of(&error).into(),
        };
        fail_point!("factory::request_opened", |_| ErrandOutcome::Done.into());
        let text = format!("`{}` is done and verified.", order.sha);
        self.say_on_request(&*forge, request.number, subject.job, StageName::Review, &text).await;
        ErrandResult { outcome: ErrandOutcome::Done, request: Some(request) }
    }

    /// Merges a job's pull request through the forge; `None` where it has none.
    pub(super) async fn ship_request(&self, subject: &ErrandSubject, order: &PromoteOrder) -> Option<ErrandResult> {
        let repo = subject.mirror.repo();
        let forge = self.forges.of(repo, &subject.config.url)?;
        let request = match &order.pull_request {
            Some(request) => request.clone(),
            None => match forge.find(subject.mirror.pr_branch(subject.job).short()).await {
                Ok(found) => found?,
                Err(error) => return Some(outcome_of(&error).into()),
            },
        };
        let settings = self.forges.config().settings(repo, &subject.product);
        let merge = MergeOrder {
            request: request.number,
            sha: order.sha.clone(),
            method: settings.method,
            title: format!("{} (#{})", titled(&settings.title, subject), request.number),
            message: format!("Gigafactory-Job: {}", subject.job),
            auto: if settings.auto_merge { AutoMerge::WhenAllowed } else { AutoMerge::Never },
        };
        let outcome = match forge.merge(&merge).await {
            Ok(MergeOutcome::Merged) => {
                let text = format!("`{}` is merged into `{}`.", order.sha, subject.base);
                self.say_on_request(&*forge, request.number, subject.job, StageName::Shipped, &text).await;
                self.end_branch(subject, order).await;
                ErrandOutcome::Done
            }
            Ok(MergeOutcome::NotYet { message, after }) => ErrandOutcome::PutOff {
                message: format!("pull request {}: {message}", request.number),
                retry_after_ms: u64::try_from(after.as_millis()).unwrap_or(u64::MAX),
            },
            Ok(MergeOutcome::Conflicts) => self.conflict_of(subject, order, request.number).await,
            Ok(MergeOutcome::Refused { message }) => {
                let message = format!("pull request {}: {message}", request.number);
                ErrandOutcome::Impossible { message, conflict: None }
            }
            Err(error) => outcome_of(&error),
        };
        Some(ErrandResult { outcome, request: Some(request) })
    }

    /// The forge reports a conflict without its files: git lists them.
    async fn conflict_of(&self, subject: &ErrandSubject, order: &PromoteOrder, number: u64) -> ErrandOutcome {
        match subject.mirror.conflict(&subject.base, &order.sha).await {
            Ok(Some(conflict)) => {
                let message = format!("pull request {number}: {conflict}");
                ErrandOutcome::Impossible { message, conflict: Some(conflict) }
            }
            Ok(None) => {
                let message = format!("pull request {number}: the forge reports a conflict with `{}`", subject.base);
                ErrandOutcome::Impossible { message, conflict: None }
            }
            Err(error) => failed(&error),
        }
    }

    /// Whether a merged branch is deleted, by the repository's setting or the factory's.
    pub(super) fn after_ship(&self, repo: &RepoName, product: &ProductId) -> AfterShip {
        match self.forges.config().settings(repo, product).delete_branch {
            Some(true) => AfterShip::DeleteBranch,
            Some(false) => AfterShip::KeepBranch,
            None => self.settings.after_ship,
        }
    }

    /// Comments the state of a job on its pull request. A failed comment delays nothing.
    pub(super) async fn say_on_request(
        &self,
        forge: &dyn Forge,
        number: u64,
        job: JobId,
        stage: StageName,
        text: &str,
    ) {
        if let Err(error) = forge.say(number, job, &status_comment(job, stage.as_str(), text)).await {
            warn!(job.id = %job, %error, "Could not comment on pull request {number} of job {}", self.titles.label(job));
        }
    }

    /// The branch of a job whose pull request was merged on the forge.
    pub(super) async fn end_shipped_branch(&self, order: &PollPullRequest) {
        let Ok((mirror, _)) = self.mirror(&order.repo) else { return };
        let after = self.after_ship(&order.repo, &order.product_id);
        if let Err(error) = mirror.end_branch(order.job_id, &order.sha, after).await {
            warn!(job.id = %order.job_id, %error, "Could not delete the merged branch of job {}", self.titles.label(order.job_id));
        }
    }

    /// A branch that remains is no reason to undo a merge.
    async fn end_branch(&self, subject: &ErrandSubject, order: &PromoteOrder) {
        let after = self.after_ship(subject.mirror.repo(), &subject.product);
        if let Err(error) = subject.mirror.end_branch(subject.job, &order.sha, after).await {
            warn!(job.id = %subject.job, %error, "Could not delete the merged branch of job {}", subject.job.titled(&subject.title));
        }
    }
}

/// The title of a job's pull request, in one line.
fn titled(pattern: &str, subject: &ErrandSubject) -> String {
    let title = pattern
        .replace("{id}", &subject.job.to_string())
        .replace("{repo}", subject.mirror.repo().as_str())
        .replace("{title}", &subject.title);
    domain::terminal_chars(&title).take(TITLE_CHARS_MAX).collect()
}

/// What an error of the forge means for the errand: a rate limit is awaited, the rest is retried.
fn outcome_of(error: &ForgeError) -> ErrandOutcome {
    match error {
        ForgeError::RateLimited { wait } => ErrandOutcome::PutOff {
            message: error.to_string(),
            retry_after_ms: u64::try_from(wait.as_millis()).unwrap_or(u64::MAX),
        },
        _ => ErrandOutcome::Failed { message: error.to_string() },
    }
}
