//! The session that a run resumes. A checkpoint names it; a run that changed no file leaves no checkpoint, and then its
//! factory, which alone has the conversation, keeps the name.

use std::fs;
use std::io::Read;

use domain::EngineName;
use protocol::Assignment;
use sandbox::{make_private_folder, replace_file};
use tracing::warn;

use super::super::Worker;
use super::Run;

/// Longer than any engine's session name.
const SESSION_BYTES_MAX: u64 = 256;

impl Worker {
    /// The session of this engine that a run is to resume, if there is one. The engine may no longer have it.
    pub(super) fn session_to_resume(&self, engine: &EngineName, assignment: &Assignment) -> Option<String> {
        match assignment.checkpoint.as_ref().and_then(|checkpoint| checkpoint.session.as_deref()) {
            Some(session) => own_session(engine, session),
            None => self.last_session(engine, assignment),
        }
    }

    /// The session of the job's last run, if that was here, with this engine, and its work was not discarded since.
    fn last_session(&self, engine: &EngineName, assignment: &Assignment) -> Option<String> {
        let previous = assignment.previous_run.as_ref()?;
        let is_ours = previous.factory == self.settings.name && previous.engine.as_ref().is_none_or(|of| of == engine);
        if !is_ours || previous.work_discarded {
            return None;
        }
        let mut session = String::new();
        let file = fs::File::open(self.host.state().last_session(engine, assignment.job_id)).ok()?;
        file.take(SESSION_BYTES_MAX).read_to_string(&mut session).ok()?;
        own_session(engine, session.trim())
    }

    /// Records the session of a run for the next run here. Without it the next run starts a new conversation.
    pub(super) fn remember_session(&self, run: &Run, session: Option<&str>) {
        let (Some(engine), Some(session)) = (&run.engine, session) else { return };
        let file = self.host.state().last_session(engine, run.key.job);
        let folder = self.host.state().sessions().join(engine.as_str());
        let written = make_private_folder(&folder).and_then(|()| replace_file(&file, session.as_bytes()));
        if let Err(error) = written {
            warn!(job.id = %run.key.job, %error, "Cannot write down the session of job {}", self.titles.label(run.key.job));
        }
    }
}

/// The session's name, if it is one of this engine.
fn own_session(engine: &EngineName, session: &str) -> Option<String> {
    let (of, name) = session.split_once(':')?;
    (of == engine.as_str()).then(|| name.to_owned())
}
