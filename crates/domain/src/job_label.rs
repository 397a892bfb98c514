//! Labels of jobs in messages: short id and title.

use std::fmt;

use crate::ids::JobId;

/// Length of a short id. UUIDv7 starts with a timestamp, so the last characters tell ids apart.
const SHORT_LEN: usize = 7;

/// Maximum length of a title in a message; longer ones are truncated.
const TITLE_CHARS_MAX: usize = 60;

/// The last characters of a job's id, for people to read and type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShortJobId(JobId);

/// A job in a message: `4f1c689 "Fix the login"`, or only the short id if the title is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JobLabel<'a> {
    id: JobId,
    title: Option<&'a str>,
}

impl JobId {
    /// The last characters of the id, for people to read and type.
    pub fn short(self) -> ShortJobId {
        ShortJobId(self)
    }

    /// The label with a title.
    pub fn titled(self, title: &str) -> JobLabel<'_> {
        JobLabel { id: self, title: Some(title) }
    }

    /// The label, with a title if it is known.
    pub fn perhaps_titled(self, title: Option<&str>) -> JobLabel<'_> {
        JobLabel { id: self, title }
    }
}

impl fmt::Display for ShortJobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let id = self.0.to_string();
        // Honours the width of the format, for columns.
        f.pad(&id[id.len() - SHORT_LEN..])
    }
}

impl fmt::Display for JobLabel<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.id.short())?;
        let Some(title) = self.title else { return Ok(()) };
        match title.char_indices().nth(TITLE_CHARS_MAX) {
            Some((end, _)) => write!(f, " \"{}…\"", &title[..end]),
            None => write!(f, " \"{title}\""),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id() -> JobId {
        "0190f3a4-7c1e-7b52-9d0a-1f2e3d4c5b6a".parse().unwrap()
    }

    #[test]
    fn a_short_id_is_the_end_of_the_id() {
        assert_eq!(id().short().to_string(), "d4c5b6a");
        assert_eq!(format!("{:<9}|", id().short()), "d4c5b6a  |");
    }

    #[test]
    fn a_label_contains_the_title_if_known() {
        assert_eq!(id().titled("Fix the login").to_string(), "d4c5b6a \"Fix the login\"");
        assert_eq!(id().perhaps_titled(None).to_string(), "d4c5b6a");
    }

    #[test]
    fn a_label_truncates_a_long_title() {
        let label = id().titled(&"é".repeat(100)).to_string();

        assert_eq!(label, format!("d4c5b6a \"{}…\"", "é".repeat(TITLE_CHARS_MAX)));
    }
}
