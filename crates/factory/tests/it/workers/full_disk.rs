//! A factory whose state disk is full: it is reported, accepts no work, and resumes by itself once there is space (row
//! 33).

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use protocol::AlertCode;
use testkit::host::{TestRemote, eventually};
use testkit::requirement::Requirement;

use super::LONG;
use super::fleet::{Fleet, Line};
use super::worker_process::{Plant, settings, wait_for};

const MIB: u64 = 1024 * 1024;

/// A disk of its own, of 64 MiB.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    /// `None` with a warning where this user may not mount one.
    fn mount() -> Option<Self> {
        let place = tempfile::tempdir().unwrap();
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", "size=64m", "tmpfs"]).arg(place.path()).output();
        if mounted.is_ok_and(|mounted| mounted.status.success()) {
            return Some(Self(place));
        }
        Requirement::Root.skip("this account cannot mount a tmpfs");
        None
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    /// Leaves no byte free.
    fn fill(&self) {
        let mut filler = File::create(self.path().join("filler")).unwrap();
        for size in [MIB as usize, 4096, 1] {
            while filler.write_all(&vec![b'x'; size]).is_ok() {}
        }
    }

    fn free(&self) {
        fs::remove_file(self.path().join("filler")).unwrap();
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(self.path()).output();
    }
}

// [B10] [row 33] [alert: disk_full]
#[tokio::test]
async fn a_full_state_disk_is_reported_and_recovers() {
    let Some(disk) = SmallDisk::mount() else { return };
    let forge = TestRemote::new();
    let fleet = Fleet::start_with(LONG, |settings| settings.disk_free_min_bytes = 2 * MIB).await;
    let line = Line::to(&fleet).await;
    let (begun, gate) = (forge.path("begun"), forge.path("gate"));
    let engine = format!("echo done > done.md; touch '{}'; {}", begun.display(), wait_for(&gate));
    let mut own = settings("cramped", &forge, &engine);
    own.state = disk.path().join("state");
    own.housekeeping.disk_floor_bytes = 2 * MIB;
    own.housekeeping.every = Some(Duration::from_millis(500));
    let plant = Plant::start(own, fleet.enrol("cramped", &line).await);
    let first = fleet.submit("").await;
    eventually("the beginning", || begun.exists()).await;

    disk.fill();
    let message = fleet.until_alert(AlertCode::DiskFull, true).await.unwrap();
    // Its record shows it as running, and the disk accepts no other.
    fleet.act(first, "cancel").await;
    let next = fleet.submit("retry: {max: 1}\n").await;
    fleet.until_alert(AlertCode::Unplaceable, true).await;
    let waiting = fleet.job(next).await;
    fs::write(&gate, "").unwrap();
    disk.free();

    assert!(message.contains("`cramped`") && message.contains("0 MiB free"), "{message}");
    assert_eq!((waiting.attempts, fleet.runs(next).await.len()), (0, 0), "{waiting:?}");
    let done = fleet.until(next, "a promoted branch", |view| view.promoted_sha.is_some()).await;
    assert_eq!(done.attempts, 0);
    fleet.until_alert(AlertCode::DiskFull, false).await;
    assert_eq!(plant.quarantined().await.job, first, "its record is settled");
}
