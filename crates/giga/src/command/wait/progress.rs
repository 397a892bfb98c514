//! A line whenever a job moves.

use std::collections::BTreeMap;

use domain::{Actor, EventKind, JobEvent, JobId, StageName};
use protocol::{JobView, ProgressEvent};

use crate::command::events::kind_name;
use crate::command::{Context, doing};
use crate::output::{clean, clock_time};

/// Where the jobs were when last heard of.
pub(super) struct Progress<'c> {
    context: &'c Context<'c>,
    several: bool,
    stages: BTreeMap<JobId, StageName>,
    doing: BTreeMap<JobId, Option<String>>,
}

impl<'c> Progress<'c> {
    /// Nothing heard yet of this many jobs.
    pub(super) fn new(context: &'c Context<'c>, jobs: usize) -> Self {
        Self { context, several: jobs > 1, stages: BTreeMap::new(), doing: BTreeMap::new() }
    }

    /// A job was looked at.
    pub(super) fn found(&mut self, job: &JobView) {
        if self.stages.insert(job.id, job.stage) != Some(job.stage) {
            let on = job.holder_factory_id.as_ref().map_or_else(String::new, |factory| format!("on `{factory}`"));
            self.say(&clock_time(self.context.now()), job.id, job.stage, &on);
        }
    }

    /// Something happened to a job.
    pub(super) fn happened(&mut self, event: &JobEvent) {
        let has_moved = self.stages.insert(event.job_id, event.stage) != Some(event.stage);
        let matters = matches!(
            event.kind,
            EventKind::AttemptFailed
                | EventKind::ErrandFailed
                | EventKind::ErrandPutOff
                | EventKind::Escalated
                | EventKind::Reaped
                | EventKind::QuotaHit
                | EventKind::DispatchExpired
                | EventKind::Promoted
                | EventKind::Restored
        );
        if !has_moved && !matters {
            return;
        }
        let by = match &event.by {
            Actor::Person(name) => format!(" by {name}"),
            Actor::Factory(factory) => format!(" by `{factory}`"),
            Actor::Coordinator => String::new(),
        };
        let said = ["message", "question"].iter().find_map(|key| event.data.get(*key));
        let message = said.and_then(|said| said.as_str());
        let message = message.map_or_else(String::new, |message| format!(": {message}"));
        let words = format!("{}{by}{message}", kind_name(event.kind));
        self.say(&clock_time(event.at), event.job_id, event.stage, &words);
    }

    /// A job's agent does something else, or has come further with what it does; only the former is worth a line.
    pub(super) fn is_doing(&mut self, news: &ProgressEvent) {
        let doing = news.progress.doing.clone();
        if self.doing.insert(news.job_id, doing.clone()) != Some(doing) {
            let words = doing::line(&news.progress);
            self.say(&clock_time(self.context.now()), news.job_id, StageName::Building, &words);
        }
    }

    fn say(&self, time: &str, id: JobId, stage: StageName, words: &str) {
        let id = if self.several { format!("{id}  ") } else { String::new() };
        let line = format!("{time}  {id}{:<11}  {}", stage.as_str(), clean(words));
        self.context.out.note(line.trim_end());
    }
}
