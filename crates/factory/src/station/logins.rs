//! Logins of engines: those that were refused rest, and one that changes is noticed at once [B9].

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use domain::{Clock, EngineName, Timestamp};
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::engine::Engine;
use crate::watch::FolderWatch;

/// How long a refused login rests when nobody changes it; doubled each time it is refused again. Some logins are where
/// nobody sees them change, and some services err.
const REST_FIRST: Duration = Duration::from_mins(15);
const REST_DOUBLED_MAX: u32 = 4;

/// The logins that engines said are not taken.
#[derive(Default)]
pub(super) struct Logins {
    refused: Mutex<BTreeMap<EngineName, Refused>>,
    /// Something about them is to be told to the coordinator.
    pub(super) news: Notify,
}

struct Refused {
    why: String,
    marks: Marks,
    until: Timestamp,
    times: u32,
}

/// What tells a file from what it was before: when it was written, and how long it is.
type Marks = BTreeMap<PathBuf, Option<(SystemTime, u64)>>;

impl Logins {
    /// An engine's login was not taken: it rests until somebody changes it, or for a while.
    pub(super) fn refuse(&self, engine: &dyn Engine, why: String, now: Timestamp) {
        let mut refused = self.refused.lock();
        let times = refused.get(engine.name()).map_or(0, |known| known.times);
        let until = now.after(REST_FIRST * 2_u32.pow(times.min(REST_DOUBLED_MAX)));
        let marks = marks(&engine.login_files());
        refused.insert(engine.name().clone(), Refused { why, marks, until, times: times + 1 });
    }

    /// An engine has worked: its login is good.
    pub(super) fn trust(&self, engine: &EngineName) {
        self.refused.lock().remove(engine);
    }

    /// Forgets refusals of logins that have changed since.
    pub(super) fn review(&self, engines: &[Arc<dyn Engine>]) {
        let mut refused = self.refused.lock();
        for engine in engines {
            let marks = marks(&engine.login_files());
            if refused.get(engine.name()).is_some_and(|known| known.marks != marks) {
                refused.remove(engine.name());
            }
        }
    }

    /// Why an engine rests, if it does.
    pub(super) fn problem(&self, engine: &EngineName, now: Timestamp) -> Option<String> {
        self.refused.lock().get(engine).filter(|known| known.until > now).map(|known| known.why.clone())
    }
}

/// Notices when a file that says something by being there appears, changes or goes: a login, a daemon's socket. The folders
/// around it change all the time.
pub(super) struct LoginWatch {
    files: Vec<PathBuf>,
    marks: Marks,
    folders: BTreeSet<PathBuf>,
    watch: FolderWatch,
    clock: Arc<dyn Clock>,
}

impl LoginWatch {
    pub(super) fn on(files: Vec<PathBuf>, clock: Arc<dyn Clock>) -> Self {
        let (folders, watch) = watched(&files, &clock);
        Self { marks: marks(&files), files, folders, watch, clock }
    }

    /// Resolves once one of the files is not what it was.
    pub(super) async fn changed(&mut self) {
        loop {
            self.watch.changed().await;
            if folders_of(&self.files) != self.folders {
                (self.folders, self.watch) = watched(&self.files, &self.clock);
            }
            let now = marks(&self.files);
            if std::mem::replace(&mut self.marks, now.clone()) != now {
                return;
            }
        }
    }
}

/// Watches the folders in which files are, or will appear: those that are there once the watch has begun.
fn watched(files: &[PathBuf], clock: &Arc<dyn Clock>) -> (BTreeSet<PathBuf>, FolderWatch) {
    loop {
        let folders = folders_of(files);
        let watch = FolderWatch::on(&folders, Arc::clone(clock));
        if folders == folders_of(files) {
            return (folders, watch);
        }
    }
}

/// The folders in which files are, or will appear: an engine makes its own when somebody signs in for the first time.
fn folders_of(files: &[PathBuf]) -> BTreeSet<PathBuf> {
    let nearest = |file: &PathBuf| file.ancestors().skip(1).find(|folder| folder.is_dir()).map(Path::to_owned);
    files.iter().filter_map(nearest).collect()
}

fn marks(files: &[PathBuf]) -> Marks {
    let mark = |file: &PathBuf| {
        let found = std::fs::metadata(file).ok()?;
        Some((found.modified().ok()?, found.len()))
    };
    files.iter().map(|file| (file.clone(), mark(file))).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use ambient::SystemClock;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(20);

    #[tokio::test]
    async fn a_first_sign_in_is_noticed_although_its_folder_was_not_there_and_other_files_are_not() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join(".claude");
        let mut watch = LoginWatch::on(vec![folder.join(".credentials.json")], Arc::new(SystemClock::new()));

        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("history.jsonl"), "{}").unwrap();
        let woken = tokio::time::timeout(Duration::from_millis(300), watch.changed()).await;
        assert!(woken.is_err(), "nobody signed in");
        fs::write(folder.join(".credentials.json"), "{}").unwrap();

        assert!(tokio::time::timeout(PATIENCE, watch.changed()).await.is_ok());
    }
}
