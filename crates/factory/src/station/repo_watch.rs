//! Notices when a folder that is a repository, or holds some, comes or goes [F1].

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use domain::Clock;

use super::logins::{folders_of, watched};
use crate::detect::is_absent;
use crate::watch::FolderWatch;

/// Watches where such folders are, or will appear. What happens inside of them is of no interest here.
pub(super) struct RepoWatch {
    folders: Vec<PathBuf>,
    absent: BTreeSet<PathBuf>,
    parents: BTreeSet<PathBuf>,
    watch: FolderWatch,
    clock: Arc<dyn Clock>,
}

impl RepoWatch {
    pub(super) fn on(folders: Vec<PathBuf>, clock: Arc<dyn Clock>) -> Self {
        let (parents, watch) = watched(&folders, &clock);
        Self { absent: absent(&folders), folders, parents, watch, clock }
    }

    /// Resolves once one of the folders is there that was not, or is not there any more.
    pub(super) async fn changed(&mut self) {
        loop {
            self.watch.changed().await;
            if folders_of(&self.folders) != self.parents {
                (self.parents, self.watch) = watched(&self.folders, &self.clock);
            }
            let now = absent(&self.folders);
            if std::mem::replace(&mut self.absent, now.clone()) != now {
                return;
            }
        }
    }
}

fn absent(folders: &[PathBuf]) -> BTreeSet<PathBuf> {
    folders.iter().filter(|folder| is_absent(folder)).cloned().collect()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::Duration;

    use ambient::SystemClock;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(20);

    #[tokio::test]
    async fn a_folder_is_noticed_when_it_comes_and_when_it_goes_and_not_for_what_is_in_it() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("srv/notes.git");
        let mut watch = RepoWatch::on(vec![folder.clone()], Arc::new(SystemClock::new()));
        let notices = async |watch: &mut RepoWatch| tokio::time::timeout(PATIENCE, watch.changed()).await.is_ok();

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
