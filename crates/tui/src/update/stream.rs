//! News of the event stream.

use domain::{EventKind, StageName};
use protocol::ProgressEvent;

use super::{collect_changes, jobs_request, reads};
use crate::message::{Effect, Request, StreamMsg};
use crate::model::{Model, Page, Reread, Tab};

pub(super) fn received(model: &mut Model, news: StreamMsg) -> Vec<Effect> {
    match news {
        StreamMsg::Lost { why, retry_at } => {
            model.link.lost(why, retry_at, model.now);
            // A proxy may refuse streams and answer reads.
            return reads(model);
        }
        StreamMsg::SignedOut { why } => {
            model.link.signed_out(why, model.now);
            return Vec::new();
        }
        StreamMsg::Open { api } => return opened(model, api),
        _ => model.link.heard(model.now),
    }
    match news {
        StreamMsg::Hello(hello) => {
            model.link.name = hello.name;
            Vec::new()
        }
        StreamMsg::Job(event) => happened(model, *event),
        StreamMsg::Progress(event) => {
            progressed(model, *event);
            Vec::new()
        }
        StreamMsg::Factory => [Request::Factories, Request::Pools].map(Effect::Read).into(),
        StreamMsg::Alert if model.page == Page::Money => [Request::Needs, Request::Budgets].map(Effect::Read).into(),
        StreamMsg::Alert | StreamMsg::Needs => vec![Effect::Read(Request::Needs)],
        StreamMsg::Flags(modes) => {
            model.dispatch.modes = Some(*modes);
            Vec::new()
        }
        StreamMsg::Metrics(metrics) => {
            model.metrics = Some(*metrics);
            Vec::new()
        }
        StreamMsg::Reset => {
            model.tell("events were missed: everything was read again");
            reads(model)
        }
        StreamMsg::Open { .. } | StreamMsg::Lost { .. } | StreamMsg::SignedOut { .. } => Vec::new(),
    }
}

/// Job events resume where they were lost; what has no position is read again.
fn opened(model: &mut Model, api: String) -> Vec<Effect> {
    model.link.opened(api, model.now);
    reads(model)
}

fn happened(model: &mut Model, event: domain::JobEvent) -> Vec<Effect> {
    let mut effects = Vec::new();
    model.jobs.happened(&event);
    if !matches!(event.stage, StageName::Assigned | StageName::Building) {
        model.progress.remove(&event.job_id);
    }
    let is_letter = event.stage == StageName::DeadLetter
        || model.dispatch.dead_letters().iter().any(|letter| letter.job.id == event.job_id);
    if is_letter && model.dispatch.is_loaded {
        effects.push(Effect::Read(Request::DeadLetters));
    }
    if model.folder.is_some() {
        effects.push(Effect::ListFolder);
    }
    if let Some(detail) = model.detail.as_mut().filter(|detail| detail.id == event.job_id) {
        match detail.tab {
            Tab::Explain => effects.push(Effect::Read(Request::Explain(detail.id))),
            Tab::Dependencies => effects.push(Effect::Read(Request::Dag(detail.id))),
            Tab::Timeline | Tab::Log | Tab::Manifest => {}
        }
        // A new run has an output of its own.
        if event.kind == EventKind::Started && detail.log.as_ref().is_some_and(|log| log.has_ended) {
            detail.log = None;
            effects.extend(super::read_tab(model));
        }
    }
    if let Some(detail) = model.detail.as_mut().filter(|detail| detail.id == event.job_id) {
        // Without its past an event would look like the first.
        if !detail.events.is_empty() {
            detail.add_events(vec![event]);
        }
    }
    collect_changes(model);
    effects
}

/// Only jobs on the screen have their progress kept.
fn progressed(model: &mut Model, event: ProgressEvent) {
    let is_shown = model.jobs.get(event.job_id).is_some();
    if let Some(detail) = model.detail.as_mut().filter(|detail| detail.id == event.job_id)
        && let Some(job) = &mut detail.job
    {
        job.progress = Some(event.progress.clone());
    }
    if is_shown {
        model.progress.insert(event.job_id, event.progress);
    }
}

/// Reads the jobs that changed.
pub(super) fn reread(model: &mut Model) -> Vec<Effect> {
    let detail = model.detail.as_ref().map(|detail| detail.id);
    let is_detail_changed = detail.is_some_and(|id| model.jobs.changed.contains(&id));
    let mut requests: Vec<Request> = match model.jobs.take_changed() {
        None => return Vec::new(),
        Some(Reread::Jobs(ids)) => ids.into_iter().map(Request::Job).collect(),
        Some(Reread::List) => {
            let job = detail.filter(|_| is_detail_changed).map(Request::Job);
            [Some(jobs_request(model)), job].into_iter().flatten().collect()
        }
    };
    // The seats in use follow from jobs, and are not announced.
    if model.page == Page::Factories {
        requests.extend([Request::Factories, Request::Pools]);
    }
    if model.page == Page::Money {
        requests.push(Request::Budgets);
    }
    requests.into_iter().map(Effect::Read).collect()
}
