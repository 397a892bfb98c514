//! Search for jobs by what no column has: factory, tags and text. Terms are how a store finds the matches.

use std::collections::BTreeSet;

use crate::ids::JobId;
use crate::job::Job;
use crate::names::{FactoryId, Tag};
use crate::ports::JobFilter;
use crate::spec::Priority;

/// Characters of an id below which a text is no part of one.
const ID_PART_LEN_MIN: usize = 4;

/// Digits at the beginning of an id: a term of their own, because ids that begin with fewer share a month.
const ID_BEGINNING_LEN: usize = 8;

/// What a listed job has to match beside its columns.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct JobSearch {
    /// Only jobs that this factory holds or is offered, or whose last run was on it.
    pub factory: Option<FactoryId>,
    /// Only jobs with all of these tags.
    pub tags: Vec<Tag>,
    /// Only jobs with all of these words in the title, or with this beginning or end of the id.
    pub text: Option<String>,
    /// Only failures that no operator has attended to.
    pub is_unattended_failure: bool,
}

/// A property of a job, as a number that never changes: stores keep an index of them. Different properties may share a
/// number, so a job that has the term still has to be compared with the filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SearchTerm(pub i64);

impl SearchTerm {
    /// The term of failures that no operator has attended to: the only one that a job loses and that few jobs have.
    pub const UNATTENDED_FAILURE: Self = Self::of("failure", "");

    /// FNV-1a, because the numbers are stored.
    const fn of(kind: &str, text: &str) -> Self {
        const PRIME: u64 = 0x0100_0000_01b3;
        const START: u64 = 0xcbf2_9ce4_8422_2325;
        Self(hashed(hashed(START, kind.as_bytes(), PRIME) ^ 0xff, text.as_bytes(), PRIME).cast_signed())
    }
}

const fn hashed(mut hash: u64, mut bytes: &[u8], prime: u64) -> u64 {
    while let [first, rest @ ..] = bytes {
        hash = (hash ^ *first as u64).wrapping_mul(prime);
        bytes = rest;
    }
    hash
}

/// The terms of a job.
pub fn search_terms(job: &Job) -> BTreeSet<SearchTerm> {
    let (title, id) = (job.spec().title.to_lowercase(), digits(&job.id().to_string()));
    let tags = job.spec().tags.iter().map(|tag| SearchTerm::of("tag", tag.as_str()));
    let words = words(&title).map(|word| SearchTerm::of("word", word));
    let factories = factories(job).map(|factory| SearchTerm::of("factory", factory.as_str()));
    let ids = [
        SearchTerm::of("id begins", beginning(&id, ID_PART_LEN_MIN)),
        SearchTerm::of("id begins", beginning(&id, ID_BEGINNING_LEN)),
        SearchTerm::of("id ends", end(&id, ID_PART_LEN_MIN)),
    ];
    let failure = job.is_unattended_failure().then_some(SearchTerm::UNATTENDED_FAILURE);
    let priority = priority_term(job.priority());
    tags.chain(words).chain(factories).chain(ids).chain(failure).chain([priority]).collect()
}

fn priority_term(priority: Priority) -> SearchTerm {
    SearchTerm::of("priority", priority.name())
}

impl JobFilter {
    /// Whether a job matches.
    pub fn matches(&self, job: &Job) -> bool {
        (self.products.is_empty() || self.products.contains(job.product()))
            && (self.stages.is_empty() || self.stages.contains(&job.stage().name()))
            && self.priority.is_none_or(|priority| priority == job.priority())
            && (self.repo.is_none() || self.repo == job.spec().repo)
            && self.search.matches(job)
    }

    /// Groups of terms: a job that matches has at least one term of each group. More jobs may have them.
    pub fn term_groups(&self) -> Vec<Vec<SearchTerm>> {
        let search = &self.search;
        let failure = search.is_unattended_failure.then(|| vec![SearchTerm::UNATTENDED_FAILURE]);
        let factory = search.factory.iter().map(|factory| vec![SearchTerm::of("factory", factory.as_str())]);
        let tags = search.tags.iter().map(|tag| vec![SearchTerm::of("tag", tag.as_str())]);
        let text = search.text.iter().flat_map(|text| text_groups(text));
        let priority = self.priority.map(|priority| vec![priority_term(priority)]);
        failure.into_iter().chain(factory).chain(tags).chain(text).chain(priority).collect()
    }
}

/// The groups of a text: one for each word, or a single one if it may be a part of an id.
fn text_groups(text: &str) -> Vec<Vec<SearchTerm>> {
    let text = text.trim().to_lowercase();
    let words = words(&text).map(|word| SearchTerm::of("word", word));
    let id = digits(&text);
    if id.len() < ID_PART_LEN_MIN || !text.bytes().all(|b| b.is_ascii_hexdigit() || b == b'-') {
        let words: Vec<_> = words.map(|word| vec![word]).collect();
        // A text without words matches nothing.
        return if words.is_empty() { vec![Vec::new()] } else { words };
    }
    let len = if id.len() < ID_BEGINNING_LEN { ID_PART_LEN_MIN } else { ID_BEGINNING_LEN };
    let begins = SearchTerm::of("id begins", beginning(&id, len));
    let ends = SearchTerm::of("id ends", end(&id, ID_PART_LEN_MIN));
    vec![[begins, ends].into_iter().chain(words.take(1)).collect()]
}

/// An id without its hyphens.
fn digits(id: &str) -> String {
    id.chars().filter(|c| *c != '-').collect()
}

fn beginning(digits: &str, len: usize) -> &str {
    digits.get(..len).unwrap_or(digits)
}

fn end(digits: &str, len: usize) -> &str {
    digits.len().checked_sub(len).and_then(|start| digits.get(start..)).unwrap_or(digits)
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
            && (!self.is_unattended_failure || job.is_unattended_failure())
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

    // The numbers are stored: another function would find nothing in an existing index.
    #[test]
    fn the_number_of_a_term_never_changes() {
        assert_eq!(SearchTerm::of("tag", "nightly"), SearchTerm(-1_282_124_709_017_226_247));
        assert_ne!(SearchTerm::of("tag", "nightly"), SearchTerm::of("word", "nightly"));
        assert_ne!(SearchTerm::of("ta", "gx"), SearchTerm::of("tag", "x"));
    }

    #[test]
    fn a_text_that_may_be_an_id_is_one_group() {
        assert_eq!(text_groups("put the roof").len(), 3);
        assert_eq!(text_groups("decade face").len(), 2, "an id has no spaces");
        assert_eq!(text_groups("4f1c689").iter().map(Vec::len).collect::<Vec<_>>(), [3]);
        assert_eq!(text_groups("0190f3a4-7c1e-7b52").len(), 1);
        assert_eq!(text_groups("!"), [Vec::new()], "nothing matches");
    }
}
