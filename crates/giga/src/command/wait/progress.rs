//! A line whenever a job moves, and one on what it waits for while it does not.

use std::collections::BTreeMap;
use std::pin::pin;
use std::time::Duration;

use domain::{EventKind, JobEvent, JobId, StageName};
use protocol::{Client, JobExplanation, JobView, Presence, ProgressEvent};

use crate::command::backoff::Backoff;
use crate::command::follow::StreamMessage;
use crate::command::{Context, activity, forecast, status};
use crate::failure::Failure;
use crate::output::{clean, clock_time};

/// A job that goes on sooner is not worth a question.
const ASK_AFTER: Duration = Duration::from_secs(2);

/// How often it is asked what jobs wait for: that seldom changes without an event.
const ASK_EVERY: Duration = Duration::from_secs(30);

/// The same while a job runs: its factory may disconnect, which is no event of the job.
const ASK_WHILE_RUNNING_EVERY: Duration = Duration::from_secs(5);

/// How long a job that no factory can run is waited for: long enough for a factory that is just starting.
const STUCK_MAX: Duration = Duration::from_mins(1);

/// Whether a job that no factory can run is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UnplaceablePolicy {
    /// For a minute, then it is an error.
    Limited,
    /// Until a factory can.
    Endless,
}

/// Since when no factory can run each of the jobs, by the clock that never jumps.
struct Stuck {
    since: BTreeMap<JobId, Duration>,
    patience: UnplaceablePolicy,
}

impl Stuck {
    /// Whether a job has been one that no factory can run for too long.
    fn is_over(&mut self, id: JobId, is_stuck: bool, now: Duration) -> bool {
        if !is_stuck {
            self.since.remove(&id);
            return false;
        }
        let since = *self.since.entry(id).or_insert(now);
        self.patience == UnplaceablePolicy::Limited && now.saturating_sub(since) >= STUCK_MAX
    }
}

/// Jobs that are asked about at once: more lines than this are no longer read.
const ASKED_ABOUT_MAX: usize = 8;

/// Where the jobs were when last heard of.
pub(super) struct Progress<'c> {
    context: &'c Context<'c>,
    several: bool,
    titles: BTreeMap<JobId, String>,
    stages: BTreeMap<JobId, StageName>,
    doing: BTreeMap<JobId, Option<String>>,
    /// What was said of a job that waits.
    told: BTreeMap<JobId, String>,
    stuck: Stuck,
    /// When it is asked next what jobs wait for, by the clock that never jumps.
    ask_at: Duration,
}

impl<'c> Progress<'c> {
    /// Nothing heard yet of this many jobs.
    pub(super) fn new(context: &'c Context<'c>, jobs: usize, patience: UnplaceablePolicy) -> Self {
        let (titles, stages) = (BTreeMap::new(), BTreeMap::new());
        let (doing, told) = (BTreeMap::new(), BTreeMap::new());
        let stuck = Stuck { since: BTreeMap::new(), patience };
        Self { context, several: jobs > 1, titles, stages, doing, told, stuck, ask_at: Duration::ZERO }
    }

    /// A job was looked at.
    pub(super) fn found(&mut self, job: &JobView) {
        let title = self.titles.insert(job.id, job.title.clone());
        if title.is_none() && !self.several {
            self.context.out.note(&format!("job {}", clean(&job.label().to_string())));
        }
        if !self.moved(job.id, job.stage) {
            return;
        }
        let now = self.context.now();
        let words = match (&job.holder_factory_id, Backoff::of_job(job, now)) {
            (Some(factory), _) => format!("on `{factory}`"),
            (None, None) if job.merge_failure.is_some() => status::reason(job),
            (None, Some(backoff)) => {
                self.told.insert(job.id, backoff.until.to_string());
                backoff.sentence("", now)
            }
            (None, None) => String::new(),
        };
        self.say(&clock_time(now), job.id, status::stage_word(job), &words);
    }

    /// Something happened to a job.
    pub(super) fn happened(&mut self, event: &JobEvent) {
        let has_moved = self.moved(event.job_id, event.stage);
        let matters = matches!(
            event.kind,
            EventKind::AttemptFailed
                | EventKind::ErrandFailed
                | EventKind::ErrandPutOff
                | EventKind::Escalated
                | EventKind::DependencyFailed
                | EventKind::DependencyRecovered
                | EventKind::Reaped
                | EventKind::QuotaHit
                | EventKind::DispatchExpired
                | EventKind::DispatchDeclined
                | EventKind::Promoted
                | EventKind::Restored
        );
        if !has_moved && !matters {
            return;
        }
        let words = match Backoff::of_event(event) {
            Some(backoff) => {
                self.told.insert(event.job_id, backoff.until.to_string());
                // By the coordinator's clock, which set both times.
                format!("{}; next try in {}", event.sentence(), backoff.left(event.at))
            }
            None => event.sentence(),
        };
        let stage = if event.kind == EventKind::Cancelled { "cancelled" } else { event.stage.as_str() };
        self.say(&clock_time(event.at), event.job_id, stage, &words);
    }

    /// A job's agent does something else, or has come further with what it does; only the former is worth a line.
    pub(super) fn is_doing(&mut self, news: &ProgressEvent) {
        let doing = news.progress.doing.clone();
        if self.doing.insert(news.job_id, doing.clone()) != Some(doing) {
            let words = activity::line(&news.progress);
            self.say(&clock_time(self.context.now()), news.job_id, StageName::Building.as_str(), &words);
        }
    }

    /// The next news. While there is none it is said what the jobs wait for.
    pub(super) async fn until(
        &mut self,
        client: &Client,
        next: impl Future<Output = Result<StreamMessage, Failure>>,
    ) -> Result<StreamMessage, Failure> {
        let mut next = pin!(next);
        loop {
            let waiting = self.waiting();
            let pause = self.ask_at.saturating_sub(self.context.clock.monotonic());
            tokio::select! {
                biased;
                news = &mut next => return news,
                () = self.context.clock.sleep(pause), if !waiting.is_empty() => self.ask(client, &waiting).await?,
            }
        }
    }

    /// Jobs that wait, and jobs whose factory may disconnect.
    fn waiting(&self) -> Vec<JobId> {
        let asked_about = |stage: StageName| waits(stage) || runs(stage);
        let waiting = self.stages.iter().filter(|(_, stage)| asked_about(**stage)).map(|(id, _)| *id);
        waiting.take(ASKED_ABOUT_MAX).collect()
    }

    async fn ask(&mut self, client: &Client, waiting: &[JobId]) -> Result<(), Failure> {
        for id in waiting {
            // Whoever does not answer is noticed by the stream.
            let Ok(explained) = client.get::<JobExplanation>(&format!("/jobs/{id}/explain")).await else { continue };
            self.waits(&explained);
            self.give_up(&explained)?;
        }
        let is_running = self.stages.values().any(|stage| runs(*stage));
        let pause = if is_running { ASK_WHILE_RUNNING_EVERY } else { ASK_EVERY };
        self.ask_at = self.context.clock.monotonic() + pause;
        Ok(())
    }

    /// An error once a job has been one that no factory can run for too long, unless another of the jobs is being worked on.
    fn give_up(&mut self, explained: &JobExplanation) -> Result<(), Failure> {
        let (id, now) = (explained.job.id, self.context.clock.monotonic());
        let is_stuck = explained.job.stage == StageName::Queued && forecast::is_stuck(&explained.now);
        let is_busy = self.stages.values().any(|stage| matches!(stage, StageName::Assigned | StageName::Building));
        if !self.stuck.is_over(id, is_stuck, now) || is_busy {
            return Ok(());
        }
        let why = clean(&explained.now.text);
        let label = clean(&explained.job.label().to_string());
        Err(Failure::failed(format!("no factory can run job {label}: {why}"))
            .hint(format!(
                "the job stays queued: `giga wait {}` waits for it again; `giga submit --wait --patient` waits without a limit",
                id.short()
            )))
    }

    fn waits(&mut self, explained: &JobExplanation) {
        let (job, now) = (&explained.job, self.context.now());
        if runs(job.stage) {
            return self.holder_is(explained);
        }
        if !waits(job.stage) {
            return;
        }
        let (words, told) = match Backoff::of_job(job, now) {
            Some(backoff) => (backoff.sentence("", now), backoff.until.to_string()),
            None => (explained.summary.clone(), explained.summary.clone()),
        };
        if self.told.insert(job.id, told.clone()) != Some(told) {
            self.say(&clock_time(now), job.id, job.stage.as_str(), &words);
        }
    }

    /// A line when the factory of a running job is away, and one when it is back.
    fn holder_is(&mut self, explained: &JobExplanation) {
        let id = explained.job.id;
        let is_away =
            matches!(explained.holder_presence, Some(Presence::Disconnected | Presence::Stale | Presence::Stopped));
        let was_away = self.told.contains_key(&id);
        let words = match (is_away, was_away) {
            (true, false) => {
                self.told.insert(id, explained.summary.clone());
                explained.summary.as_str()
            }
            (false, true) => {
                self.told.remove(&id);
                "its factory is connected again"
            }
            (true, true) | (false, false) => return,
        };
        self.say(&clock_time(self.context.now()), id, explained.job.stage.as_str(), words);
    }

    /// Whether a job is elsewhere than it was.
    fn moved(&mut self, id: JobId, stage: StageName) -> bool {
        let has_moved = self.stages.insert(id, stage) != Some(stage);
        if has_moved {
            self.told.remove(&id);
            let now = self.context.clock.monotonic();
            // What is due soon anyway is not put off: among many jobs one moves all the time.
            if !(now..now + ASK_AFTER).contains(&self.ask_at) {
                self.ask_at = now + ASK_AFTER;
            }
        }
        has_moved
    }

    fn say(&self, time: &str, id: JobId, stage: &str, words: &str) {
        let title = self.titles.get(&id).map(String::as_str);
        let id = if self.several { format!("{}  ", id.perhaps_titled(title)) } else { String::new() };
        let line = format!("{time}  {id}{stage:<11}  {}", clean(words));
        self.context.out.note(line.trim_end());
    }
}

fn waits(stage: StageName) -> bool {
    matches!(stage, StageName::Queued | StageName::Blocked)
}

fn runs(stage: StageName) -> bool {
    matches!(stage, StageName::Assigned | StageName::Building)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_that_no_factory_can_run_is_waited_for_a_minute() {
        let id = JobId::from_bytes([7; 16]);
        let at = Duration::from_secs;
        let mut limited = Stuck { since: BTreeMap::new(), patience: UnplaceablePolicy::Limited };
        let mut endless = Stuck { since: BTreeMap::new(), patience: UnplaceablePolicy::Endless };

        let told: Vec<bool> = [(true, 2), (true, 32), (false, 40), (true, 50), (true, 100), (true, 110)]
            .map(|(is_stuck, now)| limited.is_over(id, is_stuck, at(now)))
            .to_vec();

        assert_eq!(told, [false, false, false, false, false, true]);
        assert!(!endless.is_over(id, true, at(0)) && !endless.is_over(id, true, at(600)));
    }
}
