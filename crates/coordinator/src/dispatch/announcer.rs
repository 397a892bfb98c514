//! Self-selection: jobs stay queued without an offer, are announced to one eligible factory at a time, and are claimed
//! by id [D1].
//!
//! An announcement is a hint in memory: the claim decides, by the same rules as any placement, and the first write wins.
//! A lost announcement is repeated, to the next factory after two seconds and to all again after fifteen.

use std::collections::BTreeSet;
use std::time::Duration;

use domain::{FactoryId, Job, JobId, Mode};
use foldhash::HashMap;
use parking_lot::Mutex;
use protocol::Announcement;
use scheduler::{FleetView, PastAnnouncements};
use tracing::debug;

use crate::coordinator::Coordinator;

/// How long a factory has before the job is announced to the next one.
const NEXT_AFTER: Duration = Duration::from_secs(2);

/// How long after the first announcement every factory is told again.
const AGAIN_AFTER: Duration = Duration::from_secs(15);

/// Announcements that are open at once.
const OPEN_MAX: usize = 1_000;

/// The announcements of waiting jobs.
#[derive(Default)]
pub(crate) struct Announcer {
    jobs: Mutex<HashMap<JobId, AnnouncedJob>>,
}

/// The announcements of one job.
#[derive(Debug)]
struct AnnouncedJob {
    /// When every factory is told again.
    again_at: Duration,
    /// The factories that were told since the last time all were.
    told: BTreeSet<FactoryId>,
    /// The factory whose turn it is, and until when.
    turn: Option<(FactoryId, Duration)>,
    /// Every eligible factory was told.
    is_exhausted: bool,
}

impl AnnouncedJob {
    fn next_due(&self) -> Duration {
        self.turn.as_ref().map_or(self.again_at, |(_, until)| *until)
    }

    /// Ends what is over at `now`.
    fn advance(&mut self, now: Duration) {
        self.turn.take_if(|(_, until)| *until <= now);
        if self.again_at <= now && self.turn.is_none() {
            self.told.clear();
            self.is_exhausted = false;
            self.again_at = now + AGAIN_AFTER;
        }
    }
}

/// The announcements as the scheduler sees them.
struct Past<'a> {
    jobs: &'a HashMap<JobId, AnnouncedJob>,
    coordinator: &'a Coordinator,
}

impl PastAnnouncements for Past<'_> {
    fn current(&self, job: JobId) -> Option<&FactoryId> {
        self.jobs.get(&job)?.turn.as_ref().map(|(factory, _)| factory)
    }

    fn rests(&self, job: JobId) -> bool {
        self.jobs.get(&job).is_some_and(|announced| announced.is_exhausted)
    }

    fn is_past(&self, job: JobId, factory: &FactoryId) -> bool {
        let is_told = self.jobs.get(&job).is_some_and(|announced| announced.told.contains(factory));
        is_told || !self.coordinator.inboxes.is_open(factory)
    }
}

impl Coordinator {
    /// Announces the waiting jobs of products in self-select mode. Idempotent. The dispatcher calls it in every round.
    pub(crate) fn announce_jobs(&self) {
        let now = self.ports.clock.monotonic();
        let announced = {
            let state = self.state.lock();
            let mut jobs = self.announcer.jobs.lock();
            let is_selected = |id: JobId| {
                let job = state.job(id);
                job.is_some_and(|job| state.mode_of(job.value.product()) == Mode::SelfSelect)
            };
            jobs.retain(|id, _| state.is_waiting(*id) && is_selected(*id));
            if !state.waiting_products().any(|product| state.mode_of(product) == Mode::SelfSelect) {
                return;
            }
            jobs.values_mut().for_each(|job| job.advance(now));
            let view = FleetView { limit: OPEN_MAX, ..state.view(self.steady(), &self.settings.weights, OPEN_MAX) };
            let plan = scheduler::announce(&view, &Past { jobs: &jobs, coordinator: self });
            for id in plan.exhausted {
                // A job that no connected factory fits is not noted: a connection wakes the dispatcher.
                if let Some(job) = jobs.get_mut(&id) {
                    job.is_exhausted = true;
                }
            }
            let mut announced = Vec::with_capacity(plan.announced.len());
            for (id, factory) in plan.announced {
                let Some(job) = state.job(id) else { continue };
                let entry = jobs.entry(id).or_insert_with(|| AnnouncedJob {
                    again_at: now + AGAIN_AFTER,
                    told: BTreeSet::new(),
                    turn: None,
                    is_exhausted: false,
                });
                entry.told.insert(factory.clone());
                entry.turn = Some((factory.clone(), now + NEXT_AFTER));
                announced.push((factory, announcement(&job.value)));
            }
            announced
        };
        for (factory, announcement) in announced {
            debug!(job.id = %announcement.job_id, factory.id = %factory, "Announced job {} to factory `{factory}`", announcement.job_id.short());
            self.inboxes.announce(&factory, announcement);
        }
        self.timer.notify_one();
    }

    /// The time until a job is announced to the next factory.
    pub(crate) fn until_next_announcement(&self) -> Option<Duration> {
        let next = self.announcer.jobs.lock().values().map(AnnouncedJob::next_due).min()?;
        Some(next.saturating_sub(self.ports.clock.monotonic()))
    }

    /// Wakes the dispatcher if a job's announcement was not followed by a claim.
    pub(crate) fn repeat_announcements(&self) {
        if self.until_next_announcement().is_some_and(|left| left.is_zero()) {
            self.work.notify_one();
        }
    }
}

fn announcement(job: &Job) -> Announcement {
    Announcement {
        job_id: job.id(),
        dispatch_seq: job.dispatch_seq().next(),
        product_id: job.product().clone(),
        repo: job.spec().repo.clone(),
        caps: job.spec().capabilities.clone(),
        priority: job.priority(),
    }
}
