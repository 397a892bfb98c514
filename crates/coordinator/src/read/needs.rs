//! What needs a person: questions, reviews, merges, failures, and alerts.

use std::cmp::Ordering;

use domain::{
    BlockedOn, FailureReason, Job, JobFilter, JobSearch, Page, ProductId, Stage, StageName, Summary, Timestamp, dollars,
};
use protocol::{Alert, AlertCode, JobReview, Need, NeedAction, NeedKind, NeedList};

use crate::coordinator::Coordinator;
use crate::error::Error;
use crate::fleet::principal::Principal;
use crate::state::FleetState;
use crate::submit::sanitize::short;
use crate::work::report::{is_ready, ships_by_itself};
use crate::work::review::waits_for_vote_of;

/// The largest page.
const PAGE_MAX: u16 = 200;

/// Failed jobs that are listed: the newest ones that no operator has attended to.
const FAILURES_MAX: u16 = 1_000;

/// The characters of a message that fit into a sentence; the job has the rest.
const TEXT_CHARS_MAX: usize = 300;

/// The items to list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NeedsFilter {
    /// Only jobs of these products; everything when empty.
    pub products: Vec<ProductId>,
    /// Only these kinds; all when empty.
    pub kinds: Vec<NeedKind>,
}

impl NeedsFilter {
    fn has(&self, kind: NeedKind) -> bool {
        self.kinds.is_empty() || self.kinds.contains(&kind)
    }

    fn covers(&self, need: &Need) -> bool {
        let is_of_product = match &need.product_id {
            Some(product) => self.products.is_empty() || self.products.contains(product),
            None => self.products.is_empty(),
        };
        self.has(need.kind) && is_of_product
    }
}

impl Coordinator {
    /// A page of what needs the caller: blocked people and money first, then by age.
    pub async fn needs_me(
        &self,
        who: &Principal,
        mut filter: NeedsFilter,
        after: Option<String>,
        limit: u16,
    ) -> Result<NeedList, Error> {
        who.require_fleet_view()?;
        if let Some(foreign) = filter.products.iter().find(|product| !who.sees(product)) {
            return Err(Error::Forbidden(format!("it does not cover product `{foreign}`")));
        }
        filter.kinds.sort_unstable();
        let after = after.as_deref().map(Rank::parse).transpose()?;
        let (mut needs, is_exact) = self.needs(who, &filter).await?;
        needs.retain(|need| filter.covers(need));
        let total = needs.len() as u64;
        needs.sort_unstable_by(by_rank);
        if let Some(after) = after {
            needs.retain(|need| Rank::of(need) > after);
        }
        let limit = usize::from(limit.clamp(1, PAGE_MAX));
        let next = (needs.len() > limit).then(|| Rank::of(&needs[limit - 1]).to_string());
        needs.truncate(limit);
        Ok(NeedList { items: needs, total, is_exact, next })
    }

    /// The number of items for a caller whose alerts are known.
    pub(crate) async fn needs_total(&self, who: &Principal, alerts: &[Alert]) -> Result<u64, Error> {
        let failures = self.failures(who, &NeedsFilter::default()).await?.items.len();
        let alerts = alerts.iter().filter(|alert| is_own_item(alert.code)).count();
        let (jobs, credentials) = {
            let state = self.state.lock();
            let jobs = state.jobs_needing_people().map(|job| &*job.value).filter(|job| who.sees(job.product()));
            let jobs = jobs.filter(|job| kind_for(who, &state, job).is_some()).count();
            (jobs, self.exhausted_credentials(who, &state).len())
        };
        Ok((failures + alerts + jobs + credentials) as u64)
    }

    /// All items, also of other products and kinds, and whether every failure is among them.
    async fn needs(&self, who: &Principal, filter: &NeedsFilter) -> Result<(Vec<Need>, bool), Error> {
        let mut needs = self.needs_of_open_jobs(who);
        needs.extend(self.needs_of_credentials(who));
        let alerts = self.alerts(who).await?.items;
        for alert in alerts.into_iter().filter(|alert| is_own_item(alert.code)) {
            let product = match alert.job_id {
                Some(id) => self.look_up(id).await.ok().map(|job| job.value.product().clone()),
                None => None,
            };
            needs.push(need_of_alert(who, alert, product.as_ref()));
        }
        if !filter.has(NeedKind::Failed) && !filter.has(NeedKind::DeadLetter) {
            return Ok((needs, true));
        }
        let failed = self.failures(who, filter).await?;
        needs.extend(failed.items.iter().map(|failed| need_of_failure(who, &failed.job)));
        Ok((needs, failed.next.is_none()))
    }

    /// The newest failed jobs that no operator has attended to.
    async fn failures(&self, who: &Principal, filter: &NeedsFilter) -> Result<Page<Summary>, Error> {
        let filter = self.failure_filter(who, filter)?;
        Ok(self.ports.history.jobs(&filter, None, FAILURES_MAX).await?)
    }

    fn failure_filter(&self, who: &Principal, filter: &NeedsFilter) -> Result<JobFilter, Error> {
        let kinds = [(NeedKind::Failed, StageName::Failed), (NeedKind::DeadLetter, StageName::DeadLetter)];
        let stages = kinds.into_iter().filter(|(kind, _)| filter.has(*kind)).map(|(_, stage)| stage).collect();
        let products = self.limited_to(who, filter.products.clone())?;
        let search = JobSearch { is_unattended_failure: true, ..JobSearch::default() };
        Ok(JobFilter { products, stages, search, ..JobFilter::default() })
    }

    fn needs_of_open_jobs(&self, who: &Principal) -> Vec<Need> {
        let state = self.state.lock();
        let jobs = state.jobs_needing_people().map(|job| &*job.value).filter(|job| who.sees(job.product()));
        jobs.filter_map(|job| Some(need_of_job(who, job, kind_for(who, &state, job)?))).collect()
    }

    fn needs_of_credentials(&self, who: &Principal) -> Vec<Need> {
        let actions = if who.require_admin().is_ok() { vec![NeedAction::ResumeCredential] } else { Vec::new() };
        let need = |(credential, engine, since): (String, String, Timestamp)| Need {
            text: format!("credential `{credential}` of engine `{engine}` has no credit left"),
            remedy: format!("add credit, then `giga credential resume {credential}`"),
            actions: actions.clone(),
            credential: Some(credential.clone()),
            ..blank(NeedKind::CredentialExhausted, &credential, since)
        };
        let exhausted = self.exhausted_credentials(who, &self.state.lock());
        exhausted.into_iter().map(need).collect()
    }

    /// Credentials without credit that the caller may see: name, engine, and since when.
    fn exhausted_credentials(&self, who: &Principal, state: &FleetState) -> Vec<(String, String, Timestamp)> {
        let exhausted = state.exhausted_credentials(self.clock_reading()).filter(|(_, window)| window.exhausted);
        let shown = exhausted.filter(|(credential, _)| self.shows_credential(who, state, credential));
        shown.map(|(name, window)| (name.clone(), window.engine.to_string(), window.since)).collect()
    }
}

/// What an open job waits for a person for.
fn kind_of(state: &FleetState, job: &Job) -> Option<NeedKind> {
    match job.stage() {
        Stage::Blocked { on: BlockedOn::Question(_) } => Some(NeedKind::Question),
        _ if job.is_escalated() => Some(NeedKind::PullRequestAbandoned),
        _ if job.is_merge_failed() => Some(NeedKind::MergeFailed),
        Stage::Review { .. } => Some(NeedKind::Review),
        Stage::Testing { .. } if is_ready(job) && !ships_by_itself(state, job) => Some(NeedKind::ReadyToShip),
        _ => None,
    }
}

/// What an open job waits for the caller for. A review waits for those who may vote and have not.
fn kind_for(who: &Principal, state: &FleetState, job: &Job) -> Option<NeedKind> {
    kind_of(state, job).filter(|kind| *kind != NeedKind::Review || waits_for_vote_of(who, job))
}

/// Whether an alert is an item of its own. The others are about jobs and credentials that are listed one by one.
fn is_own_item(code: AlertCode) -> bool {
    !matches!(
        code,
        AlertCode::DeadLetter
            | AlertCode::JobsFailed
            | AlertCode::QuestionWaiting
            | AlertCode::ReviewWaiting
            | AlertCode::MergeFailed
            | AlertCode::ChangesExhausted
            | AlertCode::CredentialExhausted
    )
}

fn need_of_job(who: &Principal, job: &Job, kind: NeedKind) -> Need {
    use NeedAction as A;
    let id = job.id().short();
    let message = || short(&one_line(job.message().unwrap_or("no reason was reported")), TEXT_CHARS_MAX);
    let (text, remedy, actions) = match (kind, job.stage()) {
        (NeedKind::Question, Stage::Blocked { on: BlockedOn::Question(question) }) => (
            format!("asks: {}", short(&one_line(question), TEXT_CHARS_MAX)),
            format!("answer with `giga answer {id} TEXT`"),
            vec![A::Answer, A::Cancel],
        ),
        (NeedKind::Review, _) => (
            format!("the work of {} waits for your review, {}{}", job.author(), approvals(job), place(job)),
            format!("`giga review approve {id}`, `giga review changes {id} -m TEXT`, or `giga review reject {id}`"),
            vec![A::Review, A::Cancel],
        ),
        (NeedKind::MergeFailed, _) => (
            job.merge_failure().map_or_else(message, |failure| short(&one_line(&failure.to_string()), TEXT_CHARS_MAX)),
            format!(
                "`giga ship {id}` tries again, `giga requeue {id}` starts a rework round, `giga cancel {id}` ends it"
            ),
            vec![A::Ship, A::Requeue, A::RequestChanges, A::Reject, A::Cancel],
        ),
        (NeedKind::PullRequestAbandoned, _) => (
            format!("the pull request{} needs a maintainer: {}", place(job), message()),
            format!("review it; `giga request-changes {id} -m TEXT` starts new rounds, `giga reject {id}` ends it"),
            vec![A::RequestChanges, A::Requeue, A::Ship, A::Reject, A::Cancel],
        ),
        _ => (
            format!(
                "{} and waits for its merge{}",
                if job.is_verified() { "verified" } else { "completed" },
                place(job)
            ),
            format!("`giga ship {id}` merges it, `giga request-changes {id} -m TEXT` sends it back"),
            vec![A::Ship, A::RequestChanges, A::Reject, A::Cancel],
        ),
    };
    Need { text, remedy, actions: allowed(who, job.product(), actions), ..of_job(kind, job) }
}

/// `1 of 2 approvals`
pub(crate) fn approvals(job: &Job) -> String {
    let quorum = job.required_review().map_or(1, |review| review.quorum);
    format!("{} of {}", job.approvals(), domain::counted(quorum, "approval"))
}

fn need_of_failure(who: &Principal, job: &Job) -> Need {
    let (kind, reason) = match job.stage() {
        Stage::DeadLetter { reason } => (NeedKind::DeadLetter, Some(*reason)),
        Stage::Failed { reason } => (NeedKind::Failed, Some(*reason)),
        _ => (NeedKind::Failed, None),
    };
    let (word, again) = match kind {
        NeedKind::DeadLetter => ("dead-lettered", NeedAction::Redrive),
        _ => ("failed", NeedAction::Requeue),
    };
    let reason = reason.map_or("unknown", FailureReason::name);
    let why = match job.message().map(one_line).filter(|why| !why.is_empty()) {
        Some(why) => format!("{word} ({reason}): {}", short(&why, TEXT_CHARS_MAX)),
        None => format!("{word}: {reason}"),
    };
    let spent = job.spent().cost_usd.map_or_else(String::new, |cost| format!(" after spending {}", dollars(cost)));
    let id = job.id().short();
    Need {
        text: format!("{why}{spent}"),
        remedy: format!("`giga requeue {id}` tries it again, `giga dismiss {id}` removes it from this list"),
        actions: allowed(who, job.product(), vec![again, NeedAction::Dismiss]),
        ..of_job(kind, job)
    }
}

fn need_of_alert(who: &Principal, alert: Alert, product: Option<&ProductId>) -> Need {
    let (_, remedy) = alert.code.help();
    let name = serde_json::to_value(alert.code).ok().and_then(|code| code.as_str().map(str::to_owned));
    let name = name.unwrap_or_default();
    let is_admin = who.require_admin().is_ok();
    let (kind, subject, actions) = match (alert.code, &alert.factory_id, alert.job_id) {
        (AlertCode::StaleFactory, Some(factory), _) => {
            (NeedKind::StaleFactory, factory.to_string(), vec![NeedAction::Drain, NeedAction::Prune])
        }
        (AlertCode::Unplaceable, _, Some(job)) => (NeedKind::Unplaceable, job.to_string(), vec![NeedAction::Cancel]),
        (AlertCode::BudgetPaused | AlertCode::BudgetWarning, ..) if let Some(product) = &alert.product_id => {
            (NeedKind::Budget, product.to_string(), Vec::new())
        }
        (_, Some(factory), _) => (NeedKind::Alert, format!("{name}:{factory}"), vec![NeedAction::Drain]),
        (_, None, Some(job)) => (NeedKind::Alert, format!("{name}:{job}"), vec![NeedAction::Cancel]),
        (_, None, None) => {
            let subject = alert.subject.as_ref().map_or_else(|| name.clone(), |subject| format!("{name}:{subject}"));
            (NeedKind::Alert, subject, Vec::new())
        }
    };
    let may = |action: &NeedAction| match (action, product) {
        (NeedAction::Cancel, Some(product)) => who.require_operator(product).is_ok(),
        (NeedAction::Cancel, None) => false,
        _ => is_admin,
    };
    let factory = alert.factory_id.as_ref().map(ToString::to_string);
    let named = alert.product_id.as_ref().map(ToString::to_string).or(factory);
    Need {
        title: alert.job_title.or(named).unwrap_or_else(|| name.replace('_', " ")),
        text: alert.message,
        remedy: remedy.to_owned(),
        job_id: alert.job_id,
        factory_id: alert.factory_id,
        product_id: alert.product_id.or_else(|| product.cloned()),
        actions: actions.into_iter().filter(may).collect(),
        ..blank(kind, &subject, alert.since)
    }
}

fn of_job(kind: NeedKind, job: &Job) -> Need {
    Need {
        title: job.spec().title.clone(),
        job_id: Some(job.id()),
        product_id: Some(job.product().clone()),
        cost_usd: job.spent().cost_usd,
        review: JobReview::of(job).filter(|_| kind == NeedKind::Review),
        ..blank(kind, &job.id().to_string(), job.person_wait().map_or(job.updated_at(), |wait| wait.since))
    }
}

fn blank(kind: NeedKind, subject: &str, at: Timestamp) -> Need {
    Need {
        key: format!("{}:{subject}", kind.name()),
        kind,
        title: subject.to_owned(),
        text: String::new(),
        remedy: String::new(),
        at,
        job_id: None,
        factory_id: None,
        product_id: None,
        credential: None,
        cost_usd: None,
        review: None,
        actions: Vec::new(),
    }
}

fn allowed(who: &Principal, product: &ProductId, actions: Vec<NeedAction>) -> Vec<NeedAction> {
    if who.require_operator(product).is_ok() { actions } else { Vec::new() }
}

fn place(job: &Job) -> String {
    job.pull_request().map_or_else(String::new, |request| format!(" at {}", request.url))
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The position of an item in the list.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    urgency: u8,
    at: Timestamp,
    key: String,
}

impl Rank {
    fn of(need: &Need) -> Self {
        Self { urgency: urgency(need), at: need.at, key: need.key.clone() }
    }

    fn parse(cursor: &str) -> Result<Self, Error> {
        let mut parts = cursor.splitn(3, '.');
        let mut next = || parts.next().ok_or(domain::StoreError::BadCursor);
        let (urgency, at, key) = (next()?, next()?, next()?.to_owned());
        let parsed = urgency.parse().ok().zip(at.parse().ok());
        let (urgency, at) = parsed.ok_or(domain::StoreError::BadCursor)?;
        Ok(Self { urgency, at: Timestamp::from_millis(at), key })
    }
}

impl std::fmt::Display for Rank {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}.{}", self.urgency, self.at.as_millis(), self.key)
    }
}

fn by_rank(one: &Need, other: &Need) -> Ordering {
    let order = |need: &Need| (urgency(need), need.at);
    order(one).cmp(&order(other)).then_with(|| one.key.cmp(&other.key))
}

/// 0: people or money wait for it. 1: work has stopped. 2: it can wait.
fn urgency(need: &Need) -> u8 {
    match need.kind {
        NeedKind::Question | NeedKind::Review | NeedKind::CredentialExhausted | NeedKind::Budget => 0,
        NeedKind::MergeFailed
        | NeedKind::PullRequestAbandoned
        | NeedKind::Unplaceable
        | NeedKind::DeadLetter
        | NeedKind::Failed => 1,
        NeedKind::ReadyToShip | NeedKind::StaleFactory | NeedKind::Alert => 2,
    }
}
