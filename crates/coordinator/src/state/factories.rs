//! Factories in memory: what they registered, when they last reported, and what the scheduler sees of them.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use domain::{Epoch, Factory, FactoryId, InstanceId, JobId, ProductId, Receives, Timestamp, Versioned};
use scheduler::{FactoryState, Presence};

use super::FleetState;

/// A factory's presence: in memory only [I14].
#[derive(Debug, Clone)]
pub(crate) struct Liveness {
    pub(crate) last: Timestamp,
    pub(crate) heard: Duration,
    pub(crate) load: f64,
    pub(crate) disk_free_bytes: Option<u64>,
    /// Since when its disk is low on free space.
    pub(crate) disk_low_since: Option<Timestamp>,
    pub(crate) products: BTreeSet<ProductId>,
    /// Since when its inbox stream is closed; none for a factory without a stream.
    pub(crate) disconnected_since: Option<Timestamp>,
    /// Where its offers come from.
    pub(crate) receives: Receives,
    /// When it signed off, until it connects again.
    pub(crate) stopped_at: Option<Timestamp>,
}

impl FleetState {
    /// Notes where a factory's offers come from.
    pub(crate) fn set_receives(&mut self, id: &FactoryId, receives: Receives) {
        if let Some(liveness) = self.liveness.get_mut(id) {
            liveness.receives = receives;
        }
    }

    /// A factory, as last stored.
    pub(crate) fn factory(&self, id: &FactoryId) -> Option<&Versioned<Factory>> {
        self.factories.get(id)
    }

    /// Whether a factory is registered.
    pub(crate) fn has_factory(&self, id: &FactoryId) -> bool {
        self.factories.contains_key(id)
    }

    /// The registered factories, by id.
    pub(crate) fn factories(&self) -> impl Iterator<Item = &Factory> {
        self.factories.values().map(|known| &known.value)
    }

    /// The ids of the registered factories, in order.
    pub(crate) fn factory_ids(&self) -> impl Iterator<Item = &FactoryId> {
        self.factories.keys()
    }

    /// The seats of a factory; none for an unknown one.
    pub(crate) fn seat_limit(&self, id: &FactoryId) -> usize {
        self.factories.get(id).map_or(0, |known| known.value.seat_limit as usize)
    }

    /// A factory as the scheduler sees it.
    pub(crate) fn factory_state(&self, id: &FactoryId) -> Option<&FactoryState> {
        self.fleet.get(id)
    }

    /// All factories as the scheduler sees them.
    pub(crate) fn factory_states(&self) -> impl Iterator<Item = &FactoryState> {
        self.fleet.iter()
    }

    /// The factories that are connected.
    pub(crate) fn live_factories(&self) -> impl Iterator<Item = &FactoryState> {
        self.factory_states().filter(|state| state.presence == Presence::Live)
    }

    /// A factory's presence, as the scheduler sees it.
    pub(crate) fn presence_of(&self, id: &FactoryId) -> Option<Presence> {
        self.factory_state(id).map(|state| state.presence)
    }

    /// When and how a factory last reported.
    pub(crate) fn liveness_of(&self, id: &FactoryId) -> Option<&Liveness> {
        self.liveness.get(id)
    }

    /// When a factory signed off.
    pub(crate) fn stopped_at(&self, id: &FactoryId) -> Option<Timestamp> {
        self.liveness.get(id)?.stopped_at
    }

    /// The oldest last report of the factories that are not stale yet, on the monotonic clock.
    pub(crate) fn oldest_report(&self) -> Option<Duration> {
        let is_current = |id: &FactoryId| matches!(self.presence_of(id), Some(Presence::Live | Presence::Disconnected));
        self.liveness.iter().filter(|(id, _)| is_current(id)).map(|(_, pulse)| pulse.heard).min()
    }

    /// Replaces a factory and its former processes by what is stored.
    pub(crate) fn put_factory(&mut self, factory: Versioned<Factory>, former: VecDeque<InstanceId>) {
        let id = factory.value.id.clone();
        self.instances.set(&id, factory.value.instance, former);
        self.factories.insert(id, factory);
    }

    /// Updates a factory in the scheduler's view.
    pub(crate) fn show_factory(&mut self, state: FactoryState) {
        let is_back = |before: &FactoryState| before.resting.keys().any(|engine| !state.resting.contains_key(engine));
        let has_engine_back = self.fleet.get(&state.factory.id).is_some_and(is_back);
        self.fleet.upsert(state);
        if has_engine_back {
            // Clients that wait for a new queue version have to ask again.
            self.touch_waiting();
        }
    }

    /// Records when and how a factory reported.
    pub(crate) fn set_liveness(&mut self, id: &FactoryId, liveness: Liveness) {
        self.liveness.insert(id.clone(), liveness);
    }

    /// Records that a factory has not signed off.
    pub(crate) fn clear_stop(&mut self, id: &FactoryId) {
        if let Some(pulse) = self.liveness.get_mut(id) {
            pulse.stopped_at = None;
        }
    }

    /// Records that a factory's inbox stream closed; returns whether that is new. One that signed off is not
    /// disconnected.
    pub(crate) fn disconnect(&mut self, id: &FactoryId, now: Timestamp) -> bool {
        let is_connected = |pulse: &&mut Liveness| pulse.disconnected_since.is_none() && pulse.stopped_at.is_none();
        let Some(pulse) = self.liveness.get_mut(id).filter(is_connected) else { return false };
        pulse.disconnected_since = Some(now);
        true
    }

    /// Records that a factory is connected; returns whether it was disconnected.
    pub(crate) fn reconnect(&mut self, id: &FactoryId) -> bool {
        self.liveness.get_mut(id).is_some_and(|pulse| pulse.disconnected_since.take().is_some())
    }

    /// Removes a factory; returns the leases that it still holds.
    pub(crate) fn remove_factory(&mut self, id: &FactoryId) -> Vec<(JobId, Epoch)> {
        self.factories.remove(id);
        self.liveness.remove(id);
        self.offer_answers.forget(id);
        self.instances.remove(id);
        self.fleet.remove(id);
        self.forget_member(id);
        self.leases.of_factory(id)
    }
}
