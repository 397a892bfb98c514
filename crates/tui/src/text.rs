//! Text on a terminal: its width, cut and wrapped.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Marks where a text was cut off.
const ELLIPSIS: char = '…';

/// The columns that a text takes.
pub(crate) fn columns(text: &str) -> usize {
    text.width()
}

/// The text within `max` columns; `…` marks what was cut off.
pub(crate) fn cut(text: &str, max: usize) -> String {
    if columns(text) <= max {
        return text.to_owned();
    }
    let mut kept = String::new();
    let mut used = 1;
    for c in text.chars() {
        used += c.width().unwrap_or(0);
        if used > max {
            break;
        }
        kept.push(c);
    }
    if max > 0 {
        kept.push(ELLIPSIS);
    }
    kept
}

/// The end of a text within `max` columns, for a field that is longer than its room.
pub(crate) fn cut_start(text: &str, max: usize) -> String {
    let mut kept = Vec::new();
    let mut used = 0;
    for c in text.chars().rev() {
        used += c.width().unwrap_or(0);
        if used > max {
            break;
        }
        kept.push(c);
    }
    kept.into_iter().rev().collect()
}

/// One line: breaks and tabs become spaces.
pub(crate) fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The lines of a text, broken at spaces where they are wider than `width`.
pub(crate) fn wrap(text: &str, width: usize) -> Vec<String> {
    let width = width.max(1);
    text.lines().flat_map(|line| wrap_line(&line.replace('\t', "    "), width)).collect()
}

fn wrap_line(line: &str, width: usize) -> Vec<String> {
    let (mut lines, mut current, mut used) = (Vec::new(), String::new(), 0);
    for word in line.split_inclusive(' ') {
        let needed = columns(word.trim_end_matches(' '));
        if used > 0 && used + needed > width {
            lines.push(std::mem::take(&mut current).trim_end().to_owned());
            used = 0;
        }
        for c in word.chars() {
            let wide = c.width().unwrap_or(0);
            if used + wide > width {
                lines.push(std::mem::take(&mut current));
                used = 0;
            }
            current.push(c);
            used += wide;
        }
    }
    lines.push(current.trim_end().to_owned());
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_text_fits_its_columns() {
        assert_eq!(cut("fix the parser", 7), "fix th…");
        assert_eq!(cut("構文解析", 5), "構文…");
        assert_eq!(cut("fix", 3), "fix");
        assert_eq!(cut("fix", 0), "");
        assert_eq!(cut_start("構文解析", 5), "解析");
    }

    #[test]
    fn long_lines_are_broken_at_spaces_and_long_words_anywhere() {
        assert_eq!(wrap("which brick should it be", 12), ["which brick", "should it be"]);
        assert_eq!(wrap("abcdefgh", 3), ["abc", "def", "gh"]);
        assert_eq!(wrap("a\n\nb", 3), ["a", "", "b"]);
    }
}
