//! Engine output, for people, and the part of it that must survive this process.

use std::time::Duration;

use domain::{RunInsights, TURNS_MAX};
use engines::{Activity, EngineOutput, FILES_MAX};
use protocol::Progress;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use workspace::RunRecord;

use super::super::Worker;
use super::super::log_buffer::LogWriter;
use super::super::renewal::PROGRESS_EVERY;
use super::{Run, RunLocation};

/// The shortest interval between writes of changing metrics: a killed factory loses no more than this.
const FIGURES_EVERY: Duration = Duration::from_secs(5);

/// How often a worktree is checked for changes: as often as the coordinator receives reports.
const FILES_EVERY: Duration = PROGRESS_EVERY;
/// If that is slow, it takes at most this part of the time.
const FILES_SHARE: u32 = 20;

impl Worker {
    /// Logs the engine's output, and keeps its session and its metrics on disk: after a kill the factory releases the
    /// job with its conversation and its cost.
    pub(super) async fn listen(&self, run: &Run, mut outputs: mpsc::Receiver<EngineOutput>, log: &LogWriter) {
        let mut written = run.record.clone();
        let mut due: Option<Duration> = None;
        loop {
            tokio::select! {
                output = outputs.recv() => match output {
                    Some(output) => self.show(run, &output, log),
                    None => return,
                },
                () = self.wait_until(due) => {}
            }
            let insights = run.activity.lock().insights.clone();
            let known = RunRecord { session: run.session(), insights, ..run.record.clone() };
            if known == written {
                due = None;
                continue;
            }
            let now = self.clock.monotonic();
            if known.session != written.session {
                self.remember_session(run, known.session.as_deref());
            }
            if known.session != written.session || due.is_some_and(|due| due <= now) {
                self.ledger.remember(&known).await;
                written = known;
                due = None;
            } else {
                due = due.or(Some(now + FIGURES_EVERY));
            }
        }
    }

    fn show(&self, run: &Run, output: &EngineOutput, log: &LogWriter) {
        let shown = run.activity.lock().note(output);
        for line in shown {
            log.push(&line);
        }
        run.activity.lock().note_last_line(|| log.last_line());
        self.tell_progress(run);
    }

    /// Reports the changed files of an engine that does not report them itself, for as long as it runs.
    pub(super) async fn watch_files(&self, run: &Run, place: &RunLocation, over: &CancellationToken) {
        let Some((mirror, _, worktree)) = &place.repo else { return };
        let mut pause = FILES_EVERY;
        while over.run_until_cancelled(self.clock.sleep(pause)).await.is_some() {
            if run.activity.lock().doing.is_some() {
                return;
            }
            let began = self.clock.monotonic();
            let Some(touched) = over.run_until_cancelled(mirror.changed_files(worktree, FILES_MAX)).await else {
                return;
            };
            pause = FILES_EVERY.max((self.clock.monotonic() - began) * FILES_SHARE);
            // An unreadable worktree may be readable the next time; verification reports what it means.
            let Ok(touched) = touched else { continue };
            run.activity.lock().note_files(&touched);
            self.tell_progress(run);
        }
    }

    /// Sets the activity of the run.
    pub(super) fn tell_progress(&self, run: &Run) {
        let progress = progress_of(&run.activity.lock());
        self.holdings.progressed(run.key.job, run.key.epoch, self.shown(progress));
    }

    /// Sets an activity of the factory itself; it is shown until the next one. Returns the line for the log.
    pub(super) fn turn_to(&self, run: &Run, doing: &str) -> String {
        let shown = run.activity.lock().turn_to(doing);
        self.tell_progress(run);
        shown
    }

    /// An agent's activity without secrets: a command line or a file name can hold one too [T8].
    pub(super) fn shown(&self, progress: Progress) -> Progress {
        let scrub = |text: String| self.scrubber.text(&text);
        Progress {
            doing: progress.doing.map(scrub),
            files: progress.files.into_iter().map(scrub).collect(),
            ..progress
        }
    }

    async fn wait_until(&self, due: Option<Duration>) {
        match due {
            Some(due) => self.clock.sleep(due.saturating_sub(self.clock.monotonic())).await,
            None => std::future::pending().await,
        }
    }
}

/// An agent's activity as the coordinator receives it.
fn progress_of(activity: &Activity) -> Progress {
    let RunInsights { tokens_in, tokens_out, cost_usd, turns, .. } = activity.insights;
    Progress {
        doing: activity.headline().map(str::to_owned),
        tool_calls: Some(activity.tool_calls.min(TURNS_MAX)).filter(|calls| *calls > 0),
        files: activity.files.clone(),
        tokens_in,
        tokens_out,
        cost_usd,
        turns,
        session: activity.session.clone(),
    }
}
