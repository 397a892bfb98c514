//! Manifests of jobs that wait for a factory: a grant soon after the submit needs no read of the store.

use std::collections::VecDeque;
use std::time::Duration;

use domain::{Body, JobId};
use foldhash::HashMap;
use parking_lot::Mutex;

/// The size of the cache.
const BYTES_MAX: usize = 32 * 1024 * 1024;

/// A manifest expires after this time: its job may wait for days.
const KEPT_MAX: Duration = Duration::from_secs(60);

/// Manifests submitted recently. Jobs are granted roughly in the order of submission, so the cache keeps what it has; a
/// manifest that does not fit is read from the store later.
#[derive(Default)]
pub(crate) struct ManifestCache(Mutex<CacheEntries>);

#[derive(Default)]
struct CacheEntries {
    bodies: HashMap<JobId, Body>,
    /// In the order of submission; some may already be removed.
    order: VecDeque<(Duration, JobId)>,
    bytes: usize,
}

impl ManifestCache {
    /// Caches a manifest until its job is granted, if there is space for it `now`.
    pub(crate) fn keep(&self, id: JobId, body: Body, now: Duration) {
        let mut shelf = self.0.lock();
        shelf.clear_out(now);
        if shelf.bytes + body.0.len() > BYTES_MAX {
            return;
        }
        shelf.bytes += body.0.len();
        shelf.order.push_back((now, id));
        if let Some(former) = shelf.bodies.insert(id, body) {
            shelf.bytes -= former.0.len();
        }
    }

    /// Returns the manifest and removes it from the cache.
    pub(crate) fn take(&self, id: JobId) -> Option<Body> {
        self.0.lock().remove(id)
    }
}

impl CacheEntries {
    fn clear_out(&mut self, now: Duration) {
        while let Some((since, id)) = self.order.front().copied() {
            let is_kept = self.bodies.contains_key(&id);
            if is_kept && now.saturating_sub(since) < KEPT_MAX {
                return;
            }
            self.order.pop_front();
            self.remove(id);
        }
    }

    fn remove(&mut self, id: JobId) -> Option<Body> {
        let body = self.bodies.remove(&id)?;
        self.bytes -= body.0.len();
        Some(body)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Duration = Duration::ZERO;

    fn id(n: u32) -> JobId {
        let mut bytes = [0; 16];
        bytes[..4].copy_from_slice(&n.to_be_bytes());
        JobId::from_bytes(bytes)
    }

    #[test]
    fn a_full_manifest_cache_rejects_until_old_ones_expire() {
        let (bodies, large) = (ManifestCache::default(), Body("x".repeat(BYTES_MAX / 4).into()));

        (0..5).for_each(|n| bodies.keep(id(n), large.clone(), START));
        assert_eq!(bodies.take(id(4)), None, "there was no room");
        assert_eq!(bodies.take(id(0)), Some(large.clone()));
        assert_eq!(bodies.take(id(0)), None, "it was taken");

        bodies.keep(id(5), large.clone(), KEPT_MAX);
        assert_eq!(bodies.take(id(1)), None, "no accept took it in time");
        assert_eq!(bodies.take(id(5)), Some(large));
    }

    #[test]
    fn a_taken_manifest_leaves_the_cache() {
        let bodies = ManifestCache::default();

        for n in 0..100_000 {
            bodies.keep(id(n), Body("x".into()), START);
            bodies.take(id(n));
        }

        let shelf = bodies.0.lock();
        assert_eq!((shelf.bodies.len(), shelf.bytes, shelf.order.len()), (0, 0, 1));
    }
}
