//! Text from elsewhere, made safe for a terminal: no escape sequences, no control or direction-changing characters.

use crate::names::{is_terminal_safe, terminal_chars};

/// One line: what would break it becomes a space.
pub fn clean_line(text: &str) -> String {
    clean_lines(text).replace(['\n', '\t'], " ")
}

/// Lines: breaks and tabs stay.
pub fn clean_lines(text: &str) -> String {
    let mut scrubber = TerminalScrubber::default();
    let mut cleaned = scrubber.scrub(text.as_bytes());
    cleaned.push_str(&scrubber.finish());
    cleaned
}

/// Cleans a stream that arrives in pieces, wherever it is cut.
#[derive(Debug, Default)]
pub struct TerminalScrubber {
    state: State,
    /// The beginning of a character whose end has not arrived.
    partial: Vec<u8>,
    returned: bool,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum State {
    #[default]
    Text,
    /// Behind an escape character.
    Escape,
    /// In a control sequence, which ends with a letter.
    Sequence,
    /// In a string for the terminal, which ends with a bell or an escape sequence.
    Hidden,
}

impl TerminalScrubber {
    /// What can be shown of the next bytes.
    pub fn scrub(&mut self, bytes: &[u8]) -> String {
        let mut bytes = [std::mem::take(&mut self.partial).as_slice(), bytes].concat();
        self.partial = bytes.split_off(complete_len(&bytes));
        let mut cleaned = String::with_capacity(bytes.len());
        for c in String::from_utf8_lossy(&bytes).chars() {
            self.take(c, &mut cleaned);
        }
        cleaned
    }

    /// What is left when nothing more arrives.
    pub fn finish(&mut self) -> String {
        let rest = std::mem::take(&mut self.partial);
        terminal_chars(&String::from_utf8_lossy(&rest)).collect()
    }

    fn take(&mut self, c: char, cleaned: &mut String) {
        // A line break ends every sequence: otherwise one that never ends would hide all that follows.
        if c == '\n' {
            self.state = State::Text;
            self.returned = false;
            cleaned.push('\n');
            return;
        }
        self.state = match (self.state, c) {
            (_, '\u{1b}') => State::Escape,
            (State::Hidden, '\u{7}' | '\u{9c}') => State::Text,
            (State::Hidden, _) => State::Hidden,
            (_, '\u{9b}') | (State::Escape, '[') => State::Sequence,
            (_, '\u{90}' | '\u{98}' | '\u{9d}' | '\u{9e}' | '\u{9f}')
            | (State::Escape, ']' | 'P' | 'X' | '^' | '_') => State::Hidden,
            (State::Sequence, '\u{40}'..='\u{7e}') => State::Text,
            (State::Sequence, _) => State::Sequence,
            (State::Escape, '\u{20}'..='\u{2f}') => State::Escape,
            (State::Escape, _) => State::Text,
            (State::Text, c) => {
                self.show(c, cleaned);
                State::Text
            }
        };
    }

    fn show(&mut self, c: char, cleaned: &mut String) {
        // A carriage return writes over the line: the new text gets a line of its own.
        if c == '\r' {
            self.returned = true;
            return;
        }
        if std::mem::take(&mut self.returned) {
            cleaned.push('\n');
        }
        if c == '\t' || is_terminal_safe(c) {
            cleaned.push(c);
        }
    }
}

/// How many bytes there are without a character that was cut at the end.
fn complete_len(bytes: &[u8]) -> usize {
    let tail = bytes.len().saturating_sub(3);
    for at in (tail..bytes.len()).rev() {
        let needed = match bytes[at] {
            0xc0..=0xdf => 2,
            0xe0..=0xef => 3,
            0xf0..=0xf7 => 4,
            0x80..=0xbf => continue,
            _ => 1,
        };
        return if at + needed > bytes.len() { at } else { bytes.len() };
    }
    bytes.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    // [attack: terminal escapes]
    #[test]
    fn no_escape_reaches_the_terminal() {
        let hostile = [
            ("\u{1b}]52;c;ZXZpbA==\u{7}safe", "safe"),
            ("\u{1b}]0;title\u{1b}\\safe", "safe"),
            ("\u{1b}[31mred\u{1b}[0m", "red"),
            ("\u{9b}2Jsafe", "safe"),
            ("\u{9d}0;x\u{9c}safe", "safe"),
            ("a\u{202e}b\u{2066}c\u{200f}d", "abcd"),
            ("bell\u{7} back\u{8} null\0 del\u{7f}", "bell back null del"),
            ("\u{1b}(0line", "line"),
            ("\u{1b}P1$r\u{1b}\\safe", "safe"),
        ];

        for (text, expected) in hostile {
            assert_eq!(clean_line(text), expected, "{text:?}");
        }
    }

    #[test]
    fn an_escape_that_never_ends_hides_one_line_at_most() {
        assert_eq!(clean_lines("a\u{1b}]0;hidden\nb"), "a\nb");
        assert_eq!(clean_lines("a\u{1b}[\nb"), "a\nb");
    }

    #[test]
    fn one_line_stays_one_line() {
        assert_eq!(clean_line("a\nb\tc\r\nd"), "a b c d");
        assert_eq!(clean_lines("10%\r20%\r\ndone"), "10%\n20%\ndone");
    }

    // [attack: terminal escapes]
    #[test]
    fn a_stream_is_clean_wherever_it_is_cut() {
        let stream = "é\u{1b}[1m語\u{1b}]8;;x\u{7}🙂\u{9b}0m end\r\n".as_bytes();

        for cut in 0..=stream.len() {
            let mut scrubber = TerminalScrubber::default();
            let mut seen = scrubber.scrub(&stream[..cut]);
            seen.push_str(&scrubber.scrub(&stream[cut..]));
            seen.push_str(&scrubber.finish());
            assert_eq!(seen, "é語🙂 end\n", "cut at {cut}");
        }
    }
}
