//! Validation of a submit before the write.

use std::collections::{BTreeMap, BTreeSet};

use domain::{
    Body, Dep, DepsState, Finding, Job, JobId, Kind, Manifest, ProductId, ProfileSnapshot, RepoName, Review, Severity,
    Spec, StageName, Strictness, Submission, TreePlace,
};
use foldhash::{HashMap, HashMapExt as _};
use protocol::SubmitRequest;
use sha2::{Digest, Sha256};

use crate::coordinator::Coordinator;
use crate::error::Error;
use crate::fleet::principal::Principal;
use crate::submit::deps::{DepsVerdict, verdict};
use crate::submit::invalid;
use crate::submit::toposort::toposort;
use crate::work::review::unreachable_review;
use crate::work::trees::grow::{NewJob, Placements};

/// Longer keys could not be named as dependencies.
const KEY_LEN_MAX: usize = 190;

/// Dependencies of one batch together: ten for each job of the largest, and each may cost a read of the store.
const BATCH_DEPS_MAX: usize = 10_000;

/// Why a job without an error of its own is rejected.
const TREE_REJECTED: &str = "another job of its tree is rejected: a tree is accepted as a whole";

/// A validated job, and the warnings about it.
pub(crate) struct ValidatedJob {
    pub(crate) job: Job,
    pub(crate) body: Body,
    pub(crate) warnings: Vec<domain::Finding>,
}

/// A parsed job whose dependencies are not checked yet.
struct ParsedJob {
    id: JobId,
    product: ProductId,
    parent: Option<JobId>,
    manifest: Manifest,
    profile: Option<ProfileSnapshot>,
    request: SubmitRequest,
}

/// The validated jobs of a batch, in the order of the request, and the places of its children.
pub(crate) struct ValidatedBatch {
    pub(crate) outcomes: Vec<Result<ValidatedJob, Error>>,
    pub(crate) placements: Placements,
}

/// The stages of dependencies, cached for a batch.
#[derive(Default)]
struct BatchContext {
    placements: Placements,
    accepted: BTreeSet<JobId>,
    stages: HashMap<JobId, Option<StageName>>,
}

impl Coordinator {
    /// Validates one job.
    pub(crate) async fn validate_one(&self, who: &Principal, request: SubmitRequest) -> Result<ValidatedJob, Error> {
        self.validate(who, vec![request]).await?.outcomes.pop().unwrap_or(Err(Error::Unauthenticated))
    }

    /// Validates jobs that may depend on each other. A job that depends on a rejected one is rejected too: it would
    /// wait for ever. So is a tree with one: it is accepted as a whole.
    pub(crate) async fn validate(
        &self,
        who: &Principal,
        requests: Vec<SubmitRequest>,
    ) -> Result<ValidatedBatch, Error> {
        let families = BatchFamilies::of(&requests);
        let drafts: Vec<Result<ParsedJob, Error>> =
            requests.into_iter().map(|request| self.parse(who, request)).collect();
        let deps: usize = drafts.iter().flatten().map(|draft| draft.manifest.spec.deps.len()).sum();
        if deps > BATCH_DEPS_MAX {
            return Err(invalid("deps", format!("{deps} in one batch, {BATCH_DEPS_MAX} at most")));
        }
        let order = toposort(&waits_for(&drafts));
        let new_jobs: Vec<NewJob> = drafts.iter().flatten().map(ParsedJob::as_new).collect();
        let mut ground =
            BatchContext { placements: self.place_children(who, &new_jobs).await?, ..BatchContext::default() };
        let links: Vec<BatchLinks> = drafts.iter().map(BatchLinks::of).collect();
        let mut drafts: Vec<_> = drafts.into_iter().map(Some).collect();
        let mut prepared: Vec<_> = drafts.iter().map(|_| None).collect();
        for at in &order.cyclic {
            prepared[*at] =
                drafts[*at].take().map(|draft| Err(draft.map_or_else(|error| error, |draft| cycle(&draft))));
        }
        for at in order.sorted {
            let Some(draft) = drafts[at].take() else { continue };
            prepared[at] = Some(match draft {
                Ok(draft) => self.finish(who, draft, &mut ground).await,
                Err(error) => Err(error),
            });
        }
        let mut outcomes: Vec<Result<ValidatedJob, Error>> = prepared.into_iter().flatten().collect();
        families.reject_broken(&links, &mut outcomes);
        Ok(ValidatedBatch { outcomes, placements: ground.placements })
    }

    /// Validates a subtask, whose parent is running.
    pub(crate) async fn validate_subtask(
        &self,
        who: &Principal,
        request: SubmitRequest,
        place: TreePlace,
    ) -> Result<ValidatedJob, Error> {
        let draft = self.parse(who, request)?;
        let mut ground =
            BatchContext { placements: Placements::of_subtask(draft.id, place), ..BatchContext::default() };
        self.finish(who, draft, &mut ground).await
    }

    /// Parses a request and checks that its caller may submit it.
    fn parse(&self, who: &Principal, request: SubmitRequest) -> Result<ParsedJob, Error> {
        let strictness = if request.strict { Strictness::Strict } else { Strictness::Lenient };
        let mut manifest = Manifest::parse(&request.body_md, strictness).map_err(Error::Manifest)?;
        manifest.spec.repo = manifest.spec.repo.map(|repo| self.name_of(repo));
        let product = self.product_of(who, &request, &manifest.spec)?;
        who.require_operator(&product)?;
        self.check_repo(&product, &manifest.spec)?;
        check_composite(&manifest.spec)?;
        let profile = self.apply_profile(&product, &mut manifest)?;
        let id = match &request.idempotency_key {
            Some(key) => JobId::derived(&product, check_key(key)?),
            None => self.new_job_id(),
        };
        let parent = request.parent.as_ref().map(|parent| parent.job(&product));
        Ok(ParsedJob { id, product, parent, manifest, profile, request })
    }

    /// Fills in what a manifest leaves to the profile that it names [J2].
    fn apply_profile(&self, product: &ProductId, manifest: &mut Manifest) -> Result<Option<ProfileSnapshot>, Error> {
        let (Some(place), Some(wanted)) = (&manifest.profile, &manifest.spec.profile) else { return Ok(None) };
        let found = self.profiles.read().resolve(product, wanted);
        let profile = found.map_err(|unknown| Error::Manifest(vec![place.error(unknown)]))?;
        manifest.with_profile(&profile).map(Some).map_err(Error::Manifest)
    }

    /// Checks the dependencies of a parsed job; those in the same batch were checked before.
    async fn finish(
        &self,
        who: &Principal,
        draft: ParsedJob,
        ground: &mut BatchContext,
    ) -> Result<ValidatedJob, Error> {
        let tree = ground.placements.place(draft.id)?;
        let ParsedJob { id, product, parent: _, manifest, profile, request } = draft;
        let mut deps: Vec<JobId> = Vec::with_capacity(manifest.spec.deps.len());
        for dep in &manifest.spec.deps {
            let wanted = dep.job(&product);
            let is_there = ground.accepted.contains(&wanted)
                || self.stage_on(ground, wanted).await?.is_some() && self.sees_job(who, wanted).await?;
            if !is_there {
                return Err(Error::NoSuchDep(String::from(dep.clone())));
            }
            if !deps.contains(&wanted) {
                deps.push(wanted);
            }
        }
        let has_children = manifest.spec.kind == Kind::Composite || ground.placements.new_parents.contains(&id);
        let state = if has_children { DepsState::Children } else { deps_state(&manifest.spec, &deps, ground) };
        let submission = Submission {
            id,
            product,
            spec: manifest.spec,
            deps,
            tree,
            profile,
            item: None,
            idempotency_key: request.idempotency_key,
            body_sha256: digest(&request.body_md),
            by: who.name.clone(),
            owner: who.owner.clone(),
            at: self.now(),
        };
        ground.accepted.insert(id);
        if let Some(review) = submission.spec.review.as_ref().filter(|review| !review.is_reachable(who.person())) {
            return Err(Error::Manifest(vec![unreachable(review, who.person())]));
        }
        let job = Job::submit(submission, state).begun_in(self.generation);
        let mut warnings = manifest.warnings;
        warnings.extend(without_repo(&job));
        Ok(ValidatedJob { job, body: Body(request.body_md.into()), warnings })
    }

    /// Whether the caller may see a job's product: otherwise the job does not exist for the caller.
    async fn sees_job(&self, who: &Principal, id: JobId) -> Result<bool, Error> {
        Ok(who.products().is_empty() || who.sees(self.look_up(id).await?.value.product()))
    }

    /// A job's stage, read once per batch.
    async fn stage_on(&self, ground: &mut BatchContext, id: JobId) -> Result<Option<StageName>, Error> {
        if let Some(stage) = ground.stages.get(&id) {
            return Ok(*stage);
        }
        let stage = self.stage_of(id).await?;
        ground.stages.insert(id, stage);
        Ok(stage)
    }

    fn product_of(&self, who: &Principal, request: &SubmitRequest, spec: &Spec) -> Result<ProductId, Error> {
        let own = who.products();
        let product = spec
            .product
            .clone()
            .or_else(|| request.product_id.clone())
            .or_else(|| own.first().cloned())
            .unwrap_or_else(ProductId::default_product);
        let state = self.state.lock();
        if state.has_product(&product) {
            return Ok(product);
        }
        let known = state.product_ids().filter(|known| who.sees(known)).cloned().collect();
        Err(Error::UnknownProduct { given: product, known })
    }

    /// The name that most factories use for a repository given by its identity, such as `github.com/acme/notes`. A name
    /// that some factory uses is returned unchanged.
    fn name_of(&self, given: RepoName) -> RepoName {
        let state = self.state.lock();
        if state.factories().any(|factory| factory.repos.contains(&given)) {
            return given;
        }
        let mut names: BTreeMap<&RepoName, usize> = BTreeMap::new();
        for (name, identity) in state.factories().flat_map(|factory| &factory.repo_identities) {
            if identity.as_str() == given.as_str() {
                *names.entry(name).or_default() += 1;
            }
        }
        let most = names.into_iter().max_by_key(|(name, count)| (*count, std::cmp::Reverse(*name)));
        most.map_or_else(|| given.clone(), |(name, _)| name.clone())
    }

    fn check_repo(&self, product: &ProductId, spec: &Spec) -> Result<(), Error> {
        let Some(repo) = &spec.repo else { return Ok(()) };
        let state = self.state.lock();
        match state.owner_of(repo) {
            Some(owner) if owner.id != *product => {
                Err(Error::RepoOwned { repo: repo.clone(), owner: owner.id.clone() })
            }
            Some(_) | None => Ok(()),
        }
    }
}

/// The dependencies and children of each job within the batch.
fn waits_for(drafts: &[Result<ParsedJob, Error>]) -> Vec<BTreeSet<usize>> {
    let mut places = HashMap::new();
    for (at, draft) in drafts.iter().enumerate() {
        if let Ok(draft) = draft {
            places.entry(draft.id).or_insert(at);
        }
    }
    let deps = |draft: &ParsedJob| {
        let wanted = draft.manifest.spec.deps.iter().map(|dep| dep.job(&draft.product));
        wanted.filter_map(|id| places.get(&id).copied()).collect()
    };
    let mut waits_for: Vec<BTreeSet<usize>> =
        drafts.iter().map(|draft| draft.as_ref().map(deps).unwrap_or_default()).collect();
    for (child, draft) in drafts.iter().enumerate() {
        let parent = draft.as_ref().ok().and_then(|draft| places.get(&draft.parent?));
        if let Some(parent) = parent {
            waits_for[*parent].insert(child);
        }
    }
    waits_for
}

fn deps_state(spec: &Spec, deps: &[JobId], ground: &BatchContext) -> DepsState {
    let stage = |dep: &JobId| (*dep, ground.stages.get(dep).copied().flatten());
    let is_with_others = deps.iter().any(|dep| ground.accepted.contains(dep));
    let is_met = deps.is_empty()
        || !is_with_others && verdict(spec, &deps.iter().map(stage).collect::<Vec<_>>()) == DepsVerdict::Met;
    if is_met { DepsState::Met } else { DepsState::Unmet }
}

/// What a rejected job means to others of its batch.
struct BatchLinks {
    id: Option<JobId>,
    deps: Vec<JobId>,
}

impl BatchLinks {
    fn of(draft: &Result<ParsedJob, Error>) -> Self {
        match draft {
            Ok(draft) => Self { id: Some(draft.id), deps: draft.as_new().deps },
            Err(_) => Self { id: None, deps: Vec::new() },
        }
    }
}

/// Whether a job is rejected for another one of its tree only.
pub(crate) fn is_of_rejected_tree(error: &Error) -> bool {
    matches!(error, Error::Invalid { what: "parent", why } if why == TREE_REJECTED)
}

/// The parents of a batch's jobs within the batch, by index. Known before the manifests are: one that cannot be read
/// breaks its tree too.
struct BatchFamilies(Vec<Option<usize>>);

impl BatchFamilies {
    fn of(requests: &[SubmitRequest]) -> Self {
        if requests.iter().all(|request| request.parent.is_none()) {
            return Self(Vec::new());
        }
        let keyed = |request: &SubmitRequest| request.idempotency_key.clone().map(Dep::Key);
        let places: HashMap<Dep, usize> =
            requests.iter().enumerate().rev().filter_map(|(at, request)| Some((keyed(request)?, at))).collect();
        Self(requests.iter().map(|request| places.get(request.parent.as_ref()?).copied()).collect())
    }

    /// Rejects each job whose parent or child in the batch is rejected, and then those that depend on it.
    fn reject_broken(&self, links: &[BatchLinks], outcomes: &mut [Result<ValidatedJob, Error>]) {
        let mut open: Vec<usize> = match self.0.is_empty() {
            true => Vec::new(),
            false => (0..outcomes.len()).filter(|at| outcomes[*at].is_err()).collect(),
        };
        while let Some(rejected) = open.pop() {
            for at in 0..links.len() {
                let is_its_tree = self.0[at] == Some(rejected) || self.0[rejected] == Some(at);
                let depends = links[rejected].id.is_some_and(|id| links[at].deps.contains(&id));
                if outcomes[at].is_err() || !is_its_tree && !depends {
                    continue;
                }
                outcomes[at] = Err(match (is_its_tree, links[rejected].id) {
                    (false, Some(id)) => Error::NoSuchDep(id.to_string()),
                    _ => invalid("parent", TREE_REJECTED.to_owned()),
                });
                open.push(at);
            }
        }
    }
}

impl ParsedJob {
    fn as_new(&self) -> NewJob<'_> {
        let deps = self.manifest.spec.deps.iter().map(|dep| dep.job(&self.product)).collect();
        NewJob { id: self.id, product: &self.product, parent: self.parent, deps }
    }
}

/// A composite has no run of its own: what its manifest says about one would be ignored.
fn check_composite(spec: &Spec) -> Result<(), Error> {
    let keys = [
        ("deps", !spec.deps.is_empty()),
        ("prepare", !spec.prepare.is_empty()),
        ("artifacts", !spec.artifacts.is_empty()),
        ("verify", !spec.verify.is_empty()),
        ("review", spec.review.is_some()),
    ];
    match keys.iter().find(|(_, is_given)| *is_given) {
        Some((key, _)) if spec.kind == Kind::Composite => {
            Err(invalid("kind", format!("a composite has no run of its own: move `{key}` to its children")))
        }
        _ => Ok(()),
    }
}

fn cycle(draft: &ParsedJob) -> Error {
    let deps = draft.manifest.spec.deps.iter().chain(&draft.request.parent);
    let deps = deps.map(|dep| format!("`{}`", String::from(dep.clone())));
    Error::DependencyCycle(format!("{} depend on this job", deps.take(3).collect::<Vec<_>>().join(", ")))
}

fn check_key(key: &str) -> Result<&str, Error> {
    if key.is_empty() || key.len() > KEY_LEN_MAX {
        return Err(invalid("idempotencyKey", format!("1 to {KEY_LEN_MAX} characters, found {}", key.len())));
    }
    if !key.chars().all(domain::is_terminal_safe) {
        return Err(invalid("idempotencyKey", "control characters are not allowed".to_owned()));
    }
    Ok(key)
}

pub(crate) fn digest(body: &str) -> String {
    Sha256::digest(body.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A review that can never be complete, because of the author.
fn unreachable(review: &Review, author: &str) -> Finding {
    Finding {
        line: 1,
        key: Some("review".to_owned()),
        message: unreachable_review(review, author),
        severity: Severity::Error,
    }
}

/// A job without a repository is valid, and rarely intended.
fn without_repo(job: &Job) -> Option<Finding> {
    let message =
        "no repository is named: the job runs in an empty directory, its files are deleted afterwards, and there is nothing to ship".to_owned();
    let finding = Finding { line: 1, key: Some("repo".to_owned()), message, severity: Severity::Warning };
    (job.spec().repo.is_none() && !job.is_composite()).then_some(finding)
}
