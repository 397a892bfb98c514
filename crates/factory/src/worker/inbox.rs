//! Receiving offers through one held-open stream [D6].

use std::sync::Arc;

use client::ClientError;
use clock::Backoff;
use domain::{ClaimNonce, DispatchSeq, JobId, Message};
use fail::fail_point;
use protocol::{AcceptRequest, AcceptResponse, DeclineReason, DeclineRequest, Directive, InboxEvent, StageResponse};
use tracing::{debug, info, warn};
use workspace::{LocalStage, RunRecord};

use super::direct::OfferSource;
use super::{RECONNECT_FIRST, RECONNECT_MAX, Worker, WorkerError};

/// How often an accept is repeated without an answer; the nonce makes it idempotent.
const ACCEPT_TRIES_MAX: u32 = 8;
/// The same once the factory stops: granted work is released, without a long wait for an unavailable coordinator.
const LAST_TRIES_MAX: u32 = 3;

impl Worker {
    /// Keeps the inbox open, with reconnects.
    pub(super) async fn receive_for_ever(self: &Arc<Self>) -> Result<(), WorkerError> {
        let mut backoff = Backoff::new(RECONNECT_FIRST, RECONNECT_MAX);
        loop {
            match self.receive().await {
                Ok(()) => backoff.reset(),
                Err(error) => {
                    debug!(%error, "The inbox is closed");
                    self.clock.sleep(backoff.next_pause()).await;
                    // A restored coordinator may not know this factory: register before reconnecting.
                    match self.heartbeat().await {
                        Ok(answer) if answer.superseded => {
                            return Err(WorkerError::Superseded(self.settings.name.clone()));
                        }
                        Ok(_) => self.connection.restored(),
                        Err(error) => self.connection.lost(&error),
                    }
                }
            }
        }
    }

    async fn receive(self: &Arc<Self>) -> Result<(), ClientError> {
        let name = &self.settings.name;
        let credit = self.settings.seats.max(1) + 1;
        let path = format!("/factories/{name}/inbox?instance={}&credit={credit}", self.instance);
        let mut stream = self.client.events(&path, None).await?;
        while let Some(event) = stream.next().await? {
            let parsed = serde_json::from_str(&format!(r#"{{"event":"{}","data":{}}}"#, event.event, event.data));
            match parsed {
                Ok(InboxEvent::Hello { modes }) => {
                    debug!(factory.id = %name, "The inbox is open");
                    self.told(&modes);
                }
                Ok(InboxEvent::Modes(modes)) => self.told(&modes),
                Ok(InboxEvent::Dispatch(message)) => self.take(&message, OfferSource::inbox()),
                Ok(InboxEvent::Announcement(announcement)) => self.announced.add(announcement.job_id),
                Ok(InboxEvent::Directive(Directive::Look(order))) => self.look_at_request(order),
                Ok(InboxEvent::Directive(directive)) => self.obey(&directive),
                Err(error) => warn!(%error, "Something unknown came through the inbox"),
            }
        }
        Err(ClientError::NoAnswer { base: self.client.base().to_owned(), why: "the stream ended".to_owned() })
    }

    /// Answers an offer in a task of its own: accepts it, or declines it with a reason. A repeated message is answered
    /// once.
    pub(super) fn take(self: &Arc<Self>, message: &Message, source: OfferSource) {
        if message.shadow {
            // It is compared with what this factory claims, and never work.
            self.note_shadow(message);
            self.tasks.spawn(source.complete());
            return;
        }
        let (job, seq) = (message.job_id, message.dispatch_seq);
        if !self.taking.lock().insert((job, seq)) {
            // The first one is being answered; if that fails, the coordinator offers the job again.
            self.tasks.spawn(source.complete());
            return;
        }
        let station = Arc::clone(self);
        self.tasks.spawn(async move {
            match station.reason_to_decline() {
                Some((reason, message)) => {
                    station.decline(job, seq, reason, message).await;
                    source.complete().await;
                }
                None => station.accept_and_work(job, seq, source).await,
            }
            station.is_over(job, seq);
        });
    }

    /// Why the factory accepts no work now.
    fn reason_to_decline(&self) -> Option<(DeclineReason, Option<String>)> {
        if self.stopping.is_cancelled() {
            return Some((DeclineReason::Stopping, None));
        }
        if self.seats_offered() == 0 {
            let message = "its disk is short of free space".to_owned();
            return Some((DeclineReason::Fault, Some(message)));
        }
        None
    }

    /// Declines an offer, so that the coordinator need not wait for its deadline. Tried once: an unanswered offer
    /// expires.
    async fn decline(&self, job: JobId, seq: DispatchSeq, reason: DeclineReason, message: Option<String>) {
        info!(job.id = %job, dispatch.seq = %seq, "Declining job {}: this factory {}", job.short(), reason.text());
        let request = DeclineRequest { job_id: job, dispatch_seq: seq, instance: self.instance, reason, message };
        if let Err(error) = self.client.post::<_, StageResponse>("/decline", &request).await {
            debug!(job.id = %job, %error, "The decline was not taken; the offer expires");
        }
    }

    /// A dispatch has ended: its seat is free.
    pub(super) fn is_over(&self, job: JobId, seq: DispatchSeq) {
        self.taking.lock().remove(&(job, seq));
        self.freed.notify_one();
    }

    async fn accept_and_work(self: &Arc<Self>, job: JobId, seq: DispatchSeq, source: OfferSource) {
        let nonce = ClaimNonce::new(self.clock.now(), self.entropy.bytes());
        let mut record = RunRecord {
            v: 1,
            job,
            dispatch_seq: seq,
            nonce,
            epoch: None,
            repo: None,
            guard: None,
            worktree: None,
            session: None,
            insights: domain::RunInsights::default(),
            stage: LocalStage::Accepting,
        };
        if let Err(error) = self.ledger.save(&record).await {
            warn!(job.id = %job, %error, "Cannot write the run record of job {}", job.short());
            let message = format!("it cannot write its state directory: {error}");
            self.decline(job, seq, DeclineReason::Fault, Some(message)).await;
            return source.complete().await;
        }
        fail_point!("factory::nonce_saved", |_| ());
        let sent_at = self.sent_at();
        match self.ask_for(job, seq, nonce).await {
            Ok(accepted) => {
                fail_point!("factory::accepted", |_| ());
                // The job does not wait for the broker.
                self.tasks.spawn(source.complete());
                let term = self.lease_term(sent_at, accepted.lease_ttl_ms);
                record.epoch = Some(accepted.lease_epoch);
                record.repo.clone_from(&accepted.assignment.repo);
                record.stage = LocalStage::Preparing;
                self.ledger.remember(&record).await;
                match accepted.assignment.errand.clone() {
                    Some(order) => {
                        self.run_errand(&accepted.assignment, &order).await;
                        self.ledger.forget(&record).await;
                    }
                    None => self.work(record, accepted, term).await,
                }
            }
            Err(error) => {
                info!(job.id = %job, dispatch.seq = %seq, %error, "Dispatch {seq} of job {} is not ours to take", job.short());
                self.ledger.forget(&record).await;
                match error.is_final() {
                    true => source.complete().await,
                    false => source.abandon().await,
                }
            }
        }
    }

    /// How often a request is repeated whose answer may hold a grant.
    pub(super) fn tries_max(&self, usual: u32) -> u32 {
        if self.stopping.is_cancelled() { LAST_TRIES_MAX } else { usual }
    }

    async fn ask_for(&self, job: JobId, seq: DispatchSeq, nonce: ClaimNonce) -> Result<AcceptResponse, ClientError> {
        let request = AcceptRequest {
            job_id: job,
            dispatch_seq: seq,
            claim_nonce: nonce,
            instance: self.instance,
            factory_id: None,
        };
        let mut backoff = Backoff::new(RECONNECT_FIRST, RECONNECT_MAX);
        let mut tries = 0;
        loop {
            let answer = self.client.post("/accept", &request).await;
            match answer {
                Err(error) if !error.is_final() && tries < self.tries_max(ACCEPT_TRIES_MAX) => {
                    debug!(job.id = %job, %error, "No answer to an accept, asking again with the same nonce");
                    tries += 1;
                    self.clock.sleep(backoff.next_pause()).await;
                }
                answer => return answer,
            }
        }
    }
}
