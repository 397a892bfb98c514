//! Synchronises the folders and the store: each change of a job moves its file, each change of a file acts on its
//! job. Everything here can be done again; what a crash leaves half done is finished by the next look.

mod actions;
mod feed;
mod new_files;
mod placement;
mod profiles;
mod recovery;
mod submission;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::sync::Arc;
use std::time::Duration;

use client::{Client, ClientError};
use domain::{Clock, EventKind, JobEvent, JobId, ProductId, StageName};
use factory::DirectoryWatch;
use protocol::{JobDetail, JobView};
use tokio_util::sync::CancellationToken;

use super::console::{Console, FileEvent};
use super::debounce::{QUIET, UnstableFiles};
use super::file_location::{FileLocation, locate};
use super::folder::Folder;
use super::queue::{FileStamp, Names, Queue};
use super::records::{Record, Records};
use super::reports;
use super::tracked_client::TrackedClient;
use crate::failure::Failure;
use crate::output::Output;

use feed::{Feed, FeedMessage};

/// The pause before a job that is older than its news is read again, and how often it is.
const CATCH_UP_PAUSE: Duration = Duration::from_millis(20);
const CATCH_UP_MAX: u32 = 100;

/// How a queue is kept.
#[derive(Debug, Clone)]
pub(crate) struct SyncOptions {
    /// Where the records are.
    pub(crate) records: std::path::PathBuf,
    /// The product of files that name none.
    pub(crate) product: Option<ProductId>,
    /// How often the folders are scanned without a notification.
    pub(crate) sweep_every: Duration,
    /// Until when.
    pub(crate) until: Until,
}

/// How a time of keeping ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SyncEnd {
    /// The user stopped it.
    UntilStopped,
    /// Everything has ended.
    UntilAllEnded,
}

/// How long a queue is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Until {
    /// Until the user stops it.
    Stopped,
    /// Until everything in it has ended.
    AllEnded,
}

/// Keeps one queue.
pub(crate) struct QueueSync<'o> {
    queue: Queue,
    records: Records,
    client: TrackedClient,
    clock: Arc<dyn Clock>,
    console: Console<'o>,
    pub(super) terms: SyncOptions,
    feed: Feed,
    /// The files that are jobs.
    files: BTreeMap<JobId, Record>,
    /// Their jobs as they were last seen.
    pub(super) jobs: BTreeMap<JobId, JobView>,
    /// Jobs whose last read failed: their cached state may be stale.
    pub(super) stale: BTreeSet<JobId>,
    /// Jobs whose record could not be read, until the store has identified them.
    torn: Vec<JobId>,
    looks: UnstableFiles,
    /// Files that were not found, since when: an editor that saves removes a file for a moment.
    missing: BTreeMap<JobId, Duration>,
    /// What was warned about already.
    told: BTreeSet<OsString>,
    /// The jobs that were open at the start or submitted since.
    pub(super) session: BTreeSet<JobId>,
    /// Files that are no jobs, and why.
    pub(super) refused: BTreeMap<String, String>,
    /// Files that are no jobs and could not be moved away: what they looked like then, and why they are none.
    stuck: BTreeMap<String, (FileStamp, String)>,
    /// The reasons of jobs that wait for an operator.
    pub(super) waiting: BTreeMap<JobId, String>,
    /// Whether a file waits to be taken or submitted.
    pub(super) is_taking: bool,
    /// The text of each profile file as it was last created or rejected, and the reported problems.
    pub(super) profiles: BTreeMap<std::path::PathBuf, String>,
    /// The error of the last scan of the folders.
    pub(super) unreadable: Option<String>,
    /// Why it could not be written down which files were taken, when that was last tried.
    pub(super) unwritable: Option<String>,
    /// Since when something cannot be read or written.
    pub(super) blind_since: Option<Duration>,
}

impl<'o> QueueSync<'o> {
    /// Reads the records. Nothing is moved yet.
    pub(crate) fn open(
        queue: Queue,
        terms: SyncOptions,
        client: Client,
        clock: Arc<dyn Clock>,
        out: &'o Output,
    ) -> Result<Self, Failure> {
        let client = TrackedClient::new(client, Arc::clone(&clock));
        let records = Records::open(&terms.records)?;
        queue.clear_unfinished();
        let found = records.list()?;
        let files = found.whole.into_iter().map(|record| (record.job, record)).collect();
        Ok(Self {
            feed: Feed::new(client.clone()),
            console: Console::new(out, Arc::clone(&clock)),
            queue,
            records,
            client,
            clock,
            terms,
            files,
            jobs: BTreeMap::new(),
            stale: BTreeSet::new(),
            torn: found.torn,
            looks: UnstableFiles::default(),
            missing: BTreeMap::new(),
            told: BTreeSet::new(),
            session: BTreeSet::new(),
            refused: BTreeMap::new(),
            stuck: BTreeMap::new(),
            waiting: BTreeMap::new(),
            is_taking: true,
            profiles: BTreeMap::new(),
            unreadable: None,
            unwritable: None,
            blind_since: None,
        })
    }

    /// Synchronises folders and store for the first time.
    pub(crate) async fn begin(&mut self) -> Result<(), Failure> {
        // The stream first: whatever happens after the jobs were read is in it.
        while !matches!(self.feed.next().await, FeedMessage::Afresh) {
            self.bear_silence()?;
        }
        self.recover().await?;
        self.refresh().await;
        // One that was taken and never submitted has no job yet.
        let is_open = |record: &&Record| match self.jobs.get(&record.job) {
            Some(job) => crate::command::asks(job) || !crate::command::is_settled(job),
            None => record.folder != Folder::Shipped,
        };
        self.session = self.files.values().filter(is_open).map(|record| record.job).collect();
        self.look().await;
        for id in self.ids() {
            // A crash between a move and its report.
            if let (Some(record), Some(job)) = (self.files.get(&id), self.jobs.get(&id).cloned())
                && !reports::has_result(&self.queue, record.folder, &record.name)
            {
                self.describe(id, &job).await;
            }
        }
        Ok(())
    }

    /// Synchronises them until `stop`, or in `--once` mode until all jobs have ended.
    pub(crate) async fn keep(&mut self, stop: &CancellationToken) -> Result<SyncEnd, Failure> {
        let mut watch = DirectoryWatch::on(self.queue.folders(), Arc::clone(&self.clock));
        let mut look_at = Duration::ZERO;
        loop {
            let now = self.clock.monotonic();
            if now >= look_at {
                look_at = now + self.look().await;
                self.look_at_the_store().await;
            }
            let is_pressed = self.terms.until == Until::AllEnded && self.client.is_in_trouble();
            if is_pressed {
                look_at = look_at.min(self.clock.monotonic() + QUIET);
            }
            if self.terms.until == Until::AllEnded {
                if self.is_over().await {
                    return Ok(SyncEnd::UntilAllEnded);
                }
                self.bear_blindness()?;
            }
            let pause = look_at.saturating_sub(self.clock.monotonic());
            let pause = if self.blind_since.is_some() { pause.min(QUIET) } else { pause };
            tokio::select! {
                () = stop.cancelled() => return Ok(SyncEnd::UntilStopped),
                () = watch.changed() => look_at = Duration::ZERO,
                () = self.clock.sleep(pause) => {}
                news = self.feed.next() => match news {
                    FeedMessage::Happened(event) => self.happened(&event).await,
                    FeedMessage::Afresh => {
                        self.refresh().await;
                        look_at = Duration::ZERO;
                    }
                    FeedMessage::Unavailable => {}
                },
            }
        }
    }

    /// The final pass: moves every file to the folder of its job's last stage.
    pub(crate) async fn settle(&mut self) {
        self.refresh().await;
        for id in self.ids() {
            self.place(id).await;
        }
    }

    /// Checks every file once; returns when to check again at the latest.
    async fn look(&mut self) -> Duration {
        let names = match self.queue.names() {
            Ok(names) => names,
            Err(error) => return self.go_blind(&error),
        };
        self.unreadable = None;
        self.is_taking = false;
        let mut next = self.terms.sweep_every;
        for id in self.ids() {
            next = next.min(self.look_for(id, &names).await);
        }
        next = next.min(self.take_in().await);
        if !self.is_taking {
            self.unwritable = None;
        }
        if self.unwritable.is_some() { next.min(QUIET) } else { next }
    }

    /// The folders cannot be read: nothing is known about them, least of all that they are empty.
    fn go_blind(&mut self, error: &std::io::Error) -> Duration {
        let why = format!("cannot read the folders: {error}");
        if self.unreadable.as_ref() != Some(&why) {
            self.console.warn(&why);
        }
        self.unreadable = Some(why);
        QUIET
    }

    /// Checks one file; returns when to check again at the latest.
    async fn look_for(&mut self, id: JobId, names: &Names) -> Duration {
        let Some(record) = self.files.get_mut(&id) else { return self.terms.sweep_every };
        let found = locate(record, names);
        if found != FileLocation::Gone {
            self.missing.remove(&id);
        }
        let mut next = self.terms.sweep_every;
        match found {
            FileLocation::Here => {
                if record.moving_to.take().is_some() {
                    record.name = record.was.take().unwrap_or_else(|| record.name.clone());
                    self.write_down(id);
                }
                next = self.look_for_changes(id).await;
            }
            FileLocation::Arrived(folder) => {
                record.folder = folder;
                record.moving_to = None;
                record.was = None;
                self.write_down(id);
            }
            FileLocation::Elsewhere(folder) => next = self.obey(id, folder).await,
            FileLocation::Gone => {
                let now = self.clock.monotonic();
                let since = *self.missing.entry(id).or_insert(now);
                let left = QUIET.saturating_sub(now.saturating_sub(since));
                if !left.is_zero() {
                    return left;
                }
                self.give_up(id).await;
            }
        }
        self.place(id).await;
        next
    }

    /// Something happened to a job.
    async fn happened(&mut self, event: &JobEvent) {
        let id = event.job_id;
        if !self.files.contains_key(&id) || self.jobs.get(&id).is_some_and(|job| job.seq >= event.seq) {
            return;
        }
        let may_settle = event.stage.is_terminal() || matches!(event.stage, StageName::Review | StageName::Testing);
        // A job without a holder may wait for an operator, and an answered one no longer does: all its fields count, not
        // only where it is.
        let is_given_back = matches!(event.kind, EventKind::Asked | EventKind::Released | EventKind::Unblocked);
        match self.jobs.get_mut(&id) {
            Some(job) if !may_settle && !is_given_back => {
                job.stage = event.stage;
                job.seq = event.seq;
            }
            _ => self.read_behind(event).await,
        }
        if let EventKind::AttemptFailed | EventKind::ErrandFailed | EventKind::Reaped = event.kind {
            self.tell_of(event);
        }
        self.place(id).await;
    }

    fn tell_of(&self, event: &JobEvent) {
        let Some(record) = self.files.get(&event.job_id) else { return };
        let message = event.sentence();
        let (file, stage) = (record.name.as_str(), Some(event.stage));
        self.console.tell(&FileEvent { file, folder: record.folder, job_id: Some(record.job), stage, message });
    }

    /// Reads every job whose file may have to move.
    async fn refresh(&mut self) {
        for id in self.ids() {
            // A shipped job stays shipped; if the user moves its file, it is read then.
            let is_over = self.files.get(&id).is_some_and(|record| record.folder == Folder::Shipped);
            if !is_over {
                self.read(id).await;
            }
        }
    }

    pub(super) async fn read(&mut self, id: JobId) {
        let answer: Result<JobDetail, ClientError> = self.client.get(&format!("/jobs/{id}")).await;
        self.stale.remove(&id);
        match answer {
            Ok(detail) => drop(self.jobs.insert(id, detail.job)),
            Err(error) if error.code() == Some("no_such_job") => {
                // Submitting stopped half-way, or a backup was put back that knows nothing of it.
                self.jobs.remove(&id);
                if let Some(record) = self.files.get_mut(&id) {
                    record.is_submitted = false;
                }
            }
            Err(error) => {
                tracing::debug!(%error, "Job `{id}` cannot be read now");
                self.stale.insert(id);
            }
        }
    }

    /// Reads a job as it is after an event: news can overtake what a coordinator answers from.
    async fn read_behind(&mut self, event: &JobEvent) {
        for _ in 0..CATCH_UP_MAX {
            self.read(event.job_id).await;
            if self.jobs.get(&event.job_id).is_some_and(|job| job.seq >= event.seq) {
                return;
            }
            self.clock.sleep(CATCH_UP_PAUSE).await;
        }
    }

    fn ids(&self) -> Vec<JobId> {
        self.files.keys().copied().collect()
    }

    /// Writes a record down that could be worked out again.
    fn write_down(&self, id: JobId) {
        let Some(record) = self.files.get(&id) else { return };
        if let Err(error) = self.records.keep(record) {
            self.console.warn(&format!("cannot record where {} is: {error}", record.name));
        }
    }

    pub(super) fn console(&self) -> &Console<'o> {
        &self.console
    }

    pub(super) fn client(&self) -> &TrackedClient {
        &self.client
    }

    pub(super) fn now(&self) -> domain::Timestamp {
        self.clock.now()
    }

    pub(super) fn monotonic(&self) -> Duration {
        self.clock.monotonic()
    }

    /// The directory of the queue.
    pub(super) fn root(&self) -> &std::path::Path {
        self.queue.root()
    }

    /// The folder that a job's file is in.
    pub(super) fn folder_of(&self, id: JobId) -> Option<Folder> {
        self.files.get(&id).map(|record| record.folder)
    }

    /// The name of a job's file.
    pub(super) fn name_of(&self, id: JobId) -> Option<&str> {
        self.files.get(&id).map(|record| record.name.as_str())
    }

    /// Whether a record waits for its submit.
    pub(super) fn is_submitting(&self) -> bool {
        self.files.values().any(|record| !record.is_submitted)
    }
}
