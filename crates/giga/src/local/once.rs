//! When `--once` ends, and its outcome.

use std::time::Duration;

use domain::{JobId, StageName};
use protocol::{FactoryList, JobDetail, JobExplanation, JobView};

use super::folder::Folder;
use super::sync::{QueueSync, SyncEnd, Until};
use crate::command::{asks, is_settled, is_stuck};
use crate::failure::Failure;

/// How long folders or jobs that cannot be read, and records that cannot be written, are retried: an editor, a backup or a full queue is done by then.
const BLIND_MAX: Duration = Duration::from_secs(10);

const LATER: &str = "no job is lost: waiting jobs continue at the next start, once this is fixed";

impl QueueSync<'_> {
    /// Whether all jobs of this process have ended, as far as they can without an operator.
    pub(super) async fn is_over(&mut self) -> bool {
        if self.is_taking || self.is_submitting() || self.unreadable.is_some() || !self.reads_all().await {
            return false;
        }
        let open: Vec<JobView> = self.unfinished().cloned().collect();
        if open.is_empty() {
            return true;
        }
        let waits = |job: &JobView| {
            matches!(job.stage, StageName::Queued | StageName::Blocked)
                && job.target_factory_id.is_none()
                && job.not_before.is_none_or(|at| at <= self.now())
        };
        // A job that runs, was offered or will be retried may still unblock the others.
        if !open.iter().all(waits) || !self.is_factory_here().await {
            return false;
        }
        self.waiting.clear();
        for job in &open {
            let Some(why) = self.waits_for_ever(job).await else { return false };
            self.waiting.insert(job.id, why);
        }
        true
    }

    /// Reads jobs that could not be read before: the stage of such a job is unknown.
    async fn reads_all(&mut self) -> bool {
        let stale: Vec<JobId> = self.session.intersection(&self.stale).copied().collect();
        for id in self.unread().into_iter().chain(stale) {
            self.read(id).await;
        }
        self.unread().is_empty() && self.session.is_disjoint(&self.stale)
    }

    fn unread(&self) -> Vec<JobId> {
        self.session.iter().filter(|id| !self.jobs.contains_key(id)).copied().collect()
    }

    /// Reads one of the running jobs: otherwise a store that has stopped answering would go unnoticed.
    pub(super) async fn look_at_the_store(&mut self) {
        let at_work = self.unfinished().map(|job| job.id).next();
        if let (Until::AllEnded, Some(id)) = (self.terms.until, at_work) {
            self.read(id).await;
        }
    }

    /// Returns an error once the store has not answered for too long, in `--once` mode only.
    pub(super) fn bear_silence(&self) -> Result<(), Failure> {
        match self.client().given_up().filter(|_| self.terms.until == Until::AllEnded) {
            Some(why) => Err(Failure::failed(why).hint(LATER)),
            None => Ok(()),
        }
    }

    /// An error once folders or jobs could not be read, or records not be written, for too long.
    pub(super) fn bear_blindness(&mut self) -> Result<(), Failure> {
        self.bear_silence()?;
        let unread = || self.unread().first().map(|id| format!("cannot read job {}", id.short()));
        let trouble = self.unreadable.clone().or_else(|| self.unwritable.clone());
        let Some(why) = trouble.or_else(unread) else {
            self.blind_since = None;
            return Ok(());
        };
        let now = self.monotonic();
        let since = *self.blind_since.get_or_insert(now);
        if now.saturating_sub(since) < BLIND_MAX {
            return Ok(());
        }
        Err(Failure::failed(format!("{why}; gave up after {} s", BLIND_MAX.as_secs())).hint(LATER))
    }

    /// Why a waiting job needs an operator, given that no other job is in progress; `None` if it does not.
    async fn waits_for_ever(&self, job: &JobView) -> Option<String> {
        let path = format!("/jobs/{}", job.id);
        match job.stage {
            StageName::Blocked => {
                let detail: JobDetail = self.client().get(&path).await.ok()?;
                let names =
                    detail.waits_for.iter().map(|id| self.name_of(*id).map_or_else(|| id.to_string(), str::to_owned));
                let names: Vec<String> = names.collect();
                let waits = detail.job.stage == StageName::Blocked && !names.is_empty();
                waits.then(|| format!("for {}", names.join(", ")))
            }
            _ => {
                let explained: JobExplanation = self.client().get(&format!("{path}/explain")).await.ok()?;
                let is_stuck = explained.job.stage == StageName::Queued && is_stuck(&explained.now);
                is_stuck.then(|| format!("no factory can run it: {}", explained.summary))
            }
        }
    }

    /// The jobs that have not finished.
    fn unfinished(&self) -> impl Iterator<Item = &JobView> {
        self.session.iter().filter_map(|id| self.jobs.get(id)).filter(|job| !is_settled(job))
    }

    pub(super) async fn is_factory_here(&self) -> bool {
        let fleet: Result<FactoryList, _> = self.client().get("/factories").await;
        fleet.is_ok_and(|fleet| fleet.items.iter().any(|factory| factory.connected))
    }

    /// The outcome: an error that lists the files that did not succeed.
    pub(crate) fn verdict(&self, kept: SyncEnd) -> Result<(), Failure> {
        let name = |id: &JobId| self.name_of(*id).unwrap_or_default().to_owned();
        let mut bad: Vec<String> = self.refused.iter().map(|(name, why)| format!("{name}: not a job: {why}")).collect();
        for id in &self.session {
            let Some(job) = self.jobs.get(id) else {
                bad.push(format!("{}: its job could not be read", name(id)));
                continue;
            };
            let why = self.waiting.get(id).or(job.message.as_ref()).map_or_else(String::new, |why| format!(": {why}"));
            match job.stage {
                StageName::Failed | StageName::DeadLetter => {
                    let reason = job.reason.map_or_else(String::new, |reason| format!(" ({reason})"));
                    bad.push(format!("{}: failed{reason}{why}", name(id)));
                }
                StageName::Queued | StageName::Blocked => bad.push(format!("{}: still waits{why}", name(id))),
                StageName::Assigned | StageName::Building => bad.push(format!("{}: not over", name(id))),
                StageName::Testing if let Some(failure) = job.merge_failure.as_ref().filter(|it| it.given_up) => {
                    bad.push(format!("{}: {failure}", name(id)));
                }
                StageName::Review | StageName::Testing | StageName::Shipped => {
                    let to = Folder::of(job.stage);
                    if self.folder_of(*id).is_some_and(|folder| folder != to) {
                        bad.push(format!("{}: its job is {}, but it could not be moved to {to}/", name(id), job.stage));
                    }
                }
            }
        }
        let all = self.session.len() + self.refused.len();
        if bad.is_empty() && kept == SyncEnd::UntilStopped {
            return Err(Failure::failed("stopped before all jobs had ended")
                .hint("waiting jobs continue at the next start of `giga local`"));
        }
        if bad.is_empty() {
            self.console().note(&match all {
                0 => "no jobs to run".to_owned(),
                1 => "1 job succeeded".to_owned(),
                _ => format!("all {all} jobs succeeded"),
            });
            return Ok(());
        }
        let lines: String = bad.iter().map(|line| format!("\n  {line}")).collect();
        Err(Failure::failed(format!("{} of {all} files failed:{lines}", bad.len())).hint(self.advice()))
    }

    /// What to do about the failed files, by where they are now.
    fn advice(&self) -> String {
        let jobs: Vec<&JobView> = self.session.iter().filter_map(|id| self.jobs.get(id)).collect();
        let asking = jobs.iter().find(|job| asks(job)).map(|job| {
            let root = self.root().display();
            let answer = format!("giga answer {} -m \"…\" --data {root}/.giga", job.id.short());
            format!("answer a question with `{answer}` while `giga local {root}` runs")
        });
        let is_waiting = |job: &&JobView| Folder::of(job.stage) == Folder::Inbox && !asks(job);
        let waiting = jobs.iter().any(is_waiting).then(|| "files in inbox/ continue at the next start".to_owned());
        let has_failed = jobs.iter().any(|job| Folder::of(job.stage) == Folder::Failed) || !self.refused.is_empty();
        let failed = (has_failed || (asking.is_none() && waiting.is_none())).then(|| {
            "a file beside each file in failed/ contains the reason; move a file back to inbox/ to retry it".to_owned()
        });
        [asking, waiting, failed].into_iter().flatten().collect::<Vec<_>>().join("; ")
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use client::{Client, Endpoint, Trust};
    use clock::ManualClock;
    use domain::Timestamp;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;
    use tokio::task::JoinSet;
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::cli::GlobalArgs;
    use crate::local::{Queue, SyncOptions};
    use crate::output::Output;

    const JOB: &str = "0190f3a4-7c1e-7b52-9d0a-1f2e3d4c5b6a";

    /// Keeps a queue until all has ended, with a coordinator at `base`.
    fn sync<'o>(root: &Path, base: String, clock: &ManualClock, out: &'o Output) -> QueueSync<'o> {
        let endpoint = Endpoint { base, token: String::new(), product: None, trust: Trust::Public };
        let terms = SyncOptions {
            records: root.join("files"),
            product: None,
            sweep_every: Duration::from_secs(1),
            until: Until::AllEnded,
        };
        let queue = Queue::open(root).unwrap();
        QueueSync::open(queue, terms, Client::new(endpoint).unwrap(), Arc::new(clock.clone()), out).unwrap()
    }

    /// A coordinator whose store has no answer to anything.
    async fn without_a_store() -> (String, JoinSet<()>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let problem =
            r#"{"type":"urn:x","status":503,"code":"unavailable","title":"Unavailable","detail":"the disk is full"}"#;
        let answer = format!(
            "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/problem+json\r\ncontent-length: {}\r\n\
             connection: close\r\n\r\n{problem}",
            problem.len()
        );
        let mut serving = JoinSet::new();
        serving.spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut request = [0; 4096];
                let _ = stream.read(&mut request).await;
                let _ = stream.write_all(answer.as_bytes()).await;
            }
        });
        (base, serving)
    }

    /// A job as it was before the store went silent.
    fn seen_at_work() -> JobView {
        let seen = serde_json::json!({
            "id": JOB, "productId": "default", "title": "x", "stage": "building", "priority": "normal", "kind": "task",
            "rev": 3, "leaseEpoch": 1, "dispatchSeq": 1, "attempts": 0, "lostLeases": 0, "runs": 1, "seq": 3,
            "createdBy": "ada", "createdAt": "2026-01-31T12:00:00Z", "updatedAt": "2026-01-31T12:00:00Z",
        });
        serde_json::from_value(seen).unwrap()
    }

    /// What comes of something while time flies.
    async fn in_time<T>(clock: &ManualClock, something: impl Future<Output = T>) -> T {
        let flying = async {
            loop {
                clock.advance(Duration::from_millis(500));
                tokio::time::timeout(Duration::from_millis(1), std::future::pending::<()>()).await.unwrap_err();
            }
        };
        tokio::select! {
            came = something => came,
            () = flying => unreachable!("time flies for ever"),
        }
    }

    // [F8]
    #[tokio::test]
    async fn a_job_that_cannot_be_read_is_never_taken_for_one_that_has_ended() {
        let (root, clock) = (tempfile::tempdir().unwrap(), ManualClock::at(Timestamp::from_millis(0)));
        let out = Output::new(&GlobalArgs::default());
        let mut sync = sync(root.path(), "http://127.0.0.1:9".to_owned(), &clock, &out);
        sync.is_taking = false;
        sync.session.insert(JOB.parse().unwrap());

        assert!(!sync.is_over().await);
        assert!(sync.verdict(SyncEnd::UntilAllEnded).is_err());
        assert!(sync.bear_blindness().is_ok(), "at first it is tried again");
        clock.advance(BLIND_MAX);
        assert!(sync.bear_blindness().is_err());
    }

    // [F8]
    #[tokio::test]
    async fn a_store_that_never_answers_ends_it_with_what_the_store_says_before_anything_began() {
        let (root, clock) = (tempfile::tempdir().unwrap(), ManualClock::at(Timestamp::from_millis(0)));
        let out = Output::new(&GlobalArgs::default());
        let (base, _serving) = without_a_store().await;
        let mut sync = sync(root.path(), base, &clock, &out);

        let begun = in_time(&clock, sync.begin()).await;

        let failure = begun.unwrap_err().to_string();
        assert!(failure.contains("does not answer") && failure.contains("the disk is full"), "{failure}");
    }

    // [F8]
    #[tokio::test]
    async fn a_store_that_stops_answering_ends_it_and_what_was_seen_before_is_not_called_done() {
        let (root, clock) = (tempfile::tempdir().unwrap(), ManualClock::at(Timestamp::from_millis(0)));
        let out = Output::new(&GlobalArgs::default());
        let (base, _serving) = without_a_store().await;
        let mut sync = sync(root.path(), base, &clock, &out);
        sync.session.insert(JOB.parse().unwrap());
        sync.jobs.insert(JOB.parse().unwrap(), seen_at_work());

        let kept = in_time(&clock, sync.keep(&CancellationToken::new())).await;

        let failure = kept.unwrap_err().to_string();
        assert!(failure.contains("does not answer") && failure.contains("the disk is full"), "{failure}");
        assert!(sync.verdict(SyncEnd::UntilAllEnded).is_err());
    }
}
