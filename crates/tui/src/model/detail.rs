//! One job in full.

use domain::{JobEvent, JobId, StageName, Timestamp};
use protocol::{Dag, JobDetail, JobExplanation, JobView};

use super::Log;

/// Events that are kept; the first ones go first.
const EVENTS_MAX: usize = 2_000;

/// The job that is shown beside the list, or instead of it.
#[derive(Debug, Clone)]
pub(crate) struct Detail {
    pub(crate) id: JobId,
    pub(crate) job: Option<JobDetail>,
    pub(crate) events: Vec<JobEvent>,
    pub(crate) explanation: Option<JobExplanation>,
    pub(crate) dag: Option<Dag>,
    pub(crate) log: Option<Log>,
    pub(crate) tab: Tab,
    /// The first line that is shown, of a tab that scrolls.
    pub(crate) scroll: usize,
    pub(crate) error: Option<String>,
    /// When it is read: a cursor that only passes by reads nothing. `None` once it was.
    pub(crate) due_at: Option<Timestamp>,
}

/// What is shown of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tab {
    Timeline,
    Log,
    Explain,
    Dependencies,
    Manifest,
}

impl Tab {
    pub(crate) const ALL: [Self; 5] = [Self::Timeline, Self::Log, Self::Explain, Self::Dependencies, Self::Manifest];

    /// Its key and its title.
    pub(crate) fn label(self) -> (char, &'static str) {
        match self {
            Self::Timeline => ('t', "timeline"),
            Self::Log => ('l', "log"),
            Self::Explain => ('e', "explain"),
            Self::Dependencies => ('d', "deps"),
            Self::Manifest => ('m', "manifest"),
        }
    }
}

impl Detail {
    pub(crate) fn new(id: JobId, tab: Tab, due_at: Timestamp) -> Self {
        Self {
            id,
            job: None,
            events: Vec::new(),
            explanation: None,
            dag: None,
            log: None,
            tab,
            scroll: 0,
            error: None,
            due_at: Some(due_at),
        }
    }

    pub(crate) fn view(&self) -> Option<&JobView> {
        self.job.as_ref().map(|detail| &detail.job)
    }

    pub(crate) fn is_running(&self) -> bool {
        self.view().is_some_and(|job| matches!(job.stage, StageName::Assigned | StageName::Building))
    }

    /// Adds events that are not there yet, in their order.
    pub(crate) fn add_events(&mut self, events: Vec<JobEvent>) {
        self.events.extend(events);
        self.events.sort_by_key(|event| event.seq);
        self.events.dedup_by_key(|event| event.seq);
        let surplus = self.events.len().saturating_sub(EVENTS_MAX);
        self.events.drain(..surplus);
    }
}
