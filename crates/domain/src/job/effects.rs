//! Effects of a stage change: counters, run, checkpoint, and the event.

use serde_json::json;

use super::{HEADS_MAX, Job, PriorHolder};
use crate::event::EventKind;
use crate::ids::Generation;
use crate::lease::Lease;
use crate::merge_conflict::MergeConflict;
use crate::merge_failure::FailedErrand;
use crate::names::EngineName;
use crate::previous_run::{PreviousRun, RunEnd};
use crate::reason::FailureReason;
use crate::retry::RetryDecision;
use crate::run::{CommandStep, Run, RunInsights, RunOutcome};
use crate::stage::{BlockedOn, Completion, FailureDetails, KeepCheckpoint, OfferEnd, Stage, StageEvent, StageName};
use crate::time::Timestamp;
use crate::usage_window::UsageWindow;

impl Job {
    /// Updates counters, run, checkpoint and recorded commits.
    pub(super) fn follow(&mut self, event: &StageEvent, before: &PriorHolder, at: Timestamp) {
        use StageEvent as E;
        if let E::Restored { generation } = event {
            return self.revoke(*generation, before, at);
        }
        self.state.message = None;
        match event {
            E::Dispatched { dispatch } => self.state.dispatch_seq = dispatch.seq,
            E::DispatchExpired { why, .. } => {
                self.state.unaccepted += u32::from(*why == OfferEnd::Undelivered);
                if !matches!(why, OfferEnd::Withdrawn(_)) {
                    self.state.avoid = before.asked().cloned();
                }
                if let OfferEnd::Declined(reason) = why {
                    self.state.message = Some(reason.clone());
                }
            }
            E::Granted { lease } => {
                self.state.unaccepted = 0;
                // A seat of an earlier run is kept for a critical job until the deadline passes.
                self.state.preemption.take_if(|preemption| preemption.keep_until <= at);
                self.begin_run(lease);
            }
            E::Started { engine, .. } => self.start_run(engine, at),
            E::Checkpointed { checkpoint, .. } => self.state.checkpoint = Some(checkpoint.clone()),
            E::Completed { completion, .. } => {
                self.state.releases = 0;
                self.complete_run(completion, at);
            }
            E::Asked { question, account, .. } => self.park_run(question, account, at),
            E::QuotaHit { window, account, .. } => self.put_run_off(window, account, at),
            E::PreemptionRequested { preemption } => self.state.preemption = Some(preemption.clone()),
            E::Released { insights, .. } if before.preemption.is_some() => {
                if let Some(run) = &mut self.state.run {
                    run.insights = insights.clone();
                }
                self.preempt_run(at);
            }
            E::Released { message, insights, .. } => {
                // The first release may be a shutdown. A factory that releases twice in a row is avoided.
                if self.state.releases > 0 {
                    self.state.avoid = before.holder().cloned();
                }
                self.state.releases += 1;
                self.release_run(message.as_deref(), insights, at);
            }
            E::AttemptFailed { reason, account, verdict, .. } => {
                self.state.releases = 0;
                // A failure that is not retried does not count as an attempt [J5].
                let is_final = matches!(verdict, RetryDecision::Fail { .. });
                self.state.attempts += u32::from(reason.is_retryable() && !is_final);
                self.state.avoid = before.holder().cloned();
                self.fail_run(*reason, account, at);
            }
            E::Reaped { .. } => {
                self.state.lost_leases += 1;
                self.state.avoid = before.holder().cloned();
                self.remember_end(RunEnd::LeaseExpired);
                self.end_run(RunOutcome::LeaseLost, None, at);
            }
            E::Preempted { .. } => self.preempt_run(at),
            E::ErrandDone { .. } => self.errand_done(at),
            E::ErrandFailed { message, retry_at, conflict, .. } => {
                self.state.avoid = before.holder().cloned();
                self.state.failed_errand =
                    before.errand.map(|errand| FailedErrand { errand, message: message.clone(), conflicts_with: None });
                self.errand_failed(message, *retry_at, conflict.as_ref(), at);
            }
            E::ErrandPutOff { message, .. } => self.state.message = Some(message.clone()),
            E::ErrandExpired { .. } => self.state.avoid = before.asked().cloned(),
            E::Cancelled { message } => {
                self.state.message.clone_from(message);
                self.remember_decision(RunEnd::Cancelled { message: message.clone() });
                self.end_run(RunOutcome::Cancelled, message.clone(), at);
            }
            E::ChangesRequested { message } | E::Rejected { message } | E::Merged { message, .. } => {
                match event {
                    E::ChangesRequested { .. } => self.state.changes.clone_from(message),
                    E::Rejected { .. } => self.remember_decision(RunEnd::Rejected { message: message.clone() }),
                    _ => {}
                }
                self.state.message.clone_from(message);
                self.end_run(RunOutcome::Completed, None, at);
            }
            E::Requeued { checkpoint, message } => self.start_over(*checkpoint, message.as_deref()),
            E::ChildrenAdded { .. } => {
                self.state.has_children = true;
                self.state.awaits_children = true;
            }
            E::SubtaskAdded { subtask, .. } => {
                self.state.has_children = true;
                if !self.state.subtasks.contains(subtask) {
                    self.state.subtasks.push(*subtask);
                }
            }
            E::SubtasksAwaited { account, .. } => {
                self.state.awaits_subtasks = true;
                self.charge_run(account);
                self.remember_end(RunEnd::AwaitedSubtasks);
                self.end_run(RunOutcome::AwaitedSubtasks, None, at);
            }
            E::ChildrenShipped { .. } => self.state.failed_dependency = None,
            // The question is answered.
            E::Unblocked => {
                self.state.message = None;
                self.state.failed_dependency = None;
            }
            E::ShipRequested => {
                self.state.ship_after_rework = false;
                self.state.merge_failed = false;
                self.state.conflict = None;
                self.state.failed_errand = None;
            }
            E::QuestionExpired { message } => self.state.message = Some(message.clone()),
            E::DepFailed { .. }
            | E::ErrandGranted { .. }
            | E::Approved
            | E::ReviewRequested { .. }
            | E::Restored { .. } => {}
        }
        if self.errand().is_none() {
            self.state.request_text = None;
        }
        if self.state.stage.name().is_terminal() {
            // A requeue is the decision to let it run.
            self.state.pause = None;
        }
        self.state.awaits_subtasks &= matches!(self.state.stage, Stage::Blocked { on: BlockedOn::Deps });
    }

    /// Revokes leases and offers of the lost history. Counts neither an attempt nor a lost lease.
    fn revoke(&mut self, generation: Generation, before: &PriorHolder, at: Timestamp) {
        self.enter(generation);
        let is_at_work = matches!(self.state.stage.name(), StageName::Queued) && before.lease.is_some();
        if is_at_work {
            self.state.message = Some("the store was restored from a backup: the work starts again".to_owned());
            self.remember_end(RunEnd::Restored);
            self.end_run(RunOutcome::Restored, None, at);
        }
    }

    /// Adds the last metrics that a run reported before it was lost, so that its cost counts.
    #[must_use]
    pub fn with_usage(mut self, heard: RunInsights) -> Self {
        if let Some(run) = self.state.run.as_mut().filter(|run| run.outcome.is_none()) {
            run.insights = heard.at_least(&run.insights);
        }
        self
    }

    /// Stores the user's answer for the next run.
    #[must_use]
    pub fn with_answer(mut self, answer: &str) -> Self {
        if let Stage::Blocked { on: BlockedOn::Question(question) } = &self.state.stage {
            self.state.answer = Some(format!("Question: {question}\n\nAnswer: {answer}"));
        }
        self
    }

    fn begin_run(&mut self, lease: &Lease) {
        self.state.runs += 1;
        self.state.run = Some(Run {
            n: self.state.runs,
            epoch: lease.epoch,
            factory: lease.factory.clone(),
            engine: None,
            billing: None,
            granted_at: lease.granted_at,
            started_at: None,
            ended_at: None,
            outcome: None,
            message: None,
            sha: None,
            insights: RunInsights::default(),
            evidence: Vec::new(),
        });
    }

    fn start_run(&mut self, engine: &EngineName, at: Timestamp) {
        if let Some(run) = &mut self.state.run {
            run.engine = Some(engine.clone());
            run.started_at = Some(at);
        }
    }

    /// Ends the run with a question.
    fn park_run(&mut self, question: &str, account: &FailureDetails, at: Timestamp) {
        self.state.message = Some(question.to_owned());
        self.state.answer = None;
        self.charge_run(account);
        self.remember_end(RunEnd::Asked { question: question.to_owned() });
        self.end_run(RunOutcome::Asked, Some(question.to_owned()), at);
    }

    /// Ends the run because the usage window is exhausted. This is not a failure [B1].
    fn put_run_off(&mut self, window: &UsageWindow, account: &FailureDetails, at: Timestamp) {
        let message = account.message.clone().unwrap_or_else(|| window.to_string());
        self.state.message = Some(window.to_string());
        self.state.releases += 1;
        self.charge_run(account);
        self.remember_end(match window.exhausted {
            true => RunEnd::CreditExhausted,
            false => RunEnd::QuotaExhausted { message: window.limit() },
        });
        self.end_run(RunOutcome::QuotaWindow, Some(message), at);
    }

    fn release_run(&mut self, message: Option<&str>, insights: &RunInsights, at: Timestamp) {
        if let Some(run) = &mut self.state.run {
            run.insights = insights.clone().at_least(&run.insights);
        }
        self.state.message = message.map(str::to_owned);
        self.remember_end(RunEnd::Released { message: message.map(str::to_owned) });
        self.end_run(RunOutcome::Released, message.map(str::to_owned), at);
    }

    fn preempt_run(&mut self, at: Timestamp) {
        self.remember_end(RunEnd::Preempted);
        self.end_run(RunOutcome::Preempted, None, at);
    }

    /// Completes the work. The run ends once the branch points at the commit [J6].
    fn complete_run(&mut self, completion: &Completion, at: Timestamp) {
        if let Some(run) = &mut self.state.run {
            run.outcome = Some(RunOutcome::Completed);
            run.sha.clone_from(&completion.sha);
            run.insights = completion.insights.clone().at_least(&run.insights);
            run.evidence.clone_from(&completion.evidence);
            run.message.clone_from(&completion.message);
        }
        self.remember_end(RunEnd::Completed);
        self.state.completed.clone_from(&completion.sha);
        self.state.completed_epoch = self.state.run.as_ref().map(|run| run.epoch);
        self.state.completed_by = self.state.run.as_ref().map(|run| run.factory.clone());
        self.state.request_text.clone_from(&completion.request_text);
        self.state.votes.clear();
        self.state.changes = None;
        self.state.answer = None;
        self.state.operator_message = None;
        self.state.merge_failed = false;
        self.state.conflict = None;
        self.state.failed_errand = None;
        let ran = completion.evidence.iter().any(|one| one.step == CommandStep::Verify);
        self.state.verified = Some(!self.submission.spec.verify.is_empty() && ran);
        if let Some(checkpoint) = &completion.checkpoint {
            self.state.checkpoint = Some(checkpoint.clone());
        }
        match &completion.sha {
            Some(sha) => {
                self.state.heads.retain(|head| head != sha);
                self.state.heads.push(sha.clone());
                let surplus = self.state.heads.len().saturating_sub(HEADS_MAX);
                self.state.heads.drain(..surplus);
            }
            None => self.end_run(RunOutcome::Completed, None, at),
        }
    }

    fn fail_run(&mut self, reason: FailureReason, account: &FailureDetails, at: Timestamp) {
        self.state.message.clone_from(&account.message);
        self.charge_run(account);
        self.remember_end(RunEnd::of_failure(reason, account));
        self.end_run(RunOutcome::Failed(reason), account.message.clone(), at);
    }

    /// Adds the run's cost, whatever its outcome.
    fn charge_run(&mut self, account: &FailureDetails) {
        if let Some(run) = &mut self.state.run {
            run.insights = account.insights.clone().at_least(&run.insights);
            run.evidence.clone_from(&account.evidence);
        }
    }

    fn errand_done(&mut self, at: Timestamp) {
        self.state.failed_errand = None;
        if self.state.stage.name() != StageName::Shipped && self.state.promoted != self.state.completed {
            self.state.promoted.clone_from(&self.state.completed);
        }
        self.end_run(RunOutcome::Completed, None, at);
    }

    fn errand_failed(
        &mut self,
        message: &str,
        retry_at: Option<Timestamp>,
        conflict: Option<&MergeConflict>,
        at: Timestamp,
    ) {
        self.state.message = Some(message.to_owned());
        self.state.merge_failed = retry_at.is_none();
        self.state.conflict = conflict.cloned();
        if retry_at.is_none() {
            // The job has ended, although the branch was not updated.
            self.end_run(RunOutcome::Completed, None, at);
        }
    }

    fn end_run(&mut self, outcome: RunOutcome, message: Option<String>, at: Timestamp) {
        if let Some(mut run) = self.state.run.take() {
            // A completed run keeps its outcome, whatever happens to the job during promotion.
            run.outcome.get_or_insert(outcome);
            run.message = run.message.or(message);
            run.ended_at = Some(at);
            self.state.spent.add(&run);
            self.fresh_runs.push(run);
        }
    }

    /// Records for the next run's agent how this run ended. Skips runs whose engine did not start.
    fn remember_end(&mut self, end: RunEnd) {
        let Some(run) = &self.state.run else { return };
        if run.started_at.is_none() && !end.implies_engine() {
            return;
        }
        let (n, factory, engine) = (run.n, run.factory.clone(), run.engine.clone());
        self.state.previous_run = Some(PreviousRun { n, factory, engine, end, work_discarded: false });
    }

    /// Records an operator's decision about the current run or the completed work.
    fn remember_decision(&mut self, end: RunEnd) {
        match &mut self.state.previous_run {
            Some(previous) if previous.end == RunEnd::Completed => previous.end = end,
            _ => self.remember_end(end),
        }
    }

    /// Discards saved work and its merge conflict: the next run starts from the base branch.
    pub(super) fn discard_work(&mut self) {
        self.state.checkpoint = None;
        self.state.conflict = None;
        if let Some(previous) = &mut self.state.previous_run {
            previous.work_discarded = true;
        }
        self.shape = self.shape().key();
    }

    fn start_over(&mut self, checkpoint: KeepCheckpoint, message: Option<&str>) {
        self.state.attempts = 0;
        self.state.lost_leases = 0;
        self.state.unaccepted = 0;
        self.state.releases = 0;
        self.state.forgiven = self.state.spent;
        self.state.forgiven_subtasks = u32::try_from(self.state.subtasks.len()).unwrap_or(u32::MAX);
        self.state.avoid = None;
        // A maintainer may have deleted the branch after the failure.
        self.state.promoted = None;
        self.state.failed_errand = None;
        self.state.dismissed = false;
        self.state.feedback.begin_again();
        self.state.conflict_rounds = 0;
        self.state.ship_after_rework = false;
        if let Some(message) = message {
            self.state.operator_message = Some(message.to_owned());
        }
        if checkpoint == KeepCheckpoint::Drop {
            self.discard_work();
        }
    }

    /// Builds the event that records the change.
    pub(super) fn describe(&self, event: &StageEvent, before: &PriorHolder) -> (EventKind, serde_json::Value) {
        use StageEvent as E;
        let none = serde_json::Value::Null;
        match event {
            E::Unblocked if before.awaited_subtasks => {
                (EventKind::Unblocked, json!({ "subtasks": self.state.subtasks.len() }))
            }
            E::Unblocked => match &self.state.answer {
                Some(answer) => (EventKind::Unblocked, json!({ "answer": answer })),
                None => (EventKind::Unblocked, none),
            },
            E::DepFailed { dep } => (EventKind::Failed, json!({ "reason": "dep_failed", "dep": dep })),
            E::ChildrenAdded { count } => (EventKind::ChildrenAdded, json!({ "count": count })),
            E::SubtaskAdded { subtask, title, .. } => {
                (EventKind::ChildrenAdded, json!({ "count": 1, "subtaskId": subtask, "message": title }))
            }
            E::SubtasksAwaited { .. } => (EventKind::SubtasksAwaited, json!({ "count": self.state.subtasks.len() })),
            E::ChildrenShipped { count } => (EventKind::Shipped, json!({ "children": count })),
            E::Dispatched { dispatch } => (
                EventKind::Dispatched,
                json!({ "dispatchSeq": dispatch.seq, "targetFactoryId": dispatch.target, "acceptBy": dispatch.accept_by, "score": dispatch.score }),
            ),
            E::DispatchExpired { seq, why, .. } => {
                let mut data = json!({ "dispatchSeq": seq, "unaccepted": self.state.unaccepted, "targetFactoryId": before.asked() });
                let kind = match why {
                    OfferEnd::Undelivered | OfferEnd::Unanswered => EventKind::DispatchExpired,
                    OfferEnd::Withdrawn(reason) => {
                        data["message"] = json!(reason);
                        EventKind::DispatchExpired
                    }
                    OfferEnd::Declined(reason) => {
                        data["message"] = json!(reason);
                        EventKind::DispatchDeclined
                    }
                };
                (self.unless_dead(kind), data)
            }
            E::Granted { lease } => (
                EventKind::Granted,
                json!({ "factoryId": lease.factory, "dispatchSeq": lease.seq, "run": self.state.runs }),
            ),
            E::Started { engine, .. } => (EventKind::Started, json!({ "engine": engine })),
            E::Checkpointed { checkpoint, .. } => (EventKind::Checkpointed, json!(checkpoint)),
            E::Completed { completion, .. } => {
                let verified = self.state.verified;
                (
                    EventKind::Completed,
                    json!({ "sha": completion.sha, "insights": completion.insights, "verified": verified }),
                )
            }
            E::Asked { question, .. } => (EventKind::Asked, json!({ "question": question })),
            E::QuotaHit { window, account, .. } => {
                let data = json!({ "engine": window.engine, "window": window.window, "until": window.until, "message": account.message, "insights": account.insights });
                (EventKind::QuotaHit, data)
            }
            E::PreemptionRequested { preemption } => (
                EventKind::PreemptionRequested,
                json!({ "factoryId": preemption.factory, "forJobId": preemption.for_job, "until": preemption.until }),
            ),
            E::Released { .. } if let Some(preemption) = &before.preemption => {
                (EventKind::Preempted, json!({ "factoryId": before.holder(), "forJobId": preemption.for_job }))
            }
            E::Released { message, not_before: None, .. } => (EventKind::Released, json!({ "message": message })),
            E::Released { message, not_before, .. } => {
                (EventKind::Released, json!({ "message": message, "notBefore": not_before }))
            }
            E::AttemptFailed { reason, account, verdict, .. } => {
                let kind = match verdict {
                    RetryDecision::Retry { .. } => EventKind::AttemptFailed,
                    RetryDecision::Fail { .. } => EventKind::Failed,
                    RetryDecision::DeadLetter { .. } => EventKind::DeadLettered,
                };
                (
                    kind,
                    json!({ "reason": reason, "message": account.message, "attempts": self.state.attempts, "notBefore": self.not_before() }),
                )
            }
            E::Reaped { .. } => {
                let kind = self.unless_dead(EventKind::Reaped);
                (kind, json!({ "factoryId": before.holder(), "lostLeases": self.state.lost_leases }))
            }
            E::Preempted { .. } => {
                let mut data = json!({ "factoryId": before.holder(), "revoked": true });
                if let Some(preemption) = &before.preemption {
                    data["forJobId"] = json!(preemption.for_job);
                }
                (EventKind::Preempted, data)
            }
            E::ErrandGranted { lease, .. } => {
                let errand = self.errand().map(|errand| errand.kind);
                (EventKind::ErrandGranted, json!({ "errand": errand, "factoryId": lease.factory }))
            }
            E::ErrandDone { .. } if self.state.stage.name() == StageName::Shipped => {
                (EventKind::Shipped, json!({ "sha": self.state.completed }))
            }
            E::ErrandDone { .. } => match &self.state.pull_request {
                Some(request) => (EventKind::Promoted, json!({ "sha": self.state.promoted, "pullRequest": request })),
                None => (EventKind::Promoted, json!({ "sha": self.state.promoted })),
            },
            E::ErrandFailed { message, retry_at, conflict: None, .. } => {
                (EventKind::ErrandFailed, json!({ "errand": before.errand, "message": message, "notBefore": retry_at }))
            }
            E::ErrandFailed { message, retry_at, conflict, .. } => (
                EventKind::ErrandFailed,
                json!({ "errand": before.errand, "message": message, "notBefore": retry_at, "conflict": conflict }),
            ),
            E::ErrandPutOff { message, retry_at, .. } => {
                (EventKind::ErrandPutOff, json!({ "errand": before.errand, "message": message, "notBefore": retry_at }))
            }
            E::ErrandExpired { message, .. } => {
                (EventKind::ErrandFailed, json!({ "errand": before.errand, "message": message }))
            }
            E::ShipRequested if self.state.stage.name() == StageName::Shipped => (EventKind::Shipped, none),
            E::ShipRequested => (EventKind::ShipRequested, json!({ "sha": self.state.completed })),
            E::Merged { merge, message } => {
                (EventKind::Shipped, json!({ "sha": self.state.completed, "merge": merge, "message": message }))
            }
            E::ReviewRequested { ballot, message } => (
                EventKind::ReviewRequested,
                json!({ "quorum": ballot.quorum, "reviewers": ballot.reviewers, "message": message }),
            ),
            E::QuestionExpired { message } => {
                (EventKind::Failed, json!({ "reason": FailureReason::Timeout, "message": message }))
            }
            E::Approved => (EventKind::Approved, none),
            E::ChangesRequested { message } => (EventKind::ChangesRequested, json!({ "message": message })),
            E::Rejected { message } => (EventKind::Rejected, json!({ "message": message })),
            E::Cancelled { message } => (EventKind::Cancelled, json!({ "message": message })),
            E::Requeued { message: None, checkpoint: KeepCheckpoint::Keep } => (EventKind::Requeued, none),
            E::Requeued { message, checkpoint } => {
                (EventKind::Requeued, json!({ "message": message, "fresh": *checkpoint == KeepCheckpoint::Drop }))
            }
            E::Restored { generation } => {
                (EventKind::Restored, json!({ "generation": generation, "factoryId": before.asked() }))
            }
        }
    }

    fn unless_dead(&self, kind: EventKind) -> EventKind {
        if self.state.stage.name() == StageName::DeadLetter { EventKind::DeadLettered } else { kind }
    }
}
