//! Output: data on standard output, everything else on standard error.

mod hints;
mod json;
mod palette;
mod size;
mod table;
mod time;
mod width;

use std::io::{self, IsTerminal, Write};

use serde::Serialize;

pub(crate) use domain::{TerminalScrubber as Scrubber, clean_line as clean, clean_lines};
pub(crate) use palette::{Palette, Tint};
pub(crate) use size::size;
pub(crate) use table::{Cell, Table};
pub(crate) use time::{age, clock_time, span};

use crate::cli::GlobalArgs;
use crate::failure::Failure;

use hints::FleetFlags;

/// Where output goes and how it looks.
#[derive(Debug, Clone)]
pub(crate) struct Output {
    format: Format,
    chatter: Verbosity,
    detail: Detail,
    data: Palette,
    words: Palette,
    width: Option<usize>,
    is_terminal: bool,
    flags: FleetFlags,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    Text,
    Json,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verbosity {
    Normal,
    Quiet,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Detail {
    Summary,
    Everything,
}

impl Output {
    /// The output of this process.
    pub(crate) fn new(global: &GlobalArgs) -> Self {
        let is_terminal = io::stdout().is_terminal();
        let coloured = |is_terminal: bool| {
            let wanted = !global.no_color && !global.json && Palette::is_welcome();
            if wanted && is_terminal { Palette::Coloured } else { Palette::Plain }
        };
        Self {
            format: if global.json { Format::Json } else { Format::Text },
            chatter: if global.quiet { Verbosity::Quiet } else { Verbosity::Normal },
            detail: if global.verbose > 0 { Detail::Everything } else { Detail::Summary },
            data: coloured(is_terminal),
            words: coloured(io::stderr().is_terminal()),
            width: terminal_size::terminal_size().filter(|_| is_terminal).map(|(width, _)| usize::from(width.0)),
            is_terminal,
            flags: FleetFlags::of(global),
        }
    }

    /// Whether programs read it.
    pub(crate) fn is_json(&self) -> bool {
        self.format == Format::Json
    }

    /// Whether the user asked for all details instead of a summary.
    pub(crate) fn is_verbose(&self) -> bool {
        self.detail == Detail::Everything
    }

    /// Whether log lines may have colours.
    pub(crate) fn colours_errors(&self) -> bool {
        self.words == Palette::Coloured
    }

    /// The colours of standard output.
    pub(crate) fn palette(&self) -> Palette {
        self.data
    }

    /// One JSON document on a line of its own.
    pub(crate) fn document<T: Serialize>(&self, value: &T) -> Result<(), Failure> {
        let text = serde_json::to_string(value).map_err(io::Error::from)?;
        self.line(&json::harmless(&text))
    }

    /// One line of data.
    pub(crate) fn line(&self, text: &str) -> Result<(), Failure> {
        let mut stdout = io::stdout().lock();
        writeln!(stdout, "{text}")?;
        Ok(stdout.flush()?)
    }

    /// The id of a job on a line of its own: short at a terminal, in full for a program that stores it.
    pub(crate) fn id(&self, id: domain::JobId) -> Result<(), Failure> {
        match self.is_terminal {
            true => self.line(&id.short().to_string()),
            false => self.line(&id.to_string()),
        }
    }

    /// Data as it is.
    pub(crate) fn bytes(&self, bytes: &[u8]) -> Result<(), Failure> {
        let mut stdout = io::stdout().lock();
        stdout.write_all(bytes)?;
        Ok(stdout.flush()?)
    }

    /// A table as data; nothing when it has no rows.
    pub(crate) fn table(&self, table: &Table) -> Result<(), Failure> {
        let lines = table.lines(self.width, self.data);
        if lines.is_empty() { Ok(()) } else { self.line(&lines.join("\n")) }
    }

    /// A table that nothing is cut off from, however narrow the terminal is.
    pub(crate) fn whole_table(&self, table: &Table) -> Result<(), Failure> {
        self.line(&table.lines(None, self.data).join("\n"))
    }

    /// A note to the user at the terminal.
    pub(crate) fn note(&self, text: &str) {
        if self.chatter == Verbosity::Normal {
            // A closed output is no reason to stop.
            let _ = writeln!(io::stderr().lock(), "{}", clean_lines(&self.with_flags(text)));
        }
    }

    /// A text for users whose recommended commands select the fleet of this command line.
    pub(crate) fn with_flags(&self, text: &str) -> String {
        self.flags.in_commands(text)
    }

    /// Something that does not stop the command but is wrong.
    pub(crate) fn warning(&self, text: &str) {
        if self.chatter == Verbosity::Normal {
            let label = self.words.paint("warning:", Tint::Warn);
            let _ = writeln!(io::stderr().lock(), "{label} {}", clean_lines(&self.with_flags(text)));
        }
    }

    /// A finding, in the form that editors read: `file:line: …`.
    pub(crate) fn finding(&self, text: &str) {
        let _ = writeln!(io::stderr().lock(), "{}", clean_lines(text));
    }

    /// Why the command did not work.
    pub(crate) fn failure(&self, failure: &Failure) {
        if failure.is_hung_up() {
            return;
        }
        let failure = &failure.with_texts(|text| self.with_flags(text));
        let mut stderr = io::stderr().lock();
        if self.is_json() {
            let text = serde_json::to_string(&failure.view()).unwrap_or_default();
            let _ = writeln!(stderr, "{}", json::harmless(&text));
            return;
        }
        let _ = writeln!(stderr, "{} {}", self.words.paint("error:", Tint::Bad), clean_lines(failure.message()));
        drop(stderr);
        if let Some(hint) = failure.hint_text() {
            self.say_hint(hint);
        }
    }

    /// What to do about it.
    pub(crate) fn hint(&self, text: &str) {
        self.say_hint(&self.with_flags(text));
    }

    fn say_hint(&self, text: &str) {
        let _ = writeln!(io::stderr().lock(), "{} {}", self.words.paint("hint:", Tint::Good), clean_lines(text));
    }
}
