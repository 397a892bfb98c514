//! Everything that the screen shows.

mod cursor;
mod detail;
mod dispatch;
mod factories;
mod filter;
mod folder;
mod jobs;
mod line_edit;
mod link;
mod log;
mod money;
mod needs;
mod overlay;

use std::collections::HashMap;

use domain::{JobId, Timestamp};
use protocol::{Metrics, Progress};

pub(crate) use cursor::Cursor;
pub(crate) use detail::{Detail, Tab};
pub(crate) use dispatch::{Dispatch, DispatchRow};
pub(crate) use factories::Factories;
pub(crate) use filter::{Filter, KEYS as FILTER_KEYS, percent_encoded};
pub(crate) use folder::FolderPage;
pub use folder::{FolderFile, FolderListing};
pub(crate) use jobs::{Jobs, PAGE_LEN, Reread};
pub(crate) use line_edit::LineEdit;
pub(crate) use link::{Link, LinkState};
pub(crate) use log::Log;
pub(crate) use money::Money;
pub(crate) use needs::Needs;
pub(crate) use overlay::{Dialog, Field, Input, InputKind, Menu, MenuChoice, MenuItem, Overlay};

use crate::look::Look;

/// The narrowest terminal that shows a list and a detail side by side.
pub(crate) const WIDE: u16 = 120;

/// The smallest terminal that shows a page.
pub(crate) const SMALLEST: (u16, u16) = (60, 15);

/// The state of the dashboard.
#[derive(Debug, Clone)]
pub(crate) struct Model {
    pub(crate) look: Look,
    pub(crate) size: (u16, u16),
    pub(crate) now: Timestamp,
    pub(crate) link: Link,
    pub(crate) page: Page,
    pub(crate) focus: Focus,
    pub(crate) needs: Needs,
    pub(crate) jobs: Jobs,
    pub(crate) factories: Factories,
    pub(crate) money: Money,
    pub(crate) dispatch: Dispatch,
    /// Only for a folder queue.
    pub(crate) folder: Option<FolderPage>,
    pub(crate) metrics: Option<Metrics>,
    pub(crate) detail: Option<Detail>,
    pub(crate) overlay: Option<Overlay>,
    /// The last message to the user, until the next key.
    pub(crate) note: Option<Note>,
    /// What agents do, of the jobs that are listed.
    pub(crate) progress: HashMap<JobId, Progress>,
    /// Whether the header shows one line instead of two.
    pub(crate) is_folded: bool,
    /// Counts the openings of logs.
    pub(crate) log_openings: u64,
    /// When lists are read again while there is no stream.
    pub(crate) poll_at: Timestamp,
    /// When changed jobs are read.
    pub(crate) changes_at: Option<Timestamp>,
}

/// A message to the user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Note {
    pub(crate) text: String,
    pub(crate) is_bad: bool,
}

/// The pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Page {
    Needs,
    Jobs,
    Factories,
    Money,
    Dispatch,
    Folder,
}

impl Page {
    /// Whether a job of its list is shown beside the list.
    pub(crate) fn has_jobs(self) -> bool {
        !matches!(self, Self::Dispatch | Self::Money)
    }

    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Needs => "Needs me",
            Self::Jobs => "Jobs",
            Self::Factories => "Factories",
            Self::Money => "Money",
            Self::Dispatch => "Dispatch",
            Self::Folder => "Folder",
        }
    }
}

/// Which part keys go to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Focus {
    List,
    Detail,
}

/// What a dashboard is about.
#[derive(Debug, Clone)]
pub(crate) struct Setup {
    pub(crate) look: Look,
    pub(crate) size: (u16, u16),
    pub(crate) now: Timestamp,
    /// The directory of a folder queue.
    pub(crate) folder: Option<String>,
}

impl Model {
    pub(crate) fn new(setup: Setup) -> Self {
        let page = if setup.folder.is_some() { Page::Folder } else { Page::Jobs };
        Self {
            look: setup.look,
            size: setup.size,
            now: setup.now,
            link: Link::new(setup.now),
            page,
            focus: Focus::List,
            needs: Needs::default(),
            jobs: Jobs::default(),
            factories: Factories::default(),
            money: Money::default(),
            dispatch: Dispatch::default(),
            folder: setup.folder.map(FolderPage::new),
            metrics: None,
            detail: None,
            overlay: None,
            note: None,
            progress: HashMap::new(),
            is_folded: false,
            log_openings: 0,
            poll_at: setup.now,
            changes_at: None,
        }
    }

    /// The pages, in the order of their keys.
    pub(crate) fn pages(&self) -> Vec<Page> {
        let mut pages = vec![Page::Needs, Page::Jobs, Page::Factories, Page::Money, Page::Dispatch];
        if self.folder.is_some() {
            pages.push(Page::Folder);
        }
        pages
    }

    pub(crate) fn is_wide(&self) -> bool {
        self.size.0 >= WIDE
    }

    pub(crate) fn is_too_small(&self) -> bool {
        self.size.0 < SMALLEST.0 || self.size.1 < SMALLEST.1
    }

    pub(crate) fn link_state(&self) -> LinkState {
        self.link.state(self.now)
    }

    /// The filter of the page, with what is being typed.
    pub(crate) fn filter(&self) -> &Filter {
        match self.page {
            Page::Needs => &self.needs.filter,
            Page::Jobs => &self.jobs.filter,
            Page::Factories => &self.factories.filter,
            Page::Money => &self.money.filter,
            Page::Dispatch => &self.dispatch.filter,
            Page::Folder => self.folder.as_ref().map_or(Filter::NONE, |folder| &folder.filter),
        }
    }

    pub(crate) fn filter_mut(&mut self) -> Option<&mut Filter> {
        match self.page {
            Page::Needs => Some(&mut self.needs.filter),
            Page::Jobs => Some(&mut self.jobs.filter),
            Page::Factories => Some(&mut self.factories.filter),
            Page::Money => Some(&mut self.money.filter),
            Page::Dispatch => Some(&mut self.dispatch.filter),
            Page::Folder => self.folder.as_mut().map(|folder| &mut folder.filter),
        }
    }

    /// The place in the list of the page.
    pub(crate) fn cursor(&self) -> Cursor {
        match self.page {
            Page::Needs => self.needs.cursor,
            Page::Jobs => self.jobs.cursor,
            Page::Factories => self.factories.cursor,
            Page::Money => self.money.cursor,
            Page::Dispatch => self.dispatch.cursor,
            Page::Folder => self.folder.as_ref().map_or_else(Cursor::default, |folder| folder.cursor),
        }
    }

    pub(crate) fn cursor_mut(&mut self) -> &mut Cursor {
        match (self.page, &mut self.folder) {
            (Page::Folder, Some(folder)) => &mut folder.cursor,
            (Page::Needs, _) => &mut self.needs.cursor,
            (Page::Factories, _) => &mut self.factories.cursor,
            (Page::Money, _) => &mut self.money.cursor,
            (Page::Dispatch, _) => &mut self.dispatch.cursor,
            (Page::Jobs | Page::Folder, _) => &mut self.jobs.cursor,
        }
    }

    /// The number of rows in the list of the page.
    pub(crate) fn row_count(&self) -> usize {
        match self.page {
            Page::Needs => self.needs.rows().len(),
            Page::Jobs => self.jobs.rows().len(),
            Page::Factories => self.factories.rows().len(),
            Page::Money => self.money.rows().len(),
            Page::Dispatch => self.dispatch.rows().len(),
            Page::Folder => self.folder.as_ref().map_or(0, |folder| folder.rows().len()),
        }
    }

    /// The job that the selected row is about.
    pub(crate) fn selected_job(&self) -> Option<JobId> {
        let at = self.cursor().selected;
        match self.page {
            Page::Needs => self.needs.rows().get(at).and_then(|item| item.job_id),
            Page::Jobs => self.jobs.rows().get(at).map(|job| job.id),
            Page::Dispatch => match self.dispatch.rows().get(at) {
                Some(DispatchRow::DeadLetter(letter)) => Some(letter.job.id),
                _ => None,
            },
            Page::Folder => self.folder.as_ref()?.rows().get(at).and_then(|file| file.job),
            Page::Factories | Page::Money => None,
        }
    }

    /// Why the list of the page could not be read the last time.
    pub(crate) fn page_error(&self) -> Option<&str> {
        let error = match self.page {
            Page::Needs => &self.needs.error,
            Page::Jobs => &self.jobs.error,
            Page::Factories => &self.factories.error,
            Page::Money => &self.money.error,
            Page::Dispatch => &self.dispatch.error,
            Page::Folder => &self.folder.as_ref()?.error,
        };
        error.as_deref()
    }

    pub(crate) fn tell(&mut self, text: impl Into<String>) {
        self.note = Some(Note { text: text.into(), is_bad: false });
    }

    pub(crate) fn warn(&mut self, text: impl Into<String>) {
        self.note = Some(Note { text: text.into(), is_bad: true });
    }

    /// Whether an age is shown, which grows.
    pub(crate) fn has_running_jobs(&self) -> bool {
        let of_list = |page| self.page == page;
        let in_list = of_list(Page::Jobs) && self.jobs.rows().iter().any(|job| job.run.is_some());
        let in_detail = self.detail.as_ref().is_some_and(Detail::is_running);
        in_list || in_detail
    }
}
