//! Applies users' changes of files to their jobs.

use std::time::Duration;

use client::ClientError;
use domain::{JobId, StageName};
use protocol::{ActionRequest, JobView};

use super::QueueSync;
use super::new_files::Draft;
use crate::local::console::FileEvent;
use crate::local::folder::Folder;
use crate::local::queue::{Content, FileStamp};
use crate::local::user_action::{UserAction, requested};

/// What became of an action.
enum ActionOutcome {
    /// It is done, or there is nothing to do it to.
    Done,
    /// The coordinator cannot answer now.
    Later,
}

impl QueueSync<'_> {
    /// The user moved the file of a job to another folder.
    pub(super) async fn obey(&mut self, id: JobId, to: Folder) -> Duration {
        if !self.jobs.contains_key(&id) {
            self.read(id).await;
        }
        let (Some(record), Some(job)) = (self.files.get(&id), self.jobs.get(&id)) else {
            return self.terms.sweep_every;
        };
        let (name, stage) = (record.name.clone(), job.stage);
        let Some(stamp) = self.queue.stamp(to, &name) else { return self.terms.sweep_every };
        let action = requested(stage, to);
        if let UserAction::Retry | UserAction::Anew = action {
            let wait = self.looks.wait_for(&name, stamp, self.clock.now(), self.clock.monotonic());
            if !wait.is_zero() {
                self.is_taking = true;
                return wait;
            }
        }
        let acted = match action {
            UserAction::Retry => self.retry(id, &name, stamp).await,
            UserAction::Anew => self.begin_anew(id, &name).await,
            UserAction::Ship => self.act(id, "ship", None).await,
            UserAction::Reject => self.act(id, "reject", Some("its file was moved to failed/")).await,
            UserAction::Cancel => self.act(id, "cancel", Some("its file was moved to failed/")).await,
            UserAction::Nothing => {
                let message = format!("moved back: its job is {stage}");
                self.console.tell(&FileEvent {
                    file: &name,
                    folder: to,
                    job_id: Some(id),
                    stage: Some(stage),
                    message,
                });
                ActionOutcome::Done
            }
        };
        #[cfg(feature = "failpoints")]
        fail::fail_point!("local::acted");
        if let (ActionOutcome::Done, Some(record)) = (acted, self.files.get_mut(&id)) {
            // From here on it is where the user put it; if its job is in another stage, it is moved there as by any change.
            record.folder = to;
            self.write_down(id);
            if let (UserAction::Reject | UserAction::Cancel, Some(job)) = (action, self.jobs.get(&id).cloned()) {
                self.describe(id, &job).await;
            }
        }
        self.terms.sweep_every
    }

    /// Requeues a job, or submits the changed content of its file.
    async fn retry(&mut self, id: JobId, name: &str, stamp: FileStamp) -> ActionOutcome {
        let Ok(content) = self.queue.read(Folder::Inbox, name) else { return ActionOutcome::Later };
        let is_same = self.files.get(&id).is_some_and(|record| record.sha256 == content.sha256());
        if !is_same {
            return self.replace(id, name, &content).await;
        }
        let acted = self.act(id, "requeue", Some("its file was moved to inbox/")).await;
        if let (ActionOutcome::Done, Some(record)) = (&acted, self.files.get_mut(&id)) {
            record.stamp = stamp;
            self.session.insert(id);
            let message = "requeued".to_owned();
            let (folder, stage) = (Folder::Inbox, self.jobs.get(&id).map(|job| job.stage));
            self.console.tell(&FileEvent { file: name, folder, job_id: Some(id), stage, message });
        }
        acted
    }

    async fn begin_anew(&mut self, id: JobId, name: &str) -> ActionOutcome {
        match self.queue.read(Folder::Inbox, name) {
            Ok(content) => self.replace(id, name, &content).await,
            Err(_) => ActionOutcome::Later,
        }
    }

    /// Checks whether the content of a waiting file differs from its job.
    pub(super) async fn look_for_changes(&mut self, id: JobId) -> Duration {
        let sweep = self.terms.sweep_every;
        let Some(record) = self.files.get(&id) else { return sweep };
        if record.folder != Folder::Inbox || !record.is_submitted {
            return sweep;
        }
        let is_waiting = self.jobs.get(&id).is_some_and(|job| Folder::of(job.stage) == Folder::Inbox);
        let name = record.name.clone();
        let stamp = self.queue.stamp(Folder::Inbox, &name).filter(|stamp| *stamp != record.stamp && !stamp.is_empty());
        let (Some(stamp), true) = (stamp, is_waiting) else { return sweep };
        let wait = self.looks.wait_for(&name, stamp, self.clock.now(), self.clock.monotonic());
        if !wait.is_zero() {
            self.is_taking = true;
            return wait;
        }
        let Ok(content) = self.queue.read(Folder::Inbox, &name) else { return sweep };
        if self.files.get(&id).is_some_and(|record| record.sha256 == content.sha256()) {
            if let Some(record) = self.files.get_mut(&id) {
                record.stamp = content.stamp;
            }
            self.write_down(id);
        } else {
            self.replace(id, &name, &content).await;
        }
        sweep
    }

    /// The file in the inbox is another job now; the one that it was ends.
    async fn replace(&mut self, id: JobId, name: &str, content: &Content) -> ActionOutcome {
        match self.draft(name, content).await {
            Ok(Some(Draft { mut record, .. })) => {
                record.replaces = Some(id);
                if !self.accept(record) {
                    return ActionOutcome::Later;
                }
            }
            Ok(None) => return ActionOutcome::Later,
            Err(why) => {
                if let ActionOutcome::Later = self.act(id, "cancel", Some("its file is no job any more")).await {
                    return ActionOutcome::Later;
                }
                self.refuse(name, &why);
            }
        }
        self.forget(id);
        ActionOutcome::Done
    }

    /// The file no longer exists.
    pub(super) async fn give_up(&mut self, id: JobId) {
        let Some(record) = self.files.get(&id) else { return };
        let (name, folder) = (record.name.clone(), record.folder);
        let is_open = self.jobs.get(&id).is_none_or(|job| !job.stage.is_terminal());
        // Finished work is not discarded because the user deleted its file.
        let is_cancelled = is_open && matches!(folder, Folder::Inbox | Folder::Building);
        if is_cancelled && matches!(self.act(id, "cancel", Some("its file was deleted")).await, ActionOutcome::Later) {
            return;
        }
        if is_cancelled {
            let (stage, message) = (Some(StageName::Failed), "cancelled: its file was deleted".to_owned());
            self.console.tell(&FileEvent { file: &name, folder, job_id: Some(id), stage, message });
        }
        self.forget(id);
    }

    /// Ends a job whose file is another one's now.
    pub(super) async fn end_replaced(&mut self, id: JobId) -> bool {
        matches!(self.act(id, "cancel", Some("its file was changed")).await, ActionOutcome::Done)
    }

    /// Does something to a job. A refusal is an outcome too: the job is then where it is, and its file follows.
    async fn act(&mut self, id: JobId, action: &str, why: Option<&str>) -> ActionOutcome {
        let request = ActionRequest { message: why.map(str::to_owned), ..ActionRequest::default() };
        let path = format!("/jobs/{id}/actions/{action}");
        let answer: Result<JobView, ClientError> = self.client.post(&path, &request).await;
        match answer {
            Ok(job) => {
                self.jobs.insert(id, job);
                ActionOutcome::Done
            }
            Err(error) if error.is_final() => {
                tracing::debug!(%error, "`{action}` was refused for job {}", id.short());
                self.read(id).await;
                ActionOutcome::Done
            }
            Err(error) => {
                if self.client.is_news(&path) {
                    self.console.warn(&format!("{action}: {error}"));
                }
                ActionOutcome::Later
            }
        }
    }

    /// Forgets a file; its job stays in the store.
    pub(super) fn forget(&mut self, id: JobId) {
        if let Some(record) = self.files.remove(&id)
            && let Err(error) = self.records.forget(id)
        {
            self.console.warn(&format!("cannot remove the record of {}: {error}", record.name));
        }
        self.missing.remove(&id);
        self.session.remove(&id);
        self.jobs.remove(&id);
    }
}
