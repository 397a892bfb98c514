//! The jobs that could be dispatched, in the order of service [S7].

use std::collections::{BTreeMap, BTreeSet, btree_set};
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use domain::{FactoryId, JobId, Priority, ProductId, Shape, Timestamp};
use foldhash::HashMap;

use crate::view::Demand;

/// A waiting job rises one class of priority each time this has passed.
pub const AGEING_STEP: Duration = Duration::from_secs(30 * 60);

/// A job that could be dispatched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitingJob {
    /// The job.
    pub job: JobId,
    /// What decides where it can run.
    pub shape: Arc<Shape>,
    /// How urgent it is.
    pub priority: Priority,
    /// When it began to wait.
    pub since: Timestamp,
    /// A factory that gets it only if nobody else can take it.
    pub avoid: Option<FactoryId>,
}

impl WaitingJob {
    /// What it asks of the fleet.
    pub fn demand(&self) -> Demand<'_> {
        Demand { shape: &self.shape, since: self.since, avoid: self.avoid.as_ref() }
    }
}

/// The jobs that could be dispatched, by product and shape.
#[derive(Debug, Clone, Default)]
pub struct Queue {
    /// Never iterated: its order would differ from one process to the next.
    jobs: HashMap<JobId, WaitingJob>,
    lines: BTreeMap<ProductId, ProductQueue>,
}

/// The waiting jobs of one product.
#[derive(Debug, Clone, Default)]
pub(crate) struct ProductQueue {
    lanes: BTreeMap<Arc<Shape>, ShapeQueue>,
    /// The first job of each shape, by priority: what the next of all shapes is found from.
    heads: [BTreeSet<ShapeHead>; CLASSES],
    len: usize,
}

/// The waiting jobs of one shape, by priority, then by the time since which they wait.
#[derive(Debug, Clone, Default)]
struct ShapeQueue {
    jobs: [BTreeSet<QueuePosition>; CLASSES],
}

/// A job's place among those of its shape and priority.
pub(crate) type QueuePosition = (Timestamp, JobId);

/// The first job of a shape at one priority.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ShapeHead {
    pub(crate) place: QueuePosition,
    pub(crate) shape: Arc<Shape>,
}

/// Classes of priority.
pub(crate) const CLASSES: usize = Priority::ALL.len();

impl Queue {
    /// A queue without jobs.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes in a job; what was known of it before is replaced.
    pub fn insert(&mut self, waiting: WaitingJob) {
        self.remove(&waiting.job);
        self.lines.entry(waiting.shape.product.clone()).or_default().insert(&waiting);
        self.jobs.insert(waiting.job, waiting);
    }

    /// Takes a job out: it was dispatched, or does not wait any more.
    pub fn remove(&mut self, job: &JobId) -> Option<WaitingJob> {
        let waiting = self.jobs.remove(job)?;
        if let Some(line) = self.lines.get_mut(&waiting.shape.product) {
            line.remove(&waiting);
            if line.len == 0 {
                self.lines.remove(&waiting.shape.product);
            }
        }
        Some(waiting)
    }

    /// A waiting job.
    pub fn get(&self, job: &JobId) -> Option<&WaitingJob> {
        self.jobs.get(job)
    }

    /// How many jobs wait.
    pub fn len(&self) -> usize {
        self.jobs.len()
    }

    /// Whether no job waits.
    pub fn is_empty(&self) -> bool {
        self.jobs.is_empty()
    }

    /// How many jobs of a product wait.
    pub fn len_of(&self, product: &ProductId) -> usize {
        self.lines.get(product).map_or(0, |line| line.len)
    }

    /// The products that have jobs waiting, by id.
    pub fn products(&self) -> impl Iterator<Item = &ProductId> {
        self.lines.keys()
    }

    pub(crate) fn lines(&self) -> impl Iterator<Item = (&ProductId, &ProductQueue)> {
        self.lines.iter()
    }
}

impl ProductQueue {
    /// The first jobs of all shapes at one priority, in the order of service.
    pub(crate) fn heads(&self, class: usize) -> btree_set::Iter<'_, ShapeHead> {
        self.heads[class].iter()
    }

    pub(crate) fn shapes(&self) -> impl Iterator<Item = &Arc<Shape>> {
        self.lanes.keys()
    }

    pub(crate) fn len(&self, shape: &Arc<Shape>) -> usize {
        self.lanes.get(shape).map_or(0, ShapeQueue::len)
    }

    /// The first job of a shape and priority behind `after`.
    pub(crate) fn next(&self, shape: &Arc<Shape>, class: usize, after: Option<QueuePosition>) -> Option<QueuePosition> {
        let start = after.map_or(Bound::Unbounded, Bound::Excluded);
        self.lanes.get(shape)?.jobs[class].range((start, Bound::Unbounded)).next().copied()
    }

    /// The job of a shape that has waited longest.
    pub(crate) fn oldest(&self, shape: &Arc<Shape>) -> Option<QueuePosition> {
        (0..CLASSES).filter_map(|class| self.next(shape, class, None)).min()
    }

    fn insert(&mut self, waiting: &WaitingJob) {
        let (class, place) = (class_of(waiting.priority), (waiting.since, waiting.job));
        if !self.lanes.contains_key(&waiting.shape) {
            self.lanes.insert(Arc::clone(&waiting.shape), ShapeQueue::default());
        }
        self.behead(&waiting.shape, class);
        if let Some(lane) = self.lanes.get_mut(&waiting.shape) {
            lane.jobs[class].insert(place);
        }
        self.crown(&waiting.shape, class);
        self.len += 1;
    }

    fn remove(&mut self, waiting: &WaitingJob) {
        let (class, place) = (class_of(waiting.priority), (waiting.since, waiting.job));
        self.behead(&waiting.shape, class);
        let Some(lane) = self.lanes.get_mut(&waiting.shape) else { return };
        lane.jobs[class].remove(&place);
        if lane.len() == 0 {
            self.lanes.remove(&waiting.shape);
        }
        self.crown(&waiting.shape, class);
        self.len -= 1;
    }

    /// Takes the first job of a shape out of the heads, before the lane changes.
    fn behead(&mut self, shape: &Arc<Shape>, class: usize) {
        if let Some(place) = self.next(shape, class, None) {
            self.heads[class].remove(&ShapeHead { place, shape: Arc::clone(shape) });
        }
    }

    /// Puts the first job of a shape into the heads, after the lane has changed.
    fn crown(&mut self, shape: &Arc<Shape>, class: usize) {
        if let Some((own, lane)) = self.lanes.get_key_value(shape)
            && let Some(place) = lane.jobs[class].first()
        {
            self.heads[class].insert(ShapeHead { place: *place, shape: Arc::clone(own) });
        }
    }
}

impl ShapeQueue {
    fn len(&self) -> usize {
        self.jobs.iter().map(BTreeSet::len).sum()
    }
}

pub(crate) fn class_of(priority: Priority) -> usize {
    usize::from(priority.rank())
}

/// The class that a job counts in after having waited: 0 is served first.
pub(crate) fn aged(class: usize, waited: Duration) -> usize {
    let steps = waited.as_millis() / AGEING_STEP.as_millis();
    class.saturating_sub(usize::try_from(steps).unwrap_or(usize::MAX))
}
