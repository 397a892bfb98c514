//! How things look: ANSI's sixteen colours by name, and glyphs that have an ASCII twin.

use domain::{FailureReason, StageName};
use protocol::{JobView, Presence};
use ratatui::style::{Color, Modifier, Style};

/// What the terminal can show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Look {
    /// Whether colours are allowed. Without them glyphs, words and reverse video remain.
    pub color: bool,
    /// Whether only ASCII is shown.
    pub ascii: bool,
}

/// The meaning of a colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tint {
    Plain,
    Faint,
    Strong,
    Good,
    Warn,
    Bad,
    Busy,
    Accent,
}

impl Look {
    pub(crate) fn style(self, tint: Tint) -> Style {
        let plain = Style::new();
        let colored = |color| if self.color { plain.fg(color) } else { plain };
        match tint {
            Tint::Plain => plain,
            Tint::Faint => plain.add_modifier(Modifier::DIM),
            Tint::Strong => plain.add_modifier(Modifier::BOLD),
            Tint::Good => colored(Color::Green),
            Tint::Warn => colored(Color::Yellow),
            Tint::Bad => colored(Color::Red),
            Tint::Busy => colored(Color::Blue),
            Tint::Accent => colored(Color::Cyan),
        }
    }

    /// The selected row.
    pub(crate) fn selected(self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }

    pub(crate) fn stage_glyph(self, stage: StageName) -> char {
        let (glyph, ascii) = match stage {
            StageName::Queued => ('○', '.'),
            StageName::Blocked => ('‖', '|'),
            StageName::Assigned => ('◔', '~'),
            StageName::Building => ('►', '>'),
            StageName::Review => ('◆', '?'),
            StageName::Testing => ('◑', '%'),
            StageName::Shipped => ('✓', '+'),
            StageName::Failed => ('✕', 'x'),
            StageName::DeadLetter => ('⊘', '#'),
        };
        if self.ascii { ascii } else { glyph }
    }

    pub(crate) fn glyph(self, glyph: Glyph) -> char {
        let (fine, ascii) = match glyph {
            Glyph::Live => ('●', '*'),
            Glyph::Waiting => ('◌', 'o'),
            Glyph::Polling => ('◐', 'o'),
            Glyph::Down => ('✕', 'x'),
            Glyph::Alert => ('!', '!'),
            Glyph::Mark => ('✓', '+'),
            Glyph::Rule => ('─', '-'),
            Glyph::Bar => ('│', '|'),
            Glyph::Full => ('■', '#'),
            Glyph::Empty => ('□', '.'),
        };
        if self.ascii { ascii } else { fine }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Glyph {
    Live,
    Waiting,
    Polling,
    Down,
    Alert,
    Mark,
    Rule,
    Bar,
    Full,
    Empty,
}

/// The colour of a stage.
pub(crate) fn stage_tint(stage: StageName) -> Tint {
    match stage {
        StageName::Queued => Tint::Faint,
        StageName::Blocked | StageName::Review => Tint::Warn,
        StageName::Assigned => Tint::Accent,
        StageName::Building => Tint::Busy,
        StageName::Testing | StageName::Shipped => Tint::Good,
        StageName::Failed | StageName::DeadLetter => Tint::Bad,
    }
}

/// The stage as people read it, as in `giga jobs`.
pub(crate) fn stage_word(job: &JobView) -> &'static str {
    match (job.stage, job.reason) {
        (StageName::Failed, Some(FailureReason::Cancelled)) => "cancelled",
        (StageName::Shipped, _) if job.repo.is_none() => "done",
        (StageName::DeadLetter, _) => "dead letter",
        (stage, _) => stage.as_str(),
    }
}

/// A factory's presence, in one word.
pub(crate) fn presence(presence: Presence) -> (&'static str, Tint) {
    match presence {
        Presence::Live => ("live", Tint::Good),
        Presence::Warming => ("warming", Tint::Faint),
        Presence::Disconnected => ("disconnected", Tint::Warn),
        Presence::Stale => ("stale", Tint::Bad),
        Presence::Stopped => ("stopped", Tint::Faint),
    }
}
