//! Jobs: the state that dispatch depends on.

use std::sync::Arc;

use async_trait::async_trait;
use domain::{
    Commit, CommitError, Job, JobId, JobStore, Position, Revision, StageName, StoreError, TREE_JOBS_MAX,
    UnreadableDocument, Versioned,
};
use rusqlite::{OptionalExtension, params};

use super::SqliteStore;
use super::errors::closed;
use super::row::{is_unreadable, job_id, parsed, versioned_job};
use super::unit::{JobUnit, Unit};
use crate::quarantine::{JOBS, Quarantine};

pub(super) const JOB: &str = "\
    SELECT j.rev, j.state, b.submission FROM fleet_jobs j JOIN fleet_bodies b ON b.n = j.n WHERE j.id = ?1";
pub(super) const OPEN: &str = "\
    SELECT j.rev, j.state, b.submission, j.id
    FROM fleet_jobs j INDEXED BY fleet_jobs_open JOIN fleet_bodies b ON b.n = j.n
    WHERE j.open = 1 AND j.id > ?1 ORDER BY j.id LIMIT ?2";
pub(super) const DEPENDENTS: &str = "\
    SELECT j.id FROM fleet_deps d JOIN fleet_jobs j ON j.n = d.job WHERE d.dep = ?1 ORDER BY j.id";
pub(super) const CHILDREN: &str = "\
    SELECT j.id, j.stage FROM fleet_children c JOIN fleet_jobs j ON j.n = c.job WHERE c.parent = ?1 ORDER BY j.id";
pub(super) const TREE: &str = "\
    SELECT j.rev, j.state, b.submission, j.id
    FROM fleet_children c JOIN fleet_jobs j ON j.n = c.job JOIN fleet_bodies b ON b.n = j.n
    WHERE c.root = ?1 ORDER BY j.id LIMIT ?2";

#[async_trait]
impl JobStore for SqliteStore {
    async fn job(&self, id: JobId) -> Result<Option<Versioned<Job>>, StoreError> {
        self.meter.job_reads.add(1);
        let quarantine = Arc::clone(&self.quarantine);
        self.readers
            .ask(move |connection| {
                let read = connection.prepare_cached(JOB)?.query_row([id.as_bytes()], versioned_job).optional();
                match &read {
                    Err(error) if is_unreadable(error) => quarantine.add(JOBS, &id.to_string(), error),
                    Err(_) => {}
                    Ok(_) => quarantine.remove(JOBS, &id),
                }
                read
            })
            .await
    }

    async fn commit(&self, units: Vec<Commit>) -> Vec<Result<Revision, CommitError>> {
        let mut ready = Vec::with_capacity(units.len());
        let mut unready = Vec::new();
        for (place, unit) in units.into_iter().enumerate() {
            match JobUnit::prepare(unit) {
                Ok(unit) => ready.push(Unit::Job(Box::new(unit))),
                Err(error) => unready.push((place, error)),
            }
        }
        let mut outcomes = if ready.is_empty() { Vec::new() } else { self.writer.write(ready).await };
        for (place, error) in unready {
            outcomes.insert(place, Err(error.into()));
        }
        outcomes
    }

    async fn open(&self, after: Option<JobId>, limit: u16) -> Result<Vec<Versioned<Job>>, StoreError> {
        self.meter.sweep_reads.add(1);
        let after = after.map_or_else(Vec::new, |id| id.as_bytes().to_vec());
        let quarantine = Arc::clone(&self.quarantine);
        self.readers.ask(move |connection| open_page(connection, &quarantine, after.clone(), limit)).await
    }

    async fn dependents(&self, id: JobId) -> Result<Vec<JobId>, StoreError> {
        self.meter.sweep_reads.add(1);
        self.readers
            .ask(move |connection| {
                let mut statement = connection.prepare_cached(DEPENDENTS)?;
                statement.query_map([id.as_bytes()], |row| job_id(row, 0))?.collect()
            })
            .await
    }

    async fn children(&self, parent: JobId) -> Result<Vec<(JobId, StageName)>, StoreError> {
        self.meter.sweep_reads.add(1);
        self.readers
            .ask(move |connection| {
                let mut statement = connection.prepare_cached(CHILDREN)?;
                statement.query_map([parent.as_bytes()], |row| Ok((job_id(row, 0)?, parsed(row, 1)?)))?.collect()
            })
            .await
    }

    async fn tree(&self, root: JobId) -> Result<Vec<Versioned<Job>>, StoreError> {
        self.meter.sweep_reads.add(1);
        let quarantine = Arc::clone(&self.quarantine);
        self.readers
            .ask(move |connection| {
                let mut statement = connection.prepare_cached(TREE)?;
                let limit = i64::try_from(TREE_JOBS_MAX).unwrap_or(i64::MAX);
                let mut rows = statement.query(params![root.as_bytes(), limit])?;
                let mut jobs = Vec::new();
                while let Some(row) = rows.next()? {
                    match versioned_job(row) {
                        Ok(job) => jobs.push(job),
                        Err(error) if is_unreadable(&error) => {
                            quarantine.add(JOBS, &job_id(row, 3)?.to_string(), &error);
                        }
                        Err(error) => return Err(error),
                    }
                }
                Ok(jobs)
            })
            .await
    }

    async fn changed(&self, after: Position) -> Result<Position, StoreError> {
        let mut end = self.end.clone();
        end.wait_for(|end| *end > after).await.map(|end| *end).map_err(|_| closed())
    }

    fn unreadable(&self) -> Vec<UnreadableDocument> {
        self.quarantine.list()
    }
}

/// The next readable open jobs. An unreadable one is logged and skipped: it must not block the others.
fn open_page(
    connection: &rusqlite::Connection,
    quarantine: &Quarantine,
    mut after: Vec<u8>,
    limit: u16,
) -> rusqlite::Result<Vec<Versioned<Job>>> {
    let mut statement = connection.prepare_cached(OPEN)?;
    loop {
        let mut jobs = Vec::new();
        let mut seen = 0;
        let mut rows = statement.query(params![after, limit])?;
        while let Some(row) = rows.next()? {
            seen += 1;
            after = row.get(3)?;
            match versioned_job(row) {
                Ok(job) => jobs.push(job),
                Err(error) if is_unreadable(&error) => quarantine.add(JOBS, &job_id(row, 3)?.to_string(), &error),
                Err(error) => return Err(error),
            }
        }
        // A page of unreadable jobs only is not the end of the list.
        if !jobs.is_empty() || seen < limit {
            return Ok(jobs);
        }
    }
}
