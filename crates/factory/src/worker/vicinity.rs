//! Directories whose content determines this machine's capabilities, missing ones included.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use domain::Clock;

use super::sign_watch::nearest_folder;
use crate::watch::DirectoryWatch;

/// Reports changes in directories, and when one of them appears or disappears. Unrelated changes around a missing one
/// are frequent.
pub(super) struct Vicinity {
    wanted: BTreeSet<PathBuf>,
    sight: Sight,
    here: DirectoryWatch,
    /// The nearest existing ancestors of the missing ones.
    around: Option<DirectoryWatch>,
    clock: Arc<dyn Clock>,
}

/// What there is to watch.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Sight {
    here: BTreeSet<PathBuf>,
    around: BTreeSet<PathBuf>,
}

impl Vicinity {
    pub(super) fn on(wanted: BTreeSet<PathBuf>, clock: Arc<dyn Clock>) -> Self {
        let (sight, here, around) = watched(&wanted, &clock);
        Self { wanted, sight, here, around, clock }
    }

    /// Resolves once something has changed in one of the directories, or one of them has appeared or disappeared.
    pub(super) async fn changed(&mut self) {
        loop {
            let is_news = tokio::select! {
                () = self.here.changed() => true,
                () = changed_around(&mut self.around) => false,
            };
            let now = Sight::of(&self.wanted);
            let is_other = now.here != self.sight.here;
            if now != self.sight {
                (self.sight, self.here, self.around) = watched(&self.wanted, &self.clock);
            }
            if is_news || is_other {
                return;
            }
        }
    }
}

async fn changed_around(around: &mut Option<DirectoryWatch>) {
    match around {
        Some(around) => around.changed().await,
        None => std::future::pending().await,
    }
}

impl Sight {
    fn of(wanted: &BTreeSet<PathBuf>) -> Self {
        let (here, absent): (BTreeSet<PathBuf>, BTreeSet<PathBuf>) =
            wanted.iter().cloned().partition(|folder| folder.is_dir());
        let around = absent.iter().filter_map(|folder| nearest_folder(folder)).collect();
        Self { here, around }
    }
}

/// Watches what exists once the watch has started.
fn watched(wanted: &BTreeSet<PathBuf>, clock: &Arc<dyn Clock>) -> (Sight, DirectoryWatch, Option<DirectoryWatch>) {
    loop {
        let sight = Sight::of(wanted);
        let here = DirectoryWatch::on(&sight.here, Arc::clone(clock));
        let around = (!sight.around.is_empty()).then(|| DirectoryWatch::on(&sight.around, Arc::clone(clock)));
        if sight == Sight::of(wanted) {
            return (sight, here, around);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::Duration;

    use clock::SystemClock;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(20);

    async fn is_woken(vicinity: &mut Vicinity, within: Duration) -> bool {
        tokio::time::timeout(within, vicinity.changed()).await.is_ok()
    }

    // [F1]
    #[tokio::test]
    async fn a_directory_is_watched_once_it_appears_its_siblings_are_not() {
        let home = tempfile::tempdir().unwrap();
        let bin = home.path().join(".local/bin");
        let mut vicinity = Vicinity::on([bin.clone()].into(), Arc::new(SystemClock::new()));

        fs::write(home.path().join("notes.txt"), "x").unwrap();
        fs::create_dir(home.path().join(".local")).unwrap();
        assert!(!is_woken(&mut vicinity, Duration::from_millis(300)).await, "it is not there yet");
        fs::create_dir(&bin).unwrap();
        assert!(is_woken(&mut vicinity, PATIENCE).await, "it appeared");
        fs::write(bin.join("tool"), "x").unwrap();
        assert!(is_woken(&mut vicinity, PATIENCE).await, "something is in it");
        fs::remove_dir_all(&bin).unwrap();
        assert!(is_woken(&mut vicinity, PATIENCE).await, "it is gone");
        while is_woken(&mut vicinity, Duration::from_millis(300)).await {}
        fs::create_dir(&bin).unwrap();

        assert!(is_woken(&mut vicinity, PATIENCE).await, "it is back");
    }
}
