//! Jobs: the state that dispatch depends on.

use async_trait::async_trait;
use domain::{
    Commit, CommitError, Job, JobId, JobStore, Position, Revision, StageName, StoreError, TREE_JOBS_MAX,
    UnreadableDocument, Versioned,
};
use uuid::Uuid;

use super::PostgresStore;
use super::row::{job_id, parsed, uuid, versioned_job};
use crate::change::Change;
use crate::quarantine::JOBS;

pub(super) const JOB: &str = "\
    SELECT j.rev, j.state, b.submission FROM fleet_jobs j JOIN fleet_bodies b ON b.n = j.n WHERE j.id = $1";
pub(super) const OPEN: &str = "\
    SELECT j.rev, j.state, b.submission, j.id FROM fleet_jobs j JOIN fleet_bodies b ON b.n = j.n
    WHERE j.open AND j.id > $1 ORDER BY j.id LIMIT $2";
pub(super) const DEPENDENTS: &str = "\
    SELECT b.id FROM fleet_deps d JOIN fleet_bodies b ON b.n = d.job WHERE d.dep = $1 ORDER BY b.id";
pub(super) const CHILDREN: &str = "\
    SELECT j.id, j.stage FROM fleet_children c JOIN fleet_bodies b ON b.n = c.job JOIN fleet_jobs j ON j.id = b.id
    WHERE c.parent = $1 ORDER BY j.id";
pub(super) const TREE: &str = "\
    SELECT j.rev, j.state, b.submission, j.id
    FROM fleet_children c JOIN fleet_bodies b ON b.n = c.job JOIN fleet_jobs j ON j.id = b.id
    WHERE c.root = $1 ORDER BY j.id LIMIT $2";

#[async_trait]
impl JobStore for PostgresStore {
    async fn job(&self, id: JobId) -> Result<Option<Versioned<Job>>, StoreError> {
        self.meter.job_reads.add(1);
        let rows = self.pool.rows(JOB, &[&uuid(id)]).await?;
        let read = rows.first().map(versioned_job).transpose();
        match &read {
            Err(error) => self.quarantine.add(JOBS, &id.to_string(), error),
            Ok(_) => self.quarantine.remove(JOBS, &id),
        }
        read
    }

    async fn commit(&self, units: Vec<Commit>) -> Vec<Result<Revision, CommitError>> {
        let mut ready = Vec::with_capacity(units.len());
        let mut unready = Vec::new();
        for (place, unit) in units.into_iter().enumerate() {
            match Change::prepare(unit) {
                Ok(change) => ready.push(change),
                Err(error) => unready.push((place, error)),
            }
        }
        let mut outcomes = if ready.is_empty() { Vec::new() } else { self.writer.write(ready).await };
        for (place, error) in unready {
            outcomes.insert(place, Err(error.into()));
        }
        outcomes
    }

    /// A page of unreadable jobs only is not the end of the list.
    async fn open(&self, after: Option<JobId>, limit: u16) -> Result<Vec<Versioned<Job>>, StoreError> {
        self.meter.sweep_reads.add(1);
        let mut after = after.map_or(Uuid::nil(), uuid);
        loop {
            let rows = self.pool.rows(OPEN, &[&after, &i64::from(limit)]).await?;
            let mut jobs = Vec::with_capacity(rows.len());
            for row in &rows {
                let id = job_id(row, 3)?;
                after = uuid(id);
                match versioned_job(row) {
                    Ok(job) => jobs.push(job),
                    Err(error) => self.quarantine.add(JOBS, &id.to_string(), &error),
                }
            }
            if !jobs.is_empty() || rows.len() < usize::from(limit) {
                return Ok(jobs);
            }
        }
    }

    async fn dependents(&self, id: JobId) -> Result<Vec<JobId>, StoreError> {
        self.meter.sweep_reads.add(1);
        let rows = self.pool.rows(DEPENDENTS, &[&uuid(id)]).await?;
        rows.iter().map(|row| job_id(row, 0)).collect()
    }

    async fn children(&self, parent: JobId) -> Result<Vec<(JobId, StageName)>, StoreError> {
        self.meter.sweep_reads.add(1);
        let rows = self.pool.rows(CHILDREN, &[&uuid(parent)]).await?;
        rows.iter().map(|row| Ok((job_id(row, 0)?, parsed(row, 1)?))).collect()
    }

    async fn tree(&self, root: JobId) -> Result<Vec<Versioned<Job>>, StoreError> {
        self.meter.sweep_reads.add(1);
        let limit = i64::try_from(TREE_JOBS_MAX).unwrap_or(i64::MAX);
        let rows = self.pool.rows(TREE, &[&uuid(root), &limit]).await?;
        let mut jobs = Vec::with_capacity(rows.len());
        for row in &rows {
            match versioned_job(row) {
                Ok(job) => jobs.push(job),
                Err(error) => self.quarantine.add(JOBS, &job_id(row, 3)?.to_string(), &error),
            }
        }
        Ok(jobs)
    }

    async fn changed(&self, after: Position) -> Result<Position, StoreError> {
        self.end.beyond(after).await
    }

    fn unreadable(&self) -> Vec<UnreadableDocument> {
        self.quarantine.list()
    }
}
