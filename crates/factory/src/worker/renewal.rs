//! Renews all leases in one call, and stops the runs whose lease could not be renewed [I7].

use std::time::Duration;

use client::ClientError;
use clock::Backoff;
use protocol::{Directive, HeartbeatResponse, RenewRequest, RenewResponse};
use tracing::{debug, info};

use super::held_leases::{LeaseTerm, StopCause};
use super::{RECONNECT_FIRST, RECONNECT_MAX, Worker, WorkerError};
use domain::RunKey;
use sandbox::{BootInstant, LeaseDeadline};

/// The shortest interval between reports of agents' activity, beyond the renewals that are due.
pub(super) const PROGRESS_EVERY: Duration = Duration::from_secs(3);

/// The coordinator's answers to a factory without the lease: another has the job, or a restored store does not have it.
const NOT_OURS: [&str; 2] = ["fenced", "no_such_job"];

/// When a request was sent, on the clock of this process and on the one that it shares with its guards.
#[derive(Debug, Clone, Copy)]
pub(super) struct SentAt {
    clock: Duration,
    boot: BootInstant,
}

impl Worker {
    /// Renews leases and sends heartbeats until the coordinator rejects this process.
    pub(super) async fn renew_for_ever(&self, mut terms: HeartbeatResponse) -> Result<(), WorkerError> {
        let mut backoff = Backoff::new(RECONNECT_FIRST, RECONNECT_MAX);
        let mut trouble: Option<Duration> = None;
        loop {
            let every = Duration::from_millis(terms.renew_every_ms);
            self.until_next_renewal(trouble.unwrap_or(every)).await;
            trouble = match self.renew().await {
                Ok(()) => {
                    self.connection.restored();
                    backoff.reset();
                    None
                }
                Err(ClientError::Refused(problem)) if problem.code == "no_such_factory" => {
                    terms = self.register().await?;
                    backoff.reset();
                    None
                }
                Err(ClientError::Refused(problem)) if matches!(problem.status, 401 | 403) => {
                    self.holdings.stop_all(StopCause::Lost);
                    return Err(WorkerError::Refused(ClientError::Refused(problem)));
                }
                Err(error) => {
                    self.connection.lost(&error);
                    Some(backoff.next_pause().min(every))
                }
            };
        }
    }

    /// A renewal is due, or an agent's activity changed. Activity can wait a little: it changes many times in a second.
    async fn until_next_renewal(&self, due: Duration) {
        let news = async {
            self.clock.sleep(PROGRESS_EVERY).await;
            self.holdings.progressed.notified().await;
        };
        tokio::select! {
            () = self.clock.sleep(due) => {}
            () = news => {}
        }
    }

    async fn renew(&self) -> Result<(), ClientError> {
        let holdings = self.holdings.list();
        let sent_at = self.sent_at();
        let request = RenewRequest {
            instance: self.instance,
            held: holdings.clone(),
            load: self.load(),
            disk_free_bytes: self.disk_free_bytes(),
        };
        let path = format!("/factories/{}/renew", self.settings.name);
        let answer: RenewResponse = self.client.post(&path, &request).await?;
        let term = self.lease_term(sent_at, answer.lease_ttl_ms);
        self.holdings.told(&holdings);
        let held = holdings.into_iter().map(|holding| holding.held);
        let kept: Vec<_> = held.filter(|lease| !answer.lost.contains(lease)).collect();
        self.holdings.renewed(&kept, term);
        for lease in &answer.lost {
            let (job, epoch) = (lease.job_id, lease.lease_epoch);
            info!(job.id = %job, lease.epoch = %epoch, "Job `{job}` is no longer ours");
            self.holdings.stop(job, epoch, StopCause::Lost);
        }
        self.told(&answer.modes);
        for directive in &answer.directives {
            self.obey(directive);
        }
        debug!(held = self.holdings.len(), "Renewed");
        Ok(())
    }

    /// Stops a run whose lease the coordinator no longer knows, whichever request reported that: its next renewal may
    /// be far away.
    pub(super) fn stop_if_not_ours(&self, run: RunKey, error: &ClientError) {
        let RunKey { job, epoch } = run;
        if let ClientError::Refused(problem) = error
            && NOT_OURS.contains(&problem.code.as_str())
        {
            info!(job.id = %job, lease.epoch = %epoch, "Job `{job}` is no longer ours: {}", problem.code);
            self.holdings.stop(job, epoch, StopCause::Lost);
        }
    }

    /// Executes the coordinator's orders.
    pub(super) fn obey(&self, directive: &Directive) {
        match directive {
            Directive::Cancel { job_id, lease_epoch } => self.holdings.stop(*job_id, *lease_epoch, StopCause::Lost),
            Directive::Preempt { job_id, lease_epoch } => {
                self.holdings.stop(*job_id, *lease_epoch, StopCause::Preempted);
            }
            Directive::Leave => {
                info!("The coordinator needs this factory no more: it stops");
                self.leave.cancel();
            }
            // The coordinator offers nothing more to a draining factory; running jobs continue. Pull request polls come
            // through the inbox only: the coordinator repeats each after a while.
            Directive::Drain | Directive::Resume | Directive::Look(_) => debug!(?directive, "The coordinator says so"),
        }
    }

    /// The lease's deadline, counted from before the request for it was sent. The margin leaves time to end a process
    /// group with SIGTERM before another factory may start; the guards kill the rest before the margin is over.
    pub(super) fn lease_term(&self, sent_at: SentAt, lease_ttl_ms: u64) -> LeaseTerm {
        let ttl = Duration::from_millis(lease_ttl_ms);
        let margin = (Duration::from_millis(self.settings.limits.grace_ms) + ttl / 10).min(ttl / 3);
        let (stop_at, kill_at) = (sent_at.boot.after(ttl - margin), sent_at.boot.after(ttl - ttl / 10));
        LeaseTerm { good_until: sent_at.clock + ttl - margin, deadline: LeaseDeadline { stop_at, kill_at } }
    }

    /// The instant before a request for a lease is sent.
    pub(super) fn sent_at(&self) -> SentAt {
        SentAt { clock: self.clock.monotonic(), boot: BootInstant::now() }
    }

    /// Stops each run whose lease could not be renewed in time.
    pub(super) async fn watch_leases(&self) {
        loop {
            let now = self.clock.monotonic();
            match self.holdings.stop_overdue(now) {
                Some(next) => tokio::select! {
                    () = self.clock.sleep(next.saturating_sub(now)) => {}
                    () = self.holdings.changed.notified() => {}
                },
                None => self.holdings.changed.notified().await,
            }
        }
    }

    /// Registers again if the machine's capabilities have changed.
    pub(super) async fn look_again(&self) -> Result<(), WorkerError> {
        if !self.finds_something_new().await {
            return Ok(());
        }
        info!("This machine offers something else than before");
        self.register().await.map(drop)
    }

    /// Detects capabilities. One at a time: an older result must not replace a newer one.
    async fn finds_something_new(&self) -> bool {
        let _turn = self.looking.lock().await;
        let found = self.look_around().await;
        self.logins.review(&self.engines);
        let is_news = *self.advertised.lock() != self.engine_health(found.engines.clone());
        self.remotes.probe_soon();
        let mut detected = self.detected.lock();
        let is_changed = is_news || *detected != found;
        *detected = found;
        is_changed
    }
}
