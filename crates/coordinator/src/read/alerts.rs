//! Alerts, computed from the current state: an alert ends when its cause does [I9].

use std::sync::Arc;

use domain::{
    BlockedOn, DispatchModes, Job, JobFilter, JobSearch, Mode, ProductId, Stage, StageName, Timestamp, dollars,
};
use protocol::{Alert, AlertCode, AlertList};
use scheduler::{FleetView, Placement, Plan, Presence, Unplaced};
use tracing::warn;

use crate::coordinator::Coordinator;
use crate::error::Error;
use crate::fleet::principal::Principal;
use crate::read::needs::approvals;
use crate::state::FleetState;
use crate::state::money::BudgetLevel;
use crate::submit::sanitize::short;

/// The limit of listed alerts of one kind.
const LOOKED_AT_MAX: usize = 100;

/// The limit of counted dead letters.
const DEAD_LETTERS_MAX: u16 = 1_000;

/// The limit of failed jobs read per product.
const FAILED_JOBS_MAX: u16 = 100;

/// How long a failed job raises an alert.
const FAILED_WITHIN_MS: i64 = 24 * 60 * 60 * 1_000;

/// The number of a product's jobs in a stage.
type StageCount = (ProductId, StageName, u64);

/// The characters of a question that fit into a line; the job has the rest.
const QUESTION_CHARS_MAX: usize = 200;

impl Coordinator {
    /// All current alerts. While factories may still be reconnecting after the start, no alert is raised that one of
    /// them could resolve [I14].
    pub async fn alerts(&self, who: &Principal) -> Result<AlertList, Error> {
        who.require_fleet_view()?;
        let mut items = self.health_alerts();
        items.extend(self.unreadable_alerts());
        items.extend(self.queue_alerts(who));
        if !self.is_warming() {
            items.extend(self.errand_alerts(who));
            items.extend(self.factory_alerts());
            items.extend(self.unresponsive_alerts());
            items.extend(self.pool_alerts(who));
            items.extend(self.remote_alerts(who));
            items.extend(self.disk_alerts());
        }
        if who.products().is_empty() {
            items.extend(self.tracker_alerts());
            items.extend(self.rejection_alerts());
            items.extend(self.webhook_alerts());
        }
        items.extend(self.credit_alerts(who));
        items.extend(self.budget_alerts(who));
        items.extend(self.merge_alerts(who));
        items.extend(self.dependency_alerts(who).await);
        items.extend(self.request_alerts(who));
        items.extend(self.question_alerts(who));
        items.extend(self.review_alerts(who));
        let census = self.ports.history.census().await?;
        items.extend(self.dead_letter_alert(who, &census).await?);
        items.extend(self.failed_job_alerts(who, &census).await);
        for (job, since) in self.counters.duplicates(self.now()) {
            if !who.products().is_empty() && self.visible(who, job).await.is_err() {
                continue;
            }
            let message = format!(
                "the broker rejected a new dispatch of job {} as a duplicate: its duplicate detection is faulty",
                self.label(job)
            );
            items.push(alert(AlertCode::DuplicateDispatch, message, since, Some(job)));
        }
        if !who.products().is_empty() {
            let state = self.state.lock();
            items.retain(|alert| match &alert.factory_id {
                Some(factory) => self.shows_factory(who, &state, factory),
                None => alert.code != AlertCode::UnreadableDocument,
            });
        }
        for alert in &mut items {
            if let Some(id) = alert.job_id {
                let Ok(job) = self.look_up(id).await else { continue };
                alert.job_title = Some(job.value.spec().title.clone());
                alert.product_id.get_or_insert_with(|| job.value.product().clone());
            }
        }
        items.sort_by_key(|alert| (alert.code, alert.since));
        Ok(AlertList { items })
    }

    fn queue_alerts(&self, who: &Principal) -> Vec<Alert> {
        let now = self.steady();
        let state = self.state.lock();
        // Jobs that factories claim can be unplaceable just as offered ones.
        let everything = DispatchModes::default();
        let view = FleetView { flags: &everything, ..state.view(now, &self.settings.weights, usize::MAX) };
        let plan = scheduler::plan(&view);
        let is_warming = self.is_warming();
        let lag = if is_warming { None } else { self.lag_alert(who, &state, &plan, now) };
        let mut alerts = Vec::from_iter(lag);
        for unplaced in plan.unplaced {
            if !who.sees(&unplaced.shape.product) {
                continue;
            }
            let since = state.waiting_since(unplaced.oldest).unwrap_or(now);
            let code = match &unplaced.why {
                why if is_warming && !is_known_to_lack(why) => continue,
                Unplaced::NoFactories | Unplaced::Away { .. } => AlertCode::NoLiveFactory,
                why if why.is_unplaceable() => AlertCode::Unplaceable,
                // The reason has a resume time, and the operator has nothing to do.
                Unplaced::UsageWindow { .. } => continue,
                // Alerts of their own: once per product, not per shape.
                Unplaced::WaitsForMoney { .. } => continue,
                Unplaced::EnginePaused { .. } => AlertCode::EnginePaused,
                _ if now.since(since) >= self.settings.starving_after => AlertCode::QueueStarvation,
                _ => continue,
            };
            let why = self.reason_text(who, &state, unplaced.oldest, &unplaced.why);
            let message = format!("{}: {why}", counted(unplaced.jobs as u64, "waits", "wait"));
            let mut alert = alert(code, message, self.wall_time(since), Some(unplaced.oldest));
            alert.jobs = Some(unplaced.jobs as u64);
            alert.retry_at = unplaced.why.retry_at();
            alerts.push(alert);
        }
        alerts
    }

    /// Jobs that wait although a seat is free for them: the dispatcher falls behind or cannot write, or no factory
    /// claims them.
    fn lag_alert(&self, who: &Principal, state: &FleetState, plan: &Plan, now: Timestamp) -> Option<Alert> {
        let waited = |placement: &Placement| {
            let job = state.job(placement.job).filter(|job| who.sees(job.value.product()))?;
            let since = state.waiting_since(placement.job)?;
            let patience = match state.mode_of(job.value.product()) {
                Mode::Push => self.settings.accept_within,
                Mode::Poll | Mode::Gate | Mode::Shadow | Mode::SelfSelect => self.settings.starving_after,
            };
            (now.since(since) > patience).then(|| (since, job.value.id()))
        };
        let late: Vec<_> = plan.placements.iter().filter_map(waited).collect();
        let (since, oldest) = *late.iter().min()?;
        let message = format!(
            "{} although seats are free: check that the store is writable and that factories poll",
            counted(late.len() as u64, "waits", "wait")
        );
        let mut alert = alert(AlertCode::DispatchLag, message, self.wall_time(since), Some(oldest));
        alert.jobs = Some(late.len() as u64);
        Some(alert)
    }

    /// Promotions and merges that no live factory can take.
    fn errand_alerts(&self, who: &Principal) -> Vec<Alert> {
        let now = self.steady();
        let state = self.state.lock();
        let view = state.view(now, &self.settings.weights, 1);
        let mut alerts = Vec::new();
        for id in state.ready_errands(LOOKED_AT_MAX) {
            let Some(job) = state.job(id).filter(|job| who.sees(job.value.product())) else { continue };
            let shape = job.value.shape();
            let (Some(errand), Some(repo)) = (job.value.errand(), &shape.repo) else { continue };
            let is_starting = state.pools().starting_for_errand(&view, &shape).is_some();
            if is_starting || scheduler::errand(&view, &shape, None).is_some() {
                continue;
            }
            let whose = shape.identity.as_ref().map_or_else(String::new, |identity| format!(" ({identity})"));
            let message = format!(
                "job {} is done and waiting to {}: no live factory has `{repo}`{whose}; start one that has it, or configure the repository on another",
                job.value.label(),
                errand.kind.name()
            );
            alerts.push(alert(AlertCode::Unplaceable, message, job.value.updated_at(), Some(id)));
        }
        alerts
    }

    /// Pull requests that no rework round could satisfy.
    fn request_alerts(&self, who: &Principal) -> Vec<Alert> {
        let state = self.state.lock();
        let stuck = state
            .jobs_needing_people()
            .map(|job| &job.value)
            .filter(|job| job.is_escalated() && who.sees(job.product()));
        let told = stuck.take(LOOKED_AT_MAX).map(|job| {
            let (id, message) = (job.id(), job.message().unwrap_or("needs a maintainer"));
            let place = job.pull_request().map_or_else(String::new, |request| format!(" at {}", request.url));
            let message = format!("the pull request of job {}{place} needs attention: {message}", job.label());
            alert(AlertCode::ChangesExhausted, message, job.updated_at(), Some(id))
        });
        told.collect()
    }

    /// Jobs that wait for an operator's answer.
    fn question_alerts(&self, who: &Principal) -> Vec<Alert> {
        let state = self.state.lock();
        let asked = state.jobs_needing_people().map(|job| &job.value).filter_map(|job| match job.stage() {
            Stage::Blocked { on: BlockedOn::Question(question) } if who.sees(job.product()) => Some((job, question)),
            _ => None,
        });
        let told = asked.take(LOOKED_AT_MAX).map(|(job, question)| {
            let id = job.id();
            let asked = short(&question.split_whitespace().collect::<Vec<_>>().join(" "), QUESTION_CHARS_MAX);
            let (label, short) = (job.label(), id.short());
            let message = format!("job {label} asks: {asked} (answer with `giga answer {short} -m \"…\"`)");
            let since = job.person_wait().map_or(job.updated_at(), |wait| wait.since);
            alert(AlertCode::QuestionWaiting, message, since, Some(id))
        });
        told.collect()
    }

    /// Jobs that wait for the approvals of their review.
    fn review_alerts(&self, who: &Principal) -> Vec<Alert> {
        let state = self.state.lock();
        let in_review = state
            .jobs_needing_people()
            .map(|job| &job.value)
            .filter(|job| job.stage().name() == StageName::Review && !job.is_merge_failed() && who.sees(job.product()));
        let told = in_review.take(LOOKED_AT_MAX).map(|job| {
            let message = format!("job {} waits for review: {}", job.label(), review_text(job));
            let since = job.person_wait().map_or(job.updated_at(), |wait| wait.since);
            alert(AlertCode::ReviewWaiting, message, since, Some(job.id()))
        });
        told.collect()
    }

    fn factory_alerts(&self) -> Vec<Alert> {
        let state = self.state.lock();
        let stale = state.factory_ids().filter(|id| state.presence_of(id) == Some(Presence::Stale));
        stale
            .map(|id| {
                let last = state.liveness_of(id).map(|pulse| pulse.last);
                let since = last.unwrap_or(self.started_at);
                let contact = match last {
                    Some(last) => format!("is stale, last contact at {last}"),
                    // Presence is in memory only: it is unknown before the restart.
                    None => format!("has not connected since the coordinator restarted at {since}"),
                };
                let message = format!("factory `{id}` {contact}: start it, or remove it with `giga factory prune`");
                let mut alert = alert(AlertCode::StaleFactory, message, since, None);
                alert.factory_id = Some(id.clone());
                alert
            })
            .collect()
    }

    /// Factories that are connected and accept no work.
    fn unresponsive_alerts(&self) -> Vec<Alert> {
        let state = self.state.lock();
        let alarming = state.alarming_streaks().filter(|(id, _)| state.presence_of(id) == Some(Presence::Live));
        alarming
            .map(|(id, streak)| {
                let message = format!(
                    "factory `{id}` {} ({} times in a row): read its log, check its disk, or restart it",
                    streak.problem, streak.count
                );
                let mut alert = alert(AlertCode::UnresponsiveFactory, message, streak.since, None);
                alert.factory_id = Some(id.clone());
                alert
            })
            .collect()
    }

    /// Repositories that a live factory cannot use, each with its remote's error.
    fn remote_alerts(&self, who: &Principal) -> Vec<Alert> {
        let state = self.state.lock();
        let unavailable = state.live_factories().flat_map(|factory_state| {
            let id = &factory_state.factory.id;
            let repos = factory_state.factory.unavailable_repos.iter().filter(|(repo, _)| state.shows_repo(who, repo));
            repos.map(move |(repo, found)| (id, repo, found))
        });
        let told = unavailable.take(LOOKED_AT_MAX).map(|(id, repo, found)| {
            let message = format!("factory `{id}` cannot reach the remote of `{repo}`: {}", found.message);
            of_factory(about(alert(AlertCode::RemoteUnavailable, message, found.since, None), repo), id)
        });
        told.collect()
    }

    /// Live factories whose state disk has too little free space for work.
    fn disk_alerts(&self) -> Vec<Alert> {
        let state = self.state.lock();
        let full = state.live_factories().filter(|factory_state| factory_state.disk_low);
        let told = full.take(LOOKED_AT_MAX).map(|factory_state| {
            let id = &factory_state.factory.id;
            let pulse = state.liveness_of(id);
            let free = pulse.and_then(|pulse| pulse.disk_free_bytes).unwrap_or(0) / (1024 * 1024);
            let since = pulse.and_then(|pulse| pulse.disk_low_since).unwrap_or(self.started_at);
            let message = format!(
                "the state disk of factory `{id}` is full: {free} MiB free, and it gets no work: free some space, or run `giga gc` there"
            );
            of_factory(alert(AlertCode::DiskFull, message, since, None), id)
        });
        told.collect()
    }

    /// Credentials whose account has no credit left.
    fn credit_alerts(&self, who: &Principal) -> Vec<Alert> {
        let at = self.clock_reading();
        let state = self.state.lock();
        let exhausted = state.exhausted_credentials(at).filter(|(_, window)| window.exhausted);
        let shown = exhausted.filter(|(credential, _)| self.shows_credential(who, &state, credential));
        let told = shown.take(LOOKED_AT_MAX).map(|(credential, window)| {
            let message = format!(
                "credential `{credential}` of engine `{}` has no credit left: add some, then resume it with `giga credential resume {credential}`",
                window.engine
            );
            about(alert(AlertCode::CredentialExhausted, message, window.since, None), credential)
        });
        told.collect()
    }

    /// Products that have spent most of their ceiling, or are paused by it.
    fn budget_alerts(&self, who: &Principal) -> Vec<Alert> {
        let now = self.now();
        let state = self.state.lock();
        let mut alerts = Vec::new();
        for product in state.products_with_ceiling().into_iter().filter(|product| who.sees(product)) {
            let live = |job| self.live_spend(job);
            let Some((level, since)) = state.level_since(&product, now, &live) else { continue };
            let mut alert = match (level, state.out_of_money().get(&product), state.money_of(&product, now, &live)) {
                (BudgetLevel::Paused, Some(wait), _) => {
                    let mut alert = alert(AlertCode::BudgetPaused, wait.text(&product), since, None);
                    alert.jobs = Some(state.queue_version(&product).1).filter(|jobs| *jobs > 0);
                    alert.retry_at = wait.resets_at;
                    alert
                }
                (BudgetLevel::Spent(level), _, Some(money)) => {
                    let per = state.budget(&product).map_or("", |budget| budget.value.settings.period.per());
                    let (spent, ceiling) = (dollars(money.spent.dollars()), dollars(money.ceiling.dollars()));
                    let message = format!(
                        "product `{product}` has spent more than {level} % of its budget: {spent} of {ceiling} {per}"
                    );
                    alert(AlertCode::BudgetWarning, message, since, None)
                }
                (BudgetLevel::Paused | BudgetLevel::Spent(_), ..) => continue,
            };
            alert.product_id = Some(product);
            alerts.push(alert);
        }
        alerts
    }

    /// Finished jobs whose promotion or merge was abandoned: an operator has to act.
    fn merge_alerts(&self, who: &Principal) -> Vec<Alert> {
        let state = self.state.lock();
        let failed = state
            .jobs_needing_people()
            .map(|job| &job.value)
            .filter(|job| job.is_merge_failed() && who.sees(job.product()));
        let told = failed.take(LOOKED_AT_MAX).map(|job| {
            let (label, short) = (job.label(), job.id().short());
            let failure = job.merge_failure().map_or_else(|| "merge failed".to_owned(), |failure| failure.to_string());
            let message = format!(
                "job {label}: {failure} (retry with `giga ship {short}`, requeue it with `giga requeue {short}`, or cancel it)"
            );
            alert(AlertCode::MergeFailed, message, job.updated_at(), Some(job.id()))
        });
        told.collect()
    }

    /// Jobs that are blocked on a dependency that failed.
    async fn dependency_alerts(&self, who: &Principal) -> Vec<Alert> {
        let blocked: Vec<_> = {
            let state = self.state.lock();
            let is_stuck = |job: &&Job| job.failed_dependency().is_some() && who.sees(job.product());
            let stuck = state.jobs_needing_people().filter(|job| is_stuck(&&*job.value)).take(LOOKED_AT_MAX);
            stuck.map(|job| Arc::clone(&job.value)).collect()
        };
        let mut alerts = Vec::new();
        for job in blocked {
            let Some(dep) = job.failed_dependency() else { continue };
            let message = format!(
                "job {} is blocked: {} (requeue it with `giga requeue {}`, or cancel the blocked job with `giga cancel {}`)",
                job.label(),
                self.failed_dependency_text(&job, dep).await,
                dep.short(),
                job.id().short()
            );
            alerts.push(alert(AlertCode::DependencyFailed, message, job.updated_at(), Some(job.id())));
        }
        alerts
    }

    /// Jobs of each product that failed recently and that no operator has attended to. The newest of a product are
    /// counted.
    async fn failed_job_alerts(&self, who: &Principal, census: &[StageCount]) -> Vec<Alert> {
        let has_failed =
            |(product, stage, count): &&StageCount| *stage == StageName::Failed && *count > 0 && who.sees(product);
        let since = Timestamp::from_millis(self.now().as_millis().saturating_sub(FAILED_WITHIN_MS));
        let mut alerts = Vec::new();
        for (product, _, _) in census.iter().filter(has_failed).take(LOOKED_AT_MAX) {
            let (products, stages) = (vec![product.clone()], vec![StageName::Failed]);
            let search = JobSearch { is_unattended_failure: true, ..JobSearch::default() };
            let filter = JobFilter { products, stages, search, ..JobFilter::default() };
            // A store with damaged pages still reports its other alerts, the one about the damage first.
            let page = match self.ports.history.jobs(&filter, None, FAILED_JOBS_MAX).await {
                Ok(page) => page,
                Err(error) => {
                    warn!(product.id = %product, "Cannot list the failed jobs of product `{product}`: {error}");
                    continue;
                }
            };
            let is_lately = |job: &&Job| job.updated_at() >= since;
            let jobs: Vec<&Job> = page.items.iter().map(|summary| &summary.job).filter(is_lately).collect();
            let Some(newest) = jobs.iter().max_by_key(|job| job.updated_at()) else { continue };
            let oldest = jobs.iter().map(|job| job.updated_at()).min().unwrap_or(since);
            let (count, short) = (jobs.len() as u64, newest.id().short());
            let at_least = if page.next.is_some() { "at least " } else { "" };
            let message = format!(
                "{at_least}{} of product `{product}` failed in the last 24 hours, the newest is {}: read why with `giga job {short}`, \
                 requeue it with `giga requeue {short}`",
                domain::counted(count, "job"),
                newest.label(),
            );
            let mut alert = alert(AlertCode::JobsFailed, message, oldest, Some(newest.id()));
            alert.jobs = Some(count);
            alerts.push(alert);
        }
        alerts
    }

    async fn dead_letter_alert(&self, who: &Principal, census: &[StageCount]) -> Result<Option<Alert>, Error> {
        let is_dead = |(product, stage, _): &&StageCount| *stage == StageName::DeadLetter && who.sees(product);
        if !census.iter().filter(is_dead).any(|(_, _, count)| *count > 0) {
            return Ok(None);
        }
        let letters = self.dead_letters(who, None, DEAD_LETTERS_MAX).await?.items;
        let count = letters.len() as u64;
        let Some(first) = letters.first() else { return Ok(None) };
        let one = first.job.id.short();
        let message = format!(
            "{} dead-lettered: list them with `giga dead-letters`, requeue one with `giga requeue {one}`, or dismiss it with \
             `giga dead-letters dismiss {one}`",
            counted(count, "is", "are")
        );
        let since = letters.iter().map(|letter| letter.job.updated_at).min().unwrap_or_else(|| self.now());
        let mut alert = alert(AlertCode::DeadLetter, message, since, None);
        alert.jobs = Some(count);
        Ok(Some(alert))
    }
}

/// `1 of 2 approvals, of ada or grace (review it with `giga review approve 4f1c689`)`
pub(crate) fn review_text(job: &Job) -> String {
    let whose = match job.required_review().map(|review| review.reviewers.as_slice()) {
        None | Some([]) => format!("of anyone but `{}`, who submitted it", job.author()),
        Some(reviewers) => format!("of {}", reviewers.join(" or ")),
    };
    let id = job.id().short();
    format!("{}, {whose} (review it with `giga review approve {id}`)", approvals(job))
}

/// Whether the stored fleet lacks something, whichever factories have connected.
fn is_known_to_lack(why: &Unplaced) -> bool {
    matches!(
        why,
        Unplaced::NoFactoryOffers { .. } | Unplaced::NoFactoryRunsEngine { .. } | Unplaced::NoFactoryHasRepo { .. }
    )
}

fn counted(jobs: u64, one: &str, several: &str) -> String {
    if jobs == 1 { format!("1 job {one}") } else { format!("{jobs} jobs {several}") }
}

fn of_factory(alert: Alert, id: &domain::FactoryId) -> Alert {
    Alert { factory_id: Some(id.clone()), ..alert }
}

/// An alert about something that is neither a job, a factory nor a product.
pub(crate) fn about(alert: Alert, subject: &impl ToString) -> Alert {
    Alert { subject: Some(subject.to_string()), ..alert }
}

pub(crate) fn alert(
    code: AlertCode,
    message: String,
    since: domain::Timestamp,
    job_id: Option<domain::JobId>,
) -> Alert {
    Alert {
        code,
        message,
        since,
        job_id,
        job_title: None,
        factory_id: None,
        product_id: None,
        subject: None,
        jobs: None,
        retry_at: None,
    }
}
