//! Counts used seats for every kind of limit.

use std::collections::BTreeMap;

use domain::{EngineName, FactoryId, JobId, ProductId, RepoName};
use foldhash::HashMap;

use super::Seat;

/// The used seats.
#[derive(Debug, Clone, Default)]
pub(crate) struct SeatUsage {
    /// Never iterated: its order would differ from one process to the next.
    seats: HashMap<JobId, Seat>,
    /// Seats kept for waiting jobs.
    reserved: BTreeMap<JobId, Seat>,
    factories: BTreeMap<FactoryId, FactoryUsage>,
    pub(crate) repos: CountByName<RepoName>,
    pub(crate) products: CountByName<ProductId>,
}

/// The used seats of one factory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct FactoryUsage {
    pub(crate) seats: u32,
    pub(crate) engines: CountByName<EngineName>,
    pub(crate) repos: CountByName<RepoName>,
}

/// Counts by name, without zero entries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CountByName<K>(BTreeMap<K, u32>);

static NOTHING: FactoryUsage =
    FactoryUsage { seats: 0, engines: CountByName(BTreeMap::new()), repos: CountByName(BTreeMap::new()) };

impl SeatUsage {
    pub(crate) fn occupy(&mut self, job: JobId, seat: Seat) {
        self.add(&seat);
        self.seats.insert(job, seat);
    }

    pub(crate) fn vacate(&mut self, job: &JobId) -> Option<Seat> {
        let seat = self.seats.remove(job)?;
        self.subtract(&seat);
        Some(seat)
    }

    /// Keeps a seat for a waiting job. It counts as used.
    pub(crate) fn reserve(&mut self, job: JobId, seat: Seat) {
        self.add(&seat);
        self.reserved.insert(job, seat);
    }

    pub(crate) fn unreserve(&mut self, job: &JobId) -> Option<Seat> {
        let seat = self.reserved.remove(job)?;
        self.subtract(&seat);
        Some(seat)
    }

    pub(crate) fn reserved(&self) -> &BTreeMap<JobId, Seat> {
        &self.reserved
    }

    fn add(&mut self, seat: &Seat) {
        self.factories.entry(seat.factory.clone()).or_default().add(seat);
        self.products.add(&seat.product);
        if let Some(repo) = &seat.repo {
            self.repos.add(repo);
        }
    }

    fn subtract(&mut self, seat: &Seat) {
        if let Some(used) = self.factories.get_mut(&seat.factory) {
            used.subtract(seat);
            if used.seats == 0 {
                self.factories.remove(&seat.factory);
            }
        }
        self.products.subtract(&seat.product);
        if let Some(repo) = &seat.repo {
            self.repos.subtract(repo);
        }
    }

    pub(crate) fn seat(&self, job: &JobId) -> Option<&Seat> {
        self.seats.get(job)
    }

    pub(crate) fn at(&self, factory: &FactoryId) -> &FactoryUsage {
        self.factories.get(factory).unwrap_or(&NOTHING)
    }
}

impl FactoryUsage {
    pub(crate) fn add(&mut self, seat: &Seat) {
        self.seats += 1;
        if let Some(engine) = &seat.engine {
            self.engines.add(engine);
        }
        if let Some(repo) = &seat.repo {
            self.repos.add(repo);
        }
    }

    pub(crate) fn subtract(&mut self, seat: &Seat) {
        self.seats -= 1;
        if let Some(engine) = &seat.engine {
            self.engines.subtract(engine);
        }
        if let Some(repo) = &seat.repo {
            self.repos.subtract(repo);
        }
    }
}

impl<K> Default for CountByName<K> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<K: Ord + Clone> CountByName<K> {
    pub(crate) fn of(&self, name: &K) -> u32 {
        self.0.get(name).copied().unwrap_or(0)
    }

    pub(crate) fn add(&mut self, name: &K) {
        match self.0.get_mut(name) {
            Some(count) => *count += 1,
            None => {
                self.0.insert(name.clone(), 1);
            }
        }
    }

    pub(crate) fn subtract(&mut self, name: &K) {
        if let Some(count) = self.0.get_mut(name) {
            *count -= 1;
            if *count == 0 {
                self.0.remove(name);
            }
        }
    }
}
