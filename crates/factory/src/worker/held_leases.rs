//! The leases of this process and their deadlines, on its own monotonic clock from before each request was sent [I7].

use std::collections::HashMap;
use std::time::Duration;

use domain::{Epoch, JobId};
use parking_lot::Mutex;
use protocol::{HeldJob, HeldJobProgress, Progress};
use sandbox::{LeaseDeadline, LeaseWatch};
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

/// The leases of this process.
#[derive(Default)]
pub(super) struct HeldLeases {
    held: Mutex<HashMap<JobId, Entry>>,
    /// Why everything was stopped; applies to later grants too.
    closed: Mutex<Option<StopCause>>,
    pub(super) changed: Notify,
    /// Notified when an agent's activity differs from the last report.
    pub(super) progressed: Notify,
}

struct Entry {
    epoch: Epoch,
    good_until: Duration,
    /// The same for the guards of its programs.
    deadline: watch::Sender<LeaseDeadline>,
    stop: CancellationToken,
    cause: Option<StopCause>,
    /// The agent's activity.
    progress: Progress,
    /// Whether it was reported to the coordinator.
    is_told: bool,
}

/// The deadline of a lease, from one answer of the coordinator.
#[derive(Debug, Clone, Copy)]
pub(super) struct LeaseTerm {
    /// On this process's clock.
    pub(super) good_until: Duration,
    /// For the guards.
    pub(super) deadline: LeaseDeadline,
}

/// What a run needs of its lease.
pub(super) struct HeldLease {
    /// Cancels all work under the lease.
    pub(super) stop: CancellationToken,
    /// The deadline of its programs.
    pub(super) deadline: LeaseWatch,
}

/// Why a run has to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StopCause {
    /// The coordinator reports that another holder has the job.
    Lost,
    /// The lease was not renewed in time: whether it is still held is unknown.
    Unrenewed,
    /// A job of higher priority needs the seat.
    Preempted,
    /// This factory stops.
    Farewell,
}

impl HeldLeases {
    /// Adds a lease; the token cancels all work under it. After a stop of everything it is cancelled already.
    pub(super) fn begin(&self, job: JobId, epoch: Epoch, term: LeaseTerm) -> HeldLease {
        let stop = CancellationToken::new();
        let progress = Progress::default();
        let closed = self.closed.lock();
        if closed.is_some() {
            stop.cancel();
        }
        let (deadline, watched) = watch::channel(term.deadline);
        let entry = Entry {
            epoch,
            good_until: term.good_until,
            deadline,
            stop: stop.clone(),
            cause: *closed,
            progress,
            is_told: true,
        };
        self.held.lock().insert(job, entry);
        self.changed.notify_one();
        HeldLease { stop, deadline: watched }
    }

    /// Removes a lease.
    pub(super) fn end(&self, job: JobId, epoch: Epoch) {
        let mut held = self.held.lock();
        if held.get(&job).is_some_and(|entry| entry.epoch == epoch) {
            held.remove(&job);
        }
    }

    /// All leases, for the renewal, with the activity that was not reported yet.
    pub(super) fn list(&self) -> Vec<HeldJobProgress> {
        let holding = |(job, entry): (&JobId, &Entry)| HeldJobProgress {
            held: HeldJob { job_id: *job, lease_epoch: entry.epoch },
            progress: (!entry.is_told).then(|| entry.progress.clone()),
        };
        self.held.lock().iter().map(holding).collect()
    }

    /// Sets the activity of a run's agent.
    pub(super) fn progressed(&self, job: JobId, epoch: Epoch, progress: Progress) {
        if let Some(entry) = self.held.lock().get_mut(&job)
            && entry.epoch == epoch
            && entry.progress != progress
        {
            entry.progress = progress;
            entry.is_told = false;
            self.progressed.notify_one();
        }
    }

    /// Marks the activity of these agents as reported, unless it has changed since.
    pub(super) fn told(&self, told: &[HeldJobProgress]) {
        let mut held = self.held.lock();
        for holding in told {
            if let (Some(progress), Some(entry)) = (&holding.progress, held.get_mut(&holding.held.job_id))
                && entry.epoch == holding.held.lease_epoch
                && entry.progress == *progress
            {
                entry.is_told = true;
            }
        }
    }

    /// Extends the leases of a successful renewal. Renewals may finish out of order: the later deadline counts.
    pub(super) fn renewed(&self, renewed: &[HeldJob], term: LeaseTerm) {
        let mut held = self.held.lock();
        for lease in renewed {
            if let Some(entry) = held.get_mut(&lease.job_id)
                && entry.epoch == lease.lease_epoch
            {
                entry.good_until = entry.good_until.max(term.good_until);
                entry.deadline.send_if_modified(|known| {
                    let is_later = term.deadline.stop_at > known.stop_at;
                    if is_later {
                        *known = term.deadline;
                    }
                    is_later
                });
            }
        }
    }

    /// Stops one run.
    pub(super) fn stop(&self, job: JobId, epoch: Epoch, cause: StopCause) {
        if let Some(entry) = self.held.lock().get_mut(&job)
            && entry.epoch == epoch
        {
            entry.cause.get_or_insert(cause);
            entry.stop.cancel();
        }
    }

    /// Stops every run, later ones as well: a grant may be in flight.
    pub(super) fn stop_all(&self, cause: StopCause) {
        let mut closed = self.closed.lock();
        *closed = Some(cause);
        for entry in self.held.lock().values_mut() {
            entry.cause.get_or_insert(cause);
            entry.stop.cancel();
        }
    }

    /// Stops every run whose lease expired, and returns the next deadline.
    pub(super) fn stop_overdue(&self, now: Duration) -> Option<Duration> {
        let mut next = None;
        for entry in self.held.lock().values_mut() {
            if entry.good_until <= now {
                entry.cause.get_or_insert(StopCause::Unrenewed);
                entry.stop.cancel();
            } else {
                next = Some(next.map_or(entry.good_until, |next: Duration| next.min(entry.good_until)));
            }
        }
        next
    }

    /// Why a run was stopped.
    pub(super) fn cause(&self, job: JobId, epoch: Epoch) -> Option<StopCause> {
        self.held.lock().get(&job).filter(|entry| entry.epoch == epoch).and_then(|entry| entry.cause)
    }

    /// Whether a run is still active under this lease.
    pub(super) fn holds(&self, job: JobId, epoch: Epoch) -> bool {
        self.held.lock().get(&job).is_some_and(|entry| entry.epoch == epoch)
    }

    /// How many leases are held.
    pub(super) fn len(&self) -> usize {
        self.held.lock().len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sandbox::BootInstant;

    fn job(n: u8) -> JobId {
        JobId::from_bytes([n; 16])
    }

    const fn secs(n: u64) -> Duration {
        Duration::from_secs(n)
    }

    fn until(n: u64) -> LeaseTerm {
        let boot = BootInstant::now();
        LeaseTerm {
            good_until: secs(n),
            deadline: LeaseDeadline { stop_at: boot.after(secs(n)), kill_at: boot.after(secs(n + 1)) },
        }
    }

    // [I7]
    #[test]
    fn a_run_whose_lease_ran_out_is_stopped_and_others_go_on() {
        let holdings = HeldLeases::default();
        let early = holdings.begin(job(1), Epoch(1), until(10)).stop;
        let late = holdings.begin(job(2), Epoch(1), until(20)).stop;

        let next = holdings.stop_overdue(secs(10));

        assert_eq!((early.is_cancelled(), late.is_cancelled(), next), (true, false, Some(secs(20))));
        assert_eq!(holdings.cause(job(1), Epoch(1)), Some(StopCause::Unrenewed));
    }

    // [F6]
    #[test]
    fn a_lease_that_begins_after_everything_was_stopped_is_stopped_for_the_same_cause() {
        let holdings = HeldLeases::default();
        holdings.begin(job(1), Epoch(1), until(10));

        holdings.stop_all(StopCause::Farewell);
        let late = holdings.begin(job(2), Epoch(1), until(10)).stop;

        assert!(late.is_cancelled());
        assert_eq!(holdings.cause(job(2), Epoch(1)), Some(StopCause::Farewell));
    }

    // [I7]
    #[test]
    fn a_renewal_that_answers_late_never_shortens_a_lease() {
        let holdings = HeldLeases::default();
        let (first, held) = (until(30), [HeldJob { job_id: job(1), lease_epoch: Epoch(1) }]);
        let lease = holdings.begin(job(1), Epoch(1), first);

        holdings.renewed(&held, until(20));

        assert_eq!(holdings.stop_overdue(secs(25)), Some(secs(30)));
        assert_eq!(*lease.deadline.borrow(), first.deadline);
        let later = until(40);
        holdings.renewed(&held, later);
        assert_eq!(*lease.deadline.borrow(), later.deadline);
    }

    #[test]
    fn a_directive_for_an_older_epoch_stops_nothing() {
        let holdings = HeldLeases::default();
        let stop = holdings.begin(job(1), Epoch(5), until(30)).stop;

        holdings.stop(job(1), Epoch(4), StopCause::Lost);

        assert!(!stop.is_cancelled());
    }

    #[test]
    fn what_an_agent_does_is_told_once() {
        let holdings = HeldLeases::default();
        holdings.begin(job(1), Epoch(1), until(30));
        let doing = |what: &str| Progress { doing: Some(what.to_owned()), ..Progress::default() };
        let untold = || holdings.list().into_iter().map(|holding| holding.progress).collect::<Vec<_>>();

        holdings.progressed(job(1), Epoch(1), doing("Edit a"));
        let first = holdings.list();
        holdings.progressed(job(1), Epoch(1), doing("Edit b"));
        holdings.told(&first);

        assert_eq!(untold(), [Some(doing("Edit b"))], "the news that came meanwhile are still to be told");
        holdings.told(&holdings.list());
        holdings.progressed(job(1), Epoch(1), doing("Edit b"));
        holdings.progressed(job(1), Epoch(0), doing("of an older run"));
        assert_eq!(untold(), [None]);
    }
}
