//! The progress of running agents: in memory only, until the run ends.

use domain::{Epoch, Job, JobId, ProductId, RunInsights, Scope, TURNS_MAX, ValueOutOfRange};
use foldhash::HashMap;
use parking_lot::Mutex;
use protocol::{Progress, ProgressEvent};
use tokio::sync::watch;

use crate::coordinator::Coordinator;
use crate::error::Error;
use crate::submit::sanitize::{out_of_range, short};

/// The limit of an agent's activity text.
const DOING_CHARS_MAX: usize = 300;

/// The number of files shown: the latest ones.
const FILES_MAX: usize = 20;

/// The limit of one file's name.
const FILE_CHARS_MAX: usize = 300;

/// Engines use ids or paths as session names.
const SESSION_CHARS_MAX: usize = 300;

/// The progress of running agents. None of it is stored: a renewal that reports it costs no store operation [I14].
pub(crate) struct ProgressBoard {
    jobs: Mutex<HashMap<JobId, Entry>>,
    /// Counts updates, and wakes subscribers.
    news: watch::Sender<u64>,
}

struct Entry {
    product: ProductId,
    epoch: Epoch,
    progress: Progress,
    /// The count at its update: a subscriber has seen everything up to some count, however often a job changed.
    number: u64,
}

impl Default for ProgressBoard {
    fn default() -> Self {
        Self { jobs: Mutex::default(), news: watch::Sender::new(0) }
    }
}

impl ProgressBoard {
    /// Publishes a run's progress. A repeated report is ignored.
    pub(crate) fn publish_progress(&self, job: JobId, epoch: Epoch, product: ProductId, progress: &Progress) {
        let progress = bounded(progress);
        let mut jobs = self.jobs.lock();
        if jobs.get(&job).is_some_and(|known| known.epoch == epoch && known.progress == progress) {
            return;
        }
        let number = *self.news.borrow() + 1;
        jobs.insert(job, Entry { product, epoch, progress, number });
        self.news.send_replace(number);
    }

    /// Removes the progress of a run that is over, from the committed job.
    pub(crate) fn settle(&self, job: &Job) {
        let mut jobs = self.jobs.lock();
        let is_over = |known: &Entry| job.seat().is_none_or(|lease| lease.epoch != known.epoch);
        if jobs.get(&job.id()).is_some_and(is_over) {
            jobs.remove(&job.id());
        }
    }

    /// The progress of a job's agent.
    pub(crate) fn of(&self, job: JobId) -> Option<Progress> {
        self.jobs.lock().get(&job).map(|entry| entry.progress.clone())
    }

    /// The updates after `seen`, the latest per job in order, and the new count.
    pub(crate) fn after(&self, seen: u64, scope: &Scope) -> (Vec<ProgressEvent>, u64) {
        let jobs = self.jobs.lock();
        let latest = *self.news.borrow();
        let is_news = |(job, entry): &(&JobId, &Entry)| entry.number > seen && covers(scope, **job, &entry.product);
        let mut news: Vec<_> = jobs.iter().filter(is_news).collect();
        news.sort_unstable_by_key(|(_, entry)| entry.number);
        let event = |(job, entry): (&JobId, &Entry)| ProgressEvent {
            job_id: *job,
            lease_epoch: entry.epoch,
            progress: entry.progress.clone(),
        };
        (news.into_iter().map(event).collect(), latest)
    }

    /// Subscribes to updates.
    pub(crate) fn listen(&self) -> watch::Receiver<u64> {
        self.news.subscribe()
    }
}

impl Coordinator {
    /// The job with the last reported metrics of its run, which sends no more reports: it spent at least that much.
    pub(crate) fn with_usage(&self, job: Job) -> Job {
        match self.progress.of(job.id()) {
            Some(progress) => job.with_usage(usage_of(&progress)),
            None => job,
        }
    }
}

/// Checks that every metric of a progress report is within bounds: the last report is charged when its run is lost.
pub(crate) fn check_progress(progress: &Progress) -> Result<(), Error> {
    usage_of(progress).check().map_err(|error| out_of_range(&error))?;
    match progress.tool_calls.filter(|calls| *calls > TURNS_MAX) {
        Some(found) => {
            let (max, found) = (TURNS_MAX.to_string(), found.to_string());
            Err(out_of_range(&ValueOutOfRange { field: "toolCalls", max, found }))
        }
        None => Ok(()),
    }
}

fn usage_of(progress: &Progress) -> RunInsights {
    let Progress { tokens_in, tokens_out, cost_usd, turns, .. } = *progress;
    RunInsights { tokens_in, tokens_out, cost_usd, turns, ..RunInsights::default() }
}

fn covers(scope: &Scope, job: JobId, product: &ProductId) -> bool {
    match scope {
        Scope::Fleet => true,
        Scope::Products(products) => products.contains(product),
        Scope::Job(id) => *id == job,
    }
}

fn bounded(progress: &Progress) -> Progress {
    let surplus = progress.files.len().saturating_sub(FILES_MAX);
    Progress {
        doing: progress.doing.as_deref().map(|doing| short(doing, DOING_CHARS_MAX)),
        files: progress.files.iter().skip(surplus).map(|file| short(file, FILE_CHARS_MAX)).collect(),
        cost_usd: progress.cost_usd.filter(|cost| cost.is_finite()),
        session: progress.session.as_deref().map(|session| short(session, SESSION_CHARS_MAX)),
        ..progress.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(n: u8) -> JobId {
        JobId::from_bytes([n; 16])
    }

    fn doing(what: &str) -> Progress {
        Progress { doing: Some(what.to_owned()), ..Progress::default() }
    }

    #[test]
    fn a_subscriber_gets_the_latest_progress_in_its_scope_once() {
        let board = ProgressBoard::default();
        let product = ProductId::default_product();
        for (n, what) in [(1, "a"), (2, "b"), (1, "c"), (1, "c")] {
            board.publish_progress(job(n), Epoch(1), product.clone(), &doing(what));
        }

        let told = |seen, scope| {
            let (news, _) = board.after(seen, &scope);
            news.into_iter().map(|news| (news.job_id, news.progress.doing.unwrap())).collect::<Vec<_>>()
        };
        assert_eq!(told(0, Scope::Fleet), vec![(job(2), "b".to_owned()), (job(1), "c".to_owned())]);
        assert_eq!(told(2, Scope::Job(job(2))), vec![]);
        assert_eq!(told(0, Scope::Products(vec!["another".parse().unwrap()])), vec![]);
        assert_eq!(told(*board.listen().borrow(), Scope::Fleet), vec![]);
    }

    // [attack: terminal escapes]
    #[test]
    fn progress_is_truncated_and_escaped() {
        let long = Progress {
            doing: Some(format!("\u{1b}[2J{}", "x".repeat(9_000))),
            files: (0..99).map(|n| format!("file-{n}")).collect(),
            cost_usd: Some(f64::NAN),
            ..Progress::default()
        };

        let kept = bounded(&long);

        assert_eq!(kept.doing.unwrap().len(), DOING_CHARS_MAX);
        assert_eq!((kept.files.len(), kept.files[0].as_str()), (FILES_MAX, "file-79"));
        assert_eq!(kept.cost_usd, None);
    }
}
