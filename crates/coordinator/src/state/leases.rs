//! Lease expiry: in memory, on the coordinator's own monotonic clock [§6.4].

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use domain::{Epoch, FactoryId, InstanceId, JobId};
use foldhash::{HashMap, HashSet};

use super::FleetState;

/// A process that omits a job from this many renewals in a row no longer has it: one renewal may have crossed the
/// grant.
const MISSED_MAX: u8 = 2;

/// The leases in force.
#[derive(Debug, Default)]
pub(crate) struct Leases {
    by_job: HashMap<JobId, HeldLease>,
    by_process: HashMap<Process, BTreeSet<JobId>>,
    /// Grants that are being written, with the number of requests for each.
    reserved: HashMap<Process, BTreeMap<JobId, usize>>,
    last_tick: Option<Duration>,
}

/// One process of one factory. The factory comes from the token, the instance from the request: an instance alone
/// identifies nothing, because any factory can send any (row 34).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Process {
    pub(crate) factory: FactoryId,
    pub(crate) instance: InstanceId,
}

/// The outcome of a renewal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Renewal {
    /// The lease is extended.
    Renewed,
    /// The lease is being revoked.
    TooLate,
    /// The lease is not in memory.
    Unknown,
}

/// One lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HeldLease {
    pub(crate) process: Process,
    pub(crate) epoch: Epoch,
    pub(crate) expires: Duration,
    missed: u8,
    /// The lease is being revoked: too late to renew it (row 30).
    doomed: bool,
}

impl Leases {
    /// Adds a lease that begins, or is loaded at the start.
    pub(crate) fn begin(&mut self, job: JobId, process: Process, epoch: Epoch, expires: Duration) {
        let is_newer = self.by_job.get(&job).is_none_or(|entry| entry.epoch < epoch);
        if is_newer {
            self.end(job);
            self.by_process.entry(process.clone()).or_default().insert(job);
            self.by_job.insert(job, HeldLease { process, epoch, expires, missed: 0, doomed: false });
        }
    }

    /// Removes a lease.
    pub(crate) fn end(&mut self, job: JobId) {
        if let Some(entry) = self.by_job.remove(&job)
            && let Some(jobs) = self.by_process.get_mut(&entry.process)
        {
            jobs.remove(&job);
            if jobs.is_empty() {
                self.by_process.remove(&entry.process);
            }
        }
    }

    /// When a job's lease expires.
    pub(crate) fn expiry(&self, job: JobId) -> Option<Duration> {
        self.by_job.get(&job).map(|entry| entry.expires)
    }

    /// Renews one lease of a process, unless it is being revoked.
    pub(crate) fn renew(&mut self, job: JobId, epoch: Epoch, process: &Process, expires: Duration) -> Renewal {
        match self.by_job.get_mut(&job) {
            Some(entry) if entry.epoch == epoch && entry.process == *process => {
                if entry.doomed {
                    return Renewal::TooLate;
                }
                entry.expires = entry.expires.max(expires);
                entry.missed = 0;
                Renewal::Renewed
            }
            Some(_) | None => Renewal::Unknown,
        }
    }

    /// Marks a lease as being revoked: it can no longer be renewed.
    pub(crate) fn mark_expired(&mut self, job: JobId, epoch: Epoch) {
        if let Some(entry) = self.by_job.get_mut(&job).filter(|entry| entry.epoch == epoch) {
            entry.doomed = true;
        }
    }

    /// [`Leases::mark_expired`], unless the lease was renewed in the meantime; returns whether it is doomed.
    pub(crate) fn mark_if_expired(&mut self, job: JobId, epoch: Epoch, now: Duration) -> bool {
        let expired = self.by_job.get_mut(&job).filter(|entry| entry.epoch == epoch && entry.expires <= now);
        expired.map(|entry| entry.doomed = true).is_some()
    }

    /// Counts the leases that a process omitted from its renewal; returns those omitted too often.
    pub(crate) fn count_missing(&mut self, process: &Process, listed: &HashSet<(JobId, Epoch)>) -> Vec<(JobId, Epoch)> {
        let mut abandoned = Vec::new();
        for job in self.by_process.get(process).into_iter().flatten() {
            let Some(entry) = self.by_job.get_mut(job) else { continue };
            if listed.contains(&(*job, entry.epoch)) {
                continue;
            }
            entry.missed = entry.missed.saturating_add(1);
            if entry.missed >= MISSED_MAX {
                abandoned.push((*job, entry.epoch));
            }
        }
        abandoned
    }

    /// The leases of a factory's other processes.
    pub(crate) fn of_others(&self, current: &Process) -> Vec<(JobId, Epoch)> {
        let is_other =
            |entry: &HeldLease| entry.process.factory == current.factory && entry.process.instance != current.instance;
        self.by_job.iter().filter(|(_, entry)| is_other(entry)).map(|(job, entry)| (*job, entry.epoch)).collect()
    }

    /// The jobs that a process holds.
    pub(crate) fn of_process(&self, process: &Process) -> Vec<JobId> {
        self.by_process.get(process).into_iter().flatten().copied().collect()
    }

    /// The leases of a factory.
    pub(crate) fn of_factory(&self, factory: &FactoryId) -> Vec<(JobId, Epoch)> {
        let is_its = |entry: &HeldLease| entry.process.factory == *factory;
        self.by_job.iter().filter(|(_, entry)| is_its(entry)).map(|(job, entry)| (*job, entry.epoch)).collect()
    }

    /// The leases that have expired at `now`. If the reaper itself was paused for longer than `gap_max`, or runs for
    /// the first time, no factory could renew meanwhile: every lease is extended by `ttl` from now instead (row 11).
    pub(crate) fn expired(&mut self, now: Duration, gap_max: Duration, ttl: Duration) -> Vec<(JobId, Epoch)> {
        let was_away = self.last_tick.is_none_or(|last| now.saturating_sub(last) > gap_max);
        self.last_tick = Some(now);
        if was_away {
            for entry in self.by_job.values_mut() {
                entry.expires = entry.expires.max(now + ttl);
            }
            return Vec::new();
        }
        self.by_job.iter().filter(|(_, entry)| entry.expires <= now).map(|(job, entry)| (*job, entry.epoch)).collect()
    }

    /// Records that the reaper runs: a long pass is no pause, but a long gap within one is.
    pub(crate) fn still_running(&mut self, now: Duration, gap_max: Duration) {
        self.last_tick =
            self.last_tick.map(|last| if now.saturating_sub(last) > gap_max { last } else { last.max(now) });
    }

    /// Reserves a seat of a process for a job whose grant is being written, if one of `seats` is free. The caller
    /// releases it with [`Leases::unreserve`], whatever the outcome of the grant.
    pub(crate) fn reserve(&mut self, job: JobId, process: &Process, seats: usize) -> bool {
        let held = self.by_process.get(process);
        let is_other = |other: &JobId| *other != job && held.is_none_or(|held| !held.contains(other));
        let reserved = self.reserved.get(process).into_iter().flat_map(BTreeMap::keys).filter(|other| is_other(other));
        if held.map_or(0, BTreeSet::len) + reserved.count() >= seats {
            return false;
        }
        *self.reserved.entry(process.clone()).or_default().entry(job).or_default() += 1;
        true
    }

    /// Releases a reservation: the grant was written or failed.
    pub(crate) fn unreserve(&mut self, job: JobId, process: &Process) {
        let Some(jobs) = self.reserved.get_mut(process) else { return };
        if let Some(count) = jobs.get_mut(&job) {
            *count -= 1;
            if *count == 0 {
                jobs.remove(&job);
            }
        }
        if jobs.is_empty() {
            self.reserved.remove(process);
        }
    }

    /// The number of leases.
    pub(crate) fn len(&self) -> usize {
        self.by_job.len()
    }

    /// Whether there are no leases.
    pub(crate) fn is_empty(&self) -> bool {
        self.by_job.is_empty()
    }
}

impl FleetState {
    /// When a job's lease expires, on the monotonic clock.
    pub(crate) fn lease_expiry(&self, job: JobId) -> Option<Duration> {
        self.leases.expiry(job)
    }

    /// The number of leases.
    pub(crate) fn lease_count(&self) -> usize {
        self.leases.len()
    }

    /// The jobs that a process holds.
    pub(crate) fn held_jobs(&self, process: &Process) -> Vec<JobId> {
        self.leases.of_process(process)
    }

    /// The leases of a factory.
    pub(crate) fn leases_of_factory(&self, factory: &FactoryId) -> Vec<(JobId, Epoch)> {
        self.leases.of_factory(factory)
    }

    /// The leases of a factory's other processes.
    pub(crate) fn superseded_leases(&self, current: &Process) -> Vec<(JobId, Epoch)> {
        self.leases.of_others(current)
    }

    /// Renews one lease of a process, unless it is being revoked.
    pub(crate) fn renew_lease(&mut self, job: JobId, epoch: Epoch, process: &Process, expires: Duration) -> Renewal {
        self.leases.renew(job, epoch, process, expires)
    }

    /// Counts the leases that a process omitted from its renewal; returns those omitted too often.
    pub(crate) fn count_omitted(&mut self, process: &Process, listed: &HashSet<(JobId, Epoch)>) -> Vec<(JobId, Epoch)> {
        self.leases.count_missing(process, listed)
    }

    /// Marks a lease as being revoked: it can no longer be renewed.
    pub(crate) fn doom_lease(&mut self, job: JobId, epoch: Epoch) {
        self.leases.mark_expired(job, epoch);
    }

    /// [`FleetState::doom_lease`], unless the lease was renewed in the meantime; returns whether it is doomed.
    pub(crate) fn doom_expired_lease(&mut self, job: JobId, epoch: Epoch, now: Duration) -> bool {
        self.leases.mark_if_expired(job, epoch, now)
    }

    /// The leases that have expired at `now`, see [`Leases::expired`].
    pub(crate) fn expired_leases(&mut self, now: Duration, gap_max: Duration, ttl: Duration) -> Vec<(JobId, Epoch)> {
        self.leases.expired(now, gap_max, ttl)
    }

    /// Records that the reaper runs: a long pass is no pause, but a long gap within one is.
    pub(crate) fn note_reaper(&mut self, now: Duration, gap_max: Duration) {
        self.leases.still_running(now, gap_max);
    }

    /// Reserves a seat of a process for a job whose grant is being written, if its factory has a free one. The caller
    /// releases it with [`FleetState::end_grant`], whatever the outcome of the grant.
    pub(crate) fn begin_grant(&mut self, job: JobId, process: &Process) -> bool {
        let seats = self.seat_limit(&process.factory);
        self.leases.reserve(job, process, seats)
    }

    /// Releases a reservation: the grant was written or failed.
    pub(crate) fn end_grant(&mut self, job: JobId, process: &Process) {
        self.leases.unreserve(job, process);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TTL: Duration = Duration::from_secs(90);
    const GAP: Duration = Duration::from_secs(30);

    fn job(n: u8) -> JobId {
        JobId::from_bytes([n; 16])
    }

    fn process_of(factory: &str, n: u8) -> Process {
        Process { factory: factory.parse().unwrap(), instance: InstanceId::from_bytes([n; 16]) }
    }

    fn process(n: u8) -> Process {
        process_of("f", n)
    }

    fn one_lease() -> Leases {
        let mut leases = Leases::default();
        leases.begin(job(1), process(1), Epoch(3), TTL);
        leases
    }

    #[test]
    fn a_lease_without_renewal_expires() {
        let mut leases = one_lease();
        leases.expired(Duration::ZERO, TTL, TTL);

        assert_eq!(leases.expired(TTL - GAP, TTL, TTL), vec![]);
        assert_eq!(leases.expired(TTL, TTL, TTL), vec![(job(1), Epoch(3))]);
    }

    #[test]
    fn a_paused_reaper_reaps_no_lease_on_return() {
        let mut leases = one_lease();
        leases.expired(Duration::from_secs(1), GAP, TTL);

        let back = Duration::from_secs(300);

        assert_eq!(leases.expired(back, GAP, TTL), vec![]);
        assert_eq!(leases.expired(back + GAP, GAP, TTL), vec![]);
        assert_eq!(leases.expiry(job(1)), Some(back + TTL));
    }

    #[test]
    fn the_first_pass_of_the_reaper_reaps_no_lease() {
        let mut leases = one_lease();

        assert_eq!(leases.expired(TTL * 3, GAP, TTL), vec![]);
        assert_eq!(leases.expiry(job(1)), Some(TTL * 4));
    }

    // [row 11]
    #[test]
    fn a_long_reaper_pass_is_no_pause_but_a_gap_within_it_is() {
        let mut leases = one_lease();
        leases.expired(Duration::ZERO, GAP, TTL);
        for step in 1..=9 {
            leases.still_running(GAP / 2 * step, GAP);
        }
        assert_eq!(leases.expired(GAP * 5, GAP, TTL), vec![(job(1), Epoch(3))]);

        let mut leases = one_lease();
        leases.expired(Duration::ZERO, GAP, TTL);
        leases.still_running(TTL, GAP);
        assert_eq!(leases.expired(TTL, GAP, TTL), vec![]);
    }

    // [S6]
    #[test]
    fn a_reserved_seat_counts_once_after_its_grant_is_written() {
        let mut leases = one_lease();

        assert!(leases.reserve(job(2), &process(1), 2));
        assert!(leases.reserve(job(2), &process(1), 2), "the same job asks for the same seat");
        assert!(!leases.reserve(job(3), &process(1), 2));
        leases.begin(job(2), process(1), Epoch(1), TTL);
        assert!(leases.reserve(job(3), &process(1), 3));
        leases.unreserve(job(3), &process(1));
        leases.unreserve(job(2), &process(1));
        leases.unreserve(job(2), &process(1));
        leases.end(job(2));
        assert!(leases.reserve(job(3), &process(1), 2));
    }

    // [row 30]
    #[test]
    fn a_doomed_lease_is_not_renewed_and_a_renewed_one_not_doomed() {
        let mut leases = one_lease();
        assert!(leases.mark_if_expired(job(1), Epoch(3), TTL));
        assert_eq!(leases.renew(job(1), Epoch(3), &process(1), TTL * 2), Renewal::TooLate);

        let mut leases = one_lease();
        assert_eq!(leases.renew(job(1), Epoch(3), &process(1), TTL * 2), Renewal::Renewed);
        assert!(!leases.mark_if_expired(job(1), Epoch(3), TTL));
    }

    #[test]
    fn only_the_process_that_holds_a_lease_renews_it() {
        let mut leases = one_lease();

        assert_eq!(leases.renew(job(1), Epoch(3), &process(2), TTL * 2), Renewal::Unknown);
        assert_eq!(leases.renew(job(1), Epoch(2), &process(1), TTL * 2), Renewal::Unknown);
        assert_eq!(leases.renew(job(1), Epoch(3), &process(1), TTL * 2), Renewal::Renewed);
        assert_eq!(leases.expiry(job(1)), Some(TTL * 2));
    }

    // [§6]
    #[test]
    fn a_job_omitted_from_two_renewals_is_revoked() {
        let mut leases = one_lease();

        assert_eq!(leases.count_missing(&process(1), &HashSet::default()), vec![]);
        assert_eq!(leases.count_missing(&process(1), &[(job(1), Epoch(3))].into_iter().collect()), vec![]);
        assert_eq!(leases.count_missing(&process(1), &HashSet::default()), vec![(job(1), Epoch(3))]);
    }

    // [row 34] [attack: factory A writes to B's job]
    #[test]
    fn another_factory_with_the_same_instance_is_another_process() {
        let mut leases = one_lease();
        let other = process_of("g", 1);

        assert_eq!(leases.renew(job(1), Epoch(3), &other, TTL * 2), Renewal::Unknown);
        for _ in 0..3 {
            assert_eq!(leases.count_missing(&other, &HashSet::default()), vec![]);
        }
        assert!(leases.reserve(job(2), &other, 1), "the seat of one factory is not the seat of the other");
        assert_eq!(leases.of_process(&other), vec![]);
        assert_eq!(leases.expiry(job(1)), Some(TTL));
        assert_eq!(leases.count_missing(&process(1), &HashSet::default()), vec![], "none was counted before");
    }
}
