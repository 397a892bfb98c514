//! What this process holds, and until when: counted on its own monotonic clock from before each request was sent [I7].

use std::collections::HashMap;
use std::time::Duration;

use domain::{Epoch, JobId};
use parking_lot::Mutex;
use protocol::{HeldJob, HeldJobProgress, Progress};
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use crate::process::{LeaseDeadline, LeaseWatch};

/// The leases of this process.
#[derive(Default)]
pub(super) struct HeldLeases {
    held: Mutex<HashMap<JobId, Entry>>,
    /// Why everything was stopped, also what is granted to us from then on.
    closed: Mutex<Option<StopCause>>,
    pub(super) changed: Notify,
    /// An agent does something else than the coordinator knows.
    pub(super) progressed: Notify,
}

struct Entry {
    epoch: Epoch,
    good_until: Duration,
    /// The same for the guards of the programs that run under it.
    deadline: watch::Sender<LeaseDeadline>,
    stop: CancellationToken,
    cause: Option<StopCause>,
    /// What its agent is doing.
    progress: Progress,
    /// Whether the coordinator was told so.
    is_told: bool,
}

/// How long a lease is good, from one answer of the coordinator.
#[derive(Debug, Clone, Copy)]
pub(super) struct LeaseTerm {
    /// On this process's clock.
    pub(super) good_until: Duration,
    /// For the guards.
    pub(super) deadline: LeaseDeadline,
}

/// What a run needs to know of its lease.
pub(super) struct HeldLease {
    /// Stops whatever is done under the lease.
    pub(super) stop: CancellationToken,
    /// Until when its programs may run.
    pub(super) deadline: LeaseWatch,
}

/// Why a run has to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StopCause {
    /// The coordinator says that the job is no longer ours.
    Lost,
    /// The lease could not be renewed in time: whether it is still ours is not known.
    Unrenewed,
    /// A more urgent job needs the seat.
    Preempted,
    /// This factory is told to stop.
    Farewell,
}

impl HeldLeases {
    /// A lease begins; the token stops whatever is done under it. After [`Holdings::stop_all`] it is stopped already.
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

    /// A lease is over.
    pub(super) fn end(&self, job: JobId, epoch: Epoch) {
        let mut held = self.held.lock();
        if held.get(&job).is_some_and(|entry| entry.epoch == epoch) {
            held.remove(&job);
        }
    }

    /// Everything held, for the renewal, with what the coordinator does not know yet.
    pub(super) fn list(&self) -> Vec<HeldJobProgress> {
        let holding = |(job, entry): (&JobId, &Entry)| HeldJobProgress {
            held: HeldJob { job_id: *job, lease_epoch: entry.epoch },
            progress: (!entry.is_told).then(|| entry.progress.clone()),
        };
        self.held.lock().iter().map(holding).collect()
    }

    /// What the agent of a run is doing now.
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

    /// The coordinator knows what these agents do, unless they have done something else since.
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

    /// The leases of a renewal that succeeded are good for longer. Renewals may finish out of order: the later end counts.
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

    /// Stops every run, those that are yet to begin as well: a grant may be on its way.
    pub(super) fn stop_all(&self, cause: StopCause) {
        let mut closed = self.closed.lock();
        *closed = Some(cause);
        for entry in self.held.lock().values_mut() {
            entry.cause.get_or_insert(cause);
            entry.stop.cancel();
        }
    }

    /// Stops every run whose lease ran out, and says when the next one will.
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

    /// Whether a run still goes on under this lease.
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
    use crate::process::BootInstant;

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

    #[test]
    fn a_run_whose_lease_ran_out_is_stopped_and_others_go_on() {
        let holdings = HeldLeases::default();
        let early = holdings.begin(job(1), Epoch(1), until(10)).stop;
        let late = holdings.begin(job(2), Epoch(1), until(20)).stop;

        let next = holdings.stop_overdue(secs(10));

        assert_eq!((early.is_cancelled(), late.is_cancelled(), next), (true, false, Some(secs(20))));
        assert_eq!(holdings.cause(job(1), Epoch(1)), Some(StopCause::Unrenewed));
    }

    #[test]
    fn a_lease_that_begins_after_everything_was_stopped_is_stopped_for_the_same_cause() {
        let holdings = HeldLeases::default();
        holdings.begin(job(1), Epoch(1), until(10));

        holdings.stop_all(StopCause::Farewell);
        let late = holdings.begin(job(2), Epoch(1), until(10)).stop;

        assert!(late.is_cancelled());
        assert_eq!(holdings.cause(job(2), Epoch(1)), Some(StopCause::Farewell));
    }

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
