//! The collector of artifacts: it removes those of finished jobs after the retention time, and bytes without a pointer.
//!
//! Each job with blobs has a record. The collector sleeps until the first of them is due, and does nothing without any.

use std::time::Duration;

use domain::{Collection, Expected, Job, JobId, ProductId, Revision, Timestamp, Versioned};
use fail::fail_point;
use serde::{Deserialize, Serialize};
use tracing::{info, warn};

use crate::commit::Decision;
use crate::commit::cas_documents::{PutOutcome, is_conflict};
use crate::coordinator::{COORDINATOR, Coordinator};
use crate::error::Error;

/// The version of the records.
const VERSION: u16 = 1;

/// Jobs per pass; the next one continues.
const AT_ONCE_MAX: usize = 50;

/// How often the artifacts of an open job are looked at: what a crash left is removed then.
const OPEN_AGAIN_AFTER: Duration = Duration::from_hours(24);

/// The pause after an error.
const AGAIN_AFTER: Duration = Duration::from_mins(1);

/// The longest sleep: the wall clock may be set meanwhile.
const SLEEP_MAX: Duration = Duration::from_hours(1);

/// Attempts to write a record against a collector that removes it.
const RECORD_ATTEMPTS_MAX: u32 = 4;

/// A job that has blobs, as stored.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ArtifactRecord {
    v: u16,
    job_id: JobId,
    product_id: ProductId,
    /// When the last upload of a job without blobs began.
    since: Timestamp,
}

/// A record in memory.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RecordEntry {
    revision: Revision,
    /// When the job is looked at.
    due: Timestamp,
}

impl Coordinator {
    pub(crate) async fn load_artifact_records(&self) -> Result<(), Error> {
        let now = self.now();
        for (_, found) in self.documents::<ArtifactRecord>(Collection::Artifacts).await? {
            // A job cannot have finished before its artifacts were attached.
            let due = found.value.since.after(self.settings.artifact_retention).max(now.after(AGAIN_AFTER));
            let entry = RecordEntry { revision: found.revision, due };
            self.artifacts.records.lock().insert(found.value.job_id, entry);
        }
        Ok(())
    }

    /// Records that a job has blobs, before the first of them exists.
    pub(crate) async fn record_artifacts(&self, id: JobId, product: &ProductId) -> Result<(), Error> {
        if self.artifacts.records.lock().contains_key(&id) {
            return Ok(());
        }
        let now = self.now();
        let record = ArtifactRecord { v: VERSION, job_id: id, product_id: product.clone(), since: now };
        let mut expected = Expected::Absent;
        for _ in 0..RECORD_ATTEMPTS_MAX {
            match self.put_document(Collection::Artifacts, &id.to_string(), expected, Some(&record)).await? {
                PutOutcome::Written(revision) => {
                    let due = now.after(self.settings.artifact_retention.min(OPEN_AGAIN_AFTER));
                    self.artifacts.records.lock().insert(id, RecordEntry { revision, due });
                    self.artifacts.bell.notify_one();
                    return Ok(());
                }
                // The collector may be removing it: a new revision makes it stop.
                PutOutcome::Lost(found) => {
                    expected = found.map_or(Expected::Absent, |found| Expected::At(found.revision));
                }
            }
        }
        Err(is_conflict())
    }

    /// Collects until the coordinator stops.
    pub(crate) async fn run_artifact_collector(&self) {
        loop {
            let pause = self.until_next_artifacts();
            tokio::select! {
                () = self.stopping.cancelled() => return,
                () = self.artifacts.bell.notified() => {}
                () = self.ports.clock.sleep(pause.unwrap_or_default()), if pause.is_some() => {
                    self.collect_artifacts().await;
                }
            }
        }
    }

    /// How long until the next job is due; `None` without any.
    fn until_next_artifacts(&self) -> Option<Duration> {
        let next = self.artifacts.records.lock().values().map(|entry| entry.due).min()?;
        Some(next.since(self.now()).min(SLEEP_MAX))
    }

    /// One pass over the jobs that are due. Idempotent.
    pub async fn collect_artifacts(&self) {
        let now = self.now();
        let due: Vec<(JobId, RecordEntry)> = {
            let records = self.artifacts.records.lock();
            let due = records.iter().filter(|(_, entry)| entry.due <= now);
            due.map(|(id, entry)| (*id, *entry)).take(AT_ONCE_MAX).collect()
        };
        for (id, entry) in due {
            let next = match self.collect_from(id, now).await {
                Ok(next) => next,
                Err(error) => {
                    warn!(job.id = %id, %error, "Could not collect the artifacts of job {}, retrying", self.label(id));
                    Some(now.after(AGAIN_AFTER))
                }
            };
            match next {
                Some(due) => {
                    if let Some(entry) = self.artifacts.records.lock().get_mut(&id) {
                        entry.due = due;
                    }
                }
                None => self.forget_artifacts(id, entry.revision).await,
            }
        }
    }

    /// Removes what a job no longer needs. Returns when it is due again; `None` if nothing is left.
    async fn collect_from(&self, id: JobId, now: Timestamp) -> Result<Option<Timestamp>, Error> {
        let retention = self.settings.artifact_retention;
        // Before the job is read: an upload that ends meanwhile gets its pointer.
        let blobs = self.ports.blobs.list(id).await?;
        let mut job = match self.read(id).await {
            Ok(job) => Some(job),
            Err(Error::NoSuchJob(_)) => None,
            Err(error) => return Err(error),
        };
        let is_over = |job: &Job| job.stage().name().is_terminal() && now.since(job.updated_at()) >= retention;
        if job.as_ref().is_some_and(|job| is_over(&job.value) && !job.value.artifacts().is_empty()) {
            let amended = self.amend(id, |job| {
                let is_due = is_over(&job) && !job.artifacts().is_empty();
                Ok(if is_due { Decision::Write(job.without_artifacts(now, COORDINATOR)) } else { Decision::Keep })
            });
            let amended = amended.await?;
            info!(job.id = %id, "Removed the artifacts of job {} after the retention time", amended.value.label());
            job = Some(amended);
            fail_point!("artifact::expired");
        }
        let is_used = |job: &Versioned<std::sync::Arc<Job>>, key: &domain::BlobKey| {
            job.value.artifacts().iter().any(|artifact| artifact.blob(id) == *key)
        };
        let mut left = 0;
        for (key, written_at) in blobs {
            // A younger one may be an upload in progress.
            let is_young = now.since(written_at) < self.settings.artifact_upload_max;
            if is_young || job.as_ref().is_some_and(|job| is_used(job, &key)) {
                left += 1;
            } else {
                self.ports.blobs.remove(&key).await?;
            }
        }
        Ok(match job {
            Some(job) if !job.value.stage().name().is_terminal() => {
                Some(now.after(retention.min(OPEN_AGAIN_AFTER).max(AGAIN_AFTER)))
            }
            Some(job) if !job.value.artifacts().is_empty() => {
                Some(job.value.updated_at().after(retention).max(now.after(AGAIN_AFTER)))
            }
            _ if left > 0 => Some(now.after(self.settings.artifact_upload_max.max(AGAIN_AFTER))),
            _ => None,
        })
    }

    /// Removes the record of a job without blobs, unless an upload has renewed it.
    async fn forget_artifacts(&self, id: JobId, revision: Revision) {
        let removed = self.artifacts.records.lock().remove(&id);
        let key = id.to_string();
        let written =
            self.put_document::<ArtifactRecord>(Collection::Artifacts, &key, Expected::At(revision), None).await;
        match written {
            Ok(PutOutcome::Written(_) | PutOutcome::Lost(None)) => {}
            Ok(PutOutcome::Lost(Some(_))) | Err(_) => {
                let due = self.now().after(AGAIN_AFTER);
                if let Some(entry) = removed {
                    self.artifacts.records.lock().entry(id).or_insert(RecordEntry { due, ..entry });
                }
            }
        }
    }
}
