//! Files in the inbox that become jobs, or do not.

use std::collections::BTreeSet;
use std::time::Duration;

use client::ClientError;
use domain::{JobId, Manifest, ProductId, Strictness};
use protocol::JobDetail;
use sha2::{Digest, Sha256};

use super::QueueSync;
use crate::local::console::FileEvent;
use crate::local::debounce::{Kind, kind};
use crate::local::folder::Folder;
use crate::local::queue::{Content, MoveOutcome, Names, free_name, hex};
use crate::local::records::Record;
use crate::local::reports;

/// The longest key that a coordinator takes.
const KEY_BYTES_MAX: usize = 190;

/// So many jobs can one name have had.
const KEYS_MAX: u32 = 10_000;

/// What a file without a record can become.
pub(super) struct Draft {
    /// A job of its own.
    pub(super) record: Record,
    /// A job of its name that waits or runs and has no known file: it can only be this one.
    lost: Option<Box<JobDetail>>,
}

/// A key that no job has.
struct FreeKey {
    key: String,
    job: JobId,
    lost: Option<Box<JobDetail>>,
}

/// The keys that the jobs of a file's name have, one after the other.
pub(super) fn keys(name: &str) -> impl Iterator<Item = String> {
    let is_usable = name.len() + 8 <= KEY_BYTES_MAX && name.chars().all(domain::is_terminal_safe);
    let base = if is_usable { name.to_owned() } else { hex(&Sha256::digest(name.as_bytes())[..16]) };
    (1..=KEYS_MAX).map(move |n| if n == 1 { base.clone() } else { format!("{base}#{n}") })
}

impl QueueSync<'_> {
    /// Takes every complete file in the inbox; returns when to check again at the latest.
    pub(super) async fn take_in(&mut self) -> Duration {
        let mut next = self.terms.sweep_every;
        let names = match self.queue.names() {
            Ok(names) => names,
            Err(error) => return self.go_blind(&error),
        };
        let in_inbox = self.files.values().filter(|record| record.folder == Folder::Inbox);
        let known: BTreeSet<String> = in_inbox.map(|record| record.name.clone()).collect();
        let mut whole = Vec::new();
        for name in names.within(Folder::Inbox) {
            match (kind(name), name.to_str()) {
                (Kind::Ignored, _) => {}
                (Kind::Manifest, Some(text)) if known.contains(text) => {}
                (Kind::Manifest, Some(text)) => match self.patience(text) {
                    None => {}
                    Some(Duration::ZERO) => whole.push(text.to_owned()),
                    Some(wait) => next = next.min(wait),
                },
                (Kind::Odd(why), _) => self.point_out(name, why),
                (Kind::Manifest, None) => {}
            }
        }
        self.looks.keep(|name| names.has(Folder::Inbox, name));
        self.stuck.retain(|name, _| names.has(Folder::Inbox, name));
        self.told.retain(|name| names.within(Folder::Inbox).contains(name));
        self.is_taking |= next < self.terms.sweep_every;
        let mut taken: BTreeSet<String> = self.files.values().map(|record| record.name.clone()).collect();
        for name in whole {
            let Some(name) = self.own_name(&name, &taken, &names) else { continue };
            self.take(&name).await;
            taken.insert(name);
        }
        self.submit_all().await;
        next
    }

    /// How long a file in the inbox still has to be left alone; `None` for one that is not to be taken.
    fn patience(&mut self, name: &str) -> Option<Duration> {
        let Some(stamp) = self.queue.stamp(Folder::Inbox, name) else {
            self.point_out(name.as_ref(), "it is a link, a directory or a device: only files are accepted");
            return None;
        };
        if stamp.is_empty() {
            return None;
        }
        Some(self.looks.wait_for(name, stamp, self.clock.now(), self.clock.monotonic()))
    }

    /// Creates a record of a file, or returns why it cannot be a job.
    async fn take(&mut self, name: &str) {
        if let Some((stamp, why)) = self.stuck.get(name).cloned()
            && self.queue.stamp(Folder::Inbox, name) == Some(stamp)
        {
            return self.refuse(name, &why);
        }
        let content = match self.queue.read(Folder::Inbox, name) {
            Ok(content) => content,
            Err(error) => {
                self.point_out(name.as_ref(), &format!("it cannot be read: {error}"));
                return;
            }
        };
        match self.draft(name, &content).await {
            Ok(Some(Draft { lost: Some(job), .. })) => self.adopt(*job, Folder::Inbox, name).await,
            Ok(Some(Draft { record, lost: None })) => drop(self.accept(record)),
            Ok(None) => self.is_taking = true,
            Err(why) => self.refuse(name, &why),
        }
    }

    /// A name that no other job's file has: the file is given another if need be, which a crash makes nothing of.
    fn own_name(&self, name: &str, taken: &BTreeSet<String>, names: &Names) -> Option<String> {
        if !taken.contains(name) {
            return Some(name.to_owned());
        }
        let free = free_name(name, |free| taken.contains(free) || names.has_anywhere(free));
        match self.queue.shift((Folder::Inbox, name), (Folder::Inbox, &free)) {
            Ok(MoveOutcome::Done) => Some(free),
            Ok(MoveOutcome::Taken | MoveOutcome::Missing) => None,
            Err(error) => {
                self.console.warn(&format!("cannot rename {name}: {error}"));
                None
            }
        }
    }

    /// A new job for a file; `None` if that cannot be determined now; or the errors of the file.
    pub(super) async fn draft(&self, name: &str, content: &Content) -> Result<Option<Draft>, String> {
        let text = std::str::from_utf8(&content.bytes);
        let text = text.map_err(|_| "it is not text: manifests are Markdown in UTF-8".to_owned())?;
        let manifest = Manifest::parse(text, Strictness::Lenient).map_err(|findings| reports::findings(&findings))?;
        for warning in &manifest.warnings {
            self.console.warn(&format!("{name}: {warning}"));
        }
        let product = manifest.spec.product.or_else(|| self.terms.product.clone());
        let free = self.free_key(name, &product.unwrap_or_else(ProductId::default_product)).await;
        Ok(free.map(|FreeKey { key, job, lost }| Draft {
            record: Record {
                v: 1,
                job,
                key,
                name: name.to_owned(),
                was: None,
                folder: Folder::Inbox,
                moving_to: None,
                is_submitted: false,
                replaces: None,
                sha256: content.sha256(),
                stamp: content.stamp,
            },
            lost,
        }))
    }

    /// The first of `name`, `name#2`, … that no job has: others can wait for it by `key:name`.
    async fn free_key(&self, name: &str, product: &ProductId) -> Option<FreeKey> {
        let mut lost = None;
        for key in keys(name) {
            let job = JobId::derived(product, &key);
            if self.files.contains_key(&job) {
                continue;
            }
            let found: Result<JobDetail, ClientError> = self.client.get(&format!("/jobs/{job}")).await;
            match found {
                Ok(detail) if matches!(Folder::of(detail.job.stage), Folder::Inbox | Folder::Building) => {
                    lost = Some(Box::new(detail));
                }
                Ok(_) => {}
                Err(error) if error.code() == Some("no_such_job") => return Some(FreeKey { key, job, lost }),
                Err(_) => return None,
            }
        }
        None
    }

    /// Takes a file on: from here on it will be submitted, once, whatever happens to this process.
    pub(super) fn accept(&mut self, record: Record) -> bool {
        if let Err(error) = self.records.keep(&record) {
            let why = format!("cannot record which files were accepted: {error}");
            if self.unwritable.as_ref() != Some(&why) {
                self.console.warn(&format!("{}: {why}", record.name));
            }
            self.unwritable = Some(why);
            self.is_taking = true;
            return false;
        }
        self.unwritable = None;
        #[cfg(feature = "failpoints")]
        fail::fail_point!("local::taken");
        self.session.insert(record.job);
        self.refused.remove(&record.name);
        self.stuck.remove(&record.name);
        let failed_before = self.queue.path(Folder::Failed, &record.name);
        if !failed_before.exists() {
            reports::remove(&self.queue, Folder::Failed, &record.name);
        }
        self.files.insert(record.job, record);
        true
    }

    /// Moves a file that is no job to `failed/`, with the reason beside it.
    pub(super) fn refuse(&mut self, name: &str, why: &str) {
        let refused = self.queue.names().and_then(|names| {
            let free = free_name(name, |free| names.has(Folder::Failed, free));
            reports::write_error(&self.queue, &free, why)?;
            self.queue.shift((Folder::Inbox, name), (Folder::Failed, &free))?;
            Ok(free)
        });
        match refused {
            Ok(free) => {
                let why = reports::in_one_line(why);
                let message = format!("not a job: {why}");
                self.console.tell(&FileEvent {
                    file: &free,
                    folder: Folder::Failed,
                    job_id: None,
                    stage: None,
                    message,
                });
                self.stuck.remove(name);
                self.refused.remove(name);
                self.refused.insert(free, why);
            }
            Err(error) => self.leave(name, why, &error),
        }
    }

    /// A file that is no job and cannot be moved away counts as failed. It is moved later, if it
    /// can be, and read again only when it has changed.
    fn leave(&mut self, name: &str, why: &str, error: &std::io::Error) {
        let said = format!("{}; it could not be moved to failed/: {error}", reports::in_one_line(why));
        if self.refused.get(name) != Some(&said) {
            self.console.warn(&format!("{name} is not a job, and cannot be moved to failed/: {error}"));
        }
        self.refused.insert(name.to_owned(), said);
        if let Some(stamp) = self.queue.stamp(Folder::Inbox, name) {
            self.stuck.insert(name.to_owned(), (stamp, why.to_owned()));
        }
    }

    /// Warns once about something in the inbox that stays there.
    fn point_out(&mut self, name: &std::ffi::OsStr, why: &str) {
        if self.told.insert(name.to_owned()) {
            let shown = name.to_string_lossy().into_owned();
            self.console.warn(&format!("{shown} is ignored: {why}"));
            self.refused.insert(shown, why.to_owned());
        }
    }
}
