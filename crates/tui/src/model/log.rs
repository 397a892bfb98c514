//! The output of a job's engine.

use std::collections::VecDeque;

/// Lines that are kept; earlier ones are in `giga logs`.
const LINES_MAX: usize = 5_000;

/// A line is cut here; no terminal shows more.
const LINE_CHARS_MAX: usize = 4_000;

/// The log of a job.
#[derive(Debug, Clone, Default)]
pub(crate) struct Log {
    /// Which opening it is: pieces of another one are ignored.
    pub(crate) opening: u64,
    lines: VecDeque<String>,
    /// Whether the last line is still being written.
    is_open_line: bool,
    pub(crate) has_ended: bool,
    pub(crate) is_loaded: bool,
    pub(crate) error: Option<String>,
    /// Lines between the end and the last one that is shown; 0 follows.
    pub(crate) back: usize,
    pub(crate) is_wrapped: bool,
    pub(crate) search: String,
}

impl Log {
    pub(crate) fn opened(opening: u64) -> Self {
        Self { opening, is_wrapped: true, ..Self::default() }
    }

    pub(crate) fn lines(&self) -> &VecDeque<String> {
        &self.lines
    }

    pub(crate) fn is_following(&self) -> bool {
        self.back == 0
    }

    pub(crate) fn append(&mut self, text: &str) {
        self.is_loaded = true;
        for piece in text.split_inclusive('\n') {
            let line = piece.trim_end_matches('\n').replace('\t', "    ");
            match self.lines.back_mut().filter(|_| self.is_open_line) {
                Some(last) => last.push_str(&line),
                None => {
                    self.lines.push_back(line);
                    // Who reads further up keeps their place.
                    if self.back > 0 {
                        self.back += 1;
                    }
                }
            }
            if let Some(last) = self.lines.back_mut()
                && let Some((cut, _)) = last.char_indices().nth(LINE_CHARS_MAX)
            {
                last.truncate(cut);
            }
            self.is_open_line = !piece.ends_with('\n');
        }
        while self.lines.len() > LINES_MAX {
            self.lines.pop_front();
        }
        self.back = self.back.min(self.lines.len().saturating_sub(1));
    }

    /// Scrolls by lines: up is negative.
    pub(crate) fn scroll(&mut self, by: isize) {
        let back = self.back.saturating_add_signed(by.saturating_neg());
        self.back = back.min(self.lines.len().saturating_sub(1));
    }

    /// Moves to the next line with the text that is searched, up or down.
    pub(crate) fn find(&mut self, up: bool) -> bool {
        if self.search.is_empty() || self.lines.is_empty() {
            return false;
        }
        let text = self.search.to_lowercase();
        let last = self.lines.len() - 1;
        let current = last - self.back.min(last);
        let has = |at: &usize| self.lines.get(*at).is_some_and(|line| line.to_lowercase().contains(&text));
        let found = match up {
            true => (0..current).rev().find(has),
            false => (current + 1..=last).find(has),
        };
        if let Some(found) = found {
            self.back = last - found;
        }
        found.is_some()
    }

    pub(crate) fn matches(&self) -> usize {
        if self.search.is_empty() {
            return 0;
        }
        let text = self.search.to_lowercase();
        self.lines.iter().filter(|line| line.to_lowercase().contains(&text)).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // [J9]
    #[test]
    fn a_reader_who_scrolled_up_keeps_their_place() {
        let mut log = Log::opened(1);
        log.append("one\ntwo\nthr");
        log.append("ee\n");
        assert_eq!(log.lines(), &["one", "two", "three"]);
        assert!(log.is_following());

        log.scroll(-1);
        log.append("four\n");
        assert_eq!(log.back, 2);

        log.scroll(9);
        assert!(log.is_following());
    }

    #[test]
    fn a_search_moves_between_matches() {
        let mut log = Log::opened(1);
        log.append("error a\nfine\nERROR b\nfine\n");
        log.search = "error".to_owned();

        assert!(log.find(true));
        assert_eq!(log.back, 1);
        assert!(log.find(true));
        assert_eq!(log.back, 3);
        assert!(!log.find(true));
        assert!(log.find(false));
        assert_eq!((log.back, log.matches()), (1, 2));
    }
}
