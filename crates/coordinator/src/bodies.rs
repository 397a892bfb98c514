//! Manifests of jobs that nobody has taken yet: whoever takes one soon gets it without asking the store.

use std::collections::{HashMap, VecDeque};

use domain::{Body, JobId};
use parking_lot::Mutex;

/// Bytes of manifests that are kept; the oldest go first.
const BYTES_MAX: usize = 16 * 1024 * 1024;

/// Manifests that were submitted lately.
#[derive(Default)]
pub(crate) struct Bodies(Mutex<Shelf>);

#[derive(Default)]
struct Shelf {
    bodies: HashMap<JobId, Body>,
    /// In the order of arrival; some may be gone already.
    order: VecDeque<JobId>,
    bytes: usize,
}

impl Bodies {
    /// Keeps a manifest until somebody takes it, or newer ones need the room.
    pub(crate) fn keep(&self, id: JobId, body: Body) {
        let mut shelf = self.0.lock();
        shelf.bytes += body.0.len();
        if let Some(former) = shelf.bodies.insert(id, body) {
            shelf.bytes -= former.0.len();
        } else {
            shelf.order.push_back(id);
        }
        while shelf.bytes > BYTES_MAX || shelf.order.len() > 2 * shelf.bodies.len() + 1_024 {
            let Some(oldest) = shelf.order.pop_front() else { break };
            shelf.remove(oldest);
        }
    }

    /// The manifest, which is then no longer kept.
    pub(crate) fn take(&self, id: JobId) -> Option<Body> {
        self.0.lock().remove(id)
    }
}

impl Shelf {
    fn remove(&mut self, id: JobId) -> Option<Body> {
        let body = self.bodies.remove(&id)?;
        self.bytes -= body.0.len();
        Some(body)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(n: u32) -> JobId {
        let mut bytes = [0; 16];
        bytes[..4].copy_from_slice(&n.to_be_bytes());
        JobId::from_bytes(bytes)
    }

    #[test]
    fn the_oldest_manifests_make_room_for_new_ones() {
        let (bodies, large) = (Bodies::default(), Body("x".repeat(BYTES_MAX / 4).into()));

        (0..5).for_each(|n| bodies.keep(id(n), large.clone()));

        assert_eq!(bodies.take(id(0)), None);
        assert_eq!(bodies.take(id(1)), Some(large));
        assert_eq!(bodies.take(id(1)), None, "it was taken");
    }

    #[test]
    fn what_was_taken_leaves_nothing_behind() {
        let bodies = Bodies::default();

        for n in 0..100_000 {
            bodies.keep(id(n), Body("x".into()));
            bodies.take(id(n));
        }

        let shelf = bodies.0.lock();
        assert_eq!((shelf.bodies.len(), shelf.bytes), (0, 0));
        assert!(shelf.order.len() <= 1_026, "{}", shelf.order.len());
    }
}
