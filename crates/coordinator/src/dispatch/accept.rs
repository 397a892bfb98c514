//! Accept: a factory takes an offer. Idempotent per nonce, and every precondition is checked again [I6].

use domain::{
    Epoch, ErrandState, FactoryId, Job, JobId, Lease, MessageId, OfferEnd, Refusal, ReservationKey, Stage, StageEvent,
};
use fail::fail_point;
use protocol::{AcceptRequest, AcceptResponse, Assignment, PromoteOrder};
use tracing::{info, warn};

use crate::commit::Decision;
use crate::coordinator::Coordinator;
use crate::error::Error;
use crate::fleet::principal::Principal;
use crate::state::leases::Process;
use crate::submit::deps::DepsVerdict;
use crate::work::trees::subtasks::{SubtaskSpending, may_create_subtasks};

impl Coordinator {
    /// Grants the offer to its target. The same nonce returns the same answer.
    pub async fn accept(&self, who: &Principal, request: &AcceptRequest) -> Result<AcceptResponse, Error> {
        let factory = who.factory()?.clone();
        if request.factory_id.as_ref().is_some_and(|given| *given != factory) {
            return Err(Error::Forbidden(format!("the token is factory `{factory}`'s")));
        }
        self.lead()?;
        let granted = self.grant(who, request).await;
        // A decided answer completes the message; without one it is delivered again (protocol 6).
        if !matches!(granted, Err(Error::Store(_) | Error::Broker(_) | Error::Contended(_))) {
            let message = MessageId::of_offer(request.job_id, request.dispatch_seq);
            self.inboxes.settle(&factory, message);
            self.inboxes.complete_ended(&factory).await;
        }
        granted
    }

    async fn grant(&self, who: &Principal, request: &AcceptRequest) -> Result<AcceptResponse, Error> {
        let factory = who.factory()?;
        let job = self.workable(who, request.job_id).await?;
        let process = self.process(factory, request.instance)?;
        let _seat = match self.check_can_start(&process, &job.value, request).await {
            Err(error) => return Err(self.without_offer(&job.value, request, factory, error).await),
            seat => seat?,
        };
        let money = match self.reserve_for(&job.value, &process, request).await {
            Err(error) => return Err(self.without_offer(&job.value, request, factory, error).await),
            money => money?,
        };
        fail_point!("accept::checked");
        let now = self.now();
        let until = now.after(self.settings.errand_within);
        let actor = who.actor();
        let granted = self
            .amend(request.job_id, |job| {
                if is_answered(&job, &process, request) {
                    return Ok(Decision::Keep);
                }
                let is_run = matches!(job.stage(), Stage::Queued { .. });
                if is_run && job.pause().is_some() {
                    return Err(Refusal::JobPaused(job.id()));
                }
                if is_run && money.is_none() && self.state.lock().has_ceiling(job.product()) {
                    // Memory was behind: without a reservation nothing is granted (row 17).
                    return Err(Refusal::SupersededDispatch { shown: request.dispatch_seq, current: None });
                }
                let lease = Lease {
                    factory: factory.clone(),
                    instance: request.instance,
                    epoch: job.epoch().next(),
                    nonce: request.claim_nonce,
                    seq: request.dispatch_seq,
                    granted_at: now,
                };
                let granted = match job.stage() {
                    Stage::Review { .. } | Stage::Testing { .. } => StageEvent::ErrandGranted { lease, until },
                    _ => StageEvent::Granted { lease },
                };
                job.apply(granted, now, actor.clone()).map(Decision::Write)
            })
            .await;
        if let (Some(key), Err(Error::Refused(_))) = (money, &granted) {
            self.return_money(job.value.product(), key).await;
        }
        let granted = granted?;
        fail_point!("accept::committed");
        let epoch = granted.value.epoch();
        self.note_accepted(factory);
        self.count_from_now(&process, request.job_id, epoch);
        info!(job.id = %request.job_id, lease.epoch = %epoch, factory.id = %factory, "Granted job {} to factory `{factory}`", granted.value.label());
        let assignment = self.assignment(&granted.value).await?;
        let lease_ttl_ms = u64::try_from(self.settings.lease_ttl.as_millis()).unwrap_or(u64::MAX);
        Ok(AcceptResponse { lease_ttl_ms, lease_epoch: epoch, assignment })
    }

    /// Reserves the money of the run that this request would begin (row 17).
    async fn reserve_for(
        &self,
        job: &Job,
        process: &Process,
        request: &AcceptRequest,
    ) -> Result<Option<ReservationKey>, Error> {
        let offer = job.dispatch().filter(|_| matches!(job.stage(), Stage::Queued { .. }));
        let is_its = offer.is_some_and(|offer| offer.seq == request.dispatch_seq && offer.target == process.factory);
        if is_its { self.reserve_money(job, request.dispatch_seq).await } else { Ok(None) }
    }

    /// Withdraws the offer of a job that may not start: it or its product is paused, or that waits for money. The job stays queued,
    /// no attempt is counted, and no factory is at fault.
    async fn without_offer(&self, job: &Job, request: &AcceptRequest, factory: &FactoryId, error: Error) -> Error {
        let (is_paused, paused_job) = {
            let state = self.state.lock();
            (state.is_paused(job.product()), state.paused_by(job))
        };
        let is_stopped = is_paused || paused_job.is_some() || matches!(error, Error::OutOfMoney(_));
        let offer = job.dispatch().filter(|offer| offer.seq == request.dispatch_seq && offer.target == *factory);
        if !is_stopped || offer.is_none() || !matches!(job.stage(), Stage::Queued { .. }) {
            return error;
        }
        let why = match (is_paused, paused_job) {
            (true, _) => format!("product `{}` is paused", job.product()),
            (false, Some((paused, _))) => format!("job {} is paused", paused.short()),
            (false, None) => format!("product `{}` waits for money", job.product()),
        };
        if let Err(error) = self.withdraw_offer(job.id(), request.dispatch_seq, OfferEnd::Withdrawn(why)).await {
            warn!(job.id = %job.id(), %error, "Could not withdraw the offer of job {}, its deadline does it", job.label());
        }
        error
    }

    /// Extends the lease of a repeated answer from now, as the factory that repeated its request does (row 5).
    fn count_from_now(&self, process: &Process, job: JobId, epoch: Epoch) {
        let expires = self.ports.clock.monotonic() + self.settings.lease_ttl;
        self.state.lock().renew_lease(job, epoch, process, expires);
    }

    /// Checks what may have changed since the offer: process, drain, pause, credentials, seats, dependencies (rows 6,
    /// 16, 17, 20). Reserves a seat until the grant is decided.
    async fn check_can_start<'a>(
        &'a self,
        process: &Process,
        job: &Job,
        request: &AcceptRequest,
    ) -> Result<Option<ReservedSeat<'a>>, Error> {
        if is_answered(job, process, request) {
            return Ok(None);
        }
        let factory = &process.factory;
        let seat = {
            let mut state = self.state.lock();
            let Some(known) = state.factory(factory) else { return Err(Error::NoSuchFactory(factory.clone())) };
            if known.value.instance != request.instance {
                return Err(Error::Refused(Refusal::NotHolder { factory: factory.clone() }));
            }
            if known.value.draining {
                return Err(Error::NotReady(format!("factory `{factory}` is draining")));
            }
            // A promotion or a merge uses no seat, and its run has already ended.
            if job.errand().is_some() {
                return Ok(None);
            }
            if state.is_paused(job.product()) {
                return Err(Error::NotReady(format!("product `{}` is paused", job.product())));
            }
            if let Some((paused, _)) = state.paused_by(job) {
                return Err(Error::NotReady(format!("job {} is paused", paused.short())));
            }
            let seats = known.value.seat_limit;
            if let Some(rest) = state.unavailability_of(job, factory) {
                return Err(Error::NotReady(format!("factory `{factory}` cannot run it: {rest}")));
            }
            if !state.begin_grant(request.job_id, process) {
                return Err(Error::NotReady(format!(
                    "factory `{factory}` has no free seat (it has {})",
                    domain::counted(seats, "seat")
                )));
            }
            ReservedSeat { coordinator: self, job: request.job_id, process: process.clone() }
        };
        match self.check_deps(job).await? {
            DepsVerdict::Met => Ok(Some(seat)),
            DepsVerdict::Unmet(deps) => Err(Refusal::DepsUnmet(deps.first().copied().unwrap_or(job.id())).into()),
            DepsVerdict::Failed(dep) => Err(Refusal::DepsUnmet(dep).into()),
        }
    }

    /// The assignment that a holder works from.
    pub(crate) async fn assignment(&self, job: &Job) -> Result<Assignment, Error> {
        let errand = promote_order(job);
        let body_md = match errand {
            Some(_) => String::new(),
            None => match self.manifests.take(job.id()) {
                Some(body) => body.0.as_ref().to_owned(),
                None => self.body(job.id()).await?,
            },
        };
        let (children, reserved) = match errand {
            None => (self.child_results(job).await?, self.subtask_spending(job).await?),
            Some(_) => (Vec::new(), SubtaskSpending::default()),
        };
        Ok(Assignment {
            children,
            may_create_subtasks: errand.is_none() && may_create_subtasks(job),
            job_id: job.id(),
            product_id: job.product().clone(),
            repo: job.spec().repo.clone(),
            base: job.spec().base.clone(),
            engine: self.state.lock().engine_of(job),
            attempts: job.attempts(),
            spent: reserved.added_to(job.spent_of_budget()),
            spec: job.spec().clone(),
            body_md,
            persona: job.persona().filter(|_| errand.is_none()).map(str::to_owned),
            checkpoint: job.checkpoint().cloned(),
            changes: job.changes().map(str::to_owned),
            answer: job.answer().map(str::to_owned),
            conflict: job.merge_conflict().cloned(),
            message: job.operator_message().map(str::to_owned),
            previous_run: job.previous_run().cloned(),
            errand,
        })
    }

    pub(crate) async fn body(&self, id: JobId) -> Result<String, Error> {
        let body = self.ports.history.body(id).await?.ok_or(Error::NoSuchJob(id))?;
        Ok(body.0.as_ref().to_owned())
    }
}

/// A seat reserved for a grant that is being written. When it is dropped, the lease itself counts, or there is none.
struct ReservedSeat<'a> {
    coordinator: &'a Coordinator,
    job: JobId,
    process: Process,
}

impl Drop for ReservedSeat<'_> {
    fn drop(&mut self) {
        self.coordinator.state.lock().end_grant(self.job, &self.process);
    }
}

/// Whether this request has already won: its answer was lost, or the commit's outcome was unknown (rows 5 and 32).
fn is_answered(job: &Job, process: &Process, request: &AcceptRequest) -> bool {
    job.lease().is_some_and(|lease| {
        let is_its = lease.factory == process.factory && lease.instance == process.instance;
        is_its && lease.nonce == request.claim_nonce && lease.seq == request.dispatch_seq
    })
}

/// The order that an errand's lease includes.
pub(crate) fn promote_order(job: &Job) -> Option<PromoteOrder> {
    let errand = job.errand()?;
    let ErrandState::Held { lease, .. } = &errand.state else { return None };
    let acceptable = job.heads().iter().filter(|head| **head != errand.sha).cloned().collect();
    Some(PromoteOrder {
        kind: errand.kind,
        lease_epoch: lease.epoch,
        sha: errand.sha.clone(),
        acceptable,
        promoted: job.promoted().cloned(),
        run_epoch: job.completed_epoch().unwrap_or(Epoch(0)),
        pull_request: job.pull_request().cloned(),
        request_text: job.request_text().map(str::to_owned),
    })
}
