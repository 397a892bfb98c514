//! Live logs: engine output, while the run lasts [J9].

use std::sync::Arc;

use domain::{Epoch, JobId, Refusal};
use foldhash::HashMap;
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::coordinator::Coordinator;
use crate::error::Error;
use crate::fleet::principal::Principal;
use crate::submit::invalid;

/// The size of one chunk: small enough to be fast, large enough to need few.
const CHUNK_MAX: usize = 1024 * 1024;

/// The bytes that one read returns.
const READ_MAX: u32 = 256 * 1024;

/// Notifies readers when a job's log grows or its run ends.
#[derive(Default)]
pub(crate) struct LogNotifier {
    listeners: Mutex<HashMap<JobId, Arc<Notify>>>,
}

impl LogNotifier {
    fn listen(&self, job: JobId) -> Arc<Notify> {
        Arc::clone(self.listeners.lock().entry(job).or_default())
    }

    /// Removes a reader: the last one removes the notifier.
    fn leave(&self, job: JobId) {
        let mut listeners = self.listeners.lock();
        if listeners.get(&job).is_some_and(|bell| Arc::strong_count(bell) == 1) {
            listeners.remove(&job);
        }
    }

    pub(crate) fn ring(&self, job: JobId) {
        let mut listeners = self.listeners.lock();
        if let Some(bell) = listeners.get(&job) {
            bell.notify_waiters();
            if Arc::strong_count(bell) == 1 {
                listeners.remove(&job);
            }
        }
    }
}

/// The most bytes of a tail.
const TAIL_MAX: u64 = 1024 * 1024;

/// The longest line of which a tail drops the rest.
const LINE_LEN_MAX: u32 = 64 * 1024;

/// Where a reader of a log begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogStart {
    /// At this offset in bytes.
    Offset(u64),
    /// At the first line that begins in the last this many bytes, 1 MiB at most.
    Tail(u64),
}

/// A reader of one job's log.
pub struct LogReader {
    coordinator: Arc<Coordinator>,
    job: JobId,
    epoch: Epoch,
    offset: u64,
    length: u64,
    until: Until,
}

/// When a reader stops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Until {
    Now,
    RunEnds,
}

impl Coordinator {
    /// Appends a holder's output. Fenced like every other write; a repeated chunk changes nothing.
    pub async fn append_log(
        &self,
        who: &Principal,
        id: JobId,
        epoch: Epoch,
        offset: u64,
        chunk: &[u8],
    ) -> Result<u64, Error> {
        let factory = who.factory()?;
        if chunk.len() > CHUNK_MAX {
            return Err(invalid("chunk", format!("{CHUNK_MAX} bytes at most, found {}", chunk.len())));
        }
        let job = self.workable(who, id).await?;
        let run = job.value.run().filter(|run| run.epoch == epoch && run.factory == *factory);
        // A restored job may not have been migrated yet, if that write failed at the start (row 28).
        if run.is_none() || job.value.generation() < self.generation {
            return Err(Refusal::StaleEpoch { shown: epoch, held: job.value.epoch() }.into());
        }
        let length = self.ports.logs.append(id, epoch, offset, chunk).await?;
        self.log_notifier.ring(id);
        Ok(length)
    }

    /// Reads a job's log: of one run, or of the latest run with output.
    pub async fn log(
        self: &Arc<Self>,
        who: &Principal,
        id: JobId,
        epoch: Option<Epoch>,
        start: LogStart,
        follow: bool,
    ) -> Result<LogReader, Error> {
        let job = self.visible(who, id).await?;
        let logs = self.ports.logs.logs(id).await?;
        let latest = || job.value.run().map(|run| run.epoch).or(logs.last().map(|(epoch, _)| *epoch));
        let epoch = epoch.or_else(latest).unwrap_or(Epoch(0));
        let length = logs.iter().find(|(known, _)| *known == epoch).map_or(0, |(_, length)| *length);
        let offset = match start {
            LogStart::Offset(offset) => offset,
            LogStart::Tail(bytes) => self.tail_of(id, epoch, length, bytes).await?,
        };
        let until = if follow { Until::RunEnds } else { Until::Now };
        Ok(LogReader { coordinator: Arc::clone(self), job: id, epoch, offset, length, until })
    }

    /// The offset of the first line that begins in the last bytes of a log.
    async fn tail_of(&self, id: JobId, epoch: Epoch, length: u64, bytes: u64) -> Result<u64, Error> {
        let start = length.saturating_sub(bytes.min(TAIL_MAX));
        if start == 0 || start == length {
            return Ok(start);
        }
        // One byte earlier: the cut may be at the beginning of a line.
        let chunk = self.ports.logs.read(id, epoch, start - 1, LINE_LEN_MAX).await?;
        let end = chunk.iter().position(|byte| *byte == b'\n').map(|at| start + at as u64);
        Ok(end.filter(|end| *end < length).unwrap_or(start))
    }
}

impl LogReader {
    /// The epoch of the run that is read.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Where the reader is, in bytes.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// The length of the log when the reader was opened.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// The next bytes; `None` at the end: now, or when the run has ended.
    pub async fn next(&mut self) -> Option<Vec<u8>> {
        loop {
            let bell = self.coordinator.log_notifier.listen(self.job);
            let rung = bell.notified();
            tokio::pin!(rung);
            rung.as_mut().enable();
            let is_over = self.is_run_over().await || self.until == Until::Now;
            let chunk = self.coordinator.ports.logs.read(self.job, self.epoch, self.offset, READ_MAX).await.ok()?;
            if !chunk.is_empty() {
                self.offset += chunk.len() as u64;
                return Some(chunk);
            }
            if is_over {
                return None;
            }
            tokio::select! {
                () = rung => {}
                () = self.coordinator.stopped() => return None,
            }
        }
    }

    /// Whether the log is complete. A reader that began before the first run reads that run.
    async fn is_run_over(&mut self) -> bool {
        let Ok(job) = self.coordinator.look_up(self.job).await else { return true };
        match job.value.run() {
            Some(run) if self.epoch == Epoch(0) => self.epoch = run.epoch,
            Some(_) | None => {}
        }
        let is_waiting = !job.value.stage().name().is_terminal() && job.value.runs() == 0;
        !is_waiting && job.value.run().is_none_or(|run| run.epoch != self.epoch)
    }
}

impl Drop for LogReader {
    fn drop(&mut self) {
        self.coordinator.log_notifier.leave(self.job);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_log_reader_removes_the_notifier() {
        let bells = LogNotifier::default();
        let job = JobId::from_bytes([1; 16]);
        let (first, second) = (bells.listen(job), bells.listen(job));

        drop(first);
        bells.leave(job);
        let with_one_left = bells.listeners.lock().len();
        drop(second);
        bells.leave(job);

        assert_eq!((with_one_left, bells.listeners.lock().len()), (1, 0));
    }
}
