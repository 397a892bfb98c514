//! The live activity of an agent.

use std::path::{Path, PathBuf};

use domain::RunInsights;

use super::stream::one_line;
use super::{EngineEvent, EngineOutput, RateLimit, Target, WindowState};

/// The state of a run in progress: the sum of its events so far.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Activity {
    worktree: PathBuf,
    /// The last thing it started.
    pub doing: Option<String>,
    /// The last line of its output, for engines without a stream.
    pub said: Option<String>,
    /// Tools used so far.
    pub tool_calls: u32,
    /// Files changed so far, as far as the tools report them, the latest last.
    pub files: Vec<String>,
    /// What it cost so far.
    pub insights: RunInsights,
    /// The engine's own session.
    pub session: Option<String>,
    /// The engine's own ending.
    pub ending: Option<String>,
}

/// One line of the live view.
const DOING_CHARS_MAX: usize = 200;

/// The last files that an agent changed; the diff has them all.
pub const FILES_MAX: usize = 20;

/// A failing tool can print a whole build log; its first lines are enough.
const FAILURE_LINES_MAX: usize = 5;

impl Activity {
    /// No activity yet, in `worktree`.
    pub fn begin(worktree: &Path) -> Self {
        Self { worktree: worktree.to_owned(), ..Self::default() }
    }

    /// Takes an event of the engine. Returns the lines that a person reads instead of it.
    pub fn note(&mut self, output: &EngineOutput) -> Vec<String> {
        self.insights = output.insights.clone();
        output.events.iter().flat_map(|event| self.note_event(event)).collect()
    }

    /// Takes the last line of output, if the engine does not report its activity itself.
    pub fn note_last_line(&mut self, line: impl FnOnce() -> Option<String>) {
        if self.doing.is_none() {
            self.said = line().map(|line| cut(&one_line(&line)));
        }
    }

    /// Takes the changed files, if the engine does not report its activity itself.
    pub fn note_files(&mut self, files: &[PathBuf]) {
        if self.doing.is_none() {
            let surplus = files.len().saturating_sub(FILES_MAX);
            self.files = files.iter().skip(surplus).map(|file| one_line(&file.to_string_lossy())).collect();
        }
    }

    /// Takes an activity of the factory itself, after the agent. Returns its log line.
    pub fn turn_to(&mut self, doing: &str) -> String {
        let doing = cut(&one_line(doing));
        let shown = format!("● {doing}");
        self.doing = Some(doing);
        shown
    }

    /// What it does now; its last line of output, if its engine does not report that.
    pub fn headline(&self) -> Option<&str> {
        self.doing.as_deref().or(self.said.as_deref())
    }

    fn note_event(&mut self, event: &EngineEvent) -> Vec<String> {
        match event {
            EngineEvent::SessionStarted { session } => {
                self.session = Some(one_line(session)).filter(|session| !session.is_empty());
                Vec::new()
            }
            EngineEvent::Message { text } => {
                self.doing = Some(cut(&one_line(text)));
                clean_lines(text).collect()
            }
            EngineEvent::ToolCall { tool, target } => {
                let shown = self.call(tool, target.as_ref());
                self.tool_calls = self.tool_calls.saturating_add(1);
                self.doing = Some(cut(&shown));
                vec![format!("● {shown}")]
            }
            EngineEvent::ToolFailed { text } => {
                clean_lines(text).take(FAILURE_LINES_MAX).map(|line| format!("  ✗ {line}")).collect()
            }
            EngineEvent::Usage(_) => Vec::new(),
            EngineEvent::RateLimit(limit) => window_line(limit).into_iter().collect(),
            EngineEvent::Question { text } => {
                self.doing = Some(cut(&format!("asks: {}", one_line(text))));
                vec![format!("? {}", one_line(text))]
            }
            EngineEvent::Ended { why } => {
                self.ending = Some(one_line(why)).filter(|why| !why.is_empty());
                vec![self.closing_line()]
            }
            EngineEvent::Output { text } => vec![clean(text)],
        }
    }

    fn call(&mut self, tool: &str, target: Option<&Target>) -> String {
        let tool = one_line(tool);
        let Some(target) = target else { return tool };
        let shown = match target {
            Target::File(path) | Target::Edit(path) => self.below_worktree(path),
            Target::Command(text) | Target::Other(text) => one_line(text),
        };
        if matches!(target, Target::Edit(_)) {
            self.files.retain(|file| *file != shown);
            if self.files.len() >= FILES_MAX {
                self.files.remove(0);
            }
            self.files.push(shown.clone());
        }
        format!("{tool} {shown}")
    }

    /// A path relative to the repository.
    fn below_worktree(&self, path: &str) -> String {
        let below = Path::new(path).strip_prefix(&self.worktree).ok().and_then(Path::to_str);
        one_line(below.unwrap_or(path))
    }

    fn closing_line(&self) -> String {
        let RunInsights { tokens_in, tokens_out, cost_usd, turns, .. } = &self.insights;
        let figures = [
            turns.map(|turns| if turns == 1 { "1 turn".to_owned() } else { format!("{turns} turns") }),
            tokens_in.map(|tokens| format!("{tokens} tokens in")),
            tokens_out.map(|tokens| format!("{tokens} out")),
            cost_usd.map(domain::dollars),
        ];
        let figures: Vec<String> = figures.into_iter().flatten().collect();
        if figures.is_empty() { "■ ended".to_owned() } else { format!("■ ended: {}", figures.join(", ")) }
    }
}

fn window_line(limit: &RateLimit) -> Option<String> {
    let window = limit.window.as_deref().unwrap_or("usage");
    let reset = limit.resets_at.map(|at| format!(", it resets at {at}")).unwrap_or_default();
    match limit.state {
        WindowState::Open => None,
        WindowState::Nearing => {
            let used = limit.utilisation.map_or("nearly".to_owned(), |part| format!("{:.0} %", part * 100.0));
            Some(format!("! the window `{window}` is {used} used up{reset}"))
        }
        WindowState::UsedUp => Some(format!("! the window `{window}` is used up{reset}")),
    }
}

fn clean_lines(text: &str) -> impl Iterator<Item = String> {
    text.trim_end().lines().map(clean)
}

/// A line without terminal escapes.
fn clean(line: &str) -> String {
    line.chars().map(|c| if c == '\t' { c } else { domain::terminal_safe(c) }).collect()
}

fn cut(text: &str) -> String {
    text.chars().take(DOING_CHARS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use sandbox::{Line, Source};

    fn note(activity: &mut Activity, event: EngineEvent) -> Vec<String> {
        let line = Line { source: Source::Out, text: String::new() };
        activity.note(&EngineOutput { line, events: vec![event], insights: RunInsights::default() })
    }

    // [J9]
    #[test]
    fn a_person_reads_what_the_agent_does_and_no_json() {
        let mut activity = Activity::begin(Path::new("/w/run"));
        let edit =
            |path: &str| EngineEvent::ToolCall { tool: "Edit".to_owned(), target: Some(Target::Edit(path.to_owned())) };

        let mut shown = note(&mut activity, EngineEvent::Message { text: "I will\nbegin\u{1b}[2J".to_owned() });
        shown.extend(note(&mut activity, edit("/w/run/src/lib.rs")));
        shown.extend(note(&mut activity, edit("/w/run/src/lib.rs")));
        shown.extend(note(&mut activity, EngineEvent::ToolFailed { text: "no such file".to_owned() }));
        shown.extend(note(&mut activity, EngineEvent::Ended { why: "All done.".to_owned() }));

        let expected =
            ["I will", "begin\u{fffd}[2J", "● Edit src/lib.rs", "● Edit src/lib.rs", "  ✗ no such file", "■ ended"];
        assert_eq!(shown, expected);
        assert_eq!((activity.tool_calls, activity.files.len()), (2, 1));
        assert_eq!(activity.doing.as_deref(), Some("Edit src/lib.rs"));
        assert_eq!(activity.ending.as_deref(), Some("All done."));
    }

    #[test]
    fn of_an_engine_without_a_stream_the_last_line_and_the_files_are_shown_and_of_another_its_own_word() {
        let mut activity = Activity::begin(Path::new("/w"));
        let files: Vec<PathBuf> = (0..30).map(|n| PathBuf::from(format!("f{n}\n"))).collect();

        activity.note_last_line(|| Some("compiling \u{1b}[K core\r".to_owned()));
        activity.note_files(&files);

        assert_eq!((activity.headline(), activity.files.len()), (Some("compiling [K core"), FILES_MAX));
        assert_eq!(activity.files.last().map(String::as_str), Some("f29"));
        note(&mut activity, EngineEvent::Message { text: "I will".to_owned() });
        activity.note_last_line(|| Some("noise".to_owned()));
        activity.note_files(&[]);
        assert_eq!((activity.headline(), activity.files.len()), (Some("I will"), FILES_MAX));
    }

    #[test]
    fn a_target_never_spans_lines() {
        let mut activity = Activity::begin(Path::new("/w"));
        let target = Some(Target::Command("cat <<EOF\nx\u{9b}2J\nEOF".to_owned()));

        let shown = note(&mut activity, EngineEvent::ToolCall { tool: "Bash".to_owned(), target });

        assert_eq!(shown, ["● Bash cat <<EOF x 2J EOF"]);
    }
}
