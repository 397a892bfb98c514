//! Fair share: products by their share of the seats, their jobs in the order of service [S7].

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet, btree_set};
use std::iter::Peekable;
use std::sync::Arc;

use domain::{JobId, ProductId, Shape, Timestamp};

use crate::queue::{CLASSES, ProductQueue, QueuePosition, ShapeHead, aged};
use crate::view::FleetView;

/// Products with waiting jobs that are not paused, the smallest share first.
pub(crate) struct FairShare<'a> {
    now: Timestamp,
    lines: BTreeMap<(Share, &'a ProductId), ProductTurn<'a>>,
}

/// Waiting jobs of one product, in the order of service.
pub(crate) struct ProductTurn<'a> {
    line: &'a ProductQueue,
    fresh: [Peekable<btree_set::Iter<'a, ShapeHead>>; CLASSES],
    /// The next jobs of shapes that were already served.
    further: [BTreeSet<ShapeHead>; CLASSES],
    served: BTreeMap<Arc<Shape>, ServedShare>,
    skipped: BTreeSet<Arc<Shape>>,
}

/// The next job to serve.
pub(crate) struct NextJob {
    pub(crate) job: JobId,
    pub(crate) shape: Arc<Shape>,
    class: usize,
    place: QueuePosition,
}

/// Used seats ÷ weight, compared without division.
#[derive(Debug, Clone, Copy)]
struct Share {
    seats: u32,
    weight: u32,
}

#[derive(Default)]
struct ServedShare {
    jobs: usize,
    last: [Option<QueuePosition>; CLASSES],
}

/// The result of serving a job.
pub(crate) enum ServiceOutcome {
    /// Placed: the product uses one more seat.
    Placed,
    /// Neither this job nor any other of its shape can be placed.
    SkipShape,
    /// This job cannot be placed, but others of its shape may be.
    SkipJob,
}

impl<'a> FairShare<'a> {
    /// The products that a factory polls for.
    pub(crate) fn asked(view: &FleetView<'a>, is_asked: impl Fn(&ProductId) -> bool) -> Self {
        Self::among(view, |product| !view.paused(product) && is_asked(product))
    }

    /// The products in push mode.
    pub(crate) fn pushed(view: &FleetView<'a>) -> Self {
        Self::among(view, |product| !view.paused(product) && view.pushes(product))
    }

    /// The products in self-select mode.
    pub(crate) fn self_selected(view: &FleetView<'a>) -> Self {
        Self::among(view, |product| !view.paused(product) && view.is_self_selected(product))
    }

    /// The products that a factory polls for, including paused ones.
    pub(crate) fn asked_or_paused(view: &FleetView<'a>, is_asked: impl Fn(&ProductId) -> bool) -> Self {
        Self::among(view, is_asked)
    }

    fn among(view: &FleetView<'a>, is_served: impl Fn(&ProductId) -> bool) -> Self {
        let lines = view.queue.lines().filter(|(product, _)| is_served(product)).map(|(product, line)| {
            let share = Share { seats: view.fleet.product_used(product), weight: view.weight(product) };
            ((share, product), ProductTurn::of(line))
        });
        Self { now: view.now, lines: lines.collect() }
    }

    /// Serves jobs until no job is left or `serve` stops.
    pub(crate) fn serve(mut self, mut serve: impl FnMut(&NextJob, &ProductTurn<'a>) -> Option<ServiceOutcome>) {
        while let Some(((mut share, product), mut turn)) = self.lines.pop_first() {
            let Some(next) = turn.next(self.now) else { continue };
            match serve(&next, &turn) {
                Some(ServiceOutcome::Placed) => {
                    turn.advance(next, 1);
                    share.seats += 1;
                }
                Some(ServiceOutcome::SkipJob) => turn.advance(next, 0),
                Some(ServiceOutcome::SkipShape) => {
                    turn.skipped.insert(next.shape);
                }
                None => return,
            }
            self.lines.insert((share, product), turn);
        }
    }
}

impl<'a> ProductTurn<'a> {
    fn of(line: &'a ProductQueue) -> Self {
        Self {
            line,
            fresh: std::array::from_fn(|class| line.heads(class).peekable()),
            further: Default::default(),
            served: BTreeMap::new(),
            skipped: BTreeSet::new(),
        }
    }

    /// Number of jobs of a shape that were not served, and the oldest of them.
    pub(crate) fn left(&self, shape: &Arc<Shape>) -> (usize, Option<QueuePosition>) {
        let served = self.served.get(shape);
        let jobs = self.line.len(shape) - served.map_or(0, |served| served.jobs);
        let oldest = (0..CLASSES).filter_map(|class| {
            let last = served.and_then(|served| served.last[class]);
            self.line.next(shape, class, last)
        });
        (jobs, oldest.min())
    }

    fn next(&mut self, now: Timestamp) -> Option<NextJob> {
        let skipped = &self.skipped;
        for heads in &mut self.fresh {
            while heads.next_if(|head| skipped.contains(&head.shape)).is_some() {}
        }
        for heads in &mut self.further {
            while heads.first().is_some_and(|head| skipped.contains(&head.shape)) {
                heads.pop_first();
            }
        }
        let first = |class: usize, heads: &[Option<&ShapeHead>; 2]| {
            let head = heads.iter().copied().flatten().min()?;
            Some((aged(class, now.since(head.place.0)), head.place, class))
        };
        let (.., class) = (0..CLASSES)
            .filter_map(|class| first(class, &[self.fresh[class].peek().copied(), self.further[class].first()]))
            .min()?;
        self.take(class)
    }

    fn take(&mut self, class: usize) -> Option<NextJob> {
        let from_further = match (self.fresh[class].peek(), self.further[class].first()) {
            (Some(fresh), Some(further)) => further < *fresh,
            (None, _) => true,
            (_, None) => false,
        };
        let head = if from_further { self.further[class].pop_first()? } else { self.fresh[class].next()?.clone() };
        Some(NextJob { job: head.place.1, shape: head.shape, class, place: head.place })
    }

    fn advance(&mut self, next: NextJob, placed: usize) {
        if let Some(place) = self.line.next(&next.shape, next.class, Some(next.place)) {
            self.further[next.class].insert(ShapeHead { place, shape: Arc::clone(&next.shape) });
        }
        let served = self.served.entry(next.shape).or_default();
        served.jobs += placed;
        served.last[next.class] = Some(next.place);
    }
}

impl Ord for Share {
    fn cmp(&self, other: &Self) -> Ordering {
        let left = u64::from(self.seats) * u64::from(other.weight);
        let right = u64::from(other.seats) * u64::from(self.weight);
        left.cmp(&right)
    }
}

impl PartialOrd for Share {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Share {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Share {}
