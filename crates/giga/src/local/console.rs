//! The output of `giga local`, for a terminal or a program.

use std::sync::Arc;

use domain::{Clock, JobId, StageName, Timestamp};
use serde::Serialize;

use super::folder::Folder;
use crate::output::{Output, Tint, clean, clock_time};

/// Names are padded to this, so that the columns stay.
const NAME_CHARS: usize = 28;

/// Something that happened to a file.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct FileEvent<'t> {
    /// The file.
    pub(super) file: &'t str,
    /// Where it is.
    pub(super) folder: Folder,
    /// Its job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) job_id: Option<JobId>,
    /// Where the job is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) stage: Option<StageName>,
    /// What happened, in one line.
    pub(super) message: String,
}

#[derive(Serialize)]
struct TimestampedEvent<'t> {
    at: Timestamp,
    #[serde(flatten)]
    tale: &'t FileEvent<'t>,
}

/// Reports events: text on standard error, or one JSON document per line on standard output.
pub(super) struct Console<'o> {
    out: &'o Output,
    clock: Arc<dyn Clock>,
}

impl<'o> Console<'o> {
    pub(super) fn new(out: &'o Output, clock: Arc<dyn Clock>) -> Self {
        Self { out, clock }
    }

    pub(super) fn tell(&self, tale: &FileEvent<'_>) {
        let at = self.clock.now();
        if self.out.is_json() {
            // The reader closed the output: the work continues.
            let _ = self.out.document(&TimestampedEvent { at, tale });
            return;
        }
        let tint = match tale.folder {
            Folder::Shipped | Folder::Testing | Folder::Review => Tint::Good,
            Folder::Failed => Tint::Bad,
            Folder::Inbox | Folder::Building => Tint::Faint,
        };
        let folder = self.out.palette().paint(&format!("{:<8}", tale.folder.as_str()), tint);
        let line = format!("{}  {folder}  {:<NAME_CHARS$}  {}", clock_time(at), clean(tale.file), clean(&tale.message));
        let _ = self.out.line(line.trim_end());
    }

    /// Something is wrong that does not stop anything.
    pub(super) fn warn(&self, text: &str) {
        self.out.warning(text);
    }

    /// A word on the whole.
    pub(super) fn note(&self, text: &str) {
        self.out.note(text);
    }
}
