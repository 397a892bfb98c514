//! Subtasks that the agent of a run creates [B11]: children within what is left of the parent's budget.
//!
//! The parent is written first, under the epoch of its lease; then the subtask, whose id follows from its key. A crash
//! in between costs nothing: what is reserved is the budget of the subtasks that exist.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use domain::{
    Budget, Epoch, FailureDetails, Holder, Job, JobId, RunInsights, SUBTASKS_MAX, StageEvent, TREE_JOBS_MAX, TokenId,
    TokenScope, TotalSpend, TreePlace, clean_line,
};
use fail::fail_point;
use protocol::{
    NewSubtask, SUBTASK_INSTRUCTIONS_LEN_MAX, SUBTASK_KEY_LEN_MAX, SUBTASK_TITLE_CHARS_MAX, StageResponse,
    SubmitRequest, SubtaskBudget, SubtaskList, SubtaskRequest, SubtaskResponse, SubtaskView, SubtaskWaitReport,
};
use tracing::info;

use super::grow::too_deep;
use super::subtask_manifest::manifest_of;
use crate::commit::Decision;
use crate::coordinator::Coordinator;
use crate::error::Error;
use crate::fleet::principal::Principal;
use crate::submit::sanitize::{check, check_insights};
use crate::submit::validate::digest;
use crate::submit::{SubmitOutcome, invalid};

/// Amounts are reserved in millionths of a dollar, rounded down.
const USD_UNITS: f64 = 1e6;

/// What the subtasks of a job have cost or have reserved of its budget.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct SubtaskSpending {
    usd: f64,
    tokens: u64,
}

impl SubtaskSpending {
    /// The spending of a job with its subtasks.
    pub(crate) fn added_to(self, spent: TotalSpend) -> TotalSpend {
        let usd = if self.usd > 0.0 { Some(spent.cost_usd.unwrap_or(0.0) + self.usd) } else { spent.cost_usd };
        let tokens =
            if self.tokens > 0 { Some(spent.tokens.unwrap_or(0).saturating_add(self.tokens)) } else { spent.tokens };
        TotalSpend { cost_usd: usd, tokens, ..spent }
    }
}

/// Whether the agent of a job may create subtasks: not on the last level of a tree.
pub(crate) fn may_create_subtasks(job: &Job) -> bool {
    TreePlace::below(job.id(), job.tree()).is_some() && job.subtasks().len() < SUBTASKS_MAX
}

impl Coordinator {
    /// Creates a subtask for the agent of a holder, once: the same key returns the same subtask.
    pub async fn create_subtask(
        &self,
        who: &Principal,
        id: JobId,
        request: &SubtaskRequest,
    ) -> Result<SubtaskResponse, Error> {
        let holder = self.holder(who, id, request.lease_epoch).await?;
        check_insights(&request.insights)?;
        let subtask = &request.subtask;
        check_subtask(subtask)?;
        // One at a time: it counts what is reserved before it reserves more.
        let mut turn = self.trees.turn().await;
        let parent = self.held(id, &holder).await?;
        let key = key_of(id, subtask);
        let child = JobId::derived(parent.product(), &key);
        let place = TreePlace::below(id, parent.tree()).ok_or_else(|| invalid("subtask", too_deep()))?;
        let existing = self.find_subtask(child).await?;
        let budget = match &existing {
            Some(existing) => existing.spec().budget.clone(),
            None => self.grant_budget(&parent, request).await?,
        };
        let submit = SubmitRequest {
            body_md: manifest_of(&parent, subtask, &budget),
            idempotency_key: Some(key.clone()),
            product_id: Some(parent.product().clone()),
            ..SubmitRequest::default()
        };
        if let Some(existing) = existing.filter(|existing| existing.submission().body_sha256 != digest(&submit.body_md))
        {
            return Err(Error::IdempotencyConflict { key, job: existing.id() });
        }
        let valid = self.validate_subtask(&on_behalf_of(&parent), submit, place).await?;
        if !parent.subtasks().contains(&child) {
            self.check_room(&parent, place).await?;
            turn.hold([id]);
            let title = clean_line(&subtask.title);
            let added = self.amend(id, |job| {
                let (holder, title) = (holder.clone(), title.clone());
                let event = StageEvent::SubtaskAdded { holder, subtask: child, title };
                job.apply(event, self.now(), who.actor()).map(Decision::Write)
            });
            added.await?;
        }
        fail_point!("subtask::parent_written");
        let outcome = self.submit_valid(valid).await;
        self.settle(turn.end()).await;
        let SubmitOutcome { job, created, .. } = outcome?;
        if created {
            info!(job.id = %child, parent.id = %id, by = %who.name, "The agent of job {} created subtask {}", parent.label(), job.value.label());
        }
        if let Some(cancelled) = self.cancelled_ancestor(child).await? {
            // Cancelled meanwhile: the cancellation did not find the subtask.
            self.cancel_below(&self.look_up(cancelled).await?.value).await;
        }
        let parent = self.look_up(id).await?.value;
        let left = self.budget_left(&parent, &request.insights).await?;
        let (usd, tokens) = (budget.usd, budget.tokens);
        Ok(SubtaskResponse { id: child, stage: job.value.stage().name(), created, usd, tokens, left })
    }

    /// The subtasks of a held job.
    pub async fn subtasks(&self, who: &Principal, id: JobId, epoch: Epoch) -> Result<SubtaskList, Error> {
        let holder = self.holder(who, id, epoch).await?;
        let parent = self.held(id, &holder).await?;
        let mut items = Vec::with_capacity(parent.subtasks().len());
        for subtask in parent.subtasks() {
            // Without one its creation was not finished.
            let Some(job) = self.find_subtask(*subtask).await? else { continue };
            items.push(SubtaskView {
                id: job.id(),
                title: job.spec().title.clone(),
                stage: job.stage().name(),
                settled: job.is_settled(),
                commit: job.completed().cloned(),
                summary: self.child_summary(&job).await?,
                spent: job.spent(),
            });
        }
        let left = self.budget_left(&parent, &RunInsights::default()).await?;
        Ok(SubtaskList { items, left })
    }

    /// The agent of a holder waits for its subtasks: the run ends, and the job waits without a seat.
    pub async fn await_subtasks(
        &self,
        who: &Principal,
        id: JobId,
        request: &SubtaskWaitReport,
    ) -> Result<StageResponse, Error> {
        let holder = self.holder(who, id, request.lease_epoch).await?;
        check_insights(&request.insights)?;
        request.checkpoint.as_ref().map_or(Ok(()), check)?;
        let account = FailureDetails { insights: request.insights.clone(), ..FailureDetails::default() };
        let parked = self
            .move_on(id, |job, now| {
                let job = self.with_checkpoint(job, &holder, request.checkpoint.as_ref(), now, who)?;
                let (holder, account) = (holder.clone(), account.clone());
                job.apply(StageEvent::SubtasksAwaited { holder, account }, now, who.actor()).map(Decision::Write)
            })
            .await?;
        fail_point!("subtask::awaited");
        // They may have ended before the run did.
        self.settle(vec![id]).await;
        Ok(parked)
    }

    /// Moves the parent of a subtask on that needs no run any more. Idempotent; the sweep does the same.
    pub(crate) async fn settle_parent_of_subtask(&self, job: &Job) {
        if !job.is_settled() {
            return;
        }
        let Some(parent) = job.parent() else { return };
        let is_awaiting = self.state.lock().job(parent).is_some_and(|parent| parent.value.awaits_subtasks());
        if is_awaiting {
            self.settle(vec![parent]).await;
        }
    }

    /// What the subtasks of a job have cost or have reserved. An open one counts with its whole budget, and so does one
    /// whose cost is not known.
    pub(crate) async fn subtask_spending(&self, job: &Job) -> Result<SubtaskSpending, Error> {
        if job.subtasks().is_empty() {
            return Ok(SubtaskSpending::default());
        }
        let below = self.jobs_below(job).await?;
        let mut children: HashMap<JobId, Vec<&Arc<Job>>> = HashMap::new();
        for job in &below {
            if let Some(parent) = job.parent() {
                children.entry(parent).or_default().push(job);
            }
        }
        let its = below.iter().filter(|child| job.subtasks().contains(&child.id()));
        Ok(its.fold(SubtaskSpending::default(), |sum, subtask| {
            let (used, is_over) = subtree_spending(subtask, &children);
            if is_over && job.forgives_subtask(subtask.id()) {
                return sum;
            }
            let budget = &subtask.spec().budget;
            let (usd, tokens) = (used.cost_usd.unwrap_or(0.0), used.tokens.unwrap_or(0));
            let usd_at_least = budget.usd.filter(|_| !is_over || used.runs_without_cost > 0).unwrap_or(0.0);
            let tokens_at_least = budget.tokens.filter(|_| !is_over || used.runs_without_tokens > 0).unwrap_or(0);
            SubtaskSpending {
                usd: sum.usd + usd.max(usd_at_least),
                tokens: sum.tokens.saturating_add(tokens.max(tokens_at_least)),
            }
        }))
    }

    /// The budget of a new subtask: what its agent wants, and what is left at most.
    async fn grant_budget(&self, parent: &Job, request: &SubtaskRequest) -> Result<Budget, Error> {
        let left = self.budget_left(parent, &request.insights).await?;
        let usd = match (left.usd, request.subtask.usd) {
            (None, wanted) => wanted,
            (Some(left), _) if left <= 0.0 => {
                return Err(invalid("usd", "nothing is left of the job's budget".to_owned()));
            }
            (Some(left), Some(wanted)) => Some(wanted.min(left)),
            (Some(left), None) => {
                let left = domain::dollars(left);
                return Err(invalid(
                    "usd",
                    format!("{left} of the job's budget is left: name the part of the subtask"),
                ));
            }
        };
        let tokens = match (left.tokens, request.subtask.tokens) {
            (None, wanted) => wanted,
            (Some(0), _) => return Err(invalid("tokens", "nothing is left of the job's budget".to_owned())),
            (Some(left), Some(wanted)) => Some(wanted.min(left)),
            (Some(left), None) => {
                return Err(invalid(
                    "tokens",
                    format!("{left} tokens of the job's budget are left: name the part of the subtask"),
                ));
            }
        };
        Ok(Budget { usd: usd.map(rounded_down), tokens, wall_ms: parent.spec().budget.wall_ms })
    }

    /// What is left of a running job's budget.
    async fn budget_left(&self, job: &Job, heard: &RunInsights) -> Result<SubtaskBudget, Error> {
        let spent = self.subtask_spending(job).await?.added_to(job.spent_of_budget());
        let known = job.run().map(|run| run.insights.clone()).unwrap_or_default();
        let run = heard.clone().at_least(&known);
        let budget = &job.spec().budget;
        let used = run.tokens_in.unwrap_or(0).saturating_add(run.tokens_out.unwrap_or(0));
        let usd = |max: f64| (max - spent.cost_usd.unwrap_or(0.0) - run.cost_usd.unwrap_or(0.0)).max(0.0);
        let tokens = |max: u64| max.saturating_sub(spent.tokens.unwrap_or(0)).saturating_sub(used);
        let more = SUBTASKS_MAX.saturating_sub(job.subtasks().len());
        Ok(SubtaskBudget {
            usd: budget.usd.map(usd).map(rounded_down),
            tokens: budget.tokens.map(tokens),
            subtasks: u32::try_from(more).unwrap_or(u32::MAX),
        })
    }

    /// Whether a job may have one more subtask.
    async fn check_room(&self, parent: &Job, place: TreePlace) -> Result<(), Error> {
        if parent.subtasks().len() >= SUBTASKS_MAX {
            return Err(invalid("subtask", format!("a job has {SUBTASKS_MAX} subtasks at most")));
        }
        let stored = self.ports.jobs.tree(place.root_id).await?;
        let known: BTreeSet<JobId> = stored.iter().map(|job| job.value.id()).collect();
        // Its root is not among them, and the new one is not either.
        if known.len() + 2 > TREE_JOBS_MAX {
            return Err(invalid("subtask", format!("a tree has {TREE_JOBS_MAX} jobs at most")));
        }
        Ok(())
    }

    /// The job as its holder holds it.
    async fn held(&self, id: JobId, holder: &Holder) -> Result<Arc<Job>, Error> {
        let job = self.amend(id, |job| job.require_holder(holder).map(|()| Decision::Keep)).await?;
        Ok(job.value)
    }

    async fn find_subtask(&self, id: JobId) -> Result<Option<Arc<Job>>, Error> {
        match self.look_up(id).await {
            Ok(job) => Ok(Some(job.value)),
            Err(Error::NoSuchJob(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// What a job and those below it have spent, and whether all of them have ended.
fn subtree_spending(job: &Job, children: &HashMap<JobId, Vec<&Arc<Job>>>) -> (TotalSpend, bool) {
    let (mut spent, mut is_over) = (vec![job.spent()], job.stage().name().is_terminal());
    let mut next = vec![job.id()];
    while let Some(parent) = next.pop() {
        for child in children.get(&parent).into_iter().flatten() {
            spent.push(child.spent());
            is_over &= child.stage().name().is_terminal();
            next.push(child.id());
        }
    }
    (spent.into_iter().sum(), is_over)
}

/// The submitter of a subtask is that of its parent: people do not review the work of their own agents.
fn on_behalf_of(parent: &Job) -> Principal {
    let submission = parent.submission();
    Principal {
        token: TokenId::from_bytes([0; 16]),
        name: submission.by.clone(),
        owner: submission.owner.clone(),
        grant: TokenScope::Operator { products: BTreeSet::from([parent.product().clone()]) },
        session: None,
    }
}

/// The idempotency key of a subtask.
fn key_of(parent: JobId, subtask: &NewSubtask) -> String {
    let key = subtask.key.clone().unwrap_or_else(|| {
        let text = digest(&format!("{}\n{}", subtask.title, subtask.instructions));
        text.chars().take(SUBTASK_KEY_LEN_MAX).collect()
    });
    format!("subtask-of-{parent}:{key}")
}

fn check_subtask(subtask: &NewSubtask) -> Result<(), Error> {
    let title = clean_line(&subtask.title);
    if !(1..=SUBTASK_TITLE_CHARS_MAX).contains(&title.trim().chars().count()) {
        return Err(invalid("title", format!("one line of 1 to {SUBTASK_TITLE_CHARS_MAX} characters")));
    }
    if subtask.instructions.trim().is_empty() || subtask.instructions.len() > SUBTASK_INSTRUCTIONS_LEN_MAX {
        return Err(invalid("instructions", format!("1 to {SUBTASK_INSTRUCTIONS_LEN_MAX} bytes")));
    }
    if subtask.usd.is_some_and(|usd| !usd.is_finite() || usd <= 0.0) {
        return Err(invalid("usd", "more than 0".to_owned()));
    }
    if subtask.tokens == Some(0) {
        return Err(invalid("tokens", "more than 0".to_owned()));
    }
    match &subtask.key {
        Some(key) if key.is_empty() || key.len() > SUBTASK_KEY_LEN_MAX => {
            Err(invalid("key", format!("1 to {SUBTASK_KEY_LEN_MAX} bytes")))
        }
        _ => Ok(()),
    }
}

fn rounded_down(usd: f64) -> f64 {
    (usd * USD_UNITS).floor() / USD_UNITS
}
