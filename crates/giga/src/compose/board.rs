//! Live progress in the terminal: one line per thing that happens, and a summary that stays at the bottom.

use std::collections::BTreeMap;
use std::io::{IsTerminal, Write};

use domain::{EventKind, JobEvent, JobId, StageName, Timestamp};

use crate::output::{Palette, Tint, clean};

/// Titles are cut to this, so that the columns stay.
const TITLE_CHARS: usize = 28;

/// What is known about the jobs that are watched.
pub(super) struct ProgressDisplay {
    started_at: Timestamp,
    jobs: BTreeMap<JobId, Line>,
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
        Self { started_at, jobs: BTreeMap::new(), palette, is_terminal, has_summary: false }
    }

    /// Watches one more job.
    pub(super) fn add(&mut self, id: JobId, title: &str, stage: StageName) {
        let title: String = clean(title).chars().take(TITLE_CHARS).collect();
        let order = self.jobs.len();
        self.jobs.insert(id, Line { title, stage, order });
    }

    /// Shows what happened to a job.
    pub(super) fn show(&mut self, event: &JobEvent) {
        let Some(line) = self.jobs.get_mut(&event.job_id) else { return };
        line.stage = event.stage;
        let title = line.title.clone();
        if !is_worth_a_line(event.kind) {
            return;
        }
        let tint = match event.kind {
            EventKind::Shipped | EventKind::Completed => Tint::Good,
            EventKind::AttemptFailed | EventKind::Reaped | EventKind::Released => Tint::Warn,
            EventKind::Failed | EventKind::DeadLettered | EventKind::Cancelled => Tint::Bad,
            _ => Tint::Faint,
        };
        let stage = self.palette.paint(&format!("{:<9}", event.stage.as_str()), tint);
        self.print(&format!("{}  {title:<TITLE_CHARS$}  {stage}  {}", self.time(event.at), clean(&event.sentence())));
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
fn is_worth_a_line(kind: EventKind) -> bool {
    !matches!(
        kind,
        EventKind::Dispatched
            | EventKind::Started
            | EventKind::Promoted
            | EventKind::ErrandGranted
            | EventKind::ShipRequested
    )
}
