//! Which factory polls which pull request, and when [B5].
//!
//! A factory that has the repository is asked periodically, and at once after a webhook of the forge. A lost directive
//! does no harm: the next round asks another factory. None of this is stored.

use std::time::Duration;

use domain::{CommitSha, Factory, FactoryId, Job, JobId, PullRequest, RepoIdentity, RepoName, Stage};
use foldhash::{HashMap, HashSet, HashSetExt as _};
use parking_lot::Mutex;
use protocol::{Directive, PollPullRequest};
use scheduler::FactoryState;
use tokio::sync::Notify;
use tracing::debug;

use crate::coordinator::Coordinator;
use crate::state::FleetState;

/// The shortest interval between two polls of one pull request: a push sends a dozen webhooks at once.
const REST_MIN: Duration = Duration::from_secs(5);

/// Without open pull requests the poller sleeps; a notification wakes it when one is opened.
const NOTHING_TO_DO: Duration = Duration::from_secs(3_600);

/// The poll schedule of every pull request.
#[derive(Default)]
pub(crate) struct PullRequestPoller {
    /// A pull request was opened, or a webhook named one.
    pub(crate) bell: Notify,
    open: Mutex<HashMap<JobId, PollEntry>>,
}

struct PollEntry {
    /// The next poll.
    due: Duration,
    /// The last poll.
    last: Option<Duration>,
    /// The number of polls: each goes to the next factory in turn.
    turn: usize,
    asked: Option<FactoryId>,
}

/// The pull requests and commits that a webhook names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ForgeHint {
    /// The repository by its name on the forge, such as `acme/notes`.
    pub repository: String,
    /// The numbers of pull requests.
    pub numbers: Vec<u64>,
    /// Commits that the webhook names.
    pub commits: Vec<CommitSha>,
}

impl Coordinator {
    /// Asks factories to poll open pull requests until the coordinator stops.
    pub(crate) async fn run_pull_request_poller(&self) {
        while !self.stopping.is_cancelled() {
            let pause = self.request_polls();
            tokio::select! {
                () = self.stopping.cancelled() => return,
                () = self.pull_request_poller.bell.notified() => {}
                () = self.ports.clock.sleep(pause) => {}
            }
        }
    }

    /// Schedules an early poll of the pull requests that a webhook names. Returns the number of their jobs.
    pub fn poll_hinted(&self, hint: &ForgeHint) -> usize {
        let concerned: Vec<JobId> = {
            let state = self.state.lock();
            open_requests(&state).filter(|job| matches_hint(hint, job)).map(Job::id).collect()
        };
        let now = self.ports.clock.monotonic();
        let mut open = self.pull_request_poller.open.lock();
        for id in &concerned {
            let look = open.entry(*id).or_insert_with(|| PollEntry::due_at(now));
            let rested = look.last.map_or(now, |last| last + REST_MIN);
            look.due = look.due.min(rested.max(now));
        }
        drop(open);
        if !concerned.is_empty() {
            self.pull_request_poller.bell.notify_one();
        }
        concerned.len()
    }

    /// Sends every poll that is due, and returns the time until the next one. Idempotent.
    pub fn request_polls(&self) -> Duration {
        let now = self.ports.clock.monotonic();
        let state = self.state.lock();
        let mut open = self.pull_request_poller.open.lock();
        let mut seen = HashSet::new();
        let mut pause = NOTHING_TO_DO;
        for job in open_requests(&state) {
            seen.insert(job.id());
            let look = open.entry(job.id()).or_insert_with(|| PollEntry::due_at(now + self.settings.look_every));
            if look.due <= now {
                look.asked = self.ask_one(&state, job, look.turn);
                look.turn += 1;
                look.last = Some(now);
                look.due = now + self.settings.look_every;
            }
            pause = pause.min(look.due.saturating_sub(now));
        }
        open.retain(|id, _| seen.contains(id));
        pause
    }

    fn ask_one(&self, state: &FleetState, job: &Job, turn: usize) -> Option<FactoryId> {
        let (repo, request, sha) = (job.spec().repo.as_ref()?, job.pull_request()?, job.promoted()?);
        let can_poll = |factory_state: &&FactoryState| {
            let covers = factory_state.products.is_empty() || factory_state.products.contains(job.product());
            let factory = &factory_state.factory;
            covers && has_repository(factory, job, repo) && self.inboxes.is_open(&factory.id)
        };
        let able = state.live_factories().filter(can_poll).map(|factory_state| &factory_state.factory.id);
        let able: Vec<&FactoryId> = able.collect();
        let chosen = able.get(turn.checked_rem(able.len())?).copied()?;
        let order = PollPullRequest {
            job_id: job.id(),
            product_id: job.product().clone(),
            repo: repo.clone(),
            number: request.number,
            sha: sha.clone(),
        };
        debug!(job.id = %job.id(), factory.id = %chosen, "Asking factory `{chosen}` to poll the pull request of job {}", job.label());
        self.inboxes.direct(chosen, Directive::Look(order));
        Some(chosen.clone())
    }

    /// Whether this factory was the last one asked to poll a job's pull request.
    pub(crate) fn was_asked_to_poll(&self, job: JobId, factory: &FactoryId) -> bool {
        self.pull_request_poller.open.lock().get(&job).is_some_and(|look| look.asked.as_ref() == Some(factory))
    }
}

impl PollEntry {
    fn due_at(due: Duration) -> Self {
        Self { due, last: None, turn: 0, asked: None }
    }
}

/// The finished open jobs that have a pull request.
fn open_requests(state: &FleetState) -> impl Iterator<Item = &Job> {
    let is_done = |job: &&Job| matches!(job.stage(), Stage::Review { .. } | Stage::Testing { .. });
    state.jobs().map(|job| &*job.value).filter(is_done).filter(|job| job.pull_request().is_some())
}

/// Whether a factory has the repository that a job's branch was pushed to.
fn has_repository(factory: &Factory, job: &Job, repo: &RepoName) -> bool {
    let is_the_one = |pushed: &RepoIdentity| factory.repo_identities.get(repo) == Some(pushed);
    factory.repos.contains(repo) && job.repository().is_none_or(is_the_one)
}

fn matches_hint(hint: &ForgeHint, job: &Job) -> bool {
    let is_commit = job.promoted().is_some_and(|sha| hint.commits.contains(sha));
    is_commit || job.pull_request().is_some_and(|request| hint_names(hint, request))
}

/// Whether a hint names a pull request: `https://forge.example/acme/notes/pull/7`.
fn hint_names(hint: &ForgeHint, request: &PullRequest) -> bool {
    let place = format!("/{}/pull/{}", hint.repository, request.number);
    hint.numbers.contains(&request.number) && request.url.ends_with(&place)
}

#[cfg(test)]
mod tests {
    use super::*;

    // [attack: SSRF] [attack: forged or repeated webhook]
    #[test]
    fn a_webhook_names_pull_requests_of_its_own_repository_only() {
        let request = PullRequest { number: 7, url: "https://forge.example/acme/notes/pull/7".to_owned() };
        let hint = |repository: &str, number| ForgeHint {
            repository: repository.to_owned(),
            numbers: vec![number],
            commits: Vec::new(),
        };

        assert!(hint_names(&hint("acme/notes", 7), &request));
        assert!(!hint_names(&hint("acme/notes", 17), &request));
        assert!(!hint_names(&hint("evil/acme/notes", 7), &request));
        assert!(!hint_names(&hint("otes", 7), &request));
    }
}
