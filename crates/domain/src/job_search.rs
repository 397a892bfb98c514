//! Search for jobs by what no column has: factory, tags and text.

use crate::ids::JobId;
use crate::job::Job;
use crate::names::{FactoryId, Tag};

/// Characters of an id below which a text is no part of one.
const ID_PART_LEN_MIN: usize = 4;

/// What a listed job has to match beside its columns.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct JobSearch {
    /// Only jobs that this factory holds or is offered, or whose last run was on it.
    pub factory: Option<FactoryId>,
    /// Only jobs with all of these tags.
    pub tags: Vec<Tag>,
    /// Only jobs with all of these words in the title, or with this beginning or end of the id.
    pub text: Option<String>,
}

impl JobSearch {
    /// Whether every job matches.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Whether a job matches.
    pub fn matches(&self, job: &Job) -> bool {
        let is_there = |factory: &FactoryId| factories(job).any(|known| known == factory);
        self.factory.as_ref().is_none_or(is_there)
            && self.tags.iter().all(|tag| job.spec().tags.contains(tag))
            && self.text.as_deref().is_none_or(|text| has_text(job, text))
    }
}

/// The factory that holds a job or is offered it, and that of its last run.
fn factories(job: &Job) -> impl Iterator<Item = &FactoryId> {
    let held = job.lease().map(|lease| &lease.factory);
    let offered = job.dispatch().map(|offer| &offer.target);
    let running = job.run().map(|run| &run.factory);
    let last = job.previous_run().map(|run| &run.factory);
    held.into_iter().chain(offered).chain(running).chain(last).chain(job.completed_by())
}

fn has_text(job: &Job, text: &str) -> bool {
    let text = text.trim().to_lowercase();
    is_part_of_id(job.id(), &text) || has_words(&job.spec().title, &text)
}

fn is_part_of_id(id: JobId, text: &str) -> bool {
    let id = id.to_string();
    text.len() >= ID_PART_LEN_MIN && (id.starts_with(text) || id.ends_with(text))
}

fn has_words(title: &str, text: &str) -> bool {
    let title = title.to_lowercase();
    let known: Vec<&str> = words(&title).collect();
    let mut asked = words(text).peekable();
    asked.peek().is_some() && asked.all(|word| known.contains(&word))
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_has_whole_words_in_any_case_and_order() {
        for text in ["roof", "ROOF put", "Put the roof on", "on!"] {
            assert!(has_words("Put the Roof on", &text.to_lowercase()), "{text}");
        }
        for text in ["roo", "roof red", "", "!"] {
            assert!(!has_words("Put the Roof on", text), "{text}");
        }
    }

    #[test]
    fn an_id_is_found_by_its_beginning_or_end() {
        let id: JobId = "0190f3a4-7c1e-7b52-9d0a-1f2e34f1c689".parse().unwrap();

        assert!(is_part_of_id(id, "4f1c689") && is_part_of_id(id, "0190f3a4-7c"));
        assert!(!is_part_of_id(id, "689") && !is_part_of_id(id, "7b52"));
    }
}
