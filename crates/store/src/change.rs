//! One change of a job. The caller serialises it to JSON, so that the writer only writes.

use std::sync::Arc;

use domain::{Body, Commit, EventSeq, Expected, JobColumns, JobId, StoreError, json_text};

/// Estimated size of an event, a run or a submission in bytes.
const DOC_LEN: usize = 512;

pub(crate) struct Change {
    pub(crate) expected: Expected,
    pub(crate) id: JobId,
    pub(crate) facts: JobColumns,
    pub(crate) state: String,
    /// Only in the first write.
    pub(crate) submission: Option<String>,
    pub(crate) body: Option<Body>,
    pub(crate) events: Vec<(EventSeq, Arc<str>)>,
    pub(crate) runs: Vec<(u32, String)>,
}

impl Change {
    pub(crate) fn prepare(commit: Commit) -> Result<Self, StoreError> {
        let unwritable = |error: serde_json::Error| StoreError::Corrupt(format!("the job cannot be written: {error}"));
        let submission = match commit.expected {
            Expected::Absent => Some(json_text(&**commit.job.submission(), 2 * DOC_LEN).map_err(unwritable)?),
            Expected::At(_) => None,
        };
        let events = commit.events.iter().map(|event| Ok((event.seq, json_text(event, DOC_LEN)?.into())));
        let runs = commit.runs.iter().map(|run| Ok((run.n, json_text(run, DOC_LEN)?)));
        Ok(Self {
            expected: commit.expected,
            id: commit.job.id(),
            state: commit.job.state_json().map_err(unwritable)?,
            submission,
            events: events.collect::<Result<_, _>>().map_err(unwritable)?,
            runs: runs.collect::<Result<_, _>>().map_err(unwritable)?,
            body: commit.body,
            facts: commit.facts,
        })
    }

    /// The estimated size in bytes.
    pub(crate) fn size(&self) -> usize {
        let docs = self.events.iter().map(|(_, doc)| doc.len()).chain(self.runs.iter().map(|(_, doc)| doc.len()));
        let body = self.body.as_ref().map_or(0, |body| body.0.len());
        self.state.len() + self.submission.as_ref().map_or(0, String::len) + body + docs.sum::<usize>()
    }
}
