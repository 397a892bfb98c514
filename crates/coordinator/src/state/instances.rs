//! The factory of each instance id. A factory generates the id of its process itself and sends it with every request,
//! so a request can name any id: this index detects the id of another factory (row 34).

use std::collections::VecDeque;

use domain::{FactoryId, InstanceId};
use foldhash::HashMap;

use crate::coordinator::Coordinator;
use crate::error::Error;
use crate::state::FleetState;
use crate::state::leases::Process;

/// A process superseded this many times has ended.
const FORMER_MAX: usize = 16;

/// The processes of all factories: the current one of each, and the former ones.
#[derive(Debug, Default)]
pub(crate) struct Instances {
    by_factory: HashMap<FactoryId, FactoryProcesses>,
    owners: HashMap<InstanceId, FactoryId>,
}

#[derive(Debug)]
struct FactoryProcesses {
    current: InstanceId,
    /// Oldest first.
    former: VecDeque<InstanceId>,
}

impl FactoryProcesses {
    fn all(&self) -> impl Iterator<Item = InstanceId> {
        self.former.iter().copied().chain([self.current])
    }
}

impl Instances {
    /// Whether an instance belongs or belonged to another factory.
    pub(crate) fn is_foreign(&self, factory: &FactoryId, instance: InstanceId) -> bool {
        self.owners.get(&instance).is_some_and(|owner| owner != factory)
    }

    /// Whether a process is a former one of the factory.
    pub(crate) fn is_former(&self, factory: &FactoryId, instance: InstanceId) -> bool {
        self.by_factory.get(factory).is_some_and(|known| known.former.contains(&instance))
    }

    /// The former processes of a factory after `next` replaces `current`.
    pub(crate) fn former_after(
        &self,
        factory: &FactoryId,
        current: Option<InstanceId>,
        next: InstanceId,
    ) -> VecDeque<InstanceId> {
        let mut former = self.by_factory.get(factory).map(|known| known.former.clone()).unwrap_or_default();
        former.retain(|instance| *instance != next);
        former.extend(current.filter(|current| *current != next));
        while former.len() > FORMER_MAX {
            former.pop_front();
        }
        former
    }

    /// Sets the processes of a factory, as stored.
    pub(crate) fn set(&mut self, factory: &FactoryId, current: InstanceId, former: VecDeque<InstanceId>) {
        self.remove(factory);
        let processes = FactoryProcesses { current, former };
        for instance in processes.all() {
            // If two factories register one id at the same time, the first keeps it.
            self.owners.entry(instance).or_insert_with(|| factory.clone());
        }
        self.by_factory.insert(factory.clone(), processes);
    }

    /// Removes a factory.
    pub(crate) fn remove(&mut self, factory: &FactoryId) {
        let Some(processes) = self.by_factory.remove(factory) else { return };
        for instance in processes.all() {
            if self.owners.get(&instance) == Some(factory) {
                self.owners.remove(&instance);
            }
        }
    }
}

impl FleetState {
    /// Whether an instance belongs or belonged to another factory.
    pub(crate) fn is_foreign_instance(&self, factory: &FactoryId, instance: InstanceId) -> bool {
        self.instances.is_foreign(factory, instance)
    }

    /// Whether a process is a former one of the factory.
    pub(crate) fn is_former_instance(&self, factory: &FactoryId, instance: InstanceId) -> bool {
        self.instances.is_former(factory, instance)
    }

    /// The former processes of a factory after `next` replaces `current`.
    pub(crate) fn former_instances(
        &self,
        factory: &FactoryId,
        current: Option<InstanceId>,
        next: InstanceId,
    ) -> VecDeque<InstanceId> {
        self.instances.former_after(factory, current, next)
    }
}

impl Coordinator {
    /// The process that a request names, unless it is another factory's.
    pub(crate) fn process(&self, factory: &FactoryId, instance: InstanceId) -> Result<Process, Error> {
        if self.state.lock().is_foreign_instance(factory, instance) {
            return Err(Error::ForeignInstance);
        }
        Ok(Process { factory: factory.clone(), instance })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn factory(name: &str) -> FactoryId {
        name.parse().unwrap()
    }

    fn instance(n: u8) -> InstanceId {
        InstanceId::from_bytes([n; 16])
    }

    fn register(instances: &mut Instances, name: &str, current: Option<u8>, next: u8) {
        let former = instances.former_after(&factory(name), current.map(instance), instance(next));
        instances.set(&factory(name), instance(next), former);
    }

    // [T3]
    #[test]
    fn current_and_former_instances_belong_to_the_factory() {
        let mut instances = Instances::default();
        register(&mut instances, "a", None, 1);
        register(&mut instances, "a", Some(1), 2);

        for n in [1, 2] {
            assert!(instances.is_foreign(&factory("b"), instance(n)), "{n}");
            assert!(!instances.is_foreign(&factory("a"), instance(n)), "{n}");
        }
        assert!(!instances.is_foreign(&factory("b"), instance(3)));
        assert!(instances.is_former(&factory("a"), instance(1)) && !instances.is_former(&factory("a"), instance(2)));
    }

    #[test]
    fn removing_a_factory_frees_its_instances() {
        let mut instances = Instances::default();
        register(&mut instances, "a", None, 1);
        register(&mut instances, "b", None, 1);
        assert!(instances.is_foreign(&factory("b"), instance(1)), "the first keeps it");

        instances.remove(&factory("b"));
        assert!(instances.is_foreign(&factory("b"), instance(1)));

        instances.remove(&factory("a"));
        assert!(!instances.is_foreign(&factory("b"), instance(1)));
    }

    #[test]
    fn former_instances_are_bounded() {
        let mut instances = Instances::default();
        register(&mut instances, "a", None, 0);
        for n in 1..=100 {
            register(&mut instances, "a", Some(n - 1), n);
        }

        assert_eq!(instances.owners.len(), FORMER_MAX + 1);
        assert!(!instances.is_foreign(&factory("b"), instance(0)));
        assert!(instances.is_foreign(&factory("b"), instance(99)));
    }
}
