//! A disk without space, as a small tmpfs in a mount namespace of its own: it wedges nothing, and is named.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::Signal;
use testkit::requirement::Requirement;

use crate::fleet::Fleet;
use crate::processes;

const PATIENCE: Duration = Duration::from_secs(60);

/// A coordinator whose data directory is a disk of four mebibytes.
struct SmallDisk {
    fleet: Fleet,
    address: String,
    child: Child,
}

impl SmallDisk {
    /// Starts it; `is_full` from the beginning. `None` if no disk can be mounted, which is reported.
    fn start(is_full: bool) -> Option<Self> {
        let can_mount = Command::new("unshare").args(["-m", "true"]).stderr(Stdio::null()).status();
        if !rustix::process::geteuid().is_root() || !can_mount.is_ok_and(|status| status.success()) {
            Requirement::Root.skip("a small disk needs root and `unshare -m`");
            return None;
        }
        let fleet = Fleet::new();
        let data = fleet.machine.path().join("data");
        fs::create_dir(&data).unwrap();
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
        let fill = if is_full { "head -c 8000000 /dev/zero > \"$0/ballast\" 2>/dev/null; " } else { "" };
        let script = format!(
            "mount -t tmpfs -o size=4m,mode=700 tmpfs \"$0\" || exit 9; {fill}exec \"$1\" serve --listen \"$2\""
        );
        let log = fs::File::create(fleet.machine.path().join("full.log")).unwrap();
        let mut command = Command::new("unshare");
        command.args(["-m", "--propagation", "private", "sh", "-c", &script]);
        command.arg(&data).arg(env!("CARGO_BIN_EXE_giga")).arg(&address).current_dir(fleet.machine.path());
        command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        Some(Self { fleet, address, child: command.spawn().unwrap() })
    }

    /// A file on the small disk, seen through the namespace of the coordinator.
    fn inside(&self, name: &str) -> PathBuf {
        let data = self.fleet.machine.path().join("data").join(name);
        Path::new("/proc").join(self.child.id().to_string()).join("root").join(data.strip_prefix("/").unwrap())
    }

    fn fill(&self) {
        let mut ballast = fs::File::create(self.inside("ballast")).unwrap();
        while ballast.write_all(&[0; 4096]).is_ok() {}
    }

    fn page(&self, path: &str) -> Option<(u16, String)> {
        let mut stream = TcpStream::connect(&self.address).ok()?;
        write!(stream, "GET {path} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n\r\n", self.address).ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        Some((answer.split(' ').nth(1)?.parse().ok()?, answer))
    }

    fn until(&self, what: &str, mut is_so: impl FnMut() -> bool) {
        let log = || self.fleet.machine.read("full.log");
        assert!(processes::becomes_so(PATIENCE, &mut is_so), "waited too long for {what}\n{}", log());
    }

    fn until_ready(&self) {
        self.until("a ready coordinator", || self.page("/readyz").is_some_and(|(status, _)| status == 200));
    }

    fn giga(&self, args: &[&str]) -> crate::giga::Ran {
        let token = fs::read_to_string(self.inside("admin.token")).unwrap();
        let api = format!("http://{}", self.address);
        let variables = [("GIGA_API", api.as_str()), ("GIGA_TOKEN", token.trim())];
        self.fleet.machine.giga_with(&[args, &["--json"]].concat(), &variables, "")
    }

    fn submit(&self, key: usize) -> crate::giga::Ran {
        self.giga(&["submit", "job.md", "--key", &key.to_string()])
    }

    fn end(&mut self) -> Option<i32> {
        processes::send(Signal::TERM, &self.child);
        self.child.wait().unwrap().code()
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

// [row 37]
#[test]
fn a_full_disk_fails_readyz_and_submits_until_space_returns() {
    let Some(mut disk) = SmallDisk::start(false) else { return };
    disk.until_ready();
    assert_eq!(disk.submit(0).code, Some(0));

    disk.fill();
    // The log may have room for some of them.
    let mut refused = None;
    for key in 1..200 {
        let submitted = disk.submit(key);
        if submitted.code != Some(0) {
            refused = Some((key, submitted));
            break;
        }
    }
    let (key, refused) = refused.expect("two hundred jobs do not fit on a full disk");
    let (status, reason) = disk.page("/readyz").unwrap();
    let alive = disk.page("/healthz").unwrap().0;
    let alerts = disk.giga(&["alerts"]);
    fs::remove_file(disk.inside("ballast")).unwrap();
    disk.until_ready();
    let again = disk.submit(key);

    assert_eq!(refused.code, Some(4), "{}", refused.stderr);
    assert!(refused.stderr.contains("disk_full"), "{}", refused.stderr);
    assert_eq!((status, alive), (503, 200), "{reason}");
    for word in ["disk_full", "bytes free", "/data", "retry-after"] {
        assert!(reason.contains(word), "{word}: {reason}");
    }
    assert!(alerts.stdout.contains("\"disk_full\""), "{}", alerts.stdout);
    assert_eq!(again.code, Some(0), "{}", again.stderr);
    assert_eq!(disk.end(), Some(0), "{}", disk.fleet.machine.read("full.log"));
}

// [row 37]
#[test]
fn a_coordinator_on_a_full_disk_waits_for_space() {
    let Some(mut disk) = SmallDisk::start(true) else { return };

    disk.until("an answer", || disk.page("/healthz").is_some());
    let (alive, health) = disk.page("/healthz").unwrap();
    let (status, reason) = disk.page("/readyz").unwrap();
    let (other, _) = disk.page("/api/fleet/jobs").unwrap();
    fs::remove_file(disk.inside("ballast")).unwrap();
    disk.until_ready();
    let submitted = disk.submit(0);

    assert_eq!((alive, status, other), (200, 503, 503), "{reason}");
    assert!(health.contains("waiting"), "{health}");
    assert!(reason.contains("disk_full") && reason.contains("bytes free"), "{reason}");
    assert_eq!(submitted.code, Some(0), "{}", submitted.stderr);
    let log = disk.fleet.machine.read("full.log");
    assert_eq!(log.matches("Waiting: no space left").count(), 1, "{log}");
    assert_eq!(disk.end(), Some(0), "{log}");
}

// [row 37]
#[test]
fn waiting_for_space_ends_with_a_signal() {
    let Some(mut disk) = SmallDisk::start(true) else { return };
    disk.until("an answer", || disk.page("/healthz").is_some());

    assert_eq!(disk.end(), Some(1));
}
