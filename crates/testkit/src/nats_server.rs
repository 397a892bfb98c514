//! A throwaway NATS server with JetStream, on a free loopback port with temporary data.
#![expect(clippy::expect_used, reason = "a test may stop at the first surprise")]

use std::io::{BufRead, BufReader};
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use nkeys::KeyPair;
use serde_json::{Value, json};
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
    host: IpAddr,
    port: u16,
    running: Option<(Child, ChildStdin)>,
}

impl NatsServer {
    /// Starts a server with these settings besides its port and its data; `None` reports the test as skipped, because the
    /// program is not installed.
    #[must_use]
    pub fn start(settings: &str) -> Option<Self> {
        Self::start_at(IpAddr::V4(Ipv4Addr::LOCALHOST), settings)
    }

    /// The same on another address, of a network namespace that the test made and that the calling thread is in.
    #[must_use]
    pub fn start_at(host: IpAddr, settings: &str) -> Option<Self> {
        let program = std::env::var_os("GIGA_TEST_NATS_SERVER").filter(|program| program != "skip");
        let Some(program) = program else {
            Requirement::Nats.skip("nats-server is not installed: run scripts/with-nats");
            return None;
        };
        Some(Self::start_program(program.into(), host, settings))
    }

    /// The program of the tests, or that in PATH.
    #[must_use]
    pub fn program() -> Option<PathBuf> {
        let of_tests = std::env::var_os("GIGA_TEST_NATS_SERVER").filter(|program| program != "skip");
        let in_path = || {
            let path = std::env::var_os("PATH")?;
            std::env::split_paths(&path).map(|dir| dir.join("nats-server")).find(|program| program.is_file())
        };
        of_tests.map(PathBuf::from).or_else(in_path)
    }

    /// Starts a server from this program.
    #[must_use]
    pub fn start_program(program: PathBuf, host: IpAddr, settings: &str) -> Self {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let settings = settings.to_owned();
        let mut server = Self { dir, program, settings, host, port: 0, running: None };
        server.resume();
        server
    }

    /// The address, without credentials.
    #[must_use]
    pub fn address(&self) -> String {
        format!("{}:{}", self.host, self.port)
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
            "host: {}\nport: {port}\nports_file_dir: \"{}\"\njetstream {{ store_dir: \"{}\" }}\n{}\n",
            self.host,
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
            if let Some(port) = text.as_deref().and_then(|text| port_of(text, self.host)) {
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
fn port_of(text: &str, host: IpAddr) -> Option<u16> {
    let (_, rest) = text.split_once(&format!("nats://{host}:"))?;
    rest.split_once('"')?.0.parse().ok()
}

/// An account of a server that asks for credentials, as operators set it up with NATS' own tools.
pub struct NatsAccount {
    /// Settings of a server that trusts the account's operator.
    pub settings: String,
    /// The account's seed: it signs logins.
    pub seed: String,
    /// Credentials of a user who may do everything in the account.
    pub credentials: String,
}

impl Default for NatsAccount {
    fn default() -> Self {
        let (operator, system, account) = (KeyPair::new_operator(), KeyPair::new_account(), KeyPair::new_account());
        let trusted = signed(&operator, &operator.public_key(), &json!({ "type": "operator", "version": 2 }));
        let tokens = [(&system, json!({})), (&account, json!({ "mem_storage": -1, "disk_storage": -1 }))];
        let accounts = tokens.map(|(key, storage)| {
            let token = signed(&operator, &key.public_key(), &account_claims(&storage));
            format!("  {}: \"{token}\"\n", key.public_key())
        });
        let settings = format!(
            "operator: \"{trusted}\"\nsystem_account: {}\nresolver: MEMORY\nresolver_preload: {{\n{}}}\n",
            system.public_key(),
            accounts.concat()
        );
        let user = KeyPair::new_user();
        let claims =
            json!({ "type": "user", "version": 2, "pub": {}, "sub": {}, "subs": -1, "data": -1, "payload": -1 });
        let token = signed(&account, &user.public_key(), &claims);
        let seed = user.seed().expect("a new key has its seed");
        let credentials = format!(
            "-----BEGIN NATS USER JWT-----\n{token}\n------END NATS USER JWT------\n\n\
             -----BEGIN USER NKEY SEED-----\n{seed}\n------END USER NKEY SEED------\n"
        );
        Self { settings, seed: account.seed().expect("a new key has its seed"), credentials }
    }
}

fn account_claims(storage: &Value) -> Value {
    let mut limits = json!({
        "subs": -1, "data": -1, "payload": -1, "imports": -1, "exports": -1, "wildcards": true, "conn": -1, "leaf": -1,
        "streams": -1, "consumer": -1,
    });
    for (name, limit) in storage.as_object().into_iter().flatten() {
        limits[name] = limit.clone();
    }
    json!({ "type": "account", "version": 2, "limits": limits, "default_permissions": { "pub": {}, "sub": {} } })
}

fn signed(key: &KeyPair, subject: &str, nats: &Value) -> String {
    let header = json!({ "typ": "JWT", "alg": "ed25519-nkey" });
    let claims = json!({
        "jti": subject, "iat": 1_700_000_000, "iss": key.public_key(), "sub": subject, "name": "test", "nats": nats,
    });
    let text = [header, claims].map(|part| URL_SAFE_NO_PAD.encode(part.to_string())).join(".");
    let signature = key.sign(text.as_bytes()).expect("a new key signs");
    format!("{text}.{}", URL_SAFE_NO_PAD.encode(signature))
}
