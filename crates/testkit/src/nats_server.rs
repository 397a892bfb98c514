//! A throwaway NATS server with JetStream, on a free loopback port with temporary data.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;

use crate::requirement::Requirement;

/// Runs the server until its standard input is closed, which happens in every way that the test can end.
const SCRIPT: &str =
    r#""$0" -c "$1" >"$2" 2>&1 & pid=$!; echo $pid; cat >/dev/null; kill -9 $pid; wait $pid 2>/dev/null"#;

/// How long a server may take to start on a busy machine.
const STARTS_WITHIN: Duration = Duration::from_secs(30);

/// How often a starting server is looked at.
const STEP: Duration = Duration::from_millis(20);

/// A running NATS server. It is stopped when this is dropped.
pub struct NatsServer {
    dir: TempDir,
    program: PathBuf,
    settings: String,
    port: u16,
    running: Option<(Child, ChildStdin)>,
}

impl NatsServer {
    /// Starts a server with these settings besides its port and its data; `None` reports the test as skipped, because the
    /// program is not installed.
    #[must_use]
    pub fn start(settings: &str) -> Option<Self> {
        let program = std::env::var_os("GIGA_TEST_NATS_SERVER").filter(|program| program != "skip");
        let Some(program) = program else {
            Requirement::Nats.skip("nats-server is not installed: run scripts/with-nats");
            return None;
        };
        let dir = tempfile::tempdir().expect("a temporary directory");
        let mut server = Self { dir, program: program.into(), settings: settings.to_owned(), port: 0, running: None };
        server.resume();
        Some(server)
    }

    /// The address, without credentials.
    #[must_use]
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Kills the server.
    pub fn kill(&mut self) {
        if let Some((mut shell, stdin)) = self.running.take() {
            drop(stdin);
            let _ = shell.wait();
        }
    }

    /// Starts a killed server again, at the same port.
    pub fn resume(&mut self) {
        let (config, ports) = (self.dir.path().join("nats.conf"), self.dir.path().join("ports"));
        let _ = std::fs::remove_dir_all(&ports);
        std::fs::create_dir(&ports).expect("a directory for the port");
        let port = if self.port == 0 { "-1".to_owned() } else { self.port.to_string() };
        let text = format!(
            "host: 127.0.0.1\nport: {port}\nports_file_dir: \"{}\"\njetstream {{ store_dir: \"{}\" }}\n{}\n",
            ports.display(),
            self.data().display(),
            self.settings
        );
        std::fs::write(&config, text).expect("the server's settings");
        let mut shell = Command::new("/bin/sh")
            .args(["-c", SCRIPT])
            .arg(&self.program)
            .arg(&config)
            .arg(self.dir.path().join("log"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a shell");
        let stdin = shell.stdin.take().expect("it is piped");
        let mut pid = String::new();
        let stdout = shell.stdout.take().expect("it is piped");
        BufReader::new(stdout).read_line(&mut pid).expect("the server's pid");
        self.running = Some((shell, stdin));
        self.port = self.wait_for_port(&ports);
    }

    /// Deletes all data of a killed server.
    pub fn delete_data(&self) {
        assert!(self.running.is_none(), "a running server has its data in memory too");
        let _ = std::fs::remove_dir_all(self.data());
    }

    fn data(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    fn wait_for_port(&self, ports: &Path) -> u16 {
        let steps = STARTS_WITHIN.as_millis() / STEP.as_millis();
        for _ in 0..steps {
            let files = std::fs::read_dir(ports).expect("the directory for the port");
            let text = files.flatten().find_map(|file| std::fs::read_to_string(file.path()).ok());
            if let Some(port) = text.as_deref().and_then(port_of) {
                return port;
            }
            std::thread::sleep(STEP);
        }
        let log = std::fs::read_to_string(self.dir.path().join("log")).unwrap_or_default();
        panic!("the NATS server did not start within {} s: {log}", STARTS_WITHIN.as_secs());
    }
}

impl Drop for NatsServer {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The port in a file such as `{"nats":["nats://127.0.0.1:4222"]}`. `None` while it is being written.
fn port_of(text: &str) -> Option<u16> {
    let (_, rest) = text.split_once("nats://127.0.0.1:")?;
    rest.split_once('"')?.0.parse().ok()
}
