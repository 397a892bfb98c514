//! A line whenever a job moves, and one on what it waits for while it does not.

use std::collections::BTreeMap;
use std::pin::pin;
use std::time::Duration;

use client::{Client, FeedItem};
use domain::{EventKind, JobEvent, JobId, StageName};
use protocol::{JobExplanation, JobView, Presence, ProgressEvent};

use crate::command::backoff::Backoff;
use crate::command::{Context, activity, forecast, status};
use crate::failure::Failure;
use crate::output::{clean, clock_time};

/// For a job that continues sooner, the reason is not requested.
const ASK_AFTER: Duration = Duration::from_secs(2);

/// How often the reasons for waiting are polled: they seldom change without an event.
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

impl UnplaceablePolicy {
    /// The policy with or without `--patient`.
    pub(crate) fn of(is_patient: bool) -> Self {
        if is_patient { Self::Endless } else { Self::Limited }
    }
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

/// Jobs whose reasons are requested at once: users do not read more lines than this.
const ASKED_ABOUT_MAX: usize = 8;

/// The last known state of the jobs.
pub(super) struct Progress<'c> {
    context: &'c Context<'c>,
    several: bool,
    titles: BTreeMap<JobId, String>,
    stages: BTreeMap<JobId, StageName>,
    doing: BTreeMap<JobId, Option<String>>,
    /// The reason that was printed for a job that waits.
    told: BTreeMap<JobId, String>,
    stuck: Stuck,
    /// When the reasons for waiting are polled next, by the monotonic clock.
    ask_at: Duration,
}

impl<'c> Progress<'c> {
    /// Creates the progress of this many jobs, without any report yet.
    pub(super) fn new(context: &'c Context<'c>, jobs: usize, patience: UnplaceablePolicy) -> Self {
        let (titles, stages) = (BTreeMap::new(), BTreeMap::new());
        let (doing, told) = (BTreeMap::new(), BTreeMap::new());
        let stuck = Stuck { since: BTreeMap::new(), patience };
        Self { context, several: jobs > 1, titles, stages, doing, told, stuck, ask_at: Duration::ZERO }
    }

    /// A job was read.
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

    /// The next message. While there is none, prints what the jobs wait for.
    pub(super) async fn until(
        &mut self,
        client: &Client,
        open: &[JobId],
        next: impl Future<Output = Result<FeedItem, Failure>>,
    ) -> Result<FeedItem, Failure> {
        let mut next = pin!(next);
        loop {
            let waiting = self.waiting(open);
            let pause = self.ask_at.saturating_sub(self.context.clock.monotonic());
            tokio::select! {
                biased;
                news = &mut next => return news,
                () = self.context.clock.sleep(pause), if !waiting.is_empty() => self.ask(client, &waiting).await?,
            }
        }
    }

    /// Open jobs that wait, and those whose factory may disconnect.
    fn waiting(&self, open: &[JobId]) -> Vec<JobId> {
        let asked_about = |id: &&JobId| self.stages.get(*id).is_some_and(|stage| waits(*stage) || runs(*stage));
        open.iter().filter(asked_about).take(ASKED_ABOUT_MAX).copied().collect()
    }

    async fn ask(&mut self, client: &Client, waiting: &[JobId]) -> Result<(), Failure> {
        let (mut stuck, mut is_over) = (Vec::new(), false);
        for id in waiting {
            // The stream notices a coordinator that does not answer.
            let Ok(explained) = client.get::<JobExplanation>(&format!("/jobs/{id}/explain")).await else { continue };
            self.waits(&explained);
            let obstacle = obstacle(&explained);
            is_over |= self.stuck.is_over(*id, obstacle.is_some(), self.context.clock.monotonic());
            stuck.extend(obstacle.map(|obstacle| (*id, obstacle)));
        }
        let is_running = self.stages.values().any(|stage| runs(*stage));
        if is_over && !is_running {
            return Err(unplaceable(&stuck));
        }
        let pause = if is_running { ASK_WHILE_RUNNING_EVERY } else { ASK_EVERY };
        self.ask_at = self.context.clock.monotonic() + pause;
        Ok(())
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
            // A poll that is due soon is not postponed: among many jobs one changes all the time.
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

/// Why no factory can run a job, or promote or merge its commit, in a sentence; nothing where one can.
fn obstacle(explained: &JobExplanation) -> Option<String> {
    let label = clean(&explained.job.label().to_string());
    match explained.job.stage {
        StageName::Queued if forecast::is_stuck(&explained.now) => {
            Some(format!("no factory can run job {label}: {}", clean(&explained.now.text)))
        }
        StageName::Testing => {
            let waiting = explained.job.waiting.as_ref().filter(|waiting| waiting.unplaceable)?;
            Some(format!("job {label} {}", clean(&waiting.text)))
        }
        _ => None,
    }
}

/// The error that ends a wait, with all jobs that no factory can run.
fn unplaceable(stuck: &[(JobId, String)]) -> Failure {
    let message = match stuck {
        [(_, obstacle)] => obstacle.clone(),
        several => {
            let lines: String = several.iter().map(|(_, obstacle)| format!("\n  {obstacle}")).collect();
            format!("{} jobs wait for a factory:{lines}", several.len())
        }
    };
    let ids: Vec<String> = stuck.iter().map(|(id, _)| id.short().to_string()).collect();
    Failure::failed(message)
        .hint(format!("the jobs stay submitted: `giga wait --patient {}` waits without a limit", ids.join(" ")))
}

fn waits(stage: StageName) -> bool {
    matches!(stage, StageName::Queued | StageName::Blocked | StageName::Testing | StageName::Review)
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

    #[test]
    fn the_error_names_every_job_and_a_command_that_waits_on() {
        let ids = [JobId::from_bytes([7; 16]), JobId::from_bytes([8; 16])];
        let stuck = ids.map(|id| (id, format!("no factory can run job {}: no engine", id.short())));

        let failure = unplaceable(&stuck);

        let [one, two] = ids.map(|id| id.short().to_string());
        for id in [&one, &two] {
            assert!(failure.message().contains(&format!("\n  no factory can run job {id}: no engine")), "{failure}");
        }
        let hint = failure.hint_text().unwrap();
        assert!(hint.contains(&format!("`giga wait --patient {one} {two}`")) && !hint.contains("submit --"), "{hint}");
    }
}
