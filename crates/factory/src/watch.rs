//! Reports changes in a directory, without polling where the system supports it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use domain::Clock;

#[cfg(target_os = "linux")]
use self::inotify::Inotify;

/// How often directories are polled where the system reports no changes.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// Watched directories, each without its subdirectories. Changes before [`DirectoryWatch::changed`] is awaited are not
/// missed; several changes may be reported as one. A hint: a caller that relies on it also polls now and then.
pub struct DirectoryWatch {
    means: WatchBackend,
    clock: Arc<dyn Clock>,
}

enum WatchBackend {
    #[cfg(target_os = "linux")]
    Told(Inotify),
    Looking(BTreeMap<PathBuf, Option<SystemTime>>),
}

impl DirectoryWatch {
    /// Watches these directories; a missing one is ignored.
    pub fn on<P: AsRef<Path>>(folders: impl IntoIterator<Item = P>, clock: Arc<dyn Clock>) -> Self {
        let folders: Vec<PathBuf> = folders.into_iter().map(|folder| folder.as_ref().to_owned()).collect();
        #[cfg(target_os = "linux")]
        match Inotify::on(&folders) {
            Ok(inotify) => return Self { means: WatchBackend::Told(inotify), clock },
            Err(error) => {
                tracing::warn!(%error, "Folders are looked at every {LOOK_EVERY:?}: the system does not tell");
            }
        }
        let times = folders.into_iter().map(|folder| (folder.clone(), changed_at(&folder))).collect();
        Self { means: WatchBackend::Looking(times), clock }
    }

    /// Resolves once something was created, written, moved or removed in one of the directories.
    pub async fn changed(&mut self) {
        match &mut self.means {
            #[cfg(target_os = "linux")]
            WatchBackend::Told(inotify) => inotify.changed(&*self.clock).await,
            WatchBackend::Looking(times) => loop {
                self.clock.sleep(LOOK_EVERY).await;
                let mut is_changed = false;
                for (folder, seen) in times.iter_mut() {
                    let now = changed_at(folder);
                    is_changed |= *seen != now;
                    *seen = now;
                }
                if is_changed {
                    return;
                }
            },
        }
    }
}

fn changed_at(folder: &Path) -> Option<SystemTime> {
    std::fs::metadata(folder).and_then(|found| found.modified()).ok()
}

#[cfg(target_os = "linux")]
mod inotify {
    use std::io;
    use std::os::fd::OwnedFd;
    use std::path::PathBuf;

    use domain::Clock;
    use rustix::fs::inotify::{CreateFlags, WatchFlags, add_watch, init};
    use tokio::io::unix::AsyncFd;

    /// Queued events are discarded: only their presence matters.
    const QUEUED_BYTES: usize = 16 * 1024;

    pub(super) struct Inotify(AsyncFd<OwnedFd>);

    impl Inotify {
        #[expect(
            deprecated,
            reason = "what replaces it is unsafe, and this descriptor is owned: no other code closes it"
        )]
        pub(super) fn on(folders: &[PathBuf]) -> io::Result<Self> {
            let inotify = init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?;
            // Not opening a file: every program start would wake us.
            let changes = WatchFlags::CREATE
                | WatchFlags::DELETE
                | WatchFlags::MOVED_FROM
                | WatchFlags::MOVED_TO
                | WatchFlags::CLOSE_WRITE
                | WatchFlags::ATTRIB;
            for folder in folders {
                match add_watch(&inotify, folder, changes | WatchFlags::ONLYDIR) {
                    Ok(_) | Err(rustix::io::Errno::NOENT | rustix::io::Errno::NOTDIR | rustix::io::Errno::ACCESS) => {}
                    Err(error) => return Err(error.into()),
                }
            }
            Ok(Self(AsyncFd::new(inotify)?))
        }

        pub(super) async fn changed(&mut self, clock: &dyn Clock) {
            let Ok(mut ready) = self.0.readable().await else {
                // It cannot report any more; the caller has a timer of its own.
                clock.sleep(super::LOOK_EVERY).await;
                return;
            };
            let mut queued = [0_u8; QUEUED_BYTES];
            while rustix::io::read(ready.get_inner(), &mut queued).is_ok_and(|len| len > 0) {}
            ready.clear_ready();
        }
    }
}

#[cfg(test)]
mod tests {
    use clock::SystemClock;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(20);

    async fn notices(change: impl FnOnce(&Path)) -> bool {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("there"), "x").unwrap();
        let mut watch = DirectoryWatch::on([folder.path()], Arc::new(SystemClock::new()));

        change(folder.path());

        tokio::time::timeout(PATIENCE, watch.changed()).await.is_ok()
    }

    // [F1]
    #[tokio::test]
    async fn what_happens_in_a_folder_is_noticed() {
        assert!(notices(|folder| std::fs::write(folder.join("new"), "x").unwrap()).await);
        assert!(notices(|folder| std::fs::write(folder.join("there"), "y").unwrap()).await);
        assert!(notices(|folder| std::fs::remove_file(folder.join("there")).unwrap()).await);
        assert!(notices(|folder| std::fs::rename(folder.join("there"), folder.join("moved")).unwrap()).await);
    }

    #[tokio::test]
    async fn reading_a_file_is_no_change_and_a_missing_directory_no_error() {
        let folder = tempfile::tempdir().unwrap();
        let (file, absent) = (folder.path().join("there"), folder.path().join("absent"));
        std::fs::write(&file, "x").unwrap();
        let mut watch = DirectoryWatch::on([folder.path(), &absent], Arc::new(SystemClock::new()));

        std::fs::read(&file).unwrap();

        let woken = tokio::time::timeout(Duration::from_millis(300), watch.changed()).await;
        assert!(woken.is_err());
    }
}
