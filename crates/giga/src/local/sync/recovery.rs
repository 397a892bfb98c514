//! Files whose record is torn or lost: the store identifies their jobs, so that none is submitted twice.

use std::collections::BTreeSet;
use std::time::Duration;

use client::ClientError;
use domain::{JobId, Manifest, ProductId, Strictness};
use protocol::JobDetail;

use super::QueueSync;
use super::new_files::keys;
use crate::failure::Failure;
use crate::local::console::FileEvent;
use crate::local::debounce::{Kind, kind};
use crate::local::folder::Folder;
use crate::local::queue::{FileStamp, Names, sha256};
use crate::local::records::Record;

/// The pause before a failing store is retried.
const PAUSE: Duration = Duration::from_millis(500);

/// Folders that users put no new files into: a file without a record there had one.
const OURS: [Folder; 3] = [Folder::Building, Folder::Review, Folder::Testing];

impl QueueSync<'_> {
    /// Finds the jobs of files that a crash of the machine left without a record. Without `--once` it waits for the store without a limit.
    pub(super) async fn recover(&mut self) -> Result<(), Failure> {
        for id in std::mem::take(&mut self.torn) {
            self.mend(id).await?;
        }
        let names = self.names()?;
        for folder in OURS {
            for name in self.strays(&names, folder) {
                if let Some(job) = self.latest_job_of(folder, &name).await? {
                    self.adopt(job, folder, &name).await;
                }
            }
        }
        Ok(())
    }

    /// Takes on a file whose job is known: where it is now, with the text that was submitted.
    pub(super) async fn adopt(&mut self, found: JobDetail, folder: Folder, name: &str) {
        let JobDetail { job, body_md, .. } = found;
        let (id, stage) = (job.id, job.stage);
        let record = Record {
            v: 1,
            job: id,
            key: job.idempotency_key.clone().unwrap_or_default(),
            name: name.to_owned(),
            was: None,
            folder,
            moving_to: None,
            is_submitted: true,
            replaces: None,
            sha256: sha256(body_md.as_bytes()),
            stamp: FileStamp::UNKNOWN,
        };
        self.jobs.insert(id, job);
        if self.accept(record) {
            let message = "found again in the store".to_owned();
            self.console.tell(&FileEvent { file: name, folder, job_id: Some(id), stage: Some(stage), message });
            self.look_for_changes(id).await;
        }
    }

    /// Makes a torn record anew.
    async fn mend(&mut self, id: JobId) -> Result<(), Failure> {
        // One that was never submitted has a file that is taken like any other.
        let Some(job) = self.known(id).await? else { return Ok(self.records.forget(id)?) };
        match self.file_of(&job)? {
            Some((folder, name)) => self.adopt(job, folder, &name).await,
            None => {
                self.console.warn(&format!("job {}: its record cannot be read, and its file is not found", id.short()));
                self.records.forget(id)?;
            }
        }
        Ok(())
    }

    /// Reads a job from the store. Without `--once` it waits for the store without a limit.
    async fn known(&self, id: JobId) -> Result<Option<JobDetail>, Failure> {
        loop {
            let found: Result<JobDetail, ClientError> = self.client.get(&format!("/jobs/{id}")).await;
            match found {
                Ok(job) => return Ok(Some(job)),
                Err(error) if error.code() == Some("no_such_job") => return Ok(None),
                Err(error) => tracing::debug!(%error, "Job {} cannot be read now", id.short()),
            }
            self.bear_silence()?;
            self.clock.sleep(PAUSE).await;
        }
    }

    /// The file of a job: one of its name, or else one with its text. A file in the inbox is none of a job that is done: it
    /// was dropped or moved there to be done.
    fn file_of(&self, job: &JobDetail) -> Result<Option<(Folder, String)>, Failure> {
        let names = self.names()?;
        let at_home = Folder::of(job.job.stage);
        let is_done = !matches!(at_home, Folder::Inbox | Folder::Building);
        let is_away = |folder: &Folder| *folder != at_home && !(is_done && *folder == Folder::Inbox);
        let folders = std::iter::once(at_home).chain(Folder::ALL.into_iter().filter(is_away));
        let strays = folders.flat_map(|folder| self.strays(&names, folder).into_iter().map(move |name| (folder, name)));
        let strays: Vec<(Folder, String)> = strays.collect();
        let key = job.job.idempotency_key.as_deref().unwrap_or_default();
        let is_named = |name: &str| keys(name).next().is_some_and(|base| is_of(key, &base));
        let is_written = |folder: Folder, name: &str| {
            self.queue.read(folder, name).is_ok_and(|content| content.bytes == job.body_md.as_bytes())
        };
        let by_name = strays.iter().find(|(_, name)| is_named(name));
        Ok(by_name.or_else(|| strays.iter().find(|(folder, name)| is_written(*folder, name))).cloned())
    }

    /// The latest job that had a file's name and that no other file is.
    async fn latest_job_of(&self, folder: Folder, name: &str) -> Result<Option<JobDetail>, Failure> {
        let content = self.queue.read(folder, name).ok();
        let text = content.as_ref().and_then(|content| std::str::from_utf8(&content.bytes).ok());
        let manifest = text.and_then(|text| Manifest::parse(text, Strictness::Lenient).ok());
        let Some(manifest) = manifest else { return Ok(None) };
        let product = manifest.spec.product.or_else(|| self.terms.product.clone());
        let product = product.unwrap_or_else(ProductId::default_product);
        let mut latest = None;
        for key in keys(name) {
            let id = JobId::derived(&product, &key);
            match self.known(id).await? {
                Some(_) if self.files.contains_key(&id) => {}
                Some(job) => latest = Some(job),
                None => break,
            }
        }
        Ok(latest)
    }

    /// The jobs' files in a folder that have no record.
    fn strays<'k>(&'k self, names: &Names, folder: Folder) -> Vec<String> {
        let of = |record: &'k Record| std::iter::once(record.name.as_str()).chain(record.was.as_deref());
        let known: BTreeSet<&str> = self.files.values().flat_map(of).collect();
        let manifests = names.within(folder).iter().filter(|name| kind(name) == Kind::Manifest);
        manifests.filter_map(|name| name.to_str()).filter(|name| !known.contains(name)).map(str::to_owned).collect()
    }

    fn names(&self) -> Result<Names, Failure> {
        self.queue.names().map_err(|error| Failure::failed(format!("cannot read the folders: {error}")))
    }
}

/// Whether a key is `base`, `base#2`, …
fn is_of(key: &str, base: &str) -> bool {
    key.strip_prefix(base).is_some_and(|rest| rest.is_empty() || rest.starts_with('#'))
}

#[cfg(test)]
mod tests {
    use super::*;

    // [F8]
    #[test]
    fn a_key_belongs_to_the_name_that_it_was_made_of() {
        let base = |name: &str| keys(name).next().unwrap();

        assert_eq!(keys("a.md").take(2).collect::<Vec<_>>(), ["a.md", "a.md#2"]);
        assert!(is_of("a.md", &base("a.md")) && is_of("a.md#2", &base("a.md")));
        assert!(!is_of("a.md-2", &base("a.md")) && !is_of("b.md", &base("a.md")));
    }
}
