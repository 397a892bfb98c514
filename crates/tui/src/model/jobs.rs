//! The page of jobs.

use std::collections::BTreeSet;

use domain::{JobEvent, JobId};
use protocol::{JobList, JobView};

use super::{Cursor, Filter};

/// Rows per request.
pub(crate) const PAGE_LEN: usize = 100;

/// The longest list that is kept: a filter finds the rest.
pub(crate) const LIST_LEN_MAX: usize = 2_000;

/// More changed jobs than this are read as a list.
const CHANGED_MAX: usize = 16;

/// The page.
#[derive(Debug, Clone, Default)]
pub(crate) struct Jobs {
    pub(crate) filter: Filter,
    /// What is being typed, which narrows what is shown.
    pub(crate) typed: Option<Filter>,
    items: Vec<JobView>,
    pub(crate) next: Option<String>,
    /// Whether the next page was asked for.
    pub(crate) is_extending: bool,
    pub(crate) is_loaded: bool,
    pub(crate) error: Option<String>,
    pub(crate) cursor: Cursor,
    pub(crate) marks: BTreeSet<JobId>,
    /// New jobs that are not shown yet, because they would move the rows.
    pub(crate) unseen: Vec<JobView>,
    /// Jobs that changed since they were read.
    pub(crate) changed: BTreeSet<JobId>,
}

/// How to read what changed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Reread {
    Jobs(Vec<JobId>),
    List,
}

impl Jobs {
    pub(crate) fn rows(&self) -> Vec<&JobView> {
        self.items.iter().filter(|job| self.typed.as_ref().is_none_or(|typed| typed.admits(job))).collect()
    }

    pub(crate) fn get(&self, id: JobId) -> Option<&JobView> {
        self.items.iter().find(|job| job.id == id)
    }

    pub(crate) fn len(&self) -> usize {
        self.items.len()
    }

    /// The first page, or the list as it is now. The cursor stays on its job.
    pub(crate) fn replace(&mut self, list: JobList) {
        let selected = self.rows().get(self.cursor.selected).map(|job| job.id);
        (self.items, self.next, self.is_loaded, self.error) = (list.items, list.next, true, None);
        self.unseen.clear();
        self.changed.clear();
        self.is_extending = false;
        if self.cursor.selected > 0 {
            self.select(selected);
        }
    }

    /// The next page.
    pub(crate) fn extend(&mut self, list: JobList) {
        self.is_extending = false;
        let known: BTreeSet<JobId> = self.items.iter().map(|job| job.id).collect();
        self.items.extend(list.items.into_iter().filter(|job| !known.contains(&job.id)));
        self.items.truncate(LIST_LEN_MAX);
        self.next = list.next.filter(|_| self.items.len() < LIST_LEN_MAX);
    }

    fn select(&mut self, id: Option<JobId>) {
        let rows = self.rows();
        let row = id.and_then(|id| rows.iter().position(|job| job.id == id));
        if let Some(row) = row {
            self.cursor.selected = row;
        }
    }

    /// What an event says about a job at once; the rest is read later.
    pub(crate) fn happened(&mut self, event: &JobEvent) {
        if let Some(job) = self.items.iter_mut().chain(&mut self.unseen).find(|job| job.id == event.job_id) {
            job.stage = event.stage;
            job.updated_at = event.at;
        }
        self.changed.insert(event.job_id);
    }

    /// A job as it is now: in its place, or new on top.
    pub(crate) fn put(&mut self, job: JobView) {
        self.changed.remove(&job.id);
        if let Some(known) = self.items.iter_mut().chain(&mut self.unseen).find(|known| known.id == job.id) {
            *known = job;
            return;
        }
        let is_new = self.items.first().is_none_or(|first| job.created_at >= first.created_at);
        if !self.is_loaded || !is_new || !self.filter.admits(&job) {
            return;
        }
        self.unseen.push(job);
        // On the first row nothing that was picked moves away.
        if self.cursor.selected == 0 && self.marks.is_empty() {
            self.show_unseen();
        }
    }

    /// Puts new jobs on top.
    pub(crate) fn show_unseen(&mut self) {
        let mut unseen = std::mem::take(&mut self.unseen);
        unseen.sort_by_key(|job| std::cmp::Reverse((job.created_at, job.id)));
        unseen.append(&mut self.items);
        self.items = unseen;
        self.items.truncate(LIST_LEN_MAX);
    }

    /// What to read, of what changed.
    pub(crate) fn take_changed(&mut self) -> Option<Reread> {
        let changed = std::mem::take(&mut self.changed);
        match changed.len() {
            0 => None,
            1..=CHANGED_MAX => Some(Reread::Jobs(changed.into_iter().collect())),
            _ => Some(Reread::List),
        }
    }
}
