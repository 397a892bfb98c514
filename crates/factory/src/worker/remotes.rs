//! Remotes that are unavailable to this factory. No attempt is counted: their jobs are requeued, the coordinator offers
//! none of them here, and the factory probes the remote until it is available again.

use std::collections::BTreeMap;
use std::time::Duration;

use clock::Backoff;
use domain::{BranchName, RepoName, Timestamp, UnavailableRepo};
use parking_lot::Mutex;
use protocol::ErrandOutcome;
use tokio::sync::Notify;
use tracing::{info, warn};
use workspace::{Mirror, RefName, RepoConfig};

use super::Worker;
use super::errand::ErrandResult;
use super::run::chain;

/// The first pause before an unavailable remote is probed again; doubled each time up to the maximum.
const PROBE_FIRST: Duration = Duration::from_secs(2);
const PROBE_MAX: Duration = Duration::from_secs(60);

/// When a promotion or merge with an unavailable remote is offered again. Not to this factory before a probe succeeds.
const ERRAND_AGAIN_AFTER_MS: u64 = 2_000;

/// The unavailable remotes.
#[derive(Default)]
pub(super) struct Remotes {
    unavailable: Mutex<BTreeMap<RepoName, Unavailable>>,
    /// Notified when one is new, or is to be probed at once.
    news: Notify,
}

struct Unavailable {
    why: String,
    since: Timestamp,
    /// What the probe requests.
    name: RefName,
    base: BranchName,
    /// When it is probed next, on the worker's clock.
    next: Duration,
    backoff: Backoff,
}

impl Remotes {
    /// The report to the coordinator.
    pub(super) fn listed(&self) -> BTreeMap<RepoName, UnavailableRepo> {
        let listed = |(repo, found): (&RepoName, &Unavailable)| {
            (repo.clone(), UnavailableRepo { message: found.why.clone(), since: found.since })
        };
        self.unavailable.lock().iter().map(listed).collect()
    }

    /// Probes all of them at once: this machine has changed.
    pub(super) fn probe_soon(&self) {
        let mut unavailable = self.unavailable.lock();
        unavailable.values_mut().for_each(|found| found.next = Duration::ZERO);
        if !unavailable.is_empty() {
            self.news.notify_one();
        }
    }

    fn next(&self) -> Option<Duration> {
        self.unavailable.lock().values().map(|found| found.next).min()
    }

    fn due(&self, now: Duration) -> Vec<(RepoName, RefName, BranchName)> {
        let unavailable = self.unavailable.lock();
        let due = unavailable.iter().filter(|(_, found)| found.next <= now);
        due.map(|(repo, found)| (repo.clone(), found.name.clone(), found.base.clone())).collect()
    }

    fn postpone(&self, repo: &RepoName, why: Option<String>, now: Duration) {
        if let Some(found) = self.unavailable.lock().get_mut(repo) {
            found.why = why.unwrap_or_else(|| found.why.clone());
            found.next = now + found.backoff.next_pause();
        }
    }
}

impl Worker {
    /// Probes a remote after a failure. Returns the reason if it is unavailable: reported before the job is released,
    /// so that neither this job nor another of the repository is placed here. An available remote was not at fault.
    pub(super) async fn unavailable_remote(
        &self,
        mirror: &Mirror,
        config: &RepoConfig,
        name: RefName,
    ) -> Option<String> {
        let error = mirror.probe(&name, &config.base).await.err()?;
        let (repo, now) = (mirror.repo().clone(), self.clock.monotonic());
        let why = self.scrubber.text(&format!("{}: {}", mirror.remote().shown(), chain(&error)));
        warn!("The remote of `{repo}` cannot be used: {why}");
        let mut backoff = Backoff::new(PROBE_FIRST, PROBE_MAX);
        let found = Unavailable {
            why: why.clone(),
            since: self.clock.now(),
            name,
            base: config.base.clone(),
            next: now + backoff.next_pause(),
            backoff,
        };
        self.remotes.unavailable.lock().entry(repo.clone()).or_insert(found);
        // A failed report is repeated by the next heartbeat.
        let _ = self.heartbeat().await;
        self.remotes.news.notify_one();
        Some(format!("the remote of `{repo}` cannot be used here: {why}"))
    }

    /// An errand that failed because its remote is unavailable is postponed and counts no attempt.
    pub(super) async fn put_off_if_unavailable(
        &self,
        done: ErrandResult,
        mirror: &Mirror,
        config: &RepoConfig,
        name: RefName,
    ) -> ErrandResult {
        if !matches!(done.outcome, ErrandOutcome::Failed { .. }) {
            return done;
        }
        match self.unavailable_remote(mirror, config, name).await {
            Some(message) => {
                let outcome = ErrandOutcome::PutOff { message, retry_after_ms: ERRAND_AGAIN_AFTER_MS };
                ErrandResult { outcome, ..done }
            }
            None => done,
        }
    }

    /// Probes the unavailable remotes, and advertises their repositories again once they are available.
    pub(super) async fn probe_remotes(&self) {
        loop {
            let now = self.clock.monotonic();
            match self.remotes.next() {
                None => self.remotes.news.notified().await,
                Some(next) if next > now => tokio::select! {
                    () = self.clock.sleep(next - now) => {}
                    () = self.remotes.news.notified() => {}
                },
                Some(_) => {
                    for (repo, name, base) in self.remotes.due(now) {
                        self.probe_again(&repo, &name, &base).await;
                    }
                }
            }
        }
    }

    async fn probe_again(&self, repo: &RepoName, name: &RefName, base: &BranchName) {
        let probed = match self.mirror(repo) {
            Ok((mirror, _)) => mirror
                .probe(name, base)
                .await
                .map_err(|error| format!("{}: {}", mirror.remote().shown(), chain(&error))),
            Err(error) => Err(error.to_string()),
        };
        let now = self.clock.monotonic();
        if let Err(why) = probed {
            self.remotes.postpone(repo, Some(self.scrubber.text(&why)), now);
            return;
        }
        let Some(found) = self.remotes.unavailable.lock().remove(repo) else { return };
        if self.heartbeat().await.is_err() {
            // The coordinator does not know yet: reported again with the next probe.
            self.remotes.unavailable.lock().insert(repo.clone(), found);
            self.remotes.postpone(repo, None, now);
            return;
        }
        info!("The remote of `{repo}` can be used again");
        self.freed.notify_one();
    }
}
