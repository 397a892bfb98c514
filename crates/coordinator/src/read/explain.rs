//! Why a job is in its stage, and where it could run [S4][I9].

use domain::{
    BlockedOn, ErrandKind, ErrandState, EventKind, FactoryId, FailureReason, Job, JobEvent, JobId, Mode, PoolName,
    Position, Priority, Revision, Scope, Stage,
};
use protocol::{JobExplanation, JobView, JobWait, PlacementDecision};
use scheduler::{Demand, ExplainedOutcome, Explanation, FleetView, Presence, Unplaced};

use crate::coordinator::Coordinator;
use crate::error::Error;
use crate::fleet::principal::Principal;
use crate::read::alerts::review_text;
use crate::read::queries::shown;
use crate::state::FleetState;
use crate::submit::deps::DepsVerdict;
use crate::submit::sanitize::short;
use crate::work::quota_windows::QuotaWindow;

/// Jobs that a reason names.
const AWAITED_MAX: usize = 5;

/// The characters of another job's failure: that job shows all of it.
const FAILURE_CHARS_MAX: usize = 60;

impl Coordinator {
    /// Every factory and the reasons, as text and numbers.
    pub async fn explain(&self, who: &Principal, id: JobId) -> Result<JobExplanation, Error> {
        let job = self.visible(who, id).await?;
        let now = self.explanation_for(who, job.value.id(), self.full_forecast(&job.value));
        let then = self.last_dispatch(&job.value).await?;
        let summary = self.summary(&job.value, &now).await?;
        let holder = job.value.seat().map(|lease| &lease.factory);
        let holder_presence = holder.map(|holder| shown(self.presence(self.state.lock().liveness_of(holder))));
        let view = self.view(who, &job.value, job.revision);
        let decision = then.as_ref().and_then(PlacementDecision::of);
        Ok(JobExplanation { job: view, summary, now, decision, then, holder_presence })
    }

    /// A job as its caller sees it, with the reason why it waits.
    pub(crate) fn view(&self, who: &Principal, job: &Job, revision: Revision) -> JobView {
        JobView { waiting: self.waiting(who, job), ..JobView::of(job, revision) }
    }

    /// Why a job waits: a queued one, one blocked on dependencies, or one whose promotion or merge no factory can take.
    pub(crate) fn waiting(&self, who: &Principal, job: &Job) -> Option<JobWait> {
        match job.stage() {
            Stage::Queued { .. } | Stage::Blocked { .. } if let Some(text) = self.pause_text(job) => {
                Some(JobWait { code: "paused".to_owned(), text, unplaceable: false, retry_at: None })
            }
            Stage::Queued { dispatch: None, .. } if let Some(text) = self.requested_seat(job.id()) => {
                Some(JobWait { code: "preempting".to_owned(), text, unplaceable: false, retry_at: None })
            }
            Stage::Queued { dispatch: None, .. } if self.state.lock().waiting_since(job.id()).is_some() => {
                let ExplainedOutcome::Waits { why, unplaceable } = self.forecast(job).answer else { return None };
                let text = self.reason_text(who, &self.state.lock(), job.id(), &why);
                Some(JobWait { code: why.code().to_owned(), text, unplaceable, retry_at: why.retry_at() })
            }
            Stage::Blocked { on: BlockedOn::Deps } if job.failed_dependency().is_none() => self.waiting_for_jobs(job),
            Stage::Testing { errand: Some(errand), .. } => {
                let why = self.lacks_factory(job)?;
                if self.pool_for_errand(job).is_some() {
                    let text = format!("waiting for a factory to {}: {why}", errand.kind.name());
                    return Some(JobWait { code: "starting".to_owned(), text, unplaceable: false, retry_at: None });
                }
                let text = format!("waiting for a factory to {}: {why}", errand.kind.name());
                Some(JobWait { code: "no_factory_has_repo".to_owned(), text, unplaceable: true, retry_at: None })
            }
            _ => None,
        }
    }

    /// Which pause holds a job: its own, or that of a job above it.
    fn pause_text(&self, job: &Job) -> Option<String> {
        let (id, pause) = self.state.lock().paused_by(job)?;
        let why = pause.message.map_or_else(String::new, |message| format!(": {message}"));
        let short = id.short();
        let what = if id == job.id() { "paused".to_owned() } else { format!("job {short} above it was paused") };
        Some(format!("{what} by {}{why}; resume it with `giga resume {short}`", pause.by))
    }

    /// What a job blocked on dependencies or children waits for; a dependency that is not open has ended.
    fn waiting_for_jobs(&self, job: &Job) -> Option<JobWait> {
        if job.awaits_subtasks() {
            return Some(self.waiting_for_subtasks(job));
        }
        let (deps, children) = {
            let state = self.state.lock();
            let deps = job.submission().deps.iter().copied().filter(|dep| state.job(*dep).is_some());
            let is_awaiting = job.awaits_children();
            let children = if is_awaiting { state.open_children(job.id()) } else { Vec::new() };
            (deps.collect::<Vec<_>>(), children)
        };
        let code = if deps.is_empty() { "children" } else { "dependencies" };
        let text = match (deps.is_empty(), children.is_empty()) {
            (true, true) if job.is_composite() => "waiting for its children".to_owned(),
            (true, true) => return None,
            (false, true) => format!("waiting for {}", self.awaited(job, &deps)),
            (true, false) => format!("waiting for its children: {}", self.awaited(job, &children)),
            (false, false) => format!(
                "waiting for {}, and for its children: {}",
                self.awaited(job, &deps),
                self.awaited(job, &children)
            ),
        };
        Some(JobWait { code: code.to_owned(), text, unplaceable: false, retry_at: None })
    }

    /// Which subtasks the agent of a job waits for.
    fn waiting_for_subtasks(&self, job: &Job) -> JobWait {
        let unsettled: Vec<JobId> = {
            let state = self.state.lock();
            let is_unsettled = |id: &&JobId| state.job(**id).is_some_and(|subtask| !subtask.value.is_settled());
            job.subtasks().iter().filter(is_unsettled).copied().collect()
        };
        let text = match unsettled.as_slice() {
            [] => "its subtasks have ended, it will be queued next".to_owned(),
            unsettled => format!("its agent waits for the subtasks: {}", self.awaited(job, unsettled)),
        };
        JobWait { code: "subtasks".to_owned(), text, unplaceable: false, retry_at: None }
    }

    /// Why a job waits, with commands that name the job and, for administrators, the credential.
    pub(crate) fn reason_text(&self, who: &Principal, state: &FleetState, job: JobId, why: &Unplaced) -> String {
        match why {
            Unplaced::UsageWindow { window } if window.until.is_none() && who.require_admin().is_ok() => {
                let mut suspended = state.exhausted_credentials(self.clock_reading());
                let is_it = |one: &QuotaWindow| one.engine == window.engine && one.until.is_none();
                let credential = suspended.find(|(_, one)| is_it(one)).map(|(credential, _)| credential.as_str());
                window.text_for(credential)
            }
            why => why.text_for(job),
        }
    }

    /// Where a job would run now.
    pub(crate) fn forecast(&self, job: &Job) -> Explanation {
        match job.dispatch() {
            Some(offer) => {
                let state = self.state.lock();
                let engine = state.expected_engine(job.id());
                let weights = state.view(self.steady(), &self.settings.weights, 1).weights_of(job.product());
                Explanation::placed(job.shape(), offer.target.clone(), engine, &weights)
            }
            None => self.forecast_with(job, scheduler::forecast),
        }
    }

    /// [`Coordinator::forecast`] with the reasons for and against every factory.
    pub(crate) fn full_forecast(&self, job: &Job) -> Explanation {
        self.forecast_with(job, scheduler::explain)
    }

    /// The explanation of a job, limited to the factories that the caller may see.
    pub(crate) fn explanation_for(&self, who: &Principal, job: JobId, explanation: Explanation) -> Explanation {
        let state = self.state.lock();
        let mut shown = explanation;
        if let ExplainedOutcome::Waits { why, .. } = &shown.answer {
            shown.text = self.reason_text(who, &state, job, why);
        }
        shown.factories.retain(|fit| self.shows_factory(who, &state, &fit.factory));
        shown
    }

    fn forecast_with(&self, job: &Job, by: fn(&FleetView, Demand) -> Explanation) -> Explanation {
        let now = self.steady();
        let waited = self.now().since(job.updated_at());
        let state = self.state.lock();
        let shape = job.shape();
        let since = state.waiting_since(job.id()).unwrap_or_else(|| now.before(waited));
        let demand = Demand { shape: &shape, since, avoid: job.avoid() };
        by(&state.view(now, &self.settings.weights, 1), demand)
    }

    /// The decision at the time of the last dispatch.
    async fn last_dispatch(&self, job: &Job) -> Result<Option<JobEvent>, Error> {
        if job.dispatch_seq().0 == 0 {
            return Ok(None);
        }
        let mut after = Position(0);
        let mut last = None;
        loop {
            let page = self.ports.history.events(&Scope::Job(job.id()), after, 500).await?;
            let Some(end) = page.last() else { return Ok(last) };
            after = end.position;
            for recorded in &page {
                if let Ok(event) = serde_json::from_str::<JobEvent>(&recorded.json)
                    && event.kind == EventKind::Dispatched
                {
                    last = Some(event);
                }
            }
        }
    }

    /// A job's dependencies with their stages: one that is done and not shipped waits for an operator in its turn.
    fn awaited(&self, job: &Job, deps: &[JobId]) -> String {
        let state = self.state.lock();
        let more = match deps.len().saturating_sub(AWAITED_MAX) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let words = deps.iter().take(AWAITED_MAX).map(|dep| {
            // A caller that may see this job may see those of its product.
            let known = state.job(*dep).filter(|known| known.value.product() == job.product());
            let Some(known) = known else { return dep.short().to_string() };
            let (label, stage) = (known.value.label(), known.value.stage());
            match (known.value.merge_failure(), stage) {
                (Some(failure), _) => format!("{label} ({})", begin_of(&failure.to_string())),
                (None, Stage::Testing { errand: None, .. }) => {
                    format!("{label} (in testing: verified, ready to ship with `giga ship {}`)", dep.short())
                }
                (None, stage) => format!("{label} ({})", stage.name()),
            }
        });
        words.collect::<Vec<_>>().join(", ") + &more
    }

    /// Why no factory can take a job's waiting promotion or merge.
    fn lacks_factory(&self, job: &Job) -> Option<String> {
        let shape = job.shape();
        let is_waiting = matches!(job.errand()?.state, ErrandState::Waiting { .. });
        let state = self.state.lock();
        let view = state.view(self.steady(), &self.settings.weights, 1);
        if !is_waiting || scheduler::errand(&view, &shape, None).is_some() {
            return None;
        }
        drop(state);
        if let Some(pool) = self.pool_for_errand(job) {
            return Some(format!("pool `{pool}` is starting a factory that has `{}`", shape.repo.as_ref()?));
        }
        let which = shape.identity.as_ref().map_or_else(String::new, |identity| format!(" ({identity})"));
        Some(format!("no live factory has `{}`{which}; start one that has it", shape.repo.as_ref()?))
    }

    /// The pool that starts a factory for a job's waiting promotion or merge.
    fn pool_for_errand(&self, job: &Job) -> Option<PoolName> {
        let state = self.state.lock();
        let view = state.view(self.steady(), &self.settings.weights, 1);
        state.pools().starting_for_errand(&view, &job.shape()).cloned()
    }

    async fn summary(&self, job: &Job, now: &Explanation) -> Result<String, Error> {
        let summary = self.summary_of_stage(job, now).await?;
        // A job that is not queued goes on with what it does, and waits afterwards.
        let is_queued = matches!(job.stage(), Stage::Queued { .. });
        Ok(match self.pause_text(job).filter(|_| !is_queued && !job.stage().name().is_terminal()) {
            Some(pause) => format!("{summary}; {pause}"),
            None => summary,
        })
    }

    async fn summary_of_stage(&self, job: &Job, now: &Explanation) -> Result<String, Error> {
        Ok(match job.stage() {
            Stage::Queued { .. } if let Some(text) = self.pause_text(job) => text,
            Stage::Queued { dispatch: Some(offer), .. } => {
                format!("offered to factory `{}`, which has until {} to accept", offer.target, offer.accept_by)
            }
            Stage::Queued { not_before: Some(at), .. } if self.state.lock().waiting_since(job.id()).is_none() => {
                let message = job.message().unwrap_or("the last attempt failed");
                format!("backing off until {at} before attempt {}: {message}", job.attempts() + 1)
            }
            Stage::Queued { .. } if let Some(text) = self.requested_seat(job.id()) => text,
            Stage::Queued { .. } => match (self.modes.now().value.mode_of(job.product()), &now.answer) {
                (_, ExplainedOutcome::Waits { why, .. }) if is_for_seats(why) && self.finds_no_victim(job) => {
                    format!("{}; no preemptible job runs on a seat that it could use", now.text)
                }
                (Mode::Push, _) | (_, ExplainedOutcome::Waits { .. }) => now.text.clone(),
                (Mode::SelfSelect, ExplainedOutcome::Goes { factory, .. }) => {
                    format!("announced to factories that can claim it (self-select mode); best match: {factory}")
                }
                (mode, ExplainedOutcome::Goes { factory, .. }) => {
                    format!("waiting for a factory to poll ({mode} mode); best match: {factory}")
                }
            },
            Stage::Blocked { on: BlockedOn::Question(question) } => {
                format!("waiting for an answer: {question} (answer with `giga answer {} -m \"…\"`)", job.id().short())
            }
            Stage::Blocked { on: BlockedOn::Deps } if let Some(dep) = job.failed_dependency() => {
                let failed = self.failed_dependency_text(job, dep).await;
                let (dep, id) = (dep.short(), job.id().short());
                format!("{failed}: requeue it with `giga requeue {dep}`, or cancel this job with `giga cancel {id}`")
            }
            Stage::Blocked { on: BlockedOn::Deps } => match self.check_deps(job).await? {
                DepsVerdict::Unmet(deps) if deps.is_empty() => format!(
                    "a composite without children: add them with `giga submit FILE --parent {}`, or cancel it",
                    job.id().short()
                ),
                DepsVerdict::Unmet(_)
                    if (job.awaits_children() || job.awaits_subtasks())
                        && let Some(waiting) = self.waiting_for_jobs(job) =>
                {
                    waiting.text
                }
                DepsVerdict::Unmet(deps) => format!("waiting for {}", self.awaited(job, &deps)),
                DepsVerdict::Met => "its dependencies are met, it will be queued next".to_owned(),
                DepsVerdict::Failed(dep) => format!("its dependency {} failed", self.label(dep)),
            },
            Stage::Assigned { lease } => {
                let connection = self.connection_of(&lease.factory);
                format!("assigned to factory `{}`, preparing{connection}{}", lease.factory, asked_for_seat(job))
            }
            Stage::Building { lease, started_at } => {
                let connection = self.connection_of(&lease.factory);
                let asked = asked_for_seat(job);
                format!("running on factory `{}` since {started_at}{connection}{asked}", lease.factory)
            }
            Stage::Review { .. } => match (job.merge_failure(), self.lacks_factory(job)) {
                (_, Some(why)) => format!("waiting for review: {}; {why}", review_text(job)),
                (Some(failure), None) => format!("waiting for review: {}; {failure}", review_text(job)),
                (None, None) => format!("waiting for review: {}", review_text(job)),
            },
            Stage::Testing { errand: Some(errand), .. } => {
                match (job.merge_failure(), self.lacks_factory(job), errand.kind) {
                    (_, Some(why), kind) => format!("its commit is waiting for a factory to {}: {why}", kind.name()),
                    (Some(failure), None, _) => format!("{failure}; the coordinator tries again"),
                    (None, None, ErrandKind::Promote) => "its commit is being promoted to its branch".to_owned(),
                    (None, None, ErrandKind::Ship) => "its commit is being merged".to_owned(),
                }
            }
            Stage::Testing { errand: None, .. } => {
                let (done, short) = (done(job), job.id().short());
                match (job.merge_failure(), job.message()) {
                    (Some(failure), _) => format!(
                        "{failure}: retry with `giga ship {short}`, requeue it with `giga requeue {short}`, or cancel it"
                    ),
                    (None, Some(message)) if job.is_escalated() => {
                        let rounds = domain::counted(job.feedback_rounds(), "round");
                        format!("{done}; stopped after {rounds}, needs a maintainer: {message}")
                    }
                    (None, Some(message)) => format!("{done}; {message}"),
                    (None, None) => format!("{done}: ship it with `giga ship {short}`"),
                }
            }
            Stage::Shipped if job.is_composite() => "its children have shipped".to_owned(),
            Stage::Shipped if job.spec().repo.is_none() => format!("{}; it has no repository", done(job)),
            Stage::Shipped => "shipped".to_owned(),
            Stage::Failed { reason } | Stage::DeadLetter { reason } => match job.message() {
                Some(message) => format!("{reason}: {message}"),
                None => reason.to_string(),
            },
        })
    }

    /// What happens to get a seat for a critical job.
    fn requested_seat(&self, id: JobId) -> Option<String> {
        let state = self.state.lock();
        let request = state.seat_request(id)?;
        let (victim, factory) = (request.victim.short(), &request.preemption.factory);
        Some(match state.is_seat_kept(id) {
            true => format!("job {victim} was preempted on `{factory}` for it: the seat is kept for this job"),
            false => format!(
                "job {victim} was asked to save its work and to release its seat on `{factory}` for this job until {}",
                request.preemption.until.to_the_second()
            ),
        })
    }

    /// Whether preemption is on and finds no seat for a critical job.
    fn finds_no_victim(&self, job: &Job) -> bool {
        job.priority() == Priority::Critical && self.preempts()
    }

    /// The connection problem of a job's holder; empty when there is none.
    fn connection_of(&self, factory: &FactoryId) -> String {
        let pulse = self.state.lock().liveness_of(factory).cloned();
        let since = pulse.as_ref().and_then(|pulse| pulse.disconnected_since);
        match (self.presence(pulse.as_ref()), since) {
            (Presence::Disconnected, Some(since)) => {
                format!(", which is disconnected since {since}; the lease continues until it expires")
            }
            (Presence::Stale, _) => ", which is stale; the lease continues until it expires".to_owned(),
            (Presence::Down, _) => ", which has stopped; the lease continues until it expires".to_owned(),
            (Presence::Live | Presence::Warming | Presence::Disconnected, _) => String::new(),
        }
    }

    /// The outcome of a failed dependency. The title is shown to callers that may see the waiting job: the same
    /// product.
    pub(crate) async fn failed_dependency_text(&self, job: &Job, dep: JobId) -> String {
        let Ok(failed) = self.look_up(dep).await else { return format!("its dependency {} failed", dep.short()) };
        let what = if failed.value.parent() == Some(job.id()) { "child" } else { "dependency" };
        let is_same_product = failed.value.product() == job.product();
        let title = is_same_product.then_some(failed.value.spec().title.as_str());
        let label = dep.perhaps_titled(title);
        match failed.value.stage() {
            Stage::DeadLetter { reason } => format!("its {what} {label} is dead-lettered ({reason})"),
            Stage::Failed { reason: FailureReason::Cancelled } => format!("its {what} {label} was cancelled"),
            Stage::Failed { reason } => format!("its {what} {label} failed ({reason})"),
            _ => format!("its {what} {label} failed"),
        }
    }
}

/// Whether a job waits only because other jobs use the seats.
fn is_for_seats(why: &Unplaced) -> bool {
    matches!(why, Unplaced::AllBusy | Unplaced::EngineBusy { .. } | Unplaced::RepoBusy { .. })
}

/// The request that a running job gives up its seat; empty when there is none.
fn asked_for_seat(job: &Job) -> String {
    job.pending_preemption().map_or_else(String::new, |preemption| {
        let (for_job, until) = (preemption.for_job.short(), preemption.until.to_the_second());
        format!("; asked to save its work and to release its seat for critical job {for_job} until {until}")
    })
}

fn done(job: &Job) -> &'static str {
    if job.is_verified() { "done and verified" } else { "done, not verified" }
}

/// The begin of a failure, for a sentence about another job.
fn begin_of(failure: &str) -> String {
    let begin = short(failure, FAILURE_CHARS_MAX);
    if begin.len() < failure.len() { format!("{}…", begin.trim_end()) } else { begin }
}
