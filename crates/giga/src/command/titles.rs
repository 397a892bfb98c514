//! The titles of jobs that events name by their ids.

use std::collections::HashMap;

use client::Client;
use domain::JobId;
use protocol::{JobDetail, JobList};

use client::Query;

/// The newest jobs, whose titles are read at once.
const NEWEST: &str = "1000";

/// Titles by job, read as they are needed.
pub(super) struct Titles<'c> {
    client: &'c Client,
    /// `None` for a job whose title cannot be read.
    known: HashMap<JobId, Option<String>>,
    has_newest: bool,
}

impl<'c> Titles<'c> {
    pub(super) fn new(client: &'c Client) -> Self {
        Self { client, known: HashMap::new(), has_newest: false }
    }

    /// A job's short id, and its title where that can be read.
    pub(super) async fn label(&mut self, id: JobId) -> String {
        if !self.known.contains_key(&id) {
            self.read(id).await;
        }
        id.perhaps_titled(self.known.get(&id).and_then(Option::as_deref)).to_string()
    }

    async fn read(&mut self, id: JobId) {
        if !self.has_newest {
            self.has_newest = true;
            let path = Query::new("/jobs").with("limit", NEWEST);
            if let Ok(page) = self.client.get::<JobList>(path.as_str()).await {
                self.known.extend(page.items.into_iter().map(|job| (job.id, Some(job.title))));
            }
            if self.known.contains_key(&id) {
                return;
            }
        }
        let found = self.client.get::<JobDetail>(&format!("/jobs/{id}")).await;
        self.known.insert(id, found.ok().map(|found| found.job.title));
    }
}
