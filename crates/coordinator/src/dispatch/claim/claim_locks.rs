//! One claim per factory at a time, and the nonces that have won.

use std::collections::VecDeque;
use std::sync::Arc;

use domain::{ClaimNonce, FactoryId, InstanceId};
use foldhash::HashMap;
use parking_lot::Mutex;
use protocol::ClaimRequest;
use tokio::sync::Mutex as AsyncMutex;

/// Nonces kept per factory: a request delayed for longer than this many wins is not expected any more.
const WON_MAX: usize = 64;

/// The claim locks of all factories.
#[derive(Default)]
pub(crate) struct ClaimLocks {
    by_factory: Mutex<HashMap<FactoryId, Arc<AsyncMutex<ClaimLock>>>>,
}

/// The claims that one factory has won. In memory only: after a restart a late request costs at most the time until its
/// process omits the grant from its renewals.
#[derive(Default)]
pub(crate) struct ClaimLock {
    instance: Option<InstanceId>,
    won: VecDeque<ClaimNonce>,
}

impl ClaimLocks {
    /// The claim lock of a factory.
    pub(crate) fn of(&self, factory: &FactoryId) -> Arc<AsyncMutex<ClaimLock>> {
        let mut lanes = self.by_factory.lock();
        match lanes.get(factory) {
            Some(lane) => Arc::clone(lane),
            None => Arc::clone(lanes.entry(factory.clone()).or_default()),
        }
    }

    /// Removes a factory.
    pub(crate) fn forget(&self, factory: &FactoryId) {
        self.by_factory.lock().remove(factory);
    }
}

impl ClaimLock {
    /// Whether a claim has won before.
    pub(crate) fn has_won(&self, claim: &ClaimRequest) -> bool {
        self.instance == Some(claim.instance) && self.won.contains(&claim.claim_nonce)
    }

    /// Records that a claim has won: its nonce never wins another job.
    pub(crate) fn won(&mut self, claim: &ClaimRequest) {
        if self.instance != Some(claim.instance) {
            self.instance = Some(claim.instance);
            self.won.clear();
        }
        if !self.won.contains(&claim.claim_nonce) {
            self.won.push_back(claim.claim_nonce);
        }
        while self.won.len() > WON_MAX {
            self.won.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(instance: u8, nonce: u8) -> ClaimRequest {
        ClaimRequest {
            factory_id: None,
            instance: InstanceId::from_bytes([instance; 16]),
            claim_nonce: ClaimNonce::from_bytes([nonce; 16]),
            limit: None,
            products: None,
            jobs: None,
            except_products: Vec::new(),
        }
    }

    #[test]
    fn a_nonce_belongs_to_its_process() {
        let mut lane = ClaimLock::default();

        lane.won(&claim(1, 1));

        assert!(lane.has_won(&claim(1, 1)));
        assert!(!lane.has_won(&claim(2, 1)));
        lane.won(&claim(2, 2));
        assert!(!lane.has_won(&claim(1, 1)));
    }

    #[test]
    fn won_nonces_are_bounded() {
        let mut lane = ClaimLock::default();

        for nonce in 0..=255 {
            lane.won(&claim(1, nonce));
        }

        assert_eq!(lane.won.len(), WON_MAX);
        assert!(lane.has_won(&claim(1, 255)));
    }
}
