//! A factory on another machine: what `giga token create --join` prints can be pasted there.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::giga::Machine;
use crate::processes;

const PATIENCE: Duration = Duration::from_secs(60);

struct Coordinator {
    machine: Machine,
    running: Child,
}

impl Coordinator {
    /// A coordinator with a certificate of its own, for other names than loopback.
    fn start() -> Self {
        let machine = Machine::new();
        let made = rcgen::generate_simple_self_signed(["fleet.example".to_owned()]).unwrap();
        machine.write("giga.toml", "[coordinator]\nrenew_every = '1s'\n");
        machine.write("cert.pem", &made.cert.pem());
        machine.write("key.pem", &made.signing_key.serialize_pem());
        let args = [
            "serve",
            "--listen",
            "127.0.0.1:0",
            "--tls-cert",
            "cert.pem",
            "--tls-key",
            "key.pem",
            "--host",
            "localhost",
        ];
        let running = machine.start_into("serve.log", &[&args[..], &["--data", "data"]].concat(), &[]);
        let is_up = processes::becomes_so(PATIENCE, || machine.path().join("data/endpoint").exists());
        assert!(is_up, "{}", machine.read("serve.log"));
        Self { machine, running }
    }

    fn join_command(&self, factory: &str) -> String {
        let ran = self.machine.giga(&["token", "create", "--join", "--factory", factory, "--json", "--data", "data"]);
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        let made: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
        made["command"].as_str().unwrap().to_owned()
    }
}

impl Drop for Coordinator {
    fn drop(&mut self) {
        let _ = self.running.kill();
        let _ = self.running.wait();
    }
}

/// A line in a shell of another machine, whose standard error is kept.
fn pasted(machine: &Machine, line: &str) -> Child {
    let exe = std::path::Path::new(env!("CARGO_BIN_EXE_giga"));
    let path = format!("{}:{}", exe.parent().unwrap().display(), std::env::var("PATH").unwrap());
    let log = std::fs::File::create(machine.path().join("factory.log")).unwrap();
    let assignments: Vec<&str> = line.split(' ').take_while(|word| word.contains('=')).collect();
    let command = line[assignments.iter().map(|word| word.len() + 1).sum()..].to_owned();
    let script = format!("export {}; exec {command}", assignments.join(" "));
    Command::new("sh")
        .args(["-c", &script])
        .current_dir(machine.path())
        .env_clear()
        .env("HOME", machine.path())
        .env("PATH", path)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log)
        .spawn()
        .unwrap()
}

// [U3]
#[test]
fn the_printed_join_command_works_on_another_machine() {
    let coordinator = Coordinator::start();
    let (mac, late) = (Machine::new(), Machine::new());
    let command = coordinator.join_command("mac-2");

    let mut factory = pasted(&mac, &command);
    let has_joined = processes::becomes_so(PATIENCE, || {
        let listed = coordinator.machine.giga(&["factory", "list", "--json", "--data", "data"]);
        listed.stdout.contains("\"mac-2\"") && listed.stdout.contains("\"connected\":true")
    });
    let used = pasted(&late, &command).wait().unwrap().code();
    let wrong = pasted(&Machine::new(), &command.replace("giga_join_", "giga_join_x")).wait().unwrap().code();
    let _ = factory.kill();
    let _ = factory.wait();

    assert!(command.starts_with("GIGA_API=https://localhost:") && command.contains(" GIGA_CA=sha256:"), "{command}");
    assert!(has_joined, "{}", mac.read("factory.log"));
    assert_eq!((used, wrong), (Some(6), Some(6)), "{}", late.read("factory.log"));
    assert!(late.read("factory.log").contains("already used by factory `mac-2`"), "{}", late.read("factory.log"));
}

#[test]
fn a_client_on_the_coordinators_machine_needs_no_certificate_authority() {
    let coordinator = Coordinator::start();

    let jobs = coordinator.machine.giga(&["jobs", "--data", "data"]);
    let endpoint = coordinator.machine.read("data/endpoint");
    let api = endpoint.lines().next().unwrap();
    let token = coordinator.machine.read("data/admin.token");
    let untrusting = coordinator.machine.giga_with(&["jobs", "--api", api], &[("GIGA_TOKEN", token.trim())], "");

    assert_eq!(jobs.code, Some(0), "{}", jobs.stderr);
    assert_eq!(untrusting.code, Some(4), "{}", untrusting.stderr);
    assert!(untrusting.stderr.contains("client.ca"), "{}", untrusting.stderr);
}

/// A factory of `machine` that `line` starts, once the coordinator has its connection.
fn connected(coordinator: &Coordinator, machine: &Machine, line: &str) -> Child {
    let factory = pasted(machine, line);
    let is_connected = processes::becomes_so(PATIENCE, || {
        coordinator.machine.giga(&["factory", "list", "--json", "--data", "data"]).stdout.contains("\"connected\":true")
    });
    assert!(is_connected, "{}", machine.read("factory.log"));
    factory
}

fn stopped(mut factory: Child) {
    processes::send(rustix::process::Signal::TERM, &factory);
    factory.wait().unwrap();
}

/// What a command prints on a machine whose home is its directory: standard output and standard error.
fn at_home(machine: &Machine, args: &[&str]) -> (String, String) {
    let mut giga = Command::new(env!("CARGO_BIN_EXE_giga"));
    giga.args(args).current_dir(machine.path()).env_clear().env("HOME", machine.path());
    let ran = giga.env("PATH", std::env::var("PATH").unwrap()).output().unwrap();
    (String::from_utf8(ran.stdout).unwrap(), String::from_utf8(ran.stderr).unwrap())
}

#[test]
fn a_joined_factory_starts_again_without_its_settings() {
    let coordinator = Coordinator::start();
    let mac = Machine::new();
    stopped(connected(&coordinator, &mac, &coordinator.join_command("mac-2")));
    let listed = coordinator.machine.giga(&["factory", "list", "--json", "--data", "data"]).stdout;
    let alerts = coordinator.machine.giga(&["alerts", "--json", "--data", "data"]).stdout;

    let again = connected(&coordinator, &mac, "GIGA_SEATS=3 giga factory run");
    let examined = at_home(&mac, &["doctor", "--json"]).0;
    let without_token = at_home(&mac, &["jobs"]).1;
    let stranger = Machine::new();
    let elsewhere = pasted(&stranger, "GIGA_SEATS=3 giga factory run").wait().unwrap();
    stopped(again);

    assert!(listed.contains("\"presence\":\"stopped\"") && listed.contains("\"lastHeartbeatAt\":\""), "{listed}");
    assert!(alerts.contains("\"items\":[]"), "{alerts}");
    let log = mac.read("factory.log");
    assert!(log.contains("Factory `mac-2` stopped"), "{log}");
    let endpoint = coordinator.machine.read("data/endpoint");
    let (api, pin) = endpoint.trim().split_once('\n').unwrap();
    let port = api.rsplit_once(':').unwrap().1;
    let variables = format!("GIGA_API=https://localhost:{port} GIGA_CA={pin} and GIGA_TOKEN");
    assert!(without_token.contains(&variables) && !without_token.contains("giga up"), "{without_token}");
    let pastes = stranger.read("factory.log");
    assert!(pastes.contains("paste the whole line"), "{pastes}");
    assert!(examined.contains("factory running, process "), "{examined}");
    assert!(
        !examined.contains("does not exist yet; `giga factory run`") && !examined.contains("belongs to"),
        "{examined}"
    );
    assert!(examined.contains("the factory of this machine works for https://"), "{examined}");
    assert!(!elsewhere.success());
}

#[test]
fn a_name_that_is_taken_shows_the_command_for_a_token_of_that_name() {
    let coordinator = Coordinator::start();
    stopped(connected(&coordinator, &Machine::new(), &coordinator.join_command("mac-2")));
    let ran = coordinator.machine.giga(&["token", "create", "--join", "--json", "--data", "data"]);
    let made: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    let unnamed = made["command"].as_str().unwrap().replace("giga factory run", "giga factory run --name mac-2");
    let other = Machine::new();

    let refused = pasted(&other, &unnamed).wait().unwrap();

    let log = other.read("factory.log");
    assert_eq!(refused.code(), Some(6), "{log}");
    assert!(log.contains("factory `mac-2` already exists"), "{log}");
    assert!(log.contains("`giga token create --join --factory mac-2` on the coordinator's machine"), "{log}");
}

#[test]
fn a_pruned_factory_says_how_to_enrol_it_again() {
    let coordinator = Coordinator::start();
    let mac = Machine::new();
    stopped(connected(&coordinator, &mac, &coordinator.join_command("mac-2")));
    let is_pruned = processes::becomes_so(PATIENCE, || {
        coordinator.machine.giga(&["factory", "prune", "--data", "data"]).stdout.contains("mac-2")
    });
    assert!(is_pruned);

    let refused = pasted(&mac, "GIGA_SEATS=3 giga factory run").wait().unwrap();
    let log = mac.read("factory.log");
    // The token in its state directory is the old one: the join token replaces it.
    stopped(connected(&coordinator, &mac, &coordinator.join_command("mac-2")));

    assert_eq!(refused.code(), Some(6), "{log}");
    assert_eq!(log.matches("no longer accepts the token of factory `mac-2`").count(), 1, "{log}");
    assert!(log.contains("`giga token create --join --factory mac-2`") && log.contains("--join TOKEN"), "{log}");
}

#[test]
fn a_wrong_fingerprint_is_shown_beside_the_right_one() {
    let coordinator = Coordinator::start();
    let endpoint = coordinator.machine.read("data/endpoint");
    let (api, pin) = endpoint.trim().split_once('\n').unwrap();
    let wrong = format!("sha256:{}", "ab".repeat(32));
    let token = coordinator.machine.read("data/admin.token");

    let ran = coordinator.machine.giga_with(
        &["jobs", "--api", api],
        &[("GIGA_TOKEN", token.trim()), ("GIGA_CA", &wrong)],
        "",
    );

    assert_eq!(ran.code, Some(4), "{}", ran.stderr);
    for text in ["does not match the pinned fingerprint", &wrong, pin, "GIGA_CA"] {
        assert!(ran.stderr.contains(text), "{text}: {}", ran.stderr);
    }
}
