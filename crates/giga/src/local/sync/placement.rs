//! Moving files to where their jobs are.

use std::io;

use domain::JobId;
use protocol::JobView;

use super::QueueSync;
use crate::command::Backoff;
use crate::local::console::FileEvent;
use crate::local::folder::Folder;
use crate::local::queue::{MoveOutcome, free_name};
use crate::local::reports;

impl QueueSync<'_> {
    /// Moves a file to the folder of its job's stage.
    pub(super) async fn place(&mut self, id: JobId) {
        let (Some(record), Some(job)) = (self.files.get(&id), self.jobs.get(&id).cloned()) else { return };
        let to = Folder::of(job.stage);
        if record.folder == to {
            return;
        }
        match self.shift(id, to) {
            Ok(MoveOutcome::Done) => {
                self.describe(id, &job).await;
                self.tell(id, &job);
            }
            // The user was faster: the next scan determines what was meant.
            Ok(MoveOutcome::Taken | MoveOutcome::Missing) => {}
            Err(error) => {
                let name = self.name_of(id).unwrap_or_default().to_owned();
                self.console().warn(&format!("cannot move {name} to {to}/: {error}"));
            }
        }
    }

    /// Moves a file in one step. Recorded before and after, so that it is not mistaken for a move of the user.
    fn shift(&mut self, id: JobId, to: Folder) -> io::Result<MoveOutcome> {
        let Some(record) = self.files.get_mut(&id) else { return Ok(MoveOutcome::Missing) };
        let (from, name) = (record.folder, record.name.clone());
        record.moving_to = Some(to);
        self.records.keep(record)?;
        #[cfg(feature = "failpoints")]
        fail::fail_point!("local::moving");
        let mut moved = self.queue.shift((from, &name), (to, &name))?;
        if moved == MoveOutcome::Taken {
            let (names, files) = (self.queue.names()?, &self.files);
            let is_taken = |free: &str| names.has_anywhere(free) || files.values().any(|record| record.name == free);
            let free = free_name(&name, is_taken);
            let Some(record) = self.files.get_mut(&id) else { return Ok(MoveOutcome::Missing) };
            record.name = free;
            record.was = Some(name.clone());
            self.records.keep(record)?;
            moved = self.queue.shift((from, &name), (to, &record.name))?;
        }
        let Some(record) = self.files.get_mut(&id) else { return Ok(MoveOutcome::Missing) };
        #[cfg(feature = "failpoints")]
        fail::fail_point!("local::moved");
        if moved == MoveOutcome::Done {
            reports::remove(&self.queue, from, &name);
            record.folder = to;
        } else {
            record.name = name;
        }
        record.was = None;
        record.moving_to = None;
        self.records.keep(record)?;
        Ok(moved)
    }

    /// Writes beside the file what became of its job.
    pub(super) async fn describe(&mut self, id: JobId, job: &JobView) {
        let Some(record) = self.files.get(&id) else { return };
        if let Folder::Inbox | Folder::Building = record.folder {
            return;
        }
        let runs = match self.client.runs(id).await {
            Ok(runs) => runs,
            Err(error) => {
                tracing::debug!(%error, "The runs of job {} cannot be read now", id.short());
                Vec::new()
            }
        };
        let written = reports::write_result(&self.queue, record.folder, &record.name, job, &runs);
        if let Err(error) = written {
            self.console.warn(&format!("cannot write the result of {}: {error}", record.name));
        }
    }

    fn tell(&self, id: JobId, job: &JobView) {
        let Some(record) = self.files.get(&id) else { return };
        let now = self.clock.now();
        let message = Backoff::of_job(job, now).map_or_else(
            || {
                let reason = job.reason.map(|reason| reason.to_string());
                reason.into_iter().chain(job.message.clone()).collect::<Vec<_>>().join(": ")
            },
            |backoff| backoff.sentence("", now),
        );
        let (file, stage) = (record.name.as_str(), Some(job.stage));
        self.console.tell(&FileEvent { file, folder: record.folder, job_id: Some(id), stage, message });
    }
}
