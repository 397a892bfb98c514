//! A line of text that is being written.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// No text is longer: the coordinator accepts no longer messages either.
const CHARS_MAX: usize = 4_000;

/// A text and the place in it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct LineEdit {
    chars: Vec<char>,
    at: usize,
}

impl LineEdit {
    pub(crate) fn of(text: &str) -> Self {
        let mut line = Self::default();
        line.insert(text);
        line
    }

    pub(crate) fn text(&self) -> String {
        self.chars.iter().collect()
    }

    /// The text before and behind the cursor.
    pub(crate) fn halves(&self) -> (String, String) {
        let (before, behind) = self.chars.split_at(self.at);
        (before.iter().collect(), behind.iter().collect())
    }

    /// Inserts what can be shown of a text.
    pub(crate) fn insert(&mut self, text: &str) {
        for c in domain::clean_line(text).chars() {
            if self.chars.len() < CHARS_MAX {
                self.chars.insert(self.at, c);
                self.at += 1;
            }
        }
    }

    /// Applies a key; `false` if it means nothing to a line.
    pub(crate) fn key(&mut self, key: KeyEvent) -> bool {
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Char('u') if control => drop(self.chars.drain(..std::mem::take(&mut self.at))),
            KeyCode::Char('w') if control => self.erase_word(),
            KeyCode::Char('a') if control => self.at = 0,
            KeyCode::Char('e') if control => self.at = self.chars.len(),
            KeyCode::Char(c) if !control && !key.modifiers.contains(KeyModifiers::ALT) => {
                self.insert(c.encode_utf8(&mut [0; 4]));
            }
            KeyCode::Backspace if self.at > 0 => {
                self.at -= 1;
                self.chars.remove(self.at);
            }
            KeyCode::Delete if self.at < self.chars.len() => drop(self.chars.remove(self.at)),
            KeyCode::Left => self.at = self.at.saturating_sub(1),
            KeyCode::Right => self.at = (self.at + 1).min(self.chars.len()),
            KeyCode::Home => self.at = 0,
            KeyCode::End => self.at = self.chars.len(),
            _ => return false,
        }
        true
    }

    fn erase_word(&mut self) {
        let kept = self.chars[..self.at].iter().rposition(|c| !c.is_whitespace());
        let start =
            kept.and_then(|end| self.chars[..end].iter().rposition(|c| c.is_whitespace()).map(|space| space + 1));
        let start = start.unwrap_or(0);
        self.chars.drain(start..self.at);
        self.at = start;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_edited_at_its_cursor() {
        let mut line = LineEdit::of("use the red one");

        line.key(KeyEvent::new(KeyCode::Char('w'), KeyModifiers::CONTROL));
        line.insert("brick\u{1b}[2J");
        line.key(KeyEvent::from(KeyCode::Home));
        line.key(KeyEvent::from(KeyCode::Delete));
        line.key(KeyEvent::from(KeyCode::Char('U')));

        assert_eq!(line.text(), "Use the red brick");
        assert_eq!(line.halves(), ("U".to_owned(), "se the red brick".to_owned()));
    }
}
