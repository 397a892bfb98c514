//! The record beside a store: its identity and the end of its log, so that a store that lost acknowledged work is
//! refused instead of started (row 37).
//!
//! The record is not the truth. It may lag behind the store, but is never ahead of what the store has flushed. It has
//! two slots that are written alternately and in place, each with a checksum: a torn write leaves the other slot
//! intact, and a full disk has room for the next write. Only the first and the last write are flushed: a killed
//! process loses nothing of the record, a power failure may lose the latest updates.

use std::fmt;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use domain::{Generation, Position};
use serde_json::{Value, json};
use tracing::warn;

use crate::private;

/// Length of one slot: the fields, padding and a newline, so that the file is readable text.
const SLOT_LEN: usize = 512;

/// The facts about a store that are kept outside of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreRecord {
    /// Identifies the store independently of its file or server name. Backups keep it.
    pub store_id: String,
    /// The generation: it rises with every restore.
    pub generation: Generation,
    /// The log reaches at least this position.
    pub position: Position,
    /// Stamp of the database file after a clean shutdown; absent while a coordinator uses it and after a crash.
    pub clean: Option<FileStamp>,
}

/// Length and modification time of a file, to detect a change.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FileStamp {
    /// The length in bytes.
    pub len: u64,
    /// The modification time in nanoseconds since the Unix epoch.
    pub modified_ns: u64,
}

impl FileStamp {
    /// Reads the stamp of a file. A store on a server has the default stamp.
    pub(crate) fn of(path: &Path) -> io::Result<Self> {
        let metadata = fs::metadata(path)?;
        let modified = metadata.modified()?.duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        Ok(Self { len: metadata.len(), modified_ns: u64::try_from(modified.as_nanos()).unwrap_or(u64::MAX) })
    }
}

impl fmt::Display for StoreRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "store {}, generation {}, log position {}", self.store_id, self.generation, self.position)
    }
}

/// The store does not match its record.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "acknowledged work is missing: {what}. Expected {expected} or later, as recorded in `{}`; found {found}. Bring the \
     store back, or restore a backup with `giga backup restore FILE`; to continue with the data found, start with --accept-data-loss",
    record.display()
)]
pub struct DataLoss {
    /// Path of the record.
    pub record: PathBuf,
    /// The mismatch.
    pub what: String,
    /// What the record expects.
    pub expected: String,
    /// What the store contains.
    pub found: String,
}

/// The identity that a store reports when it is opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StoreIdentity {
    /// Absent in an empty store and in one that an earlier version wrote.
    pub(crate) store_id: Option<String>,
    /// Absent if its document cannot be read: the coordinator then starts a new generation.
    pub(crate) generation: Option<Generation>,
    pub(crate) position: Position,
}

impl StoreRecord {
    /// Refuses a store that lacks something that its record has. A store of a later generation was restored on purpose
    /// and has another log.
    pub(crate) fn check(&self, found: &StoreIdentity, record: &Path) -> Result<(), DataLoss> {
        let generation = found.generation.unwrap_or(self.generation);
        let what = match &found.store_id {
            None => "the database is another one, or was emptied",
            Some(id) if *id != self.store_id => "the database is another store's",
            Some(_) if generation < self.generation => "the database is from before the last restore",
            Some(_) if generation == self.generation && found.position < self.position => {
                "the end of the log is missing (a truncated write-ahead log, or an older copy of the database)"
            }
            Some(_) => return Ok(()),
        };
        let id = found.store_id.as_deref().unwrap_or("without an id");
        let there = format!("store {id}, generation {generation}, log position {}", found.position);
        Err(self.loss(record, what, there))
    }

    /// Builds the error for a store that is missing or differs from its record.
    pub(crate) fn loss(&self, record: &Path, what: &str, found: String) -> DataLoss {
        DataLoss { record: record.to_owned(), what: what.to_owned(), expected: self.to_string(), found }
    }

    fn slot(&self, seq: u64) -> Vec<u8> {
        let clean = self.clean.map(|stamp| json!({ "len": stamp.len, "modifiedNs": stamp.modified_ns }));
        let text = json!({
            "seq": seq, "storeId": self.store_id, "generation": self.generation, "position": self.position,
            "clean": clean,
        })
        .to_string();
        let mut line = format!("{:016x} {text}", checksum(text.as_bytes())).into_bytes();
        line.resize(SLOT_LEN - 1, b' ');
        line.push(b'\n');
        line
    }

    fn from_slot(slot: &[u8]) -> Option<(u64, Self)> {
        let line = std::str::from_utf8(slot).ok()?;
        let (sum, text) = line.trim_end().split_once(' ')?;
        if u64::from_str_radix(sum, 16).ok()? != checksum(text.as_bytes()) {
            return None;
        }
        let fields: Value = serde_json::from_str(text).ok()?;
        let stamp =
            |clean: &Value| Some(FileStamp { len: clean["len"].as_u64()?, modified_ns: clean["modifiedNs"].as_u64()? });
        let record = Self {
            store_id: fields["storeId"].as_str()?.to_owned(),
            generation: Generation(fields["generation"].as_u64()?),
            position: Position(fields["position"].as_u64()?),
            clean: stamp(&fields["clean"]),
        };
        Some((fields["seq"].as_u64()?, record))
    }
}

/// FNV-1a: it detects torn and truncated slots. Protection against forgery is not needed.
fn checksum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

/// Reads a record; `None` if it does not exist. An unreadable record is logged and counts as none: the store itself
/// can still be checked.
pub fn read_record(path: &Path) -> io::Result<Option<StoreRecord>> {
    let bytes = match fs::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        read => read?,
    };
    let newest = bytes.chunks(SLOT_LEN).filter_map(StoreRecord::from_slot).max_by_key(|(seq, _)| *seq);
    if newest.is_none() {
        warn!("The record of the store at {} is unreadable; creating a new one", path.display());
    }
    Ok(newest.map(|(_, record)| record))
}

/// The record file, updated together with its store.
#[derive(Debug)]
pub struct RecordFile {
    file: File,
    path: PathBuf,
    record: StoreRecord,
    seq: u64,
    /// Failures are logged once.
    has_failed: bool,
}

impl RecordFile {
    /// Writes and flushes a record; replaces an existing one.
    pub fn create(path: &Path, record: StoreRecord) -> io::Result<Self> {
        let mut unfinished = path.as_os_str().to_owned();
        unfinished.push(".new");
        let unfinished = PathBuf::from(unfinished);
        let file = private::file().read(true).write(true).create(true).truncate(true).open(&unfinished)?;
        // Write both slots now: later writes overwrite them and need no disk space.
        file.write_all_at(&record.slot(1), 0)?;
        file.write_all_at(&record.slot(2), SLOT_LEN as u64)?;
        file.sync_all()?;
        fs::rename(&unfinished, path)?;
        private::flush_name(path)?;
        Ok(Self { file, path: path.to_owned(), record, seq: 2, has_failed: false })
    }

    /// The record as last written.
    pub fn record(&self) -> &StoreRecord {
        &self.record
    }

    /// Records that the log reaches this position, which must be flushed already. Writes to the page cache, without a
    /// flush.
    pub fn reach(&mut self, position: Position) {
        if position <= self.record.position {
            return;
        }
        self.record.position = position;
        let written = self.write();
        self.report(written);
    }

    /// Records a clean shutdown and flushes it.
    pub fn close(mut self, position: Position, stamp: FileStamp) {
        self.record.position = self.record.position.max(position);
        self.record.clean = Some(stamp);
        let written = self.write().and_then(|()| self.file.sync_data());
        self.report(written);
    }

    fn write(&mut self) -> io::Result<()> {
        self.seq += 1;
        let slot = self.seq % 2;
        self.file.write_all_at(&self.record.slot(self.seq), slot * SLOT_LEN as u64)
    }

    fn report(&mut self, written: io::Result<()>) {
        if let Err(error) = written
            && !std::mem::replace(&mut self.has_failed, true)
        {
            warn!(%error, "The record of the store at {} cannot be written: the next start checks less", self.path.display());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(position: u64) -> StoreRecord {
        let (store_id, generation) = ("a1".to_owned(), Generation(3));
        StoreRecord { store_id, generation, position: Position(position), clean: None }
    }

    fn found(id: &str, generation: u64, position: u64) -> StoreIdentity {
        let (generation, position) = (Some(Generation(generation)), Position(position));
        StoreIdentity { store_id: Some(id.to_owned()), generation, position }
    }

    #[test]
    fn a_store_below_its_record_is_refused() {
        let check = |found: StoreIdentity| record(10).check(&found, Path::new("r")).map_err(|loss| loss.what);

        assert_eq!(check(found("a1", 3, 10)), Ok(()));
        assert_eq!(check(found("a1", 4, 2)), Ok(()), "it was restored");
        assert!(check(found("a1", 3, 9)).unwrap_err().contains("end of the log"));
        assert!(check(found("a1", 2, 99)).unwrap_err().contains("before the last restore"));
        assert!(check(found("b2", 3, 99)).unwrap_err().contains("another store's"));
        assert!(check(StoreIdentity { store_id: None, ..found("", 3, 99) }).unwrap_err().contains("emptied"));
    }

    // [row 37]
    #[test]
    fn a_torn_slot_leaves_the_previous_record() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("fleet.db.record");
        let mut kept = RecordFile::create(&path, record(10)).unwrap();
        kept.reach(Position(11));
        kept.reach(Position(12));
        let whole = read_record(&path).unwrap();

        // The last update is in either slot: tear each in turn, and the other one is read.
        let mut torn = fs::read(&path).unwrap();
        let last = torn.chunks(SLOT_LEN).position(|slot| slot.windows(4).any(|w| w == b":12,")).unwrap();
        torn[last * SLOT_LEN + 40..(last + 1) * SLOT_LEN].fill(0);
        fs::write(&path, torn).unwrap();

        assert_eq!((whole, read_record(&path).unwrap()), (Some(record(12)), Some(record(11))));
    }

    #[test]
    fn a_zeroed_record_counts_as_none() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("fleet.db.record");
        assert_eq!(read_record(&path).unwrap(), None);
        fs::write(&path, [0; 2 * SLOT_LEN]).unwrap();

        assert_eq!(read_record(&path).unwrap(), None);
    }
}
