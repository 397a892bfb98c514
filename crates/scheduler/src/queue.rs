//! The queue of dispatchable jobs, in the order of service [S7].

use std::collections::{BTreeMap, BTreeSet, btree_set};
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use domain::{FactoryId, JobId, Priority, ProductId, Shape, Timestamp};
use foldhash::HashMap;

use crate::view::Demand;

/// A waiting job rises one priority class per interval.
pub const AGEING_STEP: Duration = Duration::from_secs(30 * 60);

/// A dispatchable job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitingJob {
    /// The job.
    pub job: JobId,
    /// The constraints of the job.
    pub shape: Arc<Shape>,
    /// The current priority.
    pub priority: Priority,
    /// When it started to wait.
    pub since: Timestamp,
    /// A factory that gets the job only as a last resort.
    pub avoid: Option<FactoryId>,
}

impl WaitingJob {
    /// The demand of the job.
    pub fn demand(&self) -> Demand<'_> {
        Demand { shape: &self.shape, since: self.since, avoid: self.avoid.as_ref() }
    }
}

/// Dispatchable jobs, by product and shape.
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
    /// The first job of each shape, by priority, to find the next job over all shapes.
    heads: [BTreeSet<ShapeHead>; CLASSES],
    len: usize,
}

/// Waiting jobs of one shape, by priority, then by waiting time.
#[derive(Debug, Clone, Default)]
struct ShapeQueue {
    jobs: [BTreeSet<QueuePosition>; CLASSES],
}

/// Position of a job within its shape and priority.
pub(crate) type QueuePosition = (Timestamp, JobId);

/// The first job of a shape at one priority.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ShapeHead {
    pub(crate) place: QueuePosition,
    pub(crate) shape: Arc<Shape>,
}

/// Number of priority classes.
pub(crate) const CLASSES: usize = Priority::ALL.len();

impl Queue {
    /// A queue without jobs.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds or replaces a job.
    pub fn insert(&mut self, waiting: WaitingJob) {
        self.remove(&waiting.job);
        self.lines.entry(waiting.shape.product.clone()).or_default().insert(&waiting);
        self.jobs.insert(waiting.job, waiting);
    }

    /// Removes a job that was dispatched or no longer waits.
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

    /// Number of waiting jobs.
    pub fn len(&self) -> usize {
        self.jobs.len()
    }

    /// Whether no job waits.
    pub fn is_empty(&self) -> bool {
        self.jobs.is_empty()
    }

    /// Number of waiting jobs of a product.
    pub fn len_of(&self, product: &ProductId) -> usize {
        self.lines.get(product).map_or(0, |line| line.len)
    }

    /// Products with waiting jobs, by id.
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

    /// The first job of a shape and priority after `after`.
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
        self.remove_head(&waiting.shape, class);
        if let Some(lane) = self.lanes.get_mut(&waiting.shape) {
            lane.jobs[class].insert(place);
        }
        self.insert_head(&waiting.shape, class);
        self.len += 1;
    }

    fn remove(&mut self, waiting: &WaitingJob) {
        let (class, place) = (class_of(waiting.priority), (waiting.since, waiting.job));
        self.remove_head(&waiting.shape, class);
        let Some(lane) = self.lanes.get_mut(&waiting.shape) else { return };
        lane.jobs[class].remove(&place);
        if lane.len() == 0 {
            self.lanes.remove(&waiting.shape);
        }
        self.insert_head(&waiting.shape, class);
        self.len -= 1;
    }

    /// Removes the first job of a shape from the heads, before the lane changes.
    fn remove_head(&mut self, shape: &Arc<Shape>, class: usize) {
        if let Some(place) = self.next(shape, class, None) {
            self.heads[class].remove(&ShapeHead { place, shape: Arc::clone(shape) });
        }
    }

    /// Adds the first job of a shape to the heads, after the lane changed.
    fn insert_head(&mut self, shape: &Arc<Shape>, class: usize) {
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

/// The class of a job after ageing: 0 is served first.
pub(crate) fn aged(class: usize, waited: Duration) -> usize {
    let steps = waited.as_millis() / AGEING_STEP.as_millis();
    class.saturating_sub(usize::try_from(steps).unwrap_or(usize::MAX))
}
