//! What an engine says, for people, and what of it must not be lost with this process.

use std::time::Duration;

use protocol::Progress;
use tokio::sync::mpsc;

use super::super::Station;
use super::super::backlog::LogWriter;
use super::Run;
use crate::engine::EngineOutput;
use crate::runs::RunRecord;

/// How often figures are written down at most while they change: a factory that is killed forgets no more than this.
const FIGURES_EVERY: Duration = Duration::from_secs(5);

impl Station {
    /// Shows what the engine says, and keeps its session and its figures on disk: a factory that is killed gives the work
    /// back with its conversation and what it cost.
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
        let (shown, progress) = {
            let mut activity = run.activity.lock();
            (activity.note(output), activity.progress())
        };
        for line in shown {
            log.push(&line);
        }
        self.holdings.progressed(run.key.job, run.key.epoch, self.shown(progress));
    }

    /// What an agent is doing, as people may see it: a command line or a name of a file can hold a secret too [T8].
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
