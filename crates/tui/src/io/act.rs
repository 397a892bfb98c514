//! Actions of the operator.

use client::{Client, ClientError};
use domain::{BudgetSettings, JobId, ProductId};
use http::Method;
use protocol::{
    Action, ActionRequest, AnswerRequest, BudgetView, DismissRequest, DrainRequest, PauseRequest, ResumeCredential,
    VoteRequest,
};
use serde::Serialize;
use serde::de::IgnoredAny;

use super::read_error;
use crate::message::{Act, Acted, Deed, Target};

/// Does it to each target, one after the other.
pub(super) async fn act(client: &Client, deed: Deed) -> Acted {
    let mut outcomes = Vec::new();
    for target in &deed.targets {
        let outcome = act_on(client, &deed, target).await;
        outcomes.push(outcome.map_err(|error| read_error(&error).text().to_owned()));
    }
    Acted { deed, outcomes }
}

async fn act_on(client: &Client, deed: &Deed, target: &Target) -> Result<(), ClientError> {
    match target {
        Target::Job { id, .. } => act_on_job(client, deed, *id).await,
        Target::Factory(_) if deed.act == Act::Prune => post(client, "/factories/prune", &()).await,
        Target::Factory(id) => {
            let request = DrainRequest { draining: deed.act != Act::Resume };
            post(client, &format!("/factories/{id}/drain"), &request).await
        }
        Target::Credential(id) => {
            post(client, "/credentials/resume", &ResumeCredential { credential: id.clone() }).await
        }
        Target::Product(id) => act_on_product(client, deed, id).await,
        Target::Fleet => match deed.act {
            Act::Mode(mode) => client.set_mode(None, Some(mode)).await.map(drop),
            Act::Preemption(preemption) => client.set_preemption(preemption).await.map(drop),
            _ => Ok(()),
        },
    }
}

async fn act_on_product(client: &Client, deed: &Deed, id: &ProductId) -> Result<(), ClientError> {
    match deed.act {
        Act::PauseProduct => {
            let request = PauseRequest { reason: deed.text.clone() };
            post(client, &format!("/budgets/{id}/pause"), &request).await
        }
        Act::ResumeProduct => post(client, &format!("/budgets/{id}/resume"), &()).await,
        _ => {
            let path = format!("/budgets/{id}");
            let known: BudgetView = client.get(&path).await?;
            // What is no amount removes the ceiling: the dialog says so.
            let ceiling_usd = deed.text.as_deref().and_then(|text| text.trim_start_matches('$').parse().ok());
            let (period, job_usd, running) = (known.period, known.job_usd, known.running);
            let settings = BudgetSettings { ceiling_usd, period, job_usd, running };
            client.call::<_, IgnoredAny>(Method::PUT, &path, Some(&settings)).await.map(drop)
        }
    }
}

async fn act_on_job(client: &Client, deed: &Deed, id: JobId) -> Result<(), ClientError> {
    let request = ActionRequest { message: deed.text.clone(), ..ActionRequest::default() };
    let (action, request) = match &deed.act {
        Act::Answer => {
            let text = deed.text.clone().unwrap_or_default();
            return post(client, &format!("/jobs/{id}/answer"), &AnswerRequest { text }).await;
        }
        Act::Vote(vote) => {
            let vote = VoteRequest { comment: deed.text.clone(), ..vote.clone() };
            return post(client, &format!("/jobs/{id}/review"), &vote).await;
        }
        Act::Dismiss => {
            let request = DismissRequest { message: deed.text.clone() };
            return post(client, &format!("/jobs/{id}/dismiss"), &request).await;
        }
        Act::Redrive => return post(client, &format!("/dead-letters/{id}/redrive"), &request).await,
        Act::Ship => (Action::Ship, request),
        Act::Requeue => (Action::Requeue, request),
        Act::RequeueFresh => (Action::Requeue, ActionRequest { fresh: true, ..request }),
        Act::RequestChanges => (Action::RequestChanges, request),
        Act::Reject => (Action::Reject, request),
        Act::Cancel => (Action::Cancel, request),
        Act::PauseJob => (Action::Pause, request),
        Act::ResumeJob => (Action::Resume, request),
        Act::Priority(priority) => (Action::Priority, ActionRequest { priority: Some(*priority), ..request }),
        Act::Pin(factory) => (Action::Pin, ActionRequest { factory_id: factory.clone(), ..request }),
        Act::Drain
        | Act::Resume
        | Act::Prune
        | Act::ResumeCredential
        | Act::PauseProduct
        | Act::ResumeProduct
        | Act::SetCeiling
        | Act::Mode(_)
        | Act::Preemption(_) => return Ok(()),
    };
    post(client, &format!("/jobs/{id}/actions/{}", action.name()), &request).await
}

async fn post<R: Serialize + Sync>(client: &Client, path: &str, request: &R) -> Result<(), ClientError> {
    client.call::<R, IgnoredAny>(Method::POST, path, Some(request)).await.map(drop)
}
