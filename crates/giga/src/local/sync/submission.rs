//! Handing jobs to the coordinator.

use domain::JobId;
use protocol::{BatchOutcome, BatchRequest, BatchResponse, JobExplanation, Problem, SubmitRequest};

use super::QueueSync;
use super::new_files::Draft;
use crate::local::console::FileEvent;
use crate::local::folder::Folder;

/// The limits of one request: far below the coordinator's, so that other clients are not delayed.
const BATCH_JOBS_MAX: usize = 200;
const BATCH_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Where many jobs are submitted at once.
const BATCH: &str = "/jobs/batch";

/// What one job of a batch is remembered by that could not be stored now.
const SUBMITTING: &str = "submit";

/// Up to this many new files, a warning is printed for each that no factory can run.
const FORECAST_MAX: usize = 20;

impl QueueSync<'_> {
    /// Submits whatever has a record and is not known to be in the store. Once: the key makes it so.
    pub(super) async fn submit_all(&mut self) {
        let ready: Vec<JobId> =
            self.files.values().filter(|record| !record.is_submitted).map(|record| record.job).collect();
        let mut batch: Vec<(JobId, SubmitRequest)> = Vec::new();
        let mut bytes = 0;
        for id in ready {
            let Some(request) = self.request(id).await else { continue };
            if batch.len() >= BATCH_JOBS_MAX || bytes + request.body_md.len() > BATCH_BYTES_MAX {
                self.submit(std::mem::take(&mut batch)).await;
                bytes = 0;
            }
            bytes += request.body_md.len();
            batch.push((id, request));
        }
        self.submit(batch).await;
    }

    async fn request(&mut self, id: JobId) -> Option<SubmitRequest> {
        let replaces = self.files.get(&id)?.replaces;
        if let Some(replaced) = replaces
            && !self.end_replaced(replaced).await
        {
            return None;
        }
        let record = self.files.get_mut(&id)?;
        let content = self.queue.read(record.folder, &record.name).ok()?;
        // Changed since it was taken: if the job is in the store all the same, its key refuses the other text.
        record.sha256 = content.sha256();
        record.stamp = content.stamp;
        let body_md = String::from_utf8(content.bytes).ok()?;
        let product_id = self.terms.product.clone();
        Some(SubmitRequest { body_md, idempotency_key: Some(record.key.clone()), product_id, strict: false })
    }

    async fn submit(&mut self, batch: Vec<(JobId, SubmitRequest)>) {
        if batch.is_empty() {
            return;
        }
        self.create_profiles().await;
        let (ids, jobs): (Vec<JobId>, Vec<SubmitRequest>) = batch.into_iter().unzip();
        let answer: Result<BatchResponse, _> = self.client.post(BATCH, &BatchRequest { jobs }).await;
        let outcomes = match answer {
            Ok(answer) => answer.outcomes,
            Err(error) => {
                if self.client.is_news(BATCH) {
                    self.console.warn(&format!("cannot submit now: {error}"));
                }
                self.is_taking = true;
                return;
            }
        };
        #[cfg(feature = "failpoints")]
        fail::fail_point!("local::submitted");
        let forecasts = ids.len() <= FORECAST_MAX;
        for (id, outcome) in ids.into_iter().zip(outcomes) {
            self.submitted(id, outcome).await;
            if forecasts {
                self.forecast(id).await;
            }
        }
    }

    async fn submitted(&mut self, id: JobId, outcome: BatchOutcome) {
        match outcome.problem {
            None => {
                self.client.succeed(SUBMITTING);
                let Some(record) = self.files.get_mut(&id) else { return };
                record.is_submitted = true;
                record.replaces = None;
                if let Err(error) = self.records.keep(record) {
                    self.console.warn(&format!("cannot record that {} was submitted: {error}", record.name));
                }
                self.read(id).await;
                self.tell_submitted(id);
            }
            Some(problem) if problem.status >= 500 || problem.status == 429 => {
                self.client.fail(SUBMITTING, problem.to_string());
                self.is_taking = true;
            }
            Some(problem) if problem.code == "idempotency_conflict" => self.change_key(id).await,
            Some(problem) => self.turn_down(id, &problem),
        }
    }

    /// The file was submitted, then changed before that was recorded: the stored job is replaced.
    async fn change_key(&mut self, id: JobId) {
        self.is_taking = true;
        let Some(record) = self.files.get_mut(&id) else { return };
        record.is_submitted = true;
        let name = record.name.clone();
        self.read(id).await;
        let Ok(content) = self.queue.read(Folder::Inbox, &name) else { return };
        if let Ok(Some(Draft { record: mut next, .. })) = self.draft(&name, &content).await {
            next.replaces = Some(id);
            if self.accept(next) {
                self.forget(id);
            }
        }
    }

    fn turn_down(&mut self, id: JobId, problem: &Problem) {
        let Some(record) = self.files.get(&id) else { return };
        let (name, why) = (record.name.clone(), problem.to_string());
        self.refuse(&name, &why);
        self.forget(id);
    }

    fn tell_submitted(&self, id: JobId) {
        let (Some(record), Some(job)) = (self.files.get(&id), self.jobs.get(&id)) else { return };
        let message = match job.stage {
            domain::StageName::Blocked => "submitted, waits for another job".to_owned(),
            _ => "submitted".to_owned(),
        };
        let (file, folder) = (record.name.as_str(), record.folder);
        self.console.tell(&FileEvent { file, folder, job_id: Some(id), stage: Some(job.stage), message });
    }

    /// Warns at once about a job that no factory can run [I9].
    async fn forecast(&mut self, id: JobId) {
        if !self.is_factory_here().await {
            return;
        }
        if let Ok(explained) = self.client.get::<JobExplanation>(&format!("/jobs/{id}/explain")).await
            && explained.job.stage == domain::StageName::Queued
            && crate::command::is_stuck(&explained.now)
        {
            let name = self.name_of(id).unwrap_or_default().to_owned();
            self.console.warn(&format!("{name}: no factory can run it: {}", explained.summary));
        }
    }
}
