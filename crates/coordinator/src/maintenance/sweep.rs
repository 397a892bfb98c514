//! Timers and sweeps: they find what a lost wake-up missed, through the same functions.
//!
//! All tasks sleep until the next deadline; without open work the store is not queried [I14].

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::time::Duration;

use domain::{
    Dispatch, DispatchSeq, Epoch, ErrandState, FactoryId, JobId, MessageId, OfferEnd, RetryDecision, Stage, StageEvent,
    Timestamp,
};
use fail::fail_point;
use futures_util::{StreamExt as _, future, stream};
use tracing::{debug, info, warn};

use crate::commit::{AmendOutcome, Decision};
use crate::coordinator::{COORDINATOR, Coordinator};
use crate::error::Error;
use crate::submit::deps::AT_ONCE_MAX;

/// Deadlines handled per pass.
const OVERDUE_MAX: usize = 500;

/// The delay before an action that failed is retried.
pub(crate) const TRY_AGAIN_AFTER: Duration = Duration::from_secs(1);

/// Why an offer ended that the broker did not accept.
const NOT_PUBLISHED: &str = "the broker did not accept the offer";

/// Jobs read from the store in one page of a sweep.
const PAGE: u16 = 500;

impl Coordinator {
    /// Watches deadlines, leases and presence until the coordinator stops.
    pub(crate) async fn run_timer(&self) {
        while !self.stopping.is_cancelled() {
            self.tick().await;
            let pause = self.until_next_tick();
            tokio::select! {
                () = self.stopping.cancelled() => return,
                () = self.timer.notified() => {}
                () = self.ports.clock.sleep(pause) => {}
            }
        }
    }

    /// Compares memory with the store periodically, while there is open work.
    pub(crate) async fn run_sweep(&self) {
        loop {
            tokio::select! {
                () = self.stopping.cancelled() => return self.save_comparison().await,
                () = self.ports.clock.sleep(self.settings.sweep_every) => {}
            }
            self.mirror_again();
            self.save_comparison().await;
            let has_open_work = self.state.lock().open_count() > 0;
            if has_open_work || self.needs_reconcile.swap(false, Ordering::Relaxed) {
                self.sweep().await;
            }
        }
    }

    /// One pass over everything that is due. Idempotent.
    pub async fn tick(&self) {
        self.check_presence();
        self.wake_engines();
        self.resume_offers();
        self.release_kept_seats();
        self.expire_shadow_messages();
        self.repeat_announcements();
        self.reap_expired().await;
        self.check_budgets().await;
        let now = self.steady();
        let overdue = self.state.lock().overdue(now, OVERDUE_MAX);
        let acts = stream::iter(overdue.into_iter().map(|id| self.try_deadline(id, now)));
        acts.buffer_unordered(AT_ONCE_MAX).for_each(future::ready).await;
        self.tend_pools().await;
    }

    async fn try_deadline(&self, id: JobId, now: Timestamp) {
        if let Err(error) = self.act_on_deadline(id, now).await {
            warn!(job.id = %id, %error, "Could not act on the deadline of job {}, retrying", self.label(id));
            self.state.lock().postpone(id, now.after(TRY_AGAIN_AFTER));
        }
        self.still_running();
    }

    /// Records that the reaper is busy, not paused.
    fn still_running(&self) {
        self.state.lock().note_reaper(self.ports.clock.monotonic(), self.tick_every() * 3);
    }

    /// Compares memory with the store, and every blocked job with its dependencies. Idempotent.
    pub async fn sweep(&self) {
        if let Err(error) = self.compare_open_jobs().await {
            warn!(%error, "The sweep could not read the store, the next one retries");
            self.mark_suspect();
            return;
        }
        self.migrate_remaining().await;
        self.settle_blocked().await;
        self.follow_trees().await;
        self.ship_ready().await;
        self.remind_people().await;
        self.compare_reservations().await;
        self.enforce_pauses().await;
        self.purge_windows().await;
        self.note_unshown_items();
        self.notifier.ring();
        self.wake_engines();
        let is_waiting = self.state.lock().waiting_count(&BTreeSet::new()) > 0;
        if is_waiting {
            // Jobs that have waited for long raise alerts without any other change.
            self.live.note();
        }
        self.work.notify_one();
        self.timer.notify_one();
    }

    /// Checks every job that waits for dependencies.
    pub(crate) async fn settle_blocked(&self) {
        let blocked = self.state.lock().blocked();
        self.settle(blocked).await;
    }

    pub(crate) fn mark_suspect(&self) {
        self.needs_reconcile.store(true, Ordering::Relaxed);
    }

    /// Absorbs every open job of the store into memory, and reads each job again that is open in memory and not listed
    /// by the store.
    pub(crate) async fn compare_open_jobs(&self) -> Result<(), Error> {
        let known: std::collections::HashSet<JobId> = self.state.lock().jobs().map(|job| job.value.id()).collect();
        let mut seen = std::collections::HashSet::with_capacity(known.len());
        let mut after = None;
        loop {
            let page = self.ports.jobs.open(after, PAGE).await?;
            let Some(last) = page.last() else { break };
            after = Some(last.value.id());
            let page: Vec<_> = page
                .into_iter()
                .map(|job| domain::Versioned { value: std::sync::Arc::new(job.value), revision: job.revision })
                .collect();
            seen.extend(page.iter().map(|job| job.value.id()));
            self.announce(page.iter());
        }
        for id in known.difference(&seen) {
            self.refresh(*id).await;
        }
        Ok(())
    }

    /// Acts on a passed deadline; the action depends on the job's stage.
    async fn act_on_deadline(&self, id: JobId, now: Timestamp) -> Result<(), Error> {
        let Some(job) = self.state.lock().job(id) else { return Ok(()) };
        let has_factory = job.value.dispatch().is_some() || job.value.lease().is_some();
        if has_factory && self.is_warming() {
            // The factory may only be reconnecting: no job is re-targeted before every factory had time to report.
            let heard_after = self.settings.renew_every.max(self.settings.accept_within);
            let pause = heard_after.saturating_sub(self.uptime()).max(TRY_AGAIN_AFTER);
            self.state.lock().postpone(id, now.after(pause));
            return Ok(());
        }
        match (job.value.stage(), job.value.errand().map(|errand| &errand.state)) {
            (Stage::Queued { dispatch: Some(offer), .. }, _) => self.expire_offer(id, offer).await,
            (Stage::Queued { dispatch: None, .. }, _) | (_, Some(ErrandState::Waiting { .. })) => {
                let is_parked = self.state.lock().is_parked(id);
                if is_parked && self.waits_for_deps(id).await? {
                    self.state.lock().postpone(id, now.after(self.settings.sweep_every));
                    return Ok(());
                }
                self.state.lock().ripen(id, now);
                self.work.notify_one();
                Ok(())
            }
            (_, Some(ErrandState::Dispatched { dispatch })) => {
                let message = match self.is_unpublished(id, dispatch) {
                    true => NOT_PUBLISHED.to_owned(),
                    false => format!("no report from `{}` in time", dispatch.target),
                };
                self.take_errand_back(id, dispatch.seq, message).await
            }
            (_, Some(ErrandState::Held { lease, .. })) => {
                let message = format!("timed out: no report from `{}`", lease.factory);
                self.take_errand_back(id, lease.seq, message).await
            }
            (_, None) => match job.value.pending_preemption() {
                Some(preemption) => self.preempt(id, preemption).await,
                None => {
                    self.state.lock().drop_deadline(id);
                    Ok(())
                }
            },
        }
    }

    /// Whether the broker did not accept an offer: its target never saw it.
    fn is_unpublished(&self, job: JobId, offer: &Dispatch) -> bool {
        self.publisher.has_failed(MessageId::of_offer(job, offer.seq))
    }

    /// The target did not accept in time. A connected one is at fault itself, and the job does not pay for it; nor does
    /// it for an outage of the broker [I4].
    async fn expire_offer(&self, id: JobId, offer: &Dispatch) -> Result<(), Error> {
        if self.is_unpublished(id, offer) {
            return self.withdraw_offer(id, offer.seq, OfferEnd::Withdrawn(NOT_PUBLISHED.to_owned())).await;
        }
        // A factory whose accept was refused for an unmet dependency did answer.
        let is_connected = self.inboxes.is_open(&offer.target) && !self.waits_for_deps(id).await?;
        let why = if is_connected { OfferEnd::Unanswered } else { OfferEnd::Undelivered };
        self.withdraw_offer(id, offer.seq, why).await?;
        if is_connected {
            self.note_unanswered(&offer.target, id);
        }
        Ok(())
    }

    /// An offer ended without a lease: no attempt is counted, and another target is preferred (protocol 4).
    pub(crate) async fn withdraw_offer(&self, id: JobId, seq: DispatchSeq, why: OfferEnd) -> Result<(), Error> {
        fail_point!("take_back::before_commit");
        // A factory whose accept was refused for an unmet dependency did not decline the job.
        let waits_for_deps = self.waits_for_deps(id).await?;
        let amended = self
            .try_amend(id, |job| match job.stage() {
                Stage::Queued { dispatch: Some(offer), .. } if offer.seq == seq => {
                    let now = self.now();
                    let verdict = match waits_for_deps {
                        true => RetryDecision::Retry { not_before: Some(now.after(self.settings.sweep_every)) },
                        false if why == OfferEnd::Undelivered => {
                            self.settings.retry.after_expired_dispatch(job.unaccepted())
                        }
                        false => RetryDecision::Retry { not_before: None },
                    };
                    let why = why.clone();
                    job.apply(StageEvent::DispatchExpired { seq, why, verdict }, now, COORDINATOR).map(Decision::Write)
                }
                _ => Ok(Decision::Keep),
            })
            .await?;
        if let AmendOutcome::Written(job) = amended {
            info!(job.id = %id, dispatch.seq = %seq, "Dispatch {seq} of job {} was not accepted, requeued", job.value.label());
            self.after_report(&job.value).await;
        }
        Ok(())
    }

    pub(crate) async fn take_errand_back(&self, id: JobId, seq: DispatchSeq, message: String) -> Result<(), Error> {
        fail_point!("take_errand_back::before_commit");
        self.amend(id, |job| {
            let is_the_one = match job.errand().map(|errand| &errand.state) {
                Some(ErrandState::Dispatched { dispatch }) => dispatch.seq == seq,
                Some(ErrandState::Held { lease, .. }) => lease.seq == seq,
                Some(ErrandState::Waiting { .. }) | None => false,
            };
            if !is_the_one {
                return Ok(Decision::Keep);
            }
            let epoch = job.epoch();
            let message = message.clone();
            job.apply(StageEvent::ErrandExpired { epoch, seq, message }, self.now(), COORDINATOR).map(Decision::Write)
        })
        .await?;
        warn!(job.id = %id, "The promotion or merge of job {} timed out, assigning it again: {message}", self.label(id));
        Ok(())
    }

    /// Per lease, so that one failed write never stops the others (row 9).
    async fn reap_expired(&self) {
        let now = self.ports.clock.monotonic();
        let expired =
            self.state.lock().expired_leases(now, self.tick_every() * 3, self.settings.lease_ttl + self.handover());
        let reaps = stream::iter(expired.into_iter().map(|(job, epoch)| self.reap_if_expired(job, epoch, now)));
        reaps.buffer_unordered(AT_ONCE_MAX).for_each(future::ready).await;
    }

    async fn reap_if_expired(&self, job: JobId, epoch: Epoch, now: Duration) {
        // While earlier ones were reaped, its holder may have renewed it.
        let is_doomed = self.state.lock().doom_expired_lease(job, epoch, now);
        if is_doomed {
            self.reap(job, epoch).await;
        }
        self.still_running();
    }

    /// Updates the presence of factories that went silent, or whose warm-up is over, for the scheduler.
    fn check_presence(&self) {
        let mut state = self.state.lock();
        let is_changed = |id: &&FactoryId| state.presence_of(id) != Some(self.presence(state.liveness_of(id)));
        let changed: Vec<_> = state.factory_ids().filter(is_changed).cloned().collect();
        for id in changed {
            self.show_to_scheduler(&mut state, &id);
            if state.presence_of(&id) == Some(scheduler::Presence::Stale) {
                warn!(factory.id = %id, "Factory `{id}` is stale: no recent heartbeat");
            }
        }
    }

    /// While there are leases the reaper must notice its own pauses, so it runs several times per lease.
    fn tick_every(&self) -> Duration {
        (self.settings.lease_ttl / 9).max(Duration::from_millis(20))
    }

    fn until_next_tick(&self) -> Duration {
        let state = self.state.lock();
        let now = self.steady();
        let mut pause = Duration::from_secs(3_600);
        if state.lease_count() > 0 {
            pause = pause.min(self.tick_every());
        }
        if let Some(due) = state.next_deadline() {
            pause = pause.min(due.since(now));
        }
        if let Some(rest) = self.until_engines_wake(&state) {
            pause = pause.min(rest + Duration::from_millis(1));
        }
        if let Some(resume) = self.until_offers_resume(&state) {
            pause = pause.min(resume + Duration::from_millis(1));
        }
        if let Some(period) = state.next_budget_period() {
            pause = pause.min(period.since(self.now()) + Duration::from_millis(1));
        }
        if let Some(until) = state.next_kept_seat() {
            pause = pause.min(until.since(now) + Duration::from_millis(1));
        }
        if let Some(wake) = state.next_pool_wake() {
            pause = pause.min(wake.since(now) + Duration::from_millis(1));
        }
        if let Some(next) = self.until_next_announcement() {
            pause = pause.min(next + Duration::from_millis(1));
        }
        if let Some(expires) = self.until_shadow_expires() {
            pause = pause.min(expires + Duration::from_millis(1));
        }
        if self.is_warming() {
            pause = pause.min(self.settings.renew_every);
        }
        if let Some(heard) = state.oldest_report() {
            let stale_at = heard + self.settings.stale_after;
            pause = pause.min(stale_at.saturating_sub(self.ports.clock.monotonic()) + Duration::from_millis(1));
        }
        debug!(pause_ms = pause.as_millis(), "The timer sleeps");
        pause
    }
}
