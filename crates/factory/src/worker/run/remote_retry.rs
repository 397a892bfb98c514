//! Waits for a repository's remote that is unavailable: a network failure costs time, not the work.

use std::time::Duration;

use clock::Backoff;
use tracing::{info, warn};
use workspace::{Error, GitFailureKind, Mirror, Transport};

use super::super::Worker;
use super::{Run, StartFailure, chain};

/// The first retry delay of an unavailable remote; doubled each time up to the maximum.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const PAUSE_MAX: Duration = Duration::from_secs(15);

impl Worker {
    /// Retries an operation on a remote until it succeeds, for as long as the run is active and the failure is
    /// retryable.
    /// All waiting of one run together is bounded. A stop request interrupts it.
    pub(super) async fn patiently<T, F>(
        &self,
        run: &Run,
        mirror: &Mirror,
        attempt: impl Fn() -> F,
    ) -> Result<T, StartFailure>
    where
        F: Future<Output = Result<T, StartFailure>>,
    {
        let trouble = match attempt().await {
            Err(trouble) if self.is_worth_waiting(run, mirror, &trouble) => trouble,
            settled => return settled,
        };
        let before = self.begin_waiting(run, mirror, &trouble);
        let began = self.clock.monotonic();
        let settled = tokio::select! {
            settled = self.go_on_trying(run, mirror, trouble, attempt) => settled,
            () = run.stop.cancelled() => Err(StartFailure::Stopped),
        };
        let waited = self.clock.monotonic().saturating_sub(began);
        *run.waited.lock() += waited;
        if settled.is_ok() {
            run.say(&format!("! the remote of `{}` is back after {} s", mirror.repo(), waited.as_secs()));
            info!(job.id = %run.key.job, "The remote of `{}` is back after {waited:?}", mirror.repo());
        }
        self.does(run, before);
        settled
    }

    async fn go_on_trying<T, F>(
        &self,
        run: &Run,
        mirror: &Mirror,
        mut trouble: StartFailure,
        attempt: impl Fn() -> F,
    ) -> Result<T, StartFailure>
    where
        F: Future<Output = Result<T, StartFailure>>,
    {
        let until = self.clock.monotonic() + self.patience_left(run);
        let mut backoff = Backoff::new(FIRST_PAUSE, PAUSE_MAX);
        while self.is_worth_waiting(run, mirror, &trouble) {
            let left = until.saturating_sub(self.clock.monotonic());
            if left.is_zero() {
                break;
            }
            self.clock.sleep(backoff.next_pause().min(left)).await;
            match attempt().await {
                Err(again) => trouble = again,
                settled => return settled,
            }
        }
        Err(trouble)
    }

    fn is_worth_waiting(&self, run: &Run, mirror: &Mirror, trouble: &StartFailure) -> bool {
        let StartFailure::Host(error) = trouble else { return false };
        let may_pass = match error {
            Error::Git(error) => match error.kind() {
                GitFailureKind::Transient => true,
                // A missing local repository that this run has used may be on an unmounted disk; a server's answer is
                // final.
                GitFailureKind::Missing => {
                    run.record.worktree.is_some() && mirror.remote().transport() == Transport::Folder
                }
                GitFailureKind::Rejected | GitFailureKind::Permanent => false,
            },
            Error::Locked { .. } => true,
            _ => false,
        };
        may_pass && !run.stop.is_cancelled() && !self.patience_left(run).is_zero()
    }

    fn patience_left(&self, run: &Run) -> Duration {
        Duration::from_millis(self.settings.limits.remote_away_ms).saturating_sub(*run.waited.lock())
    }

    /// Logs that the run waits, and returns its previous activity.
    fn begin_waiting(&self, run: &Run, mirror: &Mirror, trouble: &StartFailure) -> Option<String> {
        let (repo, why) = (mirror.repo(), chain(trouble));
        warn!(job.id = %run.key.job, %why, "Job `{}` waits for the remote of `{repo}`", run.key.job);
        run.say(&format!("! waiting for the remote of `{repo}`: {why}"));
        let before = run.activity.lock().doing.clone();
        self.does(run, Some(format!("waits for the remote of `{repo}`")));
        before
    }

    fn does(&self, run: &Run, doing: Option<String>) {
        run.activity.lock().doing = doing;
        self.tell_progress(run);
    }
}
