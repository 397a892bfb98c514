//! Children are added to a tree: where they belong, whether the tree may have them, and what their parent does.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use domain::{Job, JobId, ProductId, StageEvent, StageName, TREE_JOBS_MAX, TREE_LEVELS_MAX, TreePlace};
use fail::fail_point;
use parking_lot::Mutex;
use tracing::info;

use crate::commit::Decision;
use crate::coordinator::Coordinator;
use crate::error::Error;
use crate::fleet::principal::Principal;

/// Jobs that a search for a cycle examines.
const EXAMINED_MAX: usize = 10_000;

/// The trees that are being added to.
#[derive(Default)]
pub(crate) struct TreeGrowth {
    /// One request adds at a time: it counts the jobs of the tree before it writes more.
    turn: tokio::sync::Mutex<()>,
    /// Parents whose children are being written: they do not move on before all of those are there.
    growing: Mutex<BTreeSet<JobId>>,
}

/// The turn of a request that adds to trees. When it is dropped, its parents may move on.
pub(crate) struct GrowthTurn<'a> {
    growth: &'a TreeGrowth,
    parents: BTreeSet<JobId>,
    _turn: tokio::sync::MutexGuard<'a, ()>,
}

impl TreeGrowth {
    /// Waits for the turn of a request that adds to trees.
    pub(crate) async fn turn(&self) -> GrowthTurn<'_> {
        GrowthTurn { _turn: self.turn.lock().await, growth: self, parents: BTreeSet::new() }
    }

    /// Whether children of a job are being written.
    pub(crate) fn is_growing(&self, parent: JobId) -> bool {
        self.growing.lock().contains(&parent)
    }
}

impl GrowthTurn<'_> {
    pub(crate) fn hold(&mut self, parents: impl IntoIterator<Item = JobId>) {
        self.parents.extend(parents);
        self.growth.growing.lock().extend(self.parents.iter().copied());
    }

    /// Ends the turn; returns the parents to check.
    pub(crate) fn end(mut self) -> Vec<JobId> {
        let parents = std::mem::take(&mut self.parents);
        self.growth.growing.lock().retain(|parent| !parents.contains(parent));
        parents.into_iter().collect()
    }
}

impl Drop for GrowthTurn<'_> {
    fn drop(&mut self) {
        let parents = std::mem::take(&mut self.parents);
        self.growth.growing.lock().retain(|parent| !parents.contains(parent));
    }
}

/// What the placement of children needs to know about a job of the batch.
pub(crate) struct NewJob<'a> {
    pub(crate) id: JobId,
    pub(crate) product: &'a ProductId,
    pub(crate) parent: Option<JobId>,
    pub(crate) deps: Vec<JobId>,
}

/// The places of the children of one batch.
#[derive(Default)]
pub(crate) struct Placements {
    places: HashMap<JobId, Result<TreePlace, String>>,
    /// Jobs of the batch that are not stored and have children in it.
    pub(crate) new_parents: BTreeSet<JobId>,
    /// Stored parents, each with its new children.
    pub(crate) grown: BTreeMap<JobId, BTreeSet<JobId>>,
}

impl Placements {
    /// The place of a subtask.
    pub(crate) fn of_subtask(id: JobId, place: TreePlace) -> Self {
        Self { places: HashMap::from([(id, Ok(place))]), ..Self::default() }
    }

    /// The place of a job; `None` for one without a parent.
    pub(crate) fn place(&self, id: JobId) -> Result<Option<TreePlace>, Error> {
        match self.places.get(&id) {
            None => Ok(None),
            Some(Ok(place)) => Ok(Some(*place)),
            Some(Err(why)) => Err(Error::Invalid { what: "parent", why: why.clone() }),
        }
    }
}

/// The jobs of a batch, and the stored jobs that they are added to.
struct Batch<'a> {
    jobs: HashMap<JobId, &'a NewJob<'a>>,
    /// The parents that are stored.
    stored: HashMap<JobId, Arc<Job>>,
    /// The jobs of the trees that are added to.
    trees: HashMap<JobId, BTreeSet<JobId>>,
}

impl Coordinator {
    /// Places the children of a batch, and checks that their trees may have them.
    pub(crate) async fn place_children(&self, who: &Principal, jobs: &[NewJob<'_>]) -> Result<Placements, Error> {
        let parents: BTreeSet<JobId> = jobs.iter().filter_map(|job| job.parent).collect();
        if parents.is_empty() {
            return Ok(Placements::default());
        }
        let mut batch = Batch { jobs: HashMap::new(), stored: HashMap::new(), trees: HashMap::new() };
        for job in jobs {
            batch.jobs.entry(job.id).or_insert(job);
        }
        for parent in &parents {
            let Some(job) = self.found(*parent).await? else { continue };
            if !who.sees(job.product()) {
                continue;
            }
            let root = job.tree().map_or(*parent, |place| place.root_id);
            if let Entry::Vacant(unread) = batch.trees.entry(root) {
                let known = self.ports.jobs.tree(root).await?;
                unread.insert(known.into_iter().map(|job| job.value.id()).collect());
            }
            batch.stored.insert(*parent, job);
        }
        let mut placements = Placements::default();
        for job in batch.jobs.values() {
            let Some(parent) = job.parent else { continue };
            placements.places.insert(job.id, batch.place(job, parent));
            match batch.stored.get(&parent) {
                None => drop(placements.new_parents.insert(parent)),
                Some(_) if batch.is_stored(job.id) => {}
                Some(_) => drop(placements.grown.entry(parent).or_default().insert(job.id)),
            }
        }
        batch.check_sizes(&mut placements);
        let grown: Vec<JobId> = placements.grown.keys().copied().collect();
        for parent in grown {
            if self.closes_cycle(&batch, parent).await? {
                let why = format!("a job below `{parent}` depends on a job that waits for it");
                placements.reject_below(&batch, parent, &why);
            }
        }
        Ok(placements)
    }

    /// A stored job, or one in memory.
    async fn found(&self, id: JobId) -> Result<Option<Arc<Job>>, Error> {
        match self.look_up(id).await {
            Ok(job) => Ok(Some(job.value)),
            Err(Error::NoSuchJob(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Whether a new job below `parent` would wait for a job that waits for it.
    async fn closes_cycle(&self, batch: &Batch<'_>, parent: JobId) -> Result<bool, Error> {
        let mut above = BTreeSet::new();
        let mut next = Some(parent);
        while let Some(id) = next.filter(|id| above.insert(*id)) {
            next = self.found(id).await?.and_then(|job| job.parent());
        }
        let mut met = BTreeSet::new();
        let mut open: Vec<JobId> = batch.below(parent).into_iter().flat_map(|job| job.deps.iter().copied()).collect();
        while let Some(id) = open.pop() {
            if above.contains(&id) {
                return Ok(true);
            }
            if !met.insert(id) {
                continue;
            }
            if met.len() > EXAMINED_MAX {
                return Err(Error::Invalid {
                    what: "deps",
                    why: format!("more than {EXAMINED_MAX} jobs wait for each other"),
                });
            }
            open.extend(batch.jobs.get(&id).into_iter().flat_map(|job| job.deps.iter().copied()));
            open.extend(batch.children(id).map(|job| job.id));
            let Some(job) = self.found(id).await? else { continue };
            // What has shipped waits for nothing.
            if job.stage().name() != StageName::Shipped {
                open.extend(job.submission().deps.iter().copied());
                if job.awaits_children() {
                    open.extend(self.ports.jobs.children(id).await?.into_iter().map(|(id, _)| id));
                }
            }
        }
        Ok(false)
    }

    /// Lets a stored parent wait for the children that are about to be written. If that crashes before they are, the
    /// sweep finds none and lets it go on.
    pub(crate) async fn grow(&self, who: &Principal, parent: JobId, count: usize) -> Result<(), Error> {
        let grown = self.amend(parent, |job| {
            job.apply(StageEvent::ChildrenAdded { count }, self.now(), who.actor()).map(Decision::Write)
        });
        let grown = grown.await?;
        fail_point!("grow::parent_waits");
        info!(job.id = %parent, by = %who.name, "`{}` added {} to job {}", who.name, domain::counted(count, "child job"), grown.value.label());
        Ok(())
    }
}

impl Batch<'_> {
    /// Whether a job of the batch was submitted before.
    fn is_stored(&self, id: JobId) -> bool {
        self.stored.contains_key(&id) || self.trees.values().any(|tree| tree.contains(&id))
    }

    fn children(&self, parent: JobId) -> impl Iterator<Item = &&NewJob<'_>> {
        self.jobs.values().filter(move |job| job.parent == Some(parent))
    }

    /// The jobs of the batch below a job.
    fn below(&self, parent: JobId) -> Vec<&NewJob<'_>> {
        let (mut below, mut next, mut met) = (Vec::new(), vec![parent], BTreeSet::new());
        while let Some(id) = next.pop() {
            for child in self.children(id) {
                if met.insert(child.id) {
                    below.push(*child);
                    next.push(child.id);
                }
            }
        }
        below
    }

    /// The place of a child, or why it has none.
    fn place(&self, job: &NewJob<'_>, parent: JobId) -> Result<TreePlace, String> {
        // From the child up to the first job with a known place.
        let mut chain = vec![parent];
        let mut known = None;
        while let Some(at) = chain.last().copied() {
            if let Some(stored) = self.stored.get(&at) {
                self.check_parent(job, stored, chain.len() == 1)?;
                known = stored.tree().copied();
                break;
            }
            let Some(new) = self.jobs.get(&at) else {
                return Err(format!("no job `{at}`: submit it first, or in the same batch"));
            };
            if new.product != job.product {
                return Err(format!("a child belongs to the product of its parent, `{}`", new.product));
            }
            match new.parent {
                Some(next) if chain.len() < usize::from(TREE_LEVELS_MAX) => chain.push(next),
                Some(_) => return Err(too_deep()),
                None => break,
            }
        }
        let place = |known: Option<TreePlace>, parent: &JobId| TreePlace::below(*parent, known.as_ref());
        let mut place_of_child = known;
        for parent in chain.iter().rev() {
            place_of_child = Some(place(place_of_child, parent).ok_or_else(too_deep)?);
        }
        place_of_child.ok_or_else(too_deep)
    }

    fn check_parent(&self, job: &NewJob<'_>, parent: &Job, is_direct: bool) -> Result<(), String> {
        if parent.product() != job.product {
            return Err(format!("a child belongs to the product of its parent, `{}`", parent.product()));
        }
        if !is_direct || self.is_stored(job.id) {
            return Ok(());
        }
        let stage = parent.stage().name();
        match stage {
            StageName::Queued | StageName::Blocked => Ok(()),
            _ => Err(format!("job {} is `{stage}`: children are added before it runs or ends", parent.label())),
        }
    }

    /// Rejects the new jobs of trees that would become too large.
    fn check_sizes(&self, placements: &mut Placements) {
        let mut sizes: HashMap<JobId, BTreeSet<JobId>> = HashMap::new();
        for (id, place) in &placements.places {
            if let Ok(place) = place {
                sizes.entry(place.root_id).or_default().insert(*id);
            }
        }
        for (root, mut ids) in sizes {
            let known = self.trees.get(&root);
            ids.retain(|id| known.is_none_or(|known| !known.contains(id)));
            let size = known.map_or(0, BTreeSet::len) + ids.len() + 1;
            if size > TREE_JOBS_MAX {
                let why = format!("the tree would have {size} jobs, {TREE_JOBS_MAX} at most");
                for id in ids {
                    placements.reject(id, &why);
                }
            }
        }
    }
}

impl Placements {
    fn reject(&mut self, id: JobId, why: &str) {
        self.places.insert(id, Err(why.to_owned()));
    }

    fn reject_below(&mut self, batch: &Batch<'_>, parent: JobId, why: &str) {
        for job in batch.below(parent) {
            self.reject(job.id, why);
        }
    }
}

pub(crate) fn too_deep() -> String {
    format!("a tree has {TREE_LEVELS_MAX} levels at most")
}
