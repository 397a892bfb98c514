//! Queries of users and programs.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use domain::{
    Cursor, EngineHealth, FactoryId, Job, JobEvent, JobFilter, JobId, Position, ProductId, Run, Scope, ShapeKey, Stage,
    StageName, Summary, Versioned,
};
use foldhash::HashMap;
use protocol::{
    Dag, DagNode, DeadLetter, DeadLetterList, EventList, FactoryList, FactoryView, JobDetail, JobList, JobView,
    JobWait, LeaseView, QueueState, RunList, SeatsInUse,
};

use crate::coordinator::Coordinator;
use crate::error::Error;
use crate::fleet::principal::Principal;
use crate::submit::deps::DepsVerdict;
use crate::work::review::vote_right;

/// The largest page of a list.
const PAGE_MAX: u16 = 1_000;

/// Pages of dismissed dead letters that one answer skips; `next` continues from there.
const DEAD_LETTER_PAGES_MAX: usize = 20;

/// The largest graph that is returned.
const DAG_NODES_MAX: usize = 2_000;

impl Coordinator {
    /// A job that the caller may see; otherwise it does not exist for the caller.
    pub(crate) async fn visible(&self, who: &Principal, id: JobId) -> Result<Versioned<Arc<Job>>, Error> {
        who.require_fleet_view()?;
        let job = self.look_up(id).await?;
        if who.sees(job.value.product()) { Ok(job) } else { Err(Error::NoSuchJob(id)) }
    }

    /// A job that the calling factory may work on. A job of a product outside its token's scope does not exist for it,
    /// on every route [T3].
    pub(crate) async fn workable(&self, who: &Principal, id: JobId) -> Result<Versioned<Arc<Job>>, Error> {
        who.factory()?;
        self.visible(who, id).await
    }

    /// One job with its manifest.
    pub async fn job(&self, who: &Principal, id: JobId) -> Result<JobDetail, Error> {
        let job = self.visible(who, id).await?;
        let waits_for = match job.value.stage() {
            Stage::Blocked { .. } => match self.check_deps(&job.value).await? {
                DepsVerdict::Unmet(deps) => deps,
                DepsVerdict::Failed(dep) => vec![dep],
                DepsVerdict::Met => Vec::new(),
            },
            _ => Vec::new(),
        };
        Ok(JobDetail {
            job: self.view(who, &job.value, job.revision),
            body_md: self.body(id).await?,
            manifest_snapshot: job.value.spec().clone(),
            persona: job.value.persona().map(str::to_owned),
            waits_for,
            expires_at: self.expires_at(id),
            progress: self.progress.of(id),
            tree: self.tree_summary(&job.value).await?,
            vote: vote_right(who, &job.value),
        })
    }

    /// A page of jobs, newest first.
    pub async fn jobs(
        &self,
        who: &Principal,
        mut filter: JobFilter,
        after: Option<String>,
        limit: u16,
    ) -> Result<JobList, Error> {
        who.require_fleet_view()?;
        filter.products = self.limited_to(who, filter.products)?;
        let page = self.ports.history.jobs(&filter, after.map(Cursor), limit.clamp(1, PAGE_MAX)).await?;
        // Queued jobs of one shape wait for the same reason, and there may be many.
        let mut known: HashMap<(ShapeKey, Option<FactoryId>), Option<JobWait>> = HashMap::default();
        let view = |summary: &Summary| {
            let job = &summary.job;
            let waiting = match job.stage() {
                Stage::Queued { dispatch: None, not_before: None } if job.repository().is_none() => {
                    let alike = known.entry((job.shape_key(), job.avoid().cloned()));
                    alike.or_insert_with(|| self.waiting(who, job)).clone()
                }
                _ => self.waiting(who, job),
            };
            JobView { waiting, ..JobView::of(job, summary.revision) }
        };
        let items = page.items.iter().map(view).collect();
        Ok(JobList { items, next: page.next.map(|cursor| cursor.0), total: None })
    }

    /// The products of a list: those requested, limited to the token's scope.
    pub(crate) fn limited_to(&self, who: &Principal, asked: Vec<ProductId>) -> Result<Vec<ProductId>, Error> {
        let own = who.products();
        if let Some(foreign) = asked.iter().find(|product| !who.sees(product)) {
            return Err(Error::Forbidden(format!("it does not cover product `{foreign}`")));
        }
        Ok(if asked.is_empty() { own.into_iter().collect() } else { asked })
    }

    /// The scope of events that the caller may follow.
    pub fn fleet_scope(&self, who: &Principal) -> Result<Scope, Error> {
        who.require_fleet_view()?;
        let own = who.products();
        Ok(if own.is_empty() { Scope::Fleet } else { Scope::Products(own.into_iter().collect()) })
    }

    /// The scope of one job's events.
    pub async fn job_scope(&self, who: &Principal, id: JobId) -> Result<Scope, Error> {
        self.visible(who, id).await?;
        Ok(Scope::Job(id))
    }

    /// A page of a job's events, oldest first.
    pub async fn events(&self, who: &Principal, id: JobId, after: Position, limit: u16) -> Result<EventList, Error> {
        self.visible(who, id).await?;
        let limit = limit.clamp(1, PAGE_MAX);
        let page = self.ports.history.events(&Scope::Job(id), after, limit).await?;
        let is_full = page.len() == usize::from(limit);
        let next = page.last().filter(|_| is_full).map(|last| self.cursor(last.position).to_string());
        let items: Result<Vec<JobEvent>, _> =
            page.iter().map(|event| serde_json::from_str(&event.json_with_text())).collect();
        let items = items.map_err(|error| domain::StoreError::Corrupt(error.to_string()))?;
        Ok(EventList { items, next })
    }

    /// A page of a job's runs after a number, oldest first; the last may still be running.
    pub async fn runs(&self, who: &Principal, id: JobId, after: u32, limit: u16) -> Result<RunList, Error> {
        let job = self.visible(who, id).await?;
        let limit = limit.clamp(1, PAGE_MAX);
        let mut items = self.ports.history.runs(id, after, limit).await?;
        let running = job.value.run().filter(|run| run.n > after);
        let last_ended = job.value.runs() - u32::from(running.is_some());
        let is_full = items.len() == usize::from(limit);
        // An unreadable run is skipped: the page may be shorter and not the last.
        if let Some(last) = items.last().map(|run| run.n)
            && (last < last_ended || (is_full && running.is_some_and(|run| run.n != last)))
        {
            return Ok(RunList { items, next: Some(last.to_string()) });
        }
        items.extend(running.filter(|run| items.iter().all(|ended| ended.n != run.n)).cloned());
        Ok(RunList { items, next: None })
    }

    /// One run of a job.
    pub(crate) async fn run_of(&self, who: &Principal, id: JobId, n: u32) -> Result<Run, Error> {
        let runs = self.runs(who, id, n.saturating_sub(1), 1).await?.items;
        runs.into_iter().find(|run| run.n == n).ok_or(Error::NoSuchRun { job: id, n })
    }

    /// The lease of a job.
    pub async fn lease(&self, who: &Principal, id: JobId) -> Result<LeaseView, Error> {
        let job = self.visible(who, id).await?;
        Ok(LeaseView {
            lease_epoch: job.value.epoch(),
            holder_factory_id: job.value.lease().map(|lease| lease.factory.clone()),
            expires_at: self.expires_at(id),
        })
    }

    fn expires_at(&self, id: JobId) -> Option<domain::Timestamp> {
        let expiry = self.state.lock().lease_expiry(id)?;
        Some(self.now().after(expiry.saturating_sub(self.ports.clock.monotonic())))
    }

    /// A job with all of its dependencies and dependents, and with its tree.
    pub async fn dag(&self, who: &Principal, id: JobId) -> Result<Dag, Error> {
        self.visible(who, id).await?;
        let mut nodes: Vec<DagNode> = Vec::new();
        // Nearest first, so that a truncated graph still shows the job's neighbours.
        let (mut next, mut met) = (VecDeque::from([id]), BTreeSet::from([id]));
        while let Some(id) = next.pop_front() {
            let job = match self.visible(who, id).await {
                Ok(job) => job,
                Err(Error::NoSuchJob(_)) => continue,
                Err(error) => return Err(error),
            };
            if nodes.len() == DAG_NODES_MAX {
                nodes.sort_by_key(|node| node.id);
                return Ok(Dag { nodes, truncated: true, limit: DAG_NODES_MAX as u32 });
            }
            let deps = job.value.submission().deps.clone();
            let dependents = self.ports.jobs.dependents(id).await?;
            let children = match job.value.has_children() {
                true => self.ports.jobs.children(id).await?,
                false => Vec::new(),
            };
            let family = job.value.parent().into_iter().chain(children.into_iter().map(|(id, _)| id));
            next.extend(deps.iter().copied().chain(dependents).chain(family).filter(|id| met.insert(*id)));
            nodes.push(DagNode {
                id,
                title: job.value.spec().title.clone(),
                stage: job.value.stage().name(),
                deps,
                kind: job.value.spec().kind,
                parent_id: job.value.parent(),
                has_children: job.value.has_children(),
                spent: job.value.spent(),
                waiting: self.waiting(who, &job.value),
            });
        }
        nodes.sort_by_key(|node| node.id);
        Ok(Dag { nodes, truncated: false, limit: DAG_NODES_MAX as u32 })
    }

    /// Dead-lettered jobs that were not dismissed.
    pub async fn dead_letters(
        &self,
        who: &Principal,
        after: Option<String>,
        limit: u16,
    ) -> Result<DeadLetterList, Error> {
        let limit = usize::from(limit.clamp(1, PAGE_MAX));
        let (mut items, mut next) = (Vec::new(), after);
        for _ in 0..DEAD_LETTER_PAGES_MAX {
            let filter = JobFilter { stages: vec![StageName::DeadLetter], ..JobFilter::default() };
            let wanted = u16::try_from(limit - items.len()).unwrap_or(PAGE_MAX);
            let page = self.jobs(who, filter, next, wanted).await?;
            items.extend(page.items.into_iter().filter(|job| !job.dismissed).filter_map(dead_letter));
            next = page.next;
            if next.is_none() || items.len() >= limit {
                break;
            }
        }
        let mirrored = self.ports.broker.dead_letters(100).await?;
        let mirrored = mirrored.into_iter().map(|(message, _)| message).filter(|m| who.sees(&m.product_id)).collect();
        Ok(DeadLetterList { items, next, mirrored })
    }

    /// The version of each product's queue and how many jobs wait; no store operation.
    pub fn queue_state(&self, who: &Principal, asked: Vec<ProductId>) -> Result<Vec<QueueState>, Error> {
        who.require_fleet_view()?;
        let asked = self.limited_to(who, asked)?;
        let state = self.state.lock();
        let products: Vec<_> = if asked.is_empty() { state.product_ids().cloned().collect() } else { asked };
        let base = self.version_base();
        let queue = |product_id: ProductId| {
            let (changes, pending_count) = state.queue_version(&product_id);
            QueueState { product_id, version: base + changes, pending_count }
        };
        Ok(products.into_iter().map(queue).collect())
    }

    /// The base of versions: no other start has the same, and a later one has a larger one unless its clock was set
    /// back. Two starts could meet only after a million changes a second.
    fn version_base(&self) -> u64 {
        u64::try_from(self.started_at.as_millis()).unwrap_or(0).saturating_mul(1_000)
    }

    /// Identifies this start of the coordinator: the versions of another start are unknown here.
    pub fn incarnation(&self) -> u64 {
        self.incarnation
    }

    /// All factories.
    pub fn factories(&self, who: &Principal) -> Result<FactoryList, Error> {
        who.require_fleet_view()?;
        let ids: Vec<_> = self.state.lock().factory_ids().cloned().collect();
        Ok(FactoryList { items: ids.iter().filter_map(|id| self.factory_view(who, id).ok()).collect() })
    }

    /// One factory.
    pub fn factory_view(&self, who: &Principal, id: &FactoryId) -> Result<FactoryView, Error> {
        who.require_fleet_view()?;
        let known = self.factory(id)?;
        let state = self.state.lock();
        if !self.shows_factory(who, &state, id) {
            return Err(Error::NoSuchFactory(id.clone()));
        }
        let pulse = state.liveness_of(id);
        let seats = state.seated(id).filter_map(|job| seat_in_use(who, &job.value, id)).collect();
        Ok(FactoryView {
            id: id.clone(),
            presence: shown(self.presence(pulse)),
            last_heartbeat_at: pulse.map(|pulse| pulse.last),
            engines: engines_for(who, id, self.engines_shown(&state, &known.value)),
            capabilities: known.value.capabilities.into_iter().filter(|one| state.shows_capability(who, one)).collect(),
            repos: known.value.repos.into_iter().filter(|repo| state.shows_repo(who, repo)).collect(),
            repo_identities: {
                let identities = known.value.repo_identities.into_iter();
                identities.filter(|(repo, _)| state.shows_repo(who, repo)).collect()
            },
            seat_limit: known.value.seat_limit,
            seats,
            load: pulse.map_or(0.0, |pulse| pulse.load),
            health: self.counters.health(id),
            dispatch_lag_ms: self.counters.lag(id),
            disk_free_bytes: pulse.and_then(|pulse| pulse.disk_free_bytes),
            draining: known.value.draining || state.is_retiring(id),
            connected: self.inboxes.is_open(id),
            receives: pulse.map(|pulse| pulse.receives).unwrap_or_default(),
            version: known.value.version,
            joined_at: known.value.joined_at,
            pool: known.value.pool,
        })
    }
}

/// A factory's presence as shown to users.
pub(crate) fn shown(presence: scheduler::Presence) -> protocol::Presence {
    match presence {
        scheduler::Presence::Live => protocol::Presence::Live,
        scheduler::Presence::Warming => protocol::Presence::Warming,
        scheduler::Presence::Disconnected => protocol::Presence::Disconnected,
        scheduler::Presence::Stale => protocol::Presence::Stale,
        scheduler::Presence::Down => protocol::Presence::Stopped,
    }
}

fn dead_letter(job: JobView) -> Option<DeadLetter> {
    let reason = job.reason?;
    Some(DeadLetter { job, reason })
}

/// The engines of a factory. Their credentials are shown to the factory itself and to callers of all products: another
/// factory that knows a credential could register it as its own and report its quota as exhausted.
fn engines_for(who: &Principal, id: &FactoryId, engines: Vec<EngineHealth>) -> Vec<EngineHealth> {
    let shows_credentials = match who.factory() {
        Ok(caller) => caller == id,
        Err(_) => who.products().is_empty(),
    };
    if shows_credentials {
        return engines;
    }
    engines.into_iter().map(|engine| EngineHealth { credential: None, login: None, ..engine }).collect()
}

fn seat_in_use(who: &Principal, job: &Job, factory: &FactoryId) -> Option<SeatsInUse> {
    let (holder, dispatched_only) = match (job.seat(), job.stage()) {
        (Some(lease), _) => (&lease.factory, false),
        (None, Stage::Queued { dispatch: Some(offer), .. }) => (&offer.target, true),
        (None, _) => return None,
    };
    if holder != factory {
        return None;
    }
    Some(match who.sees(job.product()) {
        true => SeatsInUse { job_id: Some(job.id()), title: job.spec().title.clone(), dispatched_only },
        false => SeatsInUse { job_id: None, title: "(another product)".to_owned(), dispatched_only },
    })
}
