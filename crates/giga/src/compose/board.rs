//! Live progress in the terminal: one line per thing that happens, and a summary that stays at the bottom.

use std::collections::BTreeMap;
use std::io::{IsTerminal, Write};

use domain::{EventKind, JobEvent, JobId, StageName, Timestamp};

use crate::output::{Palette, Tint, clean};

/// Titles are cut to this, so that the columns stay.
const TITLE_CHARS: usize = 28;

/// Sentences are cut to this: the output of a failed command is in its log.
const SENTENCE_CHARS: usize = 100;

/// What is known about the jobs that are watched.
pub(super) struct ProgressDisplay {
    started_at: Timestamp,
    jobs: BTreeMap<JobId, Line>,
    /// The job whose first checkpoint is shown; all checkpoints of all jobs are too many.
    with_checkpoint: Option<JobId>,
    palette: Palette,
    is_terminal: bool,
    has_summary: bool,
}

struct Line {
    title: String,
    stage: StageName,
    order: usize,
}

impl ProgressDisplay {
    pub(super) fn new(started_at: Timestamp) -> Self {
        let is_terminal = std::io::stderr().is_terminal();
        let palette = if is_terminal && Palette::is_welcome() { Palette::Coloured } else { Palette::Plain };
        Self { started_at, jobs: BTreeMap::new(), with_checkpoint: None, palette, is_terminal, has_summary: false }
    }

    /// Watches one more job.
    pub(super) fn add(&mut self, id: JobId, title: &str, stage: StageName) {
        let title: String = clean(title).chars().take(TITLE_CHARS).collect();
        let order = self.jobs.len();
        self.jobs.insert(id, Line { title, stage, order });
    }

    /// Shows the first checkpoint of one job.
    pub(super) fn show_first_checkpoint_of(&mut self, job: JobId) {
        self.with_checkpoint = Some(job);
    }

    /// Shows what happened to a job.
    pub(super) fn show(&mut self, event: &JobEvent) {
        let Some(line) = self.jobs.get_mut(&event.job_id) else { return };
        line.stage = event.stage;
        let title = line.title.clone();
        let is_checkpoint = event.kind == EventKind::Checkpointed;
        if !is_worth_a_line(event) || is_checkpoint && self.with_checkpoint != Some(event.job_id) {
            return;
        }
        if is_checkpoint {
            self.with_checkpoint = None;
        }
        let tint = match event.kind {
            EventKind::Shipped | EventKind::Completed => Tint::Good,
            EventKind::AttemptFailed
            | EventKind::Reaped
            | EventKind::Released
            | EventKind::PreemptionRequested
            | EventKind::Preempted => Tint::Warn,
            EventKind::Failed | EventKind::DeadLettered | EventKind::Cancelled => Tint::Bad,
            _ => Tint::Faint,
        };
        let stage = self.palette.paint(&format!("{:<9}", event.stage.as_str()), tint);
        let mut sentence = clean(&event.sentence());
        if let Some((end, _)) = sentence.char_indices().nth(SENTENCE_CHARS) {
            sentence.truncate(end);
            sentence.push('…');
        }
        self.print(&format!("{}  {title:<TITLE_CHARS$}  {stage}  {sentence}", self.time(event.at)));
    }

    /// Prints a line that is not about one job.
    pub(super) fn say(&mut self, at: Timestamp, words: &str) {
        let words = self.palette.paint(words, Tint::Strong);
        self.print(&format!("{}  {words}", self.time(at)));
    }

    /// Whether all jobs are in a terminal stage.
    pub(super) fn is_at_rest(&self) -> bool {
        self.jobs.values().all(|line| line.stage.is_terminal())
    }

    /// Prints the final stage of each job.
    pub(super) fn finish(&mut self) {
        self.clear_summary();
        let mut lines: Vec<&Line> = self.jobs.values().collect();
        lines.sort_by_key(|line| line.order);
        let mut stderr = std::io::stderr().lock();
        let _ = writeln!(stderr);
        for line in lines {
            let tint = if line.stage == StageName::Shipped { Tint::Good } else { Tint::Bad };
            let stage = self.palette.paint(line.stage.as_str(), tint);
            let _ = writeln!(stderr, "  {:<TITLE_CHARS$}  {stage}", line.title);
        }
    }

    fn time(&self, at: Timestamp) -> String {
        format!("{:>6.1}s", at.since(self.started_at).as_secs_f64())
    }

    fn print(&mut self, text: &str) {
        self.clear_summary();
        {
            let mut stderr = std::io::stderr().lock();
            let _ = writeln!(stderr, "{text}");
        }
        self.draw_summary();
    }

    fn draw_summary(&mut self) {
        if !self.is_terminal {
            return;
        }
        let mut counts: BTreeMap<StageName, usize> = BTreeMap::new();
        for line in self.jobs.values() {
            *counts.entry(line.stage).or_default() += 1;
        }
        let counts: Vec<String> = counts.iter().map(|(stage, count)| format!("{count} {stage}")).collect();
        let summary = self.palette.paint(&format!("         {}", counts.join(" · ")), Tint::Strong);
        let mut stderr = std::io::stderr().lock();
        let _ = write!(stderr, "{summary}");
        let _ = stderr.flush();
        self.has_summary = true;
    }

    fn clear_summary(&mut self) {
        if std::mem::take(&mut self.has_summary) {
            let _ = write!(std::io::stderr().lock(), "\r\u{1b}[2K");
        }
    }
}

/// Whether the demo prints an event.
fn is_worth_a_line(event: &JobEvent) -> bool {
    // The vote says the same with its person, and a job that can start is granted in a moment.
    let is_said_elsewhere = matches!(event.kind, EventKind::ChangesRequested | EventKind::Approved)
        || event.kind == EventKind::Submitted && event.stage == StageName::Queued;
    !is_said_elsewhere
        && !matches!(
            event.kind,
            EventKind::Dispatched
                | EventKind::Started
                | EventKind::Promoted
                | EventKind::ErrandGranted
                | EventKind::ShipRequested
        )
}
