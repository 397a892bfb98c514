//! Splits a manifest into front matter and prompt.

use crate::names::terminal_chars;

use super::fields::TITLE_CHARS_MAX;
use super::finding::Finding;

const FENCE: &str = "---";

/// A manifest split at its fences.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct FrontMatter<'t> {
    /// The text between the fences; empty without front matter.
    pub(super) yaml: &'t str,
    /// Number of lines before `yaml` in the file.
    pub(super) lines_before: u32,
    /// The text after the front matter.
    pub(super) prompt: &'t str,
}

impl<'t> FrontMatter<'t> {
    /// Splits the text at its fences. An unclosed fence is an error.
    pub(super) fn split(text: &'t str) -> Result<Self, Finding> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let mut lines = lines_with_ends(text);
        let mut opened_on = 0;
        let yaml_at = loop {
            opened_on += 1;
            match lines.next() {
                Some((_, line)) if line.trim().is_empty() => {}
                Some((end, line)) if is_fence(line) => break end,
                _ => return Ok(Self { yaml: "", lines_before: 0, prompt: text }),
            }
        };
        let mut yaml_ends_at = yaml_at;
        for (end, line) in lines {
            if is_fence(line) {
                return Ok(Self { yaml: &text[yaml_at..yaml_ends_at], lines_before: opened_on, prompt: &text[end..] });
            }
            yaml_ends_at = end;
        }
        Err(Finding::error(
            opened_on,
            None,
            "the front matter that opens here is never closed: end it with a line `---`",
        ))
    }
}

/// Each line with its line break, and its end offset.
fn lines_with_ends(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.split_inclusive('\n').scan(0, |end, line| {
        *end += line.len();
        Some((*end, line))
    })
}

fn is_fence(line: &str) -> bool {
    line.trim_end() == FENCE
}

/// The title of the prompt: its first `# heading`, else its first line.
///
/// Truncated and cleaned instead of rejected: the author did not write it as a title.
pub(super) fn title_of(prompt: &str) -> Option<String> {
    let heading = outside_code(prompt).find_map(|line| line.strip_prefix("# ").and_then(cleaned));
    heading.or_else(|| prompt.lines().find_map(cleaned))
}

/// The lines outside fenced code blocks, where `# ` starts a comment.
fn outside_code(prompt: &str) -> impl Iterator<Item = &str> {
    let mut code = false;
    prompt.lines().filter(move |line| {
        let mark = line.trim_start();
        if mark.starts_with("```") || mark.starts_with("~~~") {
            code = !code;
        }
        !code
    })
}

fn cleaned(line: &str) -> Option<String> {
    let line: String = terminal_chars(&line.replace('\t', " ")).collect();
    let line = line.trim_matches(|c: char| c == '#' || c.is_whitespace());
    if line.chars().count() <= TITLE_CHARS_MAX {
        return (!line.is_empty()).then(|| line.to_owned());
    }
    Some(line.chars().take(TITLE_CHARS_MAX - 1).chain(['…']).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(text: &str) -> (&str, u32, &str) {
        let parts = FrontMatter::split(text).unwrap();
        (parts.yaml, parts.lines_before, parts.prompt)
    }

    #[test]
    fn the_prompt_starts_after_the_second_fence() {
        assert_eq!(split("---\na: 1\n---\nprose\n---\n"), ("a: 1\n", 1, "prose\n---\n"));
        assert_eq!(split("---\n---"), ("", 1, ""));
        assert_eq!(split("\n\n---\na: 1\n---\n\nprose"), ("a: 1\n", 3, "\nprose"));
    }

    #[test]
    fn a_text_without_fences_is_all_prompt() {
        assert_eq!(split(""), ("", 0, ""));
        assert_eq!(split("prose\n---\nmore"), ("", 0, "prose\n---\nmore"));
        assert_eq!(split("----\nprose"), ("", 0, "----\nprose"));
    }

    #[test]
    fn a_byte_order_mark_and_crlf_are_accepted() {
        assert_eq!(split("\u{feff}---\r\na: 1\r\n--- \r\nprose\r\n"), ("a: 1\r\n", 1, "prose\r\n"));
    }

    #[test]
    fn a_title_is_the_first_heading_else_the_first_line() {
        let title = |prompt| title_of(prompt).unwrap_or_default();

        assert_eq!(title("Some prose.\n\n# Add dark mode #\n"), "Add dark mode");
        assert_eq!(title("\n\n  Add dark mode\nmore"), "Add dark mode");
        assert_eq!(title("## Add dark mode"), "Add dark mode");
        assert_eq!(title("Run this:\n```sh\n# a comment\n```\n"), "Run this:");
        assert_eq!(title("# \u{1b}[2Jred\u{202e}"), "[2Jred");
        assert_eq!(title(" \n#\n"), "");
    }

    #[test]
    fn a_long_first_line_is_truncated_to_a_title() {
        let title = title_of(&"é".repeat(TITLE_CHARS_MAX + 1)).unwrap();

        assert_eq!(title, format!("{}…", "é".repeat(TITLE_CHARS_MAX - 1)));
    }
}
