//! A line of the log: when, how bad, where, what. One event is one line whatever its values hold, so that no name forges
//! a line or moves the cursor of a terminal.

use std::fmt::{self, Write};

use clock::SystemClock;
use domain::{Clock, is_terminal_safe};
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields, FormattedFields};
use tracing_subscriber::registry::LookupSpan;

/// How lines look.
pub(super) struct Line {
    clock: SystemClock,
    has_colours: bool,
}

impl Line {
    pub(super) fn new(has_colours: bool) -> Self {
        Self { clock: SystemClock::new(), has_colours }
    }

    /// When, and how bad.
    fn begin(&self, to: &mut Writer<'_>, level: Level) -> fmt::Result {
        let (name, colour) = match level {
            Level::ERROR => ("ERROR", 31),
            Level::WARN => (" WARN", 33),
            Level::INFO => (" INFO", 32),
            Level::DEBUG => ("DEBUG", 34),
            Level::TRACE => ("TRACE", 35),
        };
        let now = self.clock.now();
        match self.has_colours {
            true => write!(to, "\x1b[2m{now}\x1b[0m \x1b[{colour}m{name}\x1b[0m "),
            false => write!(to, "{now} {name} "),
        }
    }
}

impl<S, N> FormatEvent<S, N> for Line
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, context: &FmtContext<'_, S, N>, mut to: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        self.begin(&mut to, *event.metadata().level())?;
        if let Some(scope) = context.event_scope() {
            for span in scope.from_root() {
                to.write_str(span.name())?;
                match span.extensions().get::<FormattedFields<N>>() {
                    Some(fields) if !fields.is_empty() => write!(TerminalSafe(&mut to), "{{{fields}}}: ")?,
                    _ => to.write_str(": ")?,
                }
            }
        }
        let mut telling = FieldWriter { to: &mut to, has_colours: self.has_colours, is_first: true, told: Ok(()) };
        event.record(&mut telling);
        telling.told?;
        to.write_char('\n')
    }
}

/// Writes the message and the fields of an event.
struct FieldWriter<'a, W> {
    to: &'a mut W,
    has_colours: bool,
    is_first: bool,
    told: fmt::Result,
}

impl<W: Write> FieldWriter<'_, W> {
    fn tell(&mut self, name: &str, value: &dyn fmt::Debug) -> fmt::Result {
        if !std::mem::replace(&mut self.is_first, false) {
            self.to.write_char(' ')?;
        }
        match name {
            "message" => {}
            name if self.has_colours => write!(self.to, "\x1b[2m{name}=\x1b[0m")?,
            name => {
                self.to.write_str(name)?;
                self.to.write_char('=')?;
            }
        }
        write!(TerminalSafe(self.to), "{value:?}")
    }
}

impl<W: Write> Visit for FieldWriter<'_, W> {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        // Metadata of the `log` adapter is not part of the line.
        if self.told.is_ok() && !field.name().starts_with("log.") {
            self.told = self.tell(field.name(), value);
        }
    }
}

/// Passes characters that are safe on a terminal and in a line, and escapes all others.
struct TerminalSafe<'a, W>(&'a mut W);

impl<W: Write> Write for TerminalSafe<'_, W> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        // Nearly every text is plain.
        if text.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
            return self.0.write_str(text);
        }
        for c in text.chars() {
            match is_terminal_safe(c) {
                true => self.0.write_char(c)?,
                false => write!(self.0, "{}", c.escape_default())?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::Arc;

    use parking_lot::Mutex;
    use tracing::{info, info_span, warn};
    use tracing_subscriber::fmt::Layer;
    use tracing_subscriber::layer::SubscriberExt;

    use super::*;

    #[derive(Clone, Default)]
    struct Page(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Page {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// What is logged, without the time, which every line begins with.
    fn logged(has_colours: bool, log: impl FnOnce()) -> Vec<String> {
        let page = Page::default();
        let writer = page.clone();
        let layer =
            Layer::new().with_ansi(false).event_format(Line::new(has_colours)).with_writer(move || writer.clone());
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), log);
        let text = String::from_utf8(page.0.lock().clone()).unwrap();
        let time_len = "2026-01-31T12:00:00.000Z".len() + if has_colours { "\x1b[2m\x1b[0m".len() } else { 0 };
        text.lines().map(|line| line[time_len..].to_owned()).collect()
    }

    #[test]
    fn a_line_says_how_bad_it_is_what_happened_and_about_what() {
        let lines = logged(false, || {
            info!(job.id = %"j-1", seats = 4, name = "east", "Dispatched job `{}`", "j-1");
            warn!("The disk is short");
        });

        assert_eq!(lines, ["  INFO Dispatched job `j-1` job.id=j-1 seats=4 name=\"east\"", "  WARN The disk is short"]);
    }

    #[test]
    fn what_happens_within_something_says_so() {
        let lines = logged(false, || {
            let request = info_span!("request", http.path = %"/jobs").entered();
            info!("Answered");
            drop(request);
        });

        assert_eq!(lines, ["  INFO request{http.path=/jobs}: Answered"]);
    }

    // [attack: terminal escapes]
    #[test]
    fn no_value_forges_a_line_or_speaks_to_the_terminal() {
        let name = "east\n2026-01-31T12:00:00.000Z  INFO All is well\x1b[2J\u{202e}é";

        let lines = logged(false, || info!(factory.id = %name, "Factory `{name}` registered"));

        let spelled = r"east\n2026-01-31T12:00:00.000Z  INFO All is well\u{1b}[2J\u{202e}é";
        assert_eq!(lines, [format!("  INFO Factory `{spelled}` registered factory.id={spelled}")]);
    }

    #[test]
    fn on_a_terminal_times_and_names_are_dim_and_the_level_has_its_colour() {
        let lines = logged(true, || warn!(disk.free = 12, "The disk is short"));

        assert_eq!(lines, [" \x1b[33m WARN\x1b[0m The disk is short \x1b[2mdisk.free=\x1b[0m12"]);
    }
}
