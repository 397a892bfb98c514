//! Credentials of engines: a rejected or unusable one is paused, and a change of one is noticed at once [B9].

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use domain::{EngineName, Timestamp};
use parking_lot::Mutex;
use tokio::sync::Notify;

use engines::Engine;

/// How long a rejected credential is paused if it does not change; doubled with each rejection. Some credentials change
/// unnoticed, and some services err.
const REJECTED_PAUSE: Duration = Duration::from_mins(15);
/// The same after an I/O error, whose end is not reported, and after a credential that changed while the old one was
/// tried: the operator may have signed in, or the engine has refreshed it and was rejected all the same.
const UNCERTAIN_PAUSE: Duration = Duration::from_mins(1);
/// The first pause of an engine whose provider is unavailable.
const OUTAGE_PAUSES: Duration = Duration::from_secs(30);
const REST_DOUBLED_MAX: u32 = 4;

/// The credentials that are paused.
#[derive(Default)]
pub(super) struct CredentialStates {
    resting: Mutex<BTreeMap<EngineName, PausedCredential>>,
    /// Notified when the coordinator must receive an update.
    pub(super) news: Notify,
}

/// Why an engine's credential is paused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PauseCause {
    /// The provider rejected it.
    Refused,
    /// An I/O error prevented the copy of it, or of other files that the engine needs.
    Unready,
    /// The engine's provider is unavailable. The credential is not at fault.
    Outage,
}

struct PausedCredential {
    cause: PauseCause,
    why: String,
    marks: FileMarks,
    until: Timestamp,
    times: u32,
}

/// Identifies the version of a file: modification time and size.
pub(super) type FileMarks = BTreeMap<PathBuf, Option<(SystemTime, u64)>>;

/// A credential when a run started with it and when the run ended.
pub(super) struct CredentialTrial {
    pub(super) began: FileMarks,
    pub(super) ended: FileMarks,
}

impl CredentialStates {
    /// An engine cannot use its credential: it is paused until the credential changes, or for a while.
    pub(super) fn rest(
        &self,
        engine: &EngineName,
        tried: CredentialTrial,
        cause: PauseCause,
        why: String,
        now: Timestamp,
    ) {
        let mut resting = self.resting.lock();
        let times = resting.get(engine).filter(|known| known.cause == cause).map_or(0, |known| known.times);
        let first = match cause {
            PauseCause::Refused if tried.began == tried.ended => REJECTED_PAUSE,
            PauseCause::Refused | PauseCause::Unready => UNCERTAIN_PAUSE,
            PauseCause::Outage => OUTAGE_PAUSES,
        };
        let until = now.after(first * 2_u32.pow(times.min(REST_DOUBLED_MAX)));
        resting.insert(engine.clone(), PausedCredential { cause, why, marks: tried.ended, until, times: times + 1 });
    }

    /// An engine has worked: its credential is valid.
    pub(super) fn trust(&self, engine: &EngineName) {
        self.resting.lock().remove(engine);
    }

    /// Resumes those whose files have changed since.
    pub(super) fn review(&self, engines: &[Arc<dyn Engine>]) {
        for engine in engines {
            self.review_of(engine.name(), &marks(&engine.login_files()));
        }
    }

    fn review_of(&self, engine: &EngineName, now: &FileMarks) {
        let mut resting = self.resting.lock();
        if resting.get(engine).is_some_and(|known| known.marks != *now) {
            resting.remove(engine);
        }
    }

    /// How long until the next pause ends.
    pub(super) fn next_end(&self, now: Timestamp) -> Option<Duration> {
        let resting = self.resting.lock();
        resting.values().filter(|known| known.until > now).map(|known| known.until.since(now)).min()
    }

    /// Why an engine is paused, if it is, and until when.
    pub(super) fn problem(&self, engine: &EngineName, now: Timestamp) -> Option<(PauseCause, String, Timestamp)> {
        let resting = self.resting.lock();
        let known = resting.get(engine).filter(|known| known.until > now)?;
        Some((known.cause, known.why.clone(), known.until))
    }
}

/// The current versions of files.
pub(super) fn marks(files: &[PathBuf]) -> FileMarks {
    let mark = |file: &PathBuf| {
        let found = std::fs::metadata(file).ok()?;
        Some((found.modified().ok()?, found.len()))
    };
    files.iter().map(|file| (file.clone(), mark(file))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outage_pauses_an_engine_for_longer_each_time_until_it_works_again() {
        let name: EngineName = "claude".parse().unwrap();
        let logins = CredentialStates::default();
        let mut now = Timestamp::from_millis(1_000);
        let mut pauses = Vec::new();
        for _ in 0..6 {
            let tried = CredentialTrial { began: FileMarks::new(), ended: FileMarks::new() };
            logins.rest(&name, tried, PauseCause::Outage, "503".to_owned(), now);
            pauses.push(logins.next_end(now).unwrap().as_secs());
            now = now.after(logins.next_end(now).unwrap());
            assert_eq!(logins.problem(&name, now), None, "it is tried again");
        }

        assert_eq!(pauses, [30, 60, 120, 240, 480, 480]);
        logins.trust(&name);
        let tried = CredentialTrial { began: FileMarks::new(), ended: FileMarks::new() };
        logins.rest(&name, tried, PauseCause::Outage, "503".to_owned(), now);
        assert_eq!(logins.next_end(now), Some(OUTAGE_PAUSES));
    }

    // [B9]
    #[test]
    fn a_login_that_changes_while_the_old_one_is_still_tried_rests_only_a_moment_and_longer_each_time() {
        let (name, now): (EngineName, _) = ("claude".parse().unwrap(), Timestamp::from_millis(1_000));
        let at = |secs| FileMarks::from([(PathBuf::from("login"), Some((SystemTime::UNIX_EPOCH, secs)))]);
        let logins = CredentialStates::default();
        let refuse = |began, ended| {
            logins.rest(&name, CredentialTrial { began, ended }, PauseCause::Refused, "refused".to_owned(), now);
            logins.next_end(now)
        };

        assert_eq!(refuse(at(1), at(2)), Some(UNCERTAIN_PAUSE), "it may be a new one");
        assert_eq!(
            refuse(at(2), at(3)),
            Some(2 * UNCERTAIN_PAUSE),
            "an engine that refreshes it each time gets no further"
        );
        assert_eq!(
            logins.problem(&name, now),
            Some((PauseCause::Refused, "refused".to_owned(), now.after(2 * UNCERTAIN_PAUSE)))
        );
        logins.review_of(&name, &at(4));
        assert_eq!((logins.problem(&name, now), logins.next_end(now)), (None, None));
        assert_eq!(refuse(at(4), at(4)), Some(REJECTED_PAUSE));
    }
}
