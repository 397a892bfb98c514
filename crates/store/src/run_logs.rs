//! Where a coordinator keeps logs and evidence: in its data directory, or with the artifacts.

#[cfg(feature = "sqlite")]
use std::io;

use async_trait::async_trait;
use domain::{Epoch, JobId, LogStore, StoreError};
#[cfg(feature = "sqlite")]
use foldhash::HashSet;

use crate::{DirectoryLogs, ObjectLogs};

/// The logs and the evidence of a coordinator.
#[derive(Debug, Clone)]
pub struct RunLogs {
    directory: DirectoryLogs,
    /// What is written goes here, if it is set; the directory then has what is older.
    objects: Option<ObjectLogs>,
}

impl From<DirectoryLogs> for RunLogs {
    fn from(directory: DirectoryLogs) -> Self {
        Self { directory, objects: None }
    }
}

impl RunLogs {
    /// Logs as objects. Those from before this was configured are read from the directory.
    pub fn as_objects(objects: ObjectLogs, earlier: DirectoryLogs) -> Self {
        Self { directory: earlier, objects: Some(objects) }
    }

    fn current(&self) -> &dyn LogStore {
        match &self.objects {
            Some(objects) => objects,
            None => &self.directory,
        }
    }
}

#[async_trait]
impl LogStore for RunLogs {
    async fn append(&self, job: JobId, epoch: Epoch, offset: u64, chunk: &[u8]) -> Result<u64, StoreError> {
        self.current().append(job, epoch, offset, chunk).await
    }

    async fn read(&self, job: JobId, epoch: Epoch, offset: u64, limit: u32) -> Result<Vec<u8>, StoreError> {
        let Some(objects) = &self.objects else { return self.directory.read(job, epoch, offset, limit).await };
        if objects.has_log(job, epoch).await? {
            return objects.read(job, epoch, offset, limit).await;
        }
        self.directory.read(job, epoch, offset, limit).await
    }

    async fn logs(&self, job: JobId) -> Result<Vec<(Epoch, u64)>, StoreError> {
        let mut logs = self.current().logs(job).await?;
        if self.objects.is_some() {
            let earlier = self.directory.logs(job).await?;
            let is_new = |epoch: Epoch| logs.iter().all(|(known, _)| *known != epoch);
            let earlier: Vec<_> = earlier.into_iter().filter(|(epoch, _)| is_new(*epoch)).collect();
            logs.extend(earlier);
            logs.sort_unstable();
        }
        Ok(logs)
    }

    async fn keep_evidence(&self, job: JobId, epoch: Epoch, document: &[u8]) -> Result<(), StoreError> {
        self.current().keep_evidence(job, epoch, document).await
    }

    async fn evidence(&self, job: JobId, epoch: Epoch) -> Result<Option<Vec<u8>>, StoreError> {
        match self.current().evidence(job, epoch).await? {
            None if self.objects.is_some() => self.directory.evidence(job, epoch).await,
            found => Ok(found),
        }
    }
}

/// For backups, on blocking threads of the runtime.
#[cfg(feature = "sqlite")]
impl RunLogs {
    /// Visits every complete evidence document, in no order. Of a run with two the current one comes last.
    pub(crate) fn each_evidence<E: From<io::Error>>(
        &self,
        mut show: impl FnMut(JobId, Epoch, Vec<u8>) -> Result<(), E>,
    ) -> Result<(), E> {
        self.directory.each_evidence(&mut show)?;
        self.objects.as_ref().map_or(Ok(()), |objects| objects.each_evidence(show))
    }

    /// The runs whose evidence need not be restored.
    pub(crate) fn runs_with_evidence(&self) -> io::Result<HashSet<(JobId, Epoch)>> {
        if let Some(objects) = &self.objects {
            return Ok(objects.runs_with_evidence()?.into_iter().collect());
        }
        let mut runs = HashSet::default();
        self.directory.each_evidence(|job, epoch, _| {
            runs.insert((job, epoch));
            Ok::<_, io::Error>(())
        })?;
        Ok(runs)
    }

    pub(crate) fn add_evidence(&self, job: JobId, epoch: Epoch, document: &[u8]) -> io::Result<()> {
        match &self.objects {
            Some(objects) => objects.add_evidence(job, epoch, document),
            None => self.directory.add_evidence(job, epoch, document),
        }
    }

    pub(crate) fn remove_evidence(&self, job: JobId, epoch: Epoch) -> io::Result<()> {
        match &self.objects {
            Some(objects) => objects.remove_evidence(job, epoch),
            None => self.directory.remove_evidence(job, epoch),
        }
    }
}
