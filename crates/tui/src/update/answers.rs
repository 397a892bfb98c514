//! Answers to reads.

use super::jobs_request;
use crate::message::{Answer, Data, Effect, ReadError, Request};
use crate::model::Model;

pub(super) fn received(model: &mut Model, answer: Answer) -> Vec<Effect> {
    let Answer { request, outcome } = answer;
    match outcome {
        Ok(data) => {
            model.link.heard(model.now);
            read(model, &request, data)
        }
        Err(error) => {
            failed(model, &request, error);
            Vec::new()
        }
    }
}

fn read(model: &mut Model, request: &Request, data: Data) -> Vec<Effect> {
    match data {
        // The filter may be another one by now.
        Data::Jobs(_) if !is_asked(model, request) => {}
        Data::Jobs(list) => match request {
            Request::Jobs { cursor: Some(_), .. } => model.jobs.extend(list),
            _ => model.jobs.replace(list),
        },
        Data::Job(job) => {
            model.jobs.put(job.job.clone());
            if let Some(detail) = model.detail.as_mut().filter(|detail| detail.id == job.job.id) {
                (detail.job, detail.error) = (Some(*job), None);
            }
        }
        Data::Events(list) => {
            let &Request::Events { job, .. } = request else { return Vec::new() };
            if let Some(detail) = model.detail.as_mut().filter(|detail| detail.id == job) {
                detail.add_events(list.items);
                let more = list.next.map(|after| Effect::Read(Request::Events { job, after: Some(after) }));
                return more.into_iter().collect();
            }
        }
        Data::Explain(explanation) => {
            if let Some(detail) = model.detail.as_mut().filter(|detail| detail.id == explanation.job.id) {
                detail.explanation = Some(*explanation);
            }
        }
        Data::Dag(dag) => {
            let &Request::Dag(id) = request else { return Vec::new() };
            if let Some(detail) = model.detail.as_mut().filter(|detail| detail.id == id) {
                detail.dag = Some(dag);
            }
        }
        Data::Needs(list) => model.needs.replace(list),
        Data::Factories(list) => model.factories.replace(list),
        Data::Metrics(metrics) => model.metrics = Some(metrics),
        Data::History(history) => model.dispatch.utilisation = history.utilisation(model.now),
        Data::Flags(modes) => model.dispatch.modes = Some(modes),
        Data::Divergence(report) => model.dispatch.divergence = Some(*report),
        Data::DeadLetters(list) => model.dispatch.set_letters(list),
        Data::Credentials(list) => model.dispatch.set_credentials(list),
        Data::Budgets(list) => model.money.replace(list),
        Data::Pools(list) => model.factories.pools = list.items,
    }
    Vec::new()
}

fn is_asked(model: &Model, request: &Request) -> bool {
    let (Request::Jobs { query, .. }, Request::Jobs { query: current, .. }) = (request, jobs_request(model)) else {
        return false;
    };
    let filter = |query: &str| query.split_once('&').map(|(_, filter)| filter.to_owned());
    filter(query) == filter(&current)
}

/// Each part shows its own failure and keeps what it has.
fn failed(model: &mut Model, request: &Request, error: ReadError) {
    match error {
        ReadError::SignedOut(why) => return model.link.signed_out(why, model.now),
        // The connection's state says so.
        ReadError::Unreachable(_) => {
            if let Request::Jobs { cursor: Some(_), .. } = request {
                model.jobs.is_extending = false;
            }
            return;
        }
        ReadError::Refused(_) => model.link.heard(model.now),
    }
    let text = Some(error.text().to_owned());
    match request {
        Request::Jobs { .. } => (model.jobs.error, model.jobs.is_extending) = (text, false),
        Request::Needs => model.needs.error = text,
        Request::Factories => model.factories.error = text,
        Request::DeadLetters | Request::Credentials | Request::Flags => model.dispatch.error = text,
        Request::Budgets => model.money.error = text,
        // A coordinator of an earlier release has no pools.
        Request::Metrics | Request::History | Request::Pools | Request::Divergence => {}
        Request::Job(id) | Request::Events { job: id, .. } | Request::Explain(id) | Request::Dag(id) => {
            if let Some(detail) = model.detail.as_mut().filter(|detail| detail.id == *id) {
                detail.error = text;
            }
        }
    }
}
