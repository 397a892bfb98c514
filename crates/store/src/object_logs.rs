//! Logs and evidence of runs as objects, where every coordinator of the fleet finds them.

use std::cmp::Reverse;
use std::collections::BTreeMap;
#[cfg(feature = "sqlite")]
use std::io;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use domain::{Epoch, JobId, LogStore, StoreError};
use foldhash::{HashMap, HashMapExt};
use parking_lot::Mutex;
use tokio::task::JoinSet;
use tracing::warn;

use crate::objects::{DirectoryObjects, Objects};

/// Where logs begin in the place of artifacts.
const LOGS: &str = "logs";

/// Where evidence begins. Apart from the logs, because a backup lists all of it.
const EVIDENCE: &str = "evidence";

/// Logs whose segments are known without a request: more than runs at one time.
const KNOWN_MAX: usize = 1024;

/// A segment that is shorter is merged with its neighbours.
const SEGMENT_LEN: u64 = 1024 * 1024;

/// Short segments at the end of a log before they are merged. This bounds the objects of a log: a listing of it is one
/// page.
const SHORT_SEGMENTS_MAX: usize = 64;

/// Requests at one time for one log.
const REQUESTS_MAX: usize = 16;

/// How often a reader lists a log again whose segments were merged under it.
const LISTINGS_MAX: usize = 3;

/// Logs below a place of artifacts: `logs/<last two digits of the job's id>/<job>/<epoch>/<from>-<to>.log`, evidence in
/// `evidence/<last two digits>/<job>/<epoch>.json`.
///
/// A segment is one chunk, and later several: short ones are merged. What an epoch printed at an offset never changes, so
/// segments of the same bytes agree, whichever coordinator wrote them, and a repeated write changes nothing.
#[derive(Debug, Clone)]
pub struct ObjectLogs {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    objects: Arc<dyn Objects>,
    limit: u64,
    known: Mutex<HashMap<(JobId, Epoch), Arc<Log>>>,
}

/// What is known about one log.
#[derive(Debug, Default)]
struct Log {
    /// Serialises appends, because each measures the log first.
    appending: tokio::sync::Mutex<()>,
    /// `None` until they are listed.
    segments: Mutex<Option<Vec<Segment>>>,
}

/// The bytes of a log in one object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Segment {
    from: u64,
    to: u64,
}

impl Segment {
    fn len(self) -> u64 {
        self.to - self.from
    }

    fn is_short(self) -> bool {
        self.len() < SEGMENT_LEN
    }

    fn path(self, job: JobId, epoch: Epoch) -> String {
        format!("{}/{epoch}/{:012}-{:012}.log", folder(LOGS, job), self.from, self.to)
    }

    fn of_name(name: &str) -> Option<Self> {
        let (from, to) = name.strip_suffix(".log")?.split_once('-')?;
        let segment = Self { from: from.parse().ok()?, to: to.parse().ok()? };
        (segment.from <= segment.to).then_some(segment)
    }
}

fn folder(kind: &str, job: JobId) -> String {
    let name = job.to_string();
    format!("{kind}/{}/{name}", &name[name.len() - 2..])
}

fn evidence_path(job: JobId, epoch: Epoch) -> String {
    format!("{}/{epoch}.json", folder(EVIDENCE, job))
}

/// The segments that make up a log, without gaps, in order. Parts of a merged segment are left out.
fn without_gaps(mut found: Vec<Segment>) -> Vec<Segment> {
    found.sort_by_key(|segment| (segment.from, Reverse(segment.to)));
    let (mut log, mut end): (Vec<Segment>, u64) = (Vec::new(), 0);
    for segment in found {
        if segment.from <= end && (segment.to > end || log.is_empty()) {
            end = segment.to;
            log.push(segment);
        }
    }
    log
}

fn length(segments: &[Segment]) -> u64 {
    segments.last().map_or(0, |segment| segment.to)
}

/// The parts of segments that have these bytes of the log.
fn parts(segments: &[Segment], wanted: Range<u64>) -> Vec<(Segment, Range<u64>)> {
    let (mut at, mut parts) = (wanted.start, Vec::new());
    let first = segments.partition_point(|segment| segment.to <= at);
    for segment in &segments[first..] {
        let end = segment.to.min(wanted.end);
        if at >= end {
            break;
        }
        parts.push((*segment, at - segment.from..end - segment.from));
        at = end;
    }
    parts
}

impl ObjectLogs {
    /// Logs below a directory, which several coordinators may share. Each is truncated at `limit_bytes_per_log`, with a
    /// last line that reports it.
    pub fn in_directory(dir: impl Into<PathBuf>, limit_bytes_per_log: u64) -> Self {
        Self::new(Arc::new(DirectoryObjects::new(dir)), limit_bytes_per_log)
    }

    /// Logs in the bucket of artifacts.
    #[cfg(feature = "object-store")]
    pub fn in_bucket(blobs: crate::ObjectBlobs, limit_bytes_per_log: u64) -> Self {
        Self::new(Arc::new(blobs), limit_bytes_per_log)
    }

    fn new(objects: Arc<dyn Objects>, limit: u64) -> Self {
        Self { shared: Arc::new(Shared { objects, limit, known: Mutex::new(HashMap::new()) }) }
    }

    /// Whether a log exists, even an empty one.
    pub(crate) async fn has_log(&self, job: JobId, epoch: Epoch) -> Result<bool, StoreError> {
        let log = self.log(job, epoch);
        Ok(!self.segments(&log, job, epoch).await?.is_empty())
    }

    fn log(&self, job: JobId, epoch: Epoch) -> Arc<Log> {
        let mut known = self.shared.known.lock();
        if known.len() >= KNOWN_MAX && !known.contains_key(&(job, epoch)) {
            // Those in use stay: a second memory of one log would be wrong.
            known.retain(|_, log| Arc::strong_count(log) > 1);
        }
        Arc::clone(known.entry((job, epoch)).or_default())
    }

    /// The segments of a log, listed if they are not known.
    async fn segments(&self, log: &Log, job: JobId, epoch: Epoch) -> Result<Vec<Segment>, StoreError> {
        if let Some(segments) = log.segments.lock().as_ref() {
            return Ok(segments.clone());
        }
        let listed = self.list(job, epoch).await?;
        // An append that came first knows more.
        Ok(log.segments.lock().get_or_insert(listed).clone())
    }

    async fn list(&self, job: JobId, epoch: Epoch) -> Result<Vec<Segment>, StoreError> {
        let paths = self.shared.objects.list(&format!("{}/{epoch}", folder(LOGS, job))).await?;
        let found = paths.iter().filter_map(|path| Segment::of_name(path.rsplit('/').next()?));
        Ok(without_gaps(found.collect()))
    }

    /// Lists the segments of a log again.
    async fn list_again(&self, log: &Log, job: JobId, epoch: Epoch) -> Result<(), StoreError> {
        let _turn = log.appending.lock().await;
        let listed = self.list(job, epoch).await?;
        *log.segments.lock() = Some(listed);
        Ok(())
    }

    /// The bytes of parts, in order; `None` if one of the segments does not exist any more.
    async fn fetch(
        &self,
        job: JobId,
        epoch: Epoch,
        parts: Vec<(Segment, Range<u64>)>,
    ) -> Result<Option<Vec<u8>>, StoreError> {
        let mut bytes = Vec::new();
        for batch in parts.chunks(REQUESTS_MAX) {
            let wanted = batch.iter().map(|(segment, range)| (segment.path(job, epoch), Some(range.clone())));
            let found = self.get_all(wanted.collect()).await?;
            for (found, (segment, range)) in found.into_iter().zip(batch) {
                let Some(found) = found else { return Ok(None) };
                if found.len() as u64 != range.end - range.start {
                    let path = segment.path(job, epoch);
                    return Err(StoreError::Unavailable(format!("`{path}` is shorter than its name says")));
                }
                bytes.extend(found);
            }
        }
        Ok(Some(bytes))
    }

    /// Gets objects at the same time; the answers are in the order of the requests.
    async fn get_all(&self, wanted: Vec<(String, Option<Range<u64>>)>) -> Result<Vec<Option<Vec<u8>>>, StoreError> {
        let mut found = vec![None; wanted.len()];
        let mut requests = JoinSet::new();
        for (n, (path, range)) in wanted.into_iter().enumerate() {
            let objects = Arc::clone(&self.shared.objects);
            requests.spawn(async move { objects.get(&path, range).await.map(|bytes| (n, bytes)) });
        }
        while let Some(answer) = requests.join_next().await {
            let (n, bytes) =
                answer.map_err(|_| StoreError::Unavailable("the process is shutting down".to_owned()))??;
            found[n] = bytes;
        }
        Ok(found)
    }

    /// Merges the short segments at the end of a log, the earliest first, once there are many. The caller has the turn.
    async fn merge(&self, log: &Log, job: JobId, epoch: Epoch) -> Result<(), StoreError> {
        let segments = log.segments.lock().clone().unwrap_or_default();
        let first = segments.iter().rposition(|segment| !segment.is_short()).map_or(0, |long| long + 1);
        let short = segments.len() - first;
        // After a failure the next attempt is as many appends away.
        if short == 0 || !short.is_multiple_of(SHORT_SEGMENTS_MAX) {
            return Ok(());
        }
        let from = segments[first].from;
        let last = segments[first..].iter().position(|segment| segment.to - from >= SEGMENT_LEN);
        let last = last.map_or(segments.len() - 1, |last| first + last);
        let merged = Segment { from, to: segments[last].to };
        let wanted = parts(&segments, merged.from..merged.to);
        let Some(bytes) = self.fetch(job, epoch, wanted).await? else {
            return Err(StoreError::Unavailable("a segment is gone".to_owned()));
        };
        self.shared.objects.put(&merged.path(job, epoch), bytes).await?;
        let mut now = segments.clone();
        now.splice(first..=last, [merged]);
        *log.segments.lock() = Some(now);
        for batch in segments[first..=last].chunks(REQUESTS_MAX) {
            let mut requests = JoinSet::new();
            for replaced in batch.iter().filter(|segment| **segment != merged) {
                let (objects, path) = (Arc::clone(&self.shared.objects), replaced.path(job, epoch));
                requests.spawn(async move { objects.remove(&path).await });
            }
            // What stays is left out by every reader.
            while requests.join_next().await.is_some() {}
        }
        Ok(())
    }
}

#[async_trait]
impl LogStore for ObjectLogs {
    async fn append(&self, job: JobId, epoch: Epoch, offset: u64, chunk: &[u8]) -> Result<u64, StoreError> {
        let (log, limit) = (self.log(job, epoch), self.shared.limit);
        let _one_at_a_time = log.appending.lock().await;
        let segments = self.segments(&log, job, epoch).await?;
        let length = length(&segments);
        let end = offset.saturating_add(chunk.len() as u64);
        // A truncated log accepts further chunks and discards them; otherwise its writer would retry for ever.
        if length > limit {
            return Ok(end.max(length));
        }
        // The first chunk begins the log, even if it is empty.
        if offset > length || (end <= length && !segments.is_empty()) {
            return Ok(length);
        }
        let fresh = chunk.get(index(length - offset)..).unwrap_or_default();
        let room = index(limit - length);
        let (bytes, answer) = if fresh.len() <= room {
            (fresh.to_vec(), end)
        } else {
            let mut last = fresh[..room].to_vec();
            last.extend_from_slice(format!("\n[log truncated at its limit of {limit} bytes]\n").as_bytes());
            let answer = end.max(length + last.len() as u64);
            (last, answer)
        };
        let segment = Segment { from: length, to: length + bytes.len() as u64 };
        self.shared.objects.put(&segment.path(job, epoch), bytes).await?;
        log.segments.lock().get_or_insert_default().push(segment);
        if let Err(error) = self.merge(&log, job, epoch).await {
            warn!(job.id = %job, %error, "The segments of a log could not be merged");
        }
        Ok(answer)
    }

    async fn read(&self, job: JobId, epoch: Epoch, offset: u64, limit: u32) -> Result<Vec<u8>, StoreError> {
        let log = self.log(job, epoch);
        for _ in 0..LISTINGS_MAX {
            let segments = self.segments(&log, job, epoch).await?;
            let wanted = parts(&segments, offset..offset.saturating_add(u64::from(limit)));
            if let Some(bytes) = self.fetch(job, epoch, wanted).await? {
                return Ok(bytes);
            }
            self.list_again(&log, job, epoch).await?;
        }
        Err(StoreError::Unavailable(format!("a segment of the log of job `{job}` is gone")))
    }

    async fn logs(&self, job: JobId) -> Result<Vec<(Epoch, u64)>, StoreError> {
        let folder = folder(LOGS, job);
        let mut logs: BTreeMap<Epoch, Vec<Segment>> = BTreeMap::new();
        for path in self.shared.objects.list(&folder).await? {
            let parts = path.strip_prefix(&folder).and_then(|rest| rest.strip_prefix('/')?.split_once('/'));
            let Some((epoch, name)) = parts else { continue };
            if let (Ok(epoch), Some(segment)) = (epoch.parse(), Segment::of_name(name)) {
                logs.entry(Epoch(epoch)).or_default().push(segment);
            }
        }
        Ok(logs.into_iter().map(|(epoch, found)| (epoch, length(&without_gaps(found)))).collect())
    }

    async fn keep_evidence(&self, job: JobId, epoch: Epoch, document: &[u8]) -> Result<(), StoreError> {
        self.shared.objects.put(&evidence_path(job, epoch), document.to_vec()).await
    }

    async fn evidence(&self, job: JobId, epoch: Epoch) -> Result<Option<Vec<u8>>, StoreError> {
        self.shared.objects.get(&evidence_path(job, epoch), None).await
    }
}

/// Backups run on blocking threads of the runtime.
#[cfg(feature = "sqlite")]
impl ObjectLogs {
    /// The runs with evidence.
    pub(crate) fn runs_with_evidence(&self) -> io::Result<Vec<(JobId, Epoch)>> {
        let paths = wait(self.shared.objects.list(EVIDENCE))?;
        let run = |path: &String| {
            let (folder, name) = path.rsplit_once('/')?;
            let job = folder.rsplit('/').next()?.parse().ok()?;
            Some((job, Epoch(name.strip_suffix(".json")?.parse().ok()?)))
        };
        Ok(paths.iter().filter_map(run).collect())
    }

    /// Visits all evidence, in no order.
    pub(crate) fn each_evidence<E: From<io::Error>>(
        &self,
        mut show: impl FnMut(JobId, Epoch, Vec<u8>) -> Result<(), E>,
    ) -> Result<(), E> {
        for batch in self.runs_with_evidence()?.chunks(REQUESTS_MAX) {
            let wanted = batch.iter().map(|(job, epoch)| (evidence_path(*job, *epoch), None));
            for (found, (job, epoch)) in wait(self.get_all(wanted.collect()))?.into_iter().zip(batch) {
                if let Some(document) = found {
                    show(*job, *epoch, document)?;
                }
            }
        }
        Ok(())
    }

    pub(crate) fn add_evidence(&self, job: JobId, epoch: Epoch, document: &[u8]) -> io::Result<()> {
        wait(self.keep_evidence(job, epoch, document))
    }

    pub(crate) fn remove_evidence(&self, job: JobId, epoch: Epoch) -> io::Result<()> {
        wait(self.shared.objects.remove(&evidence_path(job, epoch)))
    }
}

#[cfg(feature = "sqlite")]
fn wait<T>(request: impl Future<Output = Result<T, StoreError>>) -> io::Result<T> {
    tokio::runtime::Handle::current().block_on(request).map_err(io::Error::other)
}

/// Converts to an index; saturates beyond the address space.
fn index(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segments(found: &[(u64, u64)]) -> Vec<Segment> {
        found.iter().map(|(from, to)| Segment { from: *from, to: *to }).collect()
    }

    // [J9]
    #[test]
    fn a_log_ends_at_its_first_gap_and_merged_parts_are_left_out() {
        let found = segments(&[(10, 20), (0, 5), (0, 10), (5, 10), (20, 20), (15, 30), (31, 40)]);

        assert_eq!(without_gaps(found), segments(&[(0, 10), (10, 20), (15, 30)]));
        assert_eq!(without_gaps(segments(&[(0, 0)])), segments(&[(0, 0)]));
        assert_eq!(without_gaps(segments(&[(3, 9)])), []);
    }

    #[test]
    fn a_read_takes_each_byte_from_one_segment() {
        let log = segments(&[(0, 10), (10, 20), (15, 30)]);
        let taken = |wanted: Range<u64>| -> Vec<(u64, u64)> {
            parts(&log, wanted).into_iter().map(|(of, range)| (of.from + range.start, of.from + range.end)).collect()
        };

        assert_eq!(taken(4..25), [(4, 10), (10, 20), (20, 25)]);
        assert_eq!(taken(10..12), [(10, 12)]);
        assert_eq!(taken(29..99), [(29, 30)]);
        assert_eq!(taken(30..99), []);
    }
}
