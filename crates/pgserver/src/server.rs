//! Starts, stops, kills and restarts one server on the same data directory and port.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use testkit::requirement::Requirement;

use crate::account::Account;
use crate::error::Error;
use crate::programs::Programs;
use crate::{leftovers, template};

/// Whether the server flushes commits to disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flushes {
    /// Commits are flushed before they are acknowledged: for benchmarks and tests of durability.
    Real,
    /// Nothing is flushed. Faster, and equally durable as long as only processes die.
    None,
}

/// A PostgreSQL server. Dropping it, or the end of the process, stops the server and removes its data.
#[derive(Debug)]
pub struct Server {
    programs: Programs,
    account: Account,
    flushes: Flushes,
    // The server must stop before its directory is removed.
    running: Option<Running>,
    folder: TempDir,
    address: IpAddr,
    port: u16,
    tls: Tls,
}

/// Whether the server offers TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tls {
    Off,
    On,
}

/// Below the ephemeral port range, so that no client socket takes the port while its server restarts.
const PORTS: std::ops::Range<u16> = 15_000..32_000;

/// Where a server listens that is for its own machine.
const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// Maximum number of readiness checks of a start, crash recovery included.
const READY_TRIES: u32 = 3_000;
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Starts a server for a test. Returns `None` if GIGA_TEST_POSTGRES=skip is set, and reports that on standard error.
pub fn for_test(flushes: Flushes) -> Result<Option<Server>, Error> {
    for_test_at(LOOPBACK, flushes)
}

/// The same on another address, of a network namespace that the test made and that the calling thread is in. Every host of
/// that network may connect.
pub fn for_test_at(address: IpAddr, flushes: Flushes) -> Result<Option<Server>, Error> {
    match (Programs::find(), std::env::var("GIGA_TEST_POSTGRES").as_deref()) {
        (Err(error), Ok("skip")) => {
            Requirement::Postgres.skip(error);
            Ok(None)
        }
        (programs, _) => Server::with(programs?, flushes, address).map(Some),
    }
}

impl Server {
    /// Starts a server with an empty cluster.
    pub fn start_new(flushes: Flushes) -> Result<Self, Error> {
        Self::with(Programs::find()?, flushes, LOOPBACK)
    }

    fn with(programs: Programs, flushes: Flushes, address: IpAddr) -> Result<Self, Error> {
        let account = Account::find()?;
        leftovers::remove();
        let folder = tempfile::Builder::new().prefix(&leftovers::prefix()).tempdir();
        let folder = folder.map_err(Error::files(std::env::temp_dir()))?;
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o700)).map_err(Error::files(folder.path()))?;
        account.own(folder.path())?;
        template::copy(&programs, account, flushes, &folder.path().join("data"))?;
        let port = free_port(address)?;
        let mut server = Self { programs, account, flushes, running: None, folder, address, port, tls: Tls::Off };
        if !address.is_loopback() {
            server.trust_all_hosts()?;
        }
        server.start()?;
        Ok(server)
    }

    /// The connection URL: superuser, database `postgres`, no password.
    pub fn url(&self) -> String {
        format!("postgres://postgres@{}:{}/postgres", self.address, self.port)
    }

    /// The port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Restarts the server on its data. Does nothing if it is running.
    pub fn start(&mut self) -> Result<(), Error> {
        if self.running.is_some() {
            return Ok(());
        }
        for _ in 0..READY_TRIES {
            match &self.running {
                Some(running) if self.is_ready(running.pid) => return Ok(()),
                Some(running) if !running.has_ended() => {}
                // The server does not start until the children of a killed server have ended.
                _ => self.running = Some(Running::start(self.command())?),
            }
            thread::sleep(LOOK_EVERY);
        }
        self.kill();
        Err(Error::NotReady { log: self.log_end() })
    }

    /// Restarts the server with this certificate and key, in PEM. Clients may then use TLS.
    pub fn restart_with_tls(&mut self, certificate: &str, key: &str) -> Result<(), Error> {
        self.stop();
        for (name, text) in [("server.crt", certificate), ("server.key", key)] {
            let path = self.data().join(name);
            fs::write(&path, text).map_err(Error::files(&path))?;
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).map_err(Error::files(&path))?;
            self.account.own(&path)?;
        }
        self.tls = Tls::On;
        self.start()
    }

    /// Stops the server cleanly: disconnects clients and writes all data.
    pub fn stop(&mut self) {
        if let Some(running) = self.running.take() {
            running.end(Signal::INT);
        }
    }

    /// Kills the server with SIGKILL.
    pub fn kill(&mut self) {
        if let Some(running) = self.running.take() {
            running.end(Signal::KILL);
        }
        // A newly forked child may hold the port until it notices that its parent is dead.
        for _ in 0..READY_TRIES {
            if TcpStream::connect((self.address, self.port)).is_err() {
                return;
            }
            thread::sleep(LOOK_EVERY);
        }
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// A new cluster trusts this host alone.
    fn trust_all_hosts(&self) -> Result<(), Error> {
        let path = self.data().join("pg_hba.conf");
        let rules = fs::read_to_string(&path).map_err(Error::files(&path))?;
        fs::write(&path, format!("{rules}\nhost all all samenet trust\n")).map_err(Error::files(&path))
    }

    fn log_end(&self) -> String {
        let log = fs::read_to_string(self.folder.path().join("log")).unwrap_or_default();
        let lines: Vec<_> = log.lines().rev().take(5).collect();
        lines.into_iter().rev().collect::<Vec<_>>().join(" / ")
    }

    /// The server reports readiness in a file whose first line is its process id. A killed server leaves its file
    /// behind.
    fn is_ready(&self, pid: Pid) -> bool {
        let status = fs::read_to_string(self.data().join("postmaster.pid")).unwrap_or_default();
        let line = |n: usize| status.lines().nth(n).map(str::trim);
        line(0) == Some(pid.to_string().as_str()) && line(7) == Some("ready")
    }

    fn command(&self) -> Command {
        let postgres = self.programs.path("postgres");
        let mut command = match setpriv() {
            // The kernel ends the server when the thread that started it ends, for any reason.
            Some(setpriv) => {
                let mut command = self.account.command(&setpriv);
                command.args(["--pdeathsig", "QUIT"]).arg(postgres);
                command
            }
            None => self.account.command(&postgres),
        };
        command.arg("-D").arg(self.data()).args(["-p", &self.port.to_string(), "-k", ""]);
        let settings: &[&str] = match self.flushes {
            Flushes::Real => &["shared_buffers=256MB", "max_wal_size=2GB", "wal_compression=off"],
            Flushes::None => &["shared_buffers=32MB", "fsync=off", "full_page_writes=off", "max_wal_size=64MB"],
        };
        let listen = format!("listen_addresses={}", self.address);
        for setting in [listen.as_str(), "max_connections=200", "autovacuum_naptime=10s"] {
            command.args(["-c", setting]);
        }
        for setting in settings {
            command.args(["-c", setting]);
        }
        if self.tls == Tls::On {
            command.args(["-c", "ssl=on"]);
        }
        command.stdin(Stdio::null()).stdout(Stdio::null());
        match fs::OpenOptions::new().create(true).append(true).open(self.folder.path().join("log")) {
            Ok(log) => command.stderr(log),
            Err(_) => command.stderr(Stdio::null()),
        };
        command
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The data is removed with the server, so nothing needs to be written.
        if let Some(running) = self.running.take() {
            running.end(Signal::QUIT);
        }
    }
}

/// A running process and the thread that it is tied to.
#[derive(Debug)]
struct Running {
    pid: Pid,
    keeper: JoinHandle<()>,
    end: Sender<()>,
}

impl Running {
    /// The kernel ties the process to the thread that started it (PDEATHSIG), so that thread does nothing else.
    fn start(mut command: Command) -> Result<Self, Error> {
        let (end, ended) = mpsc::channel();
        let (started, child) = mpsc::channel();
        let program = command.get_program().to_owned();
        let keeper = thread::spawn(move || match command.spawn() {
            Ok(child) => {
                let _ = started.send(Ok(child.id()));
                keep(child, &ended);
            }
            Err(error) => drop(started.send(Err(error))),
        });
        let pid = child.recv().unwrap_or_else(|_| Err(std::io::Error::other("it was not started")));
        let pid = pid.map_err(Error::files(Path::new(&program)))?;
        let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or(Error::NotReady { log: String::new() })?;
        Ok(Self { pid, keeper, end })
    }

    fn has_ended(&self) -> bool {
        self.keeper.is_finished()
    }

    /// Sends the signal and waits until the process has ended.
    fn end(self, signal: Signal) {
        if !self.has_ended() {
            let _ = kill_process(self.pid, signal);
        }
        let _ = self.end.send(());
        let _ = self.keeper.join();
    }
}

/// Time for a clean shutdown before the server is killed.
const FAREWELL: Duration = Duration::from_secs(20);

/// Waits for the child. After the stop signal it waits at most [`FAREWELL`].
fn keep(mut child: Child, ended: &mpsc::Receiver<()>) {
    loop {
        match ended.recv_timeout(LOOK_EVERY) {
            Ok(()) | Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) if matches!(child.try_wait(), Ok(Some(_))) => return,
            Err(RecvTimeoutError::Timeout) => {}
        }
    }
    for _ in 0..FAREWELL.as_millis() / LOOK_EVERY.as_millis() {
        if matches!(child.try_wait(), Ok(Some(_))) {
            return;
        }
        thread::sleep(LOOK_EVERY);
    }
    let _ = child.kill();
    let _ = child.wait();
}

fn setpriv() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join("setpriv")).find(|program| program.is_file())
}

/// Finds a port without a listener.
fn free_port(address: IpAddr) -> Result<u16, Error> {
    let span = u32::from(PORTS.end - PORTS.start);
    // Processes that start together begin their search at different ports.
    let first = std::process::id().wrapping_mul(61) % span;
    for step in 0..span {
        let port = PORTS.start + u16::try_from((first + step * 7) % span).unwrap_or(0);
        if TcpListener::bind((address, port)).is_ok() {
            return Ok(port);
        }
    }
    Err(Error::NotReady { log: "no port is free".to_owned() })
}
