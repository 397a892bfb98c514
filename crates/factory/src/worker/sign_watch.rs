//! Reports when the content at watched paths has changed [F1][B9].

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use domain::Clock;

use crate::watch::DirectoryWatch;

/// Watches the directories in which the paths are, or will appear. Unrelated changes are frequent there: only a changed
/// result of `read` counts.
pub(super) struct SignWatch<T> {
    paths: Vec<PathBuf>,
    read: fn(&[PathBuf]) -> T,
    seen: T,
    folders: BTreeSet<PathBuf>,
    watch: DirectoryWatch,
    clock: Arc<dyn Clock>,
}

impl<T: PartialEq> SignWatch<T> {
    pub(super) fn on(paths: Vec<PathBuf>, read: fn(&[PathBuf]) -> T, clock: Arc<dyn Clock>) -> Self {
        let (folders, watch) = watched(&paths, &clock);
        Self { seen: read(&paths), paths, read, folders, watch, clock }
    }

    /// Resolves once `read` returns another result than before.
    pub(super) async fn changed(&mut self) {
        loop {
            self.watch.changed().await;
            if folders_of(&self.paths) != self.folders {
                (self.folders, self.watch) = watched(&self.paths, &self.clock);
            }
            let now = (self.read)(&self.paths);
            if now != self.seen {
                self.seen = now;
                return;
            }
        }
    }
}

/// Watches the directories around the paths: those that exist once the watch has started.
fn watched(paths: &[PathBuf], clock: &Arc<dyn Clock>) -> (BTreeSet<PathBuf>, DirectoryWatch) {
    loop {
        let folders = folders_of(paths);
        let watch = DirectoryWatch::on(&folders, Arc::clone(clock));
        if folders == folders_of(paths) {
            return (folders, watch);
        }
    }
}

fn folders_of(paths: &[PathBuf]) -> BTreeSet<PathBuf> {
    paths.iter().filter_map(|path| nearest_folder(path)).collect()
}

/// The directory that contains a path, or the nearest existing ancestor: an engine makes its own directory at the first
/// sign-in.
pub(super) fn nearest_folder(path: &Path) -> Option<PathBuf> {
    path.ancestors().skip(1).find(|folder| folder.is_dir()).map(Path::to_owned)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::Duration;

    use clock::SystemClock;

    use super::super::credentials::marks;
    use super::*;
    use crate::detect::absent_among;

    const PATIENCE: Duration = Duration::from_secs(20);

    // [B9]
    #[tokio::test]
    async fn a_first_sign_in_is_noticed_although_its_folder_was_not_there_and_other_files_are_not() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join(".claude");
        let mut watch = SignWatch::on(vec![folder.join(".credentials.json")], marks, Arc::new(SystemClock::new()));

        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("history.jsonl"), "{}").unwrap();
        let woken = tokio::time::timeout(Duration::from_millis(300), watch.changed()).await;
        assert!(woken.is_err(), "nobody signed in");
        fs::write(folder.join(".credentials.json"), "{}").unwrap();

        assert!(tokio::time::timeout(PATIENCE, watch.changed()).await.is_ok());
    }

    // [F1]
    #[tokio::test]
    async fn a_folder_is_noticed_when_it_comes_and_when_it_goes_and_not_for_what_is_in_it() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("srv/notes.git");
        let mut watch = SignWatch::on(vec![folder.clone()], absent_among, Arc::new(SystemClock::new()));
        let notices = async |watch: &mut SignWatch<_>| tokio::time::timeout(PATIENCE, watch.changed()).await.is_ok();

        fs::create_dir_all(&folder).unwrap();
        assert!(notices(&mut watch).await);
        fs::write(folder.join("HEAD"), "").unwrap();
        fs::write(place.path().join("srv/other"), "").unwrap();
        let woken = tokio::time::timeout(Duration::from_millis(300), watch.changed()).await;
        assert!(woken.is_err(), "it neither came nor went");

        fs::rename(&folder, place.path().join("away.git")).unwrap();
        assert!(notices(&mut watch).await);
    }
}
