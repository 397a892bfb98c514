//! Reads: each at most once at a time, a few at once.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use client::Client;
use tokio::sync::{Semaphore, mpsc};
use tokio_util::task::TaskTracker;

use super::current_client::CurrentClient;
use super::read_error;
use crate::boundary::decode;
use crate::message::{Answer, Data, Msg, ReadError, Request};

/// Reads under way at the same time.
const READS_MAX: usize = 6;

/// Reads what the model asks for.
#[derive(Clone)]
pub(super) struct Fetcher {
    client: CurrentClient,
    tasks: TaskTracker,
    news: mpsc::Sender<Msg>,
    permits: Arc<Semaphore>,
    /// The reads under way, and whether each was asked for again meanwhile.
    running: Arc<Mutex<HashMap<Request, bool>>>,
}

impl Fetcher {
    pub(super) fn new(client: CurrentClient, tasks: TaskTracker, news: mpsc::Sender<Msg>) -> Self {
        let permits = Arc::new(Semaphore::new(READS_MAX));
        Self { client, tasks, news, permits, running: Arc::default() }
    }

    /// Reads something, or notes that it has to be read again.
    pub(super) fn read(&self, request: Request) {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(again) = running.get_mut(&request) {
            *again = true;
            return;
        }
        running.insert(request.clone(), false);
        drop(running);
        let reader = self.clone();
        self.tasks.spawn(async move { reader.keep_reading(request).await });
    }

    async fn keep_reading(self, request: Request) {
        loop {
            let Ok(_permit) = self.permits.acquire().await else { return };
            let outcome = match self.client.get() {
                Ok(client) => read(&client, &request).await,
                Err(error) => Err(error),
            };
            let answer = Box::new(Answer { request: request.clone(), outcome });
            if self.news.send(Msg::Answer(answer)).await.is_err() {
                return;
            }
            let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
            match running.get_mut(&request) {
                Some(again) if *again => *again = false,
                _ => {
                    running.remove(&request);
                    return;
                }
            }
        }
    }
}

async fn read(client: &Client, request: &Request) -> Result<Data, ReadError> {
    let path = path(request);
    let text = client.get_text(&path).await.map_err(|error| read_error(&error))?;
    let data = match request {
        Request::Jobs { .. } => decode(&text).map(Data::Jobs),
        Request::Job(_) => decode(&text).map(|job| Data::Job(Box::new(job))),
        Request::Events { .. } => decode(&text).map(Data::Events),
        Request::Explain(_) => decode(&text).map(|explanation| Data::Explain(Box::new(explanation))),
        Request::Dag(_) => decode(&text).map(Data::Dag),
        Request::Needs => decode(&text).map(Data::Needs),
        Request::Factories => decode(&text).map(Data::Factories),
        Request::Metrics => decode(&text).map(Data::Metrics),
        Request::History => decode(&text).map(Data::History),
        Request::Flags => decode(&text).map(Data::Flags),
        Request::Divergence => decode(&text).map(|report| Data::Divergence(Box::new(report))),
        Request::DeadLetters => decode(&text).map(Data::DeadLetters),
        Request::Credentials => decode(&text).map(Data::Credentials),
        Request::Budgets => decode(&text).map(Data::Budgets),
        Request::Pools => decode(&text).map(Data::Pools),
    };
    data.map_err(|error| ReadError::Refused(format!("the answer is not understood: {error}")))
}

fn path(request: &Request) -> String {
    match request {
        Request::Jobs { query, cursor: None } => format!("/jobs{query}"),
        Request::Jobs { query, cursor: Some(cursor) } => {
            format!("/jobs{query}&cursor={}", crate::model::percent_encoded(cursor))
        }
        Request::Job(id) => format!("/jobs/{id}"),
        Request::Events { job, after: None } => format!("/jobs/{job}/events?limit=1000"),
        Request::Events { job, after: Some(after) } => format!("/jobs/{job}/events?limit=1000&after={after}"),
        Request::Explain(id) => format!("/jobs/{id}/explain"),
        Request::Dag(id) => format!("/jobs/{id}/dag"),
        Request::Needs => "/needs-me?limit=200".to_owned(),
        Request::Factories => "/factories".to_owned(),
        Request::Metrics => "/metrics".to_owned(),
        Request::History => "/metrics/history".to_owned(),
        Request::Flags => "/flags".to_owned(),
        Request::Divergence => "/divergence".to_owned(),
        Request::DeadLetters => "/dead-letters?limit=200".to_owned(),
        Request::Credentials => "/credentials".to_owned(),
        Request::Budgets => "/budgets".to_owned(),
        Request::Pools => "/pools".to_owned(),
    }
}
