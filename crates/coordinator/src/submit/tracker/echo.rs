//! Shows the status of jobs at their items: after the commit, idempotent, and repeated until the tracker has it.
//!
//! A task sleeps until a job of an item changes. A failed attempt pauses the whole tracker, for twice as long each time;
//! the sweep finds what a lost wake-up missed, in memory alone.

use std::time::Duration;

use domain::{Collection, Job, JobId, TrackerError, TrackerName, Versioned, doubled};
use fail::fail_point;
use protocol::{Alert, AlertCode, EchoRequest, TrackerItemView, TrackerList, TrackerSourceView};
use tracing::{info, warn};

use crate::coordinator::Coordinator;
use crate::error::Error;
use crate::fleet::principal::Principal;
use crate::read::alerts::{about, alert};
use crate::submit::invalid;
use crate::submit::sanitize::short;
use crate::submit::tracker::book::{ItemEntry, ItemRecord};
use crate::submit::tracker::status::status_of;

/// The shortest time between two statuses of one open job: a job that moves fast is shown once.
const SHOW_EVERY: Duration = Duration::from_secs(5);

/// The pause after a failed attempt; it doubles.
const PAUSE_FIRST: Duration = Duration::from_secs(5);

/// The longest pause.
const PAUSE_MAX: Duration = Duration::from_mins(10);

/// Failed attempts in a row after which the tracker counts as unreachable.
const FAILURES_BEFORE_ALERT: u32 = 3;

/// The longest shown error.
const ERROR_CHARS_MAX: usize = 300;

/// Listed items.
const LISTED_MAX: usize = 200;

/// What became of one attempt.
enum Shown {
    Done,
    /// Not before this time on the monotonic clock.
    Later(Duration),
}

impl Coordinator {
    /// Shows statuses until the coordinator stops.
    pub(crate) async fn run_tracker(&self) {
        while !self.stopping.is_cancelled() {
            let pause = self.show_due().await;
            let sleep = async {
                match pause {
                    Some(pause) => self.ports.clock.sleep(pause).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = self.stopping.cancelled() => return,
                () = self.tracker.bell.notified() => {}
                () = sleep => {}
            }
        }
    }

    /// Shows every status that is due, and returns the time until the next one is.
    async fn show_due(&self) -> Option<Duration> {
        let now = self.ports.clock.monotonic();
        let due: Vec<JobId> = {
            let pending = self.tracker.pending.lock();
            pending.iter().filter(|(_, at)| **at <= now).map(|(id, _)| *id).collect()
        };
        let due = self.tracker.book.lock().in_order(due);
        for id in due {
            if self.stopping.is_cancelled() {
                return None;
            }
            // Removed first: a change while it is shown counts again.
            self.tracker.pending.lock().remove(&id);
            let later = match self.show(id).await {
                Ok(Shown::Done) => None,
                Ok(Shown::Later(at)) => Some(at),
                Err(error) => {
                    warn!(job.id = %id, %error, "Could not read the item of job {}, retrying", self.label(id));
                    Some(self.ports.clock.monotonic() + PAUSE_FIRST)
                }
            };
            if let Some(at) = later {
                self.tracker.pending.lock().insert(id, at);
            }
        }
        let next = self.tracker.pending.lock().values().min().copied()?;
        Some(next.saturating_sub(self.ports.clock.monotonic()))
    }

    async fn show(&self, id: JobId) -> Result<Shown, Error> {
        let job = self.look_up(id).await?;
        let Some(entry) = self.entry_of(&job).await? else { return Ok(Shown::Done) };
        let source = entry.record.item.source.clone();
        let Some(tracker) = self.tracker.source(&source).and_then(|source| source.status.clone()) else {
            return self.settle_item(&job.value, None).await;
        };
        let now = self.ports.clock.monotonic();
        let is_terminal = job.value.stage().name().is_terminal();
        let paused_until = self.tracker.health.lock().get(&source).map_or(Duration::ZERO, |health| health.next_at);
        let allowed_at = match entry.sent_at {
            Some(sent) if !is_terminal => sent + SHOW_EVERY,
            _ => Duration::ZERO,
        };
        let allowed_at = allowed_at.max(paused_until);
        if allowed_at > now {
            return Ok(Shown::Later(allowed_at));
        }
        if entry.record.is_settled && !is_terminal {
            // Before the status: a crash in between shows it again.
            self.replace_record(&entry, ItemRecord { is_settled: false, ..entry.record.clone() }).await?;
        }
        let status = status_of(&job.value, &entry.record);
        if entry.shown.as_ref() == Some(&status.text) {
            return self.settle_item(&job.value, None).await;
        }
        if let Some(entry) = self.tracker.book.lock().of_job_mut(id) {
            entry.tried_at = Some(now);
        }
        fail_point!("tracker::before_show");
        let shown = tracker.show_status(&entry.record.item, &status).await;
        fail_point!("tracker::shown");
        match shown {
            Ok(()) => {
                self.note_shown(id, &source, Some(status.text));
                self.settle_item(&job.value, None).await
            }
            Err(TrackerError::Gone(why)) => {
                warn!(job.id = %id, tracker = %source, "Item {} of job {} shows no status: {why}", entry.record.item.key, job.value.label());
                self.note_shown(id, &source, None);
                self.settle_item(&job.value, Some(why)).await
            }
            Err(TrackerError::Retryable { message, wait }) => {
                Ok(Shown::Later(self.note_unreachable(id, &source, &message, wait)))
            }
        }
    }

    /// The entry of a job with an item. A record that was lost is written again.
    async fn entry_of(&self, job: &Versioned<std::sync::Arc<Job>>) -> Result<Option<ItemEntry>, Error> {
        let id = job.value.id();
        let known = || self.tracker.book.lock().of_job(id).cloned();
        if let Some(entry) = known() {
            return Ok(Some(entry));
        }
        let Some(item) = job.value.submission().item.clone() else { return Ok(None) };
        let (title, product) = (job.value.spec().title.clone(), job.value.product().clone());
        self.keep_record(ItemRecord::new(item, title, String::new(), (id, product), job.value.created_at())).await?;
        Ok(known())
    }

    /// Records that the final status is shown, or cannot be.
    async fn settle_item(&self, job: &Job, error: Option<String>) -> Result<Shown, Error> {
        let entry = {
            let mut book = self.tracker.book.lock();
            let Some(entry) = book.of_job_mut(job.id()) else { return Ok(Shown::Done) };
            entry.error = error.map(|error| short(&error, ERROR_CHARS_MAX));
            entry.clone()
        };
        if job.stage().name().is_terminal() && !entry.record.is_settled {
            self.replace_record(&entry, ItemRecord { is_settled: true, ..entry.record.clone() }).await?;
        }
        Ok(Shown::Done)
    }

    fn note_shown(&self, id: JobId, source: &TrackerName, text: Option<String>) {
        let (now, sent_at) = (self.now(), self.ports.clock.monotonic());
        if let Some(entry) = self.tracker.book.lock().of_job_mut(id) {
            entry.sent_at = Some(sent_at);
            if text.is_some() {
                (entry.shown, entry.shown_at, entry.error) = (text, Some(now), None);
            }
        }
        let recovered = {
            let mut health = self.tracker.health.lock();
            let health = health.entry(source.clone()).or_default();
            health.shown += 1;
            (health.next_at, health.error, health.failing_since) = (Duration::ZERO, None, None);
            std::mem::take(&mut health.failures) > 0
        };
        if recovered {
            info!(tracker = %source, "Tracker `{source}` is reachable again");
            self.live.note();
        }
    }

    /// Pauses a tracker, and returns when it is tried again.
    fn note_unreachable(&self, id: JobId, source: &TrackerName, message: &str, wait: Option<Duration>) -> Duration {
        let message = short(message, ERROR_CHARS_MAX);
        let (now, wall) = (self.ports.clock.monotonic(), self.now());
        if let Some(entry) = self.tracker.book.lock().of_job_mut(id) {
            entry.error = Some(message.clone());
        }
        let (failures, pause) = {
            let mut health = self.tracker.health.lock();
            let health = health.entry(source.clone()).or_default();
            let pause = doubled(PAUSE_FIRST, health.failures, PAUSE_MAX).max(wait.unwrap_or_default());
            health.failed += 1;
            health.failures += 1;
            health.failing_since.get_or_insert(wall);
            health.next_at = now + pause;
            health.error = Some(message.clone());
            (health.failures, pause)
        };
        warn!(job.id = %id, tracker = %source, "Could not show the status of job {} at tracker `{source}`, next attempt in {pause:?}: {message}", self.label(id));
        if failures == FAILURES_BEFORE_ALERT {
            self.live.note();
        }
        now + pause
    }

    /// Finds items whose tracker does not show the current status. In memory alone.
    pub(crate) fn note_unshown_items(&self) {
        let state = self.state.lock();
        let book = self.tracker.book.lock();
        let unshown = state.jobs().map(|job| &job.value).filter(|job| {
            job.submission().item.is_some()
                && match book.of_job(job.id()) {
                    Some(entry) => {
                        entry.error.is_none() && entry.shown.as_ref() != Some(&status_of(job, &entry.record).text)
                    }
                    None => true,
                }
        });
        let unshown: Vec<JobId> = unshown.map(|job| job.id()).collect();
        let closed =
            book.entries().filter(|entry| !entry.record.is_settled && state.job(entry.record.job_id).is_none());
        let unsettled: Vec<JobId> = closed.map(|entry| entry.record.job_id).collect();
        drop((book, state));
        for id in unshown.into_iter().chain(unsettled) {
            self.tracker.note(id);
        }
    }

    /// Loads the items at the start. Those whose final status was not shown are shown again.
    pub(crate) async fn load_tracker_items(&self) -> Result<(), Error> {
        for (_, found) in self.documents::<ItemRecord>(Collection::TrackerItems).await? {
            let (id, is_settled) = (found.value.job_id, found.value.is_settled);
            self.tracker.book.lock().keep(found.value, found.revision);
            if !is_settled {
                self.tracker.note(id);
            }
        }
        Ok(())
    }

    /// Sends a job's status to its item again, now.
    pub async fn echo_item(&self, who: &Principal, request: &EchoRequest) -> Result<TrackerItemView, Error> {
        let job = self.look_up(request.job_id).await?;
        if !who.sees(job.value.product()) {
            return Err(Error::NoSuchJob(request.job_id));
        }
        who.require_operator(job.value.product())?;
        let Some(entry) = self.entry_of(&job).await? else {
            return Err(invalid("jobId", format!("job {} was made of no item", job.value.label())));
        };
        let source = &entry.record.item.source;
        if self.tracker.source(source).is_none_or(|source| source.status.is_none()) {
            let why = format!("tracker `{source}` shows no status: configure its token in giga.toml");
            return Err(invalid("jobId", why));
        }
        if let Some(entry) = self.tracker.book.lock().of_job_mut(request.job_id) {
            (entry.shown, entry.sent_at) = (None, None);
        }
        if let Some(health) = self.tracker.health.lock().get_mut(source) {
            health.next_at = Duration::ZERO;
        }
        if let Shown::Later(at) = self.show(request.job_id).await? {
            self.tracker.pending.lock().insert(request.job_id, at);
            self.tracker.bell.notify_one();
        }
        let shown = self.tracker.book.lock().of_job(request.job_id).cloned();
        shown.map(|entry| self.item_view(&entry)).ok_or(Error::NoSuchJob(request.job_id))
    }

    /// The trackers, and the newest items that the caller may see.
    pub fn trackers(&self, who: &Principal) -> Result<TrackerList, Error> {
        who.require_fleet_view()?;
        let (now, wall) = (self.ports.clock.monotonic(), self.now());
        let health = self.tracker.health.lock().clone();
        let sources = self.tracker.sources.get().into_iter().flatten().map(|(name, source)| {
            let health = health.get(name).cloned().unwrap_or_default();
            let is_seen = who.products().is_empty();
            TrackerSourceView {
                name: name.clone(),
                shows_status: source.status.is_some(),
                label: source.issues.as_ref().map(|rules| rules.label.clone()),
                deliveries: health.deliveries,
                last_delivery_at: health.last_delivery,
                failures: health.failures,
                error: health.error.filter(|_| is_seen),
                retry_at: (health.failures > 0).then(|| wall.after(health.next_at.saturating_sub(now))),
            }
        });
        let sources = sources.collect();
        let book = self.tracker.book.lock();
        let mut seen: Vec<&ItemEntry> = book.entries().filter(|entry| who.sees(&entry.record.product_id)).collect();
        seen.sort_by_key(|entry| std::cmp::Reverse((entry.record.created_at, entry.record.job_id)));
        seen.truncate(LISTED_MAX);
        let seen: Vec<ItemEntry> = seen.into_iter().cloned().collect();
        drop(book);
        let items = seen.iter().map(|entry| self.item_view(entry)).collect();
        let rejected = if who.products().is_empty() { self.rejected_items() } else { Vec::new() };
        Ok(TrackerList { sources, items, rejected })
    }

    fn item_view(&self, entry: &ItemEntry) -> TrackerItemView {
        let record = entry.record.clone();
        TrackerItemView {
            stage: self.state.lock().job(record.job_id).map(|job| job.value.stage().name()),
            item: record.item,
            title: record.title,
            product_id: record.product_id,
            job_id: record.job_id,
            created_at: record.created_at,
            changed_at: record.changed_at,
            shown_at: entry.shown_at,
            error: entry.error.clone(),
        }
    }

    /// Trackers that do not answer.
    pub(crate) fn tracker_alerts(&self) -> Vec<Alert> {
        let health = self.tracker.health.lock();
        let failing = health.iter().filter(|(_, health)| health.failures >= FAILURES_BEFORE_ALERT);
        let told = failing.map(|(name, health)| {
            let error = health.error.as_deref().unwrap_or_default();
            let message = format!(
                "tracker `{name}` did not take the status of a job ({} times in a row): {error}: check its token and address",
                health.failures
            );
            let since = health.failing_since.unwrap_or(self.started_at);
            about(alert(AlertCode::TrackerUnreachable, message, since, None), name)
        });
        told.collect()
    }
}
