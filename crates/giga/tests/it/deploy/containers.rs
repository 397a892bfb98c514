//! The container files and the compose files.

use serde_json::Value;
use testkit::requirement::Requirement;

use super::files::{assert_accepted, assert_known, assert_own_version, assert_pinned, read, root};
use super::yaml;
use crate::giga::Machine;

/// The port of the coordinator in every container.
const PORT: &str = "7878";

/// How large the files of the coordinator's image may be.
const IMAGE_MB_MAX: u64 = 100;

/// A container file: its instructions, continued lines joined.
struct Containerfile {
    path: &'static str,
    instructions: Vec<(String, String)>,
}

impl Containerfile {
    fn read(path: &'static str) -> Self {
        let text = read(path);
        let lines: Vec<_> = text.lines().filter(|line| !line.starts_with('#')).collect();
        let joined = lines.join("\n").replace("\\\n", " ");
        let lines = joined.lines().filter_map(|line| line.trim().split_once(' '));
        let instructions = lines.map(|(name, rest)| (name.to_owned(), rest.trim().to_owned())).collect();
        Self { path, instructions }
    }

    fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        self.instructions.iter().filter(move |(of, _)| of == name).map(|(_, rest)| rest.as_str())
    }

    fn last(&self, name: &str) -> &str {
        self.all(name).last().unwrap_or_else(|| panic!("{}: no {name}", self.path))
    }

    /// The default of a build argument.
    fn argument(&self, name: &str) -> &str {
        let defaults = self.all("ARG").filter_map(|argument| argument.split_once('='));
        defaults.filter(|(of, _)| *of == name).map(|(_, default)| default).next().unwrap_or_default()
    }

    /// The images that it is made from, with the defaults of the arguments.
    fn images(&self) -> Vec<String> {
        let images = self.all("FROM").map(|from| from.split(' ').next().unwrap());
        let fill = |image: &str| {
            let mut image = image.to_owned();
            while let Some((before, rest)) = image.clone().split_once("${") {
                let (name, after) = rest.split_once('}').unwrap();
                image = format!("{before}{}{after}", self.argument(name));
            }
            image
        };
        images.map(fill).filter(|image| image != "scratch").collect()
    }

    /// A JSON array such as that of `CMD`.
    fn words(&self, name: &str) -> Vec<String> {
        serde_json::from_str(self.last(name)).unwrap_or_else(|error| panic!("{}: {name}: {error}", self.path))
    }

    fn environment(&self) -> Vec<(&str, &str)> {
        self.all("ENV").flat_map(str::split_whitespace).filter_map(|pair| pair.split_once('=')).collect()
    }
}

// [U3]
#[test]
fn the_container_files_start_giga_as_an_unprivileged_user() {
    let machine = Machine::new();
    for path in ["deploy/coordinator.Containerfile", "deploy/factory.Containerfile"] {
        let file = Containerfile::read(path);

        assert_eq!(file.last("USER"), "10001:10001", "{path}");
        file.images().iter().for_each(|image| assert_pinned(path, image));
        file.environment().iter().for_each(|(name, _)| assert_known(path, name));
        let (entry, command) = (file.words("ENTRYPOINT"), file.words("CMD"));
        assert_eq!(entry.last().map(String::as_str), Some("/usr/bin/giga"), "{path}");
        assert_accepted(&machine, path, &command.iter().map(String::as_str).collect::<Vec<_>>());
    }
}

#[test]
fn the_container_files_agree_on_versions_and_ports() {
    let (coordinator, factory) =
        (Containerfile::read("deploy/coordinator.Containerfile"), Containerfile::read("deploy/factory.Containerfile"));

    let listens = coordinator.environment().into_iter().find(|(name, _)| *name == "GIGA_LISTEN");
    assert_eq!(listens, Some(("GIGA_LISTEN", "0.0.0.0:7878")));
    assert_eq!(coordinator.last("EXPOSE"), PORT);
    for argument in ["NODE_VERSION", "DEBIAN"] {
        assert_eq!(coordinator.argument(argument), factory.argument(argument));
    }
    let rust = coordinator.argument("RUST_VERSION");
    assert!(rust.starts_with(env!("CARGO_PKG_RUST_VERSION")), "the workspace needs another Rust than {rust}");
    assert_own_version(factory.path, factory.argument("GIGA_IMAGE"));
    // The version that the engines' tests run is the one that the file proposes.
    let tested = read("scripts/with-engines");
    let claude = tested.lines().find_map(|line| line.strip_prefix("TESTED_CLAUDE=")).unwrap();
    assert!(read(factory.path).contains(&format!("CLAUDE_VERSION={claude}")), "claude {claude} is the tested version");
}

/// The size of a file, and of the libraries that the loader finds for it.
fn with_libraries(program: &std::path::Path) -> u64 {
    let listed = std::process::Command::new("ldd").arg(program).output().unwrap();
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    let libraries = listed.split_whitespace().filter(|word| word.starts_with('/'));
    let size = |path: &str| std::fs::metadata(path).map_or(0, |file| file.len());
    libraries.map(size).sum::<u64>() + std::fs::metadata(program).unwrap().len()
}

#[test]
fn the_files_of_the_coordinators_image_are_small() {
    let release = root().join("target/release/giga");
    let why = "target/release/giga is not there: run make build";
    if !Requirement::ReleaseBuild.is_met(release.is_file(), why) {
        return;
    }
    let certificates = std::fs::metadata("/etc/ssl/certs/ca-certificates.crt").map_or(0, |file| file.len());

    let bytes = with_libraries(&release) + certificates;

    println!("{:.1} MB", bytes as f64 / 1e6);
    assert!(bytes <= IMAGE_MB_MAX * 1_000_000, "{bytes} bytes");
}

fn compose() -> Value {
    yaml::documents(&read("deploy/compose.yaml")).remove(0)
}

fn strings(value: &Value) -> Vec<&str> {
    value.as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

fn ours(compose: &Value) -> Vec<(&String, &Value)> {
    let services = compose["services"].as_object().unwrap().iter();
    services.filter(|(name, _)| name.starts_with("coordinator-") || name.starts_with("factory-")).collect()
}

// [U3]
#[test]
fn the_compose_file_starts_two_coordinators_and_two_factories() {
    let (machine, compose) = (Machine::new(), compose());
    let place = "deploy/compose.yaml";

    let all = compose["services"].as_object().unwrap();
    all.values().for_each(|service| assert_pinned(place, service["image"].as_str().unwrap()));
    let names: Vec<_> = ours(&compose).into_iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["coordinator-1", "coordinator-2", "factory-1", "factory-2"]);
    for (name, service) in ours(&compose) {
        let place = format!("{place}: {name}");
        assert_own_version(&place, service["image"].as_str().unwrap());
        assert_eq!(service["user"], "10001:10001", "{place}");
        assert_eq!(service["cap_drop"], serde_json::json!(["ALL"]), "{place}");
        assert_accepted(&machine, &place, &strings(&service["command"]));
        service["environment"].as_object().unwrap().keys().for_each(|variable| assert_known(&place, variable));
    }
}

#[test]
fn the_compose_files_names_and_ports_agree() {
    let compose = compose();
    let services = &compose["services"];
    let factories_ask: Vec<_> = services["factory-1"]["environment"]["GIGA_API"].as_str().unwrap().split(',').collect();

    for (index, name) in ["coordinator-1", "coordinator-2"].into_iter().enumerate() {
        let service = &services[name];
        let address = format!("http://{name}:{PORT}");
        assert_eq!(service["environment"]["GIGA_ADVERTISE"], address.as_str());
        assert_eq!(factories_ask[index], address);
        let hosts: Vec<_> = service["environment"]["GIGA_HOSTS"].as_str().unwrap().split(',').collect();
        assert!(hosts.contains(&name), "{hosts:?}");
        // On this machine only: there is no TLS.
        let [published] = strings(&service["ports"])[..] else { panic!("{name}: one port") };
        assert!(published.starts_with("127.0.0.1:") && published.ends_with(&format!(":{PORT}")), "{published}");
    }
    let declared = compose["volumes"].as_object().unwrap();
    for (name, service) in services.as_object().unwrap() {
        for volume in strings(&service["volumes"]) {
            let source = volume.split(':').next().unwrap();
            let is_there = declared.contains_key(source) || root().join("deploy").join(source).is_file();
            assert!(is_there, "{name}: `{volume}`");
        }
    }
    // Agents run in the factories.
    let internal = &compose["networks"]["backend"]["internal"];
    let reached: Vec<_> = ["postgres", "nats"].map(|name| strings(&services[name]["networks"])).concat();
    let used: Vec<_> = ["factory-1", "factory-2"].map(|name| strings(&services[name]["networks"])).concat();
    assert_eq!((internal, reached, used), (&Value::Bool(true), vec!["backend"; 2], vec!["fleet"; 2]));
}

#[test]
fn the_broker_file_changes_services_of_the_compose_file() {
    let (compose, more) = (compose(), yaml::documents(&read("deploy/compose.broker.yaml")).remove(0));

    for (name, change) in more["services"].as_object().unwrap() {
        assert!(compose["services"][name].is_object(), "{name}");
        let variables = change["environment"].as_object().into_iter().flatten();
        variables.for_each(|(variable, _)| assert_known("deploy/compose.broker.yaml", variable));
    }
}
