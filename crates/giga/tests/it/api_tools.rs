//! The API as other programs use it, by its description alone: schemathesis makes up requests, and a TypeScript client that
//! was generated from the description works jobs off (SPEC §10).

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::{Value, json};
use testkit::requirement::Requirement;

use crate::fleet::Fleet;

/// Where the tools are. `None` if they are missing: `scripts/with-api-tools` installs them, or reports that it cannot.
fn tools() -> Option<PathBuf> {
    let folder = std::env::var_os("GIGA_TEST_API_TOOLS").filter(|folder| folder != "skip");
    if folder.is_none() {
        Requirement::ApiTools.skip("schemathesis and openapi-typescript are not installed: run scripts/with-api-tools");
    }
    folder.map(PathBuf::from)
}

/// A coordinator that serves, and a token of its admin.
struct Served {
    fleet: Fleet,
    base: String,
    admin: String,
}

impl Served {
    fn start() -> Self {
        let mut fleet = Fleet::new();
        fleet.machine.write("webhook.secret", "a secret of the test");
        let config = fleet.machine.read("giga.toml");
        let secret = fleet.machine.path().join("webhook.secret");
        let secret = format!("[coordinator]\ngithub_webhook_secret_file = '{}'\n", secret.display());
        fleet.machine.write("giga.toml", &config.replace("[coordinator]\n", &secret));
        fleet.start_serving();
        let base = fleet.machine.read("data/endpoint");
        let admin = fleet.machine.read("data/admin.token").trim().to_owned();
        Self { base: base.trim().to_owned(), admin, fleet }
    }

    /// One request with JSON; the answer's body.
    fn call(&self, token: &str, method: &str, path: &str, body: &Value) -> Value {
        let body = body.to_string();
        let address = self.base.strip_prefix("http://").unwrap();
        let mut stream = TcpStream::connect(address).unwrap();
        write!(
            stream,
            "{method} /api/fleet{path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nContent-Type: application/json\r\n\
             Authorization: Bearer {token}\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 2"), "{method} {path}: {answer}");
        serde_json::from_str(body).unwrap()
    }

    fn token(&self, grant: &Value) -> String {
        let made = self.call(&self.admin, "POST", "/tokens", &json!({ "name": "tool", "grant": grant }));
        made["secret"].as_str().unwrap().to_owned()
    }

    /// The token of a factory that has joined.
    fn factory(&self) -> String {
        let join = self.token(&json!({ "role": "join", "factory": "tool" }));
        let request = json!({ "joinToken": join, "factoryId": "tool" });
        self.call("none", "POST", "/factories/enroll", &request)["token"].as_str().unwrap().to_owned()
    }

    /// Some of what an operator would have: a product and a job.
    fn furnish(&self) {
        self.call(&self.admin, "PUT", "/products/notes", &json!({ "repos": ["acme/notes"] }));
        let job = json!({ "bodyMd": "---\ntitle: One\n---\nPlease.\n", "productId": "notes" });
        self.call(&self.admin, "POST", "/jobs", &job);
    }
}

/// The number of requests for each operation, and the phases: all that `make test-api` asks for, or a few requests. The
/// phase `coverage` breaks every schema in every way, which takes minutes.
fn profile() -> (String, &'static str) {
    match std::env::var("GIGA_TEST_API_EXAMPLES") {
        Ok(examples) => (examples, "examples,coverage,fuzzing,stateful"),
        Err(_) => ("2".to_owned(), "examples,fuzzing"),
    }
}

/// Has schemathesis make up requests of all kinds, with a fixed seed. Whatever it finds is a failure: a 5xx, an answer that
/// is not described, a refusal of what the schema allows, or the acceptance of what it does not.
fn examine(token: impl FnOnce(&Served) -> String) {
    let Some(tools) = tools() else { return };
    let served = Served::start();
    served.furnish();
    let token = token(&served);
    let folder = served.fleet.machine.path().join("schemathesis");
    copy(&["schemathesis.toml", "hooks.py"], &folder);
    let (examples, phases) = profile();

    let output = Command::new(tools.join("bin/schemathesis"))
        .current_dir(&folder)
        .args(["--config-file", "schemathesis.toml", "run", &format!("{}/openapi.json", served.base)])
        .args(["--header", &format!("Authorization: Bearer {token}")])
        // Wrong tokens are limited to a few a minute, which the server's own matrix of routes and scopes tests.
        .args(["--checks", "all", "--exclude-checks", "ignored_auth"])
        .args(["--phases", phases, "--max-examples", &examples, "--seed", "1"])
        // Streams are held open; a restore replaces everything that the others read.
        .args(["--exclude-path-regex", "(/events/stream|/inbox|/restore)$"])
        .args(["--exclude-name", "GET /api/fleet/jobs/{id}/logs"])
        .args(["--generation-database", "none", "--suppress-health-check", "all", "--no-color"])
        .args(["--warnings", "off", "--request-timeout", "20", "--continue-on-failure"])
        .output()
        .unwrap();

    succeeded("schemathesis", &output);
    drop(served.fleet);
}

/// Copies files of ours into a new directory: the tools write beside them.
fn copy(names: &[&str], folder: &Path) {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/api_tools");
    std::fs::create_dir(folder).unwrap();
    for name in names {
        std::fs::copy(sources.join(name), folder.join(name)).unwrap();
    }
}

fn succeeded(what: &str, output: &Output) {
    let (said, complained) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{what}: {}\n{said}\n{complained}", output.status);
}

// [§10]
#[test]
fn schemathesis_finds_nothing_as_an_admin() {
    examine(|served| served.admin.clone());
}

#[test]
fn schemathesis_finds_nothing_as_an_operator() {
    examine(|served| served.token(&json!({ "role": "operator", "products": ["notes"] })));
}

#[test]
fn schemathesis_finds_nothing_as_a_viewer() {
    examine(|served| served.token(&json!({ "role": "viewer" })));
}

#[test]
fn schemathesis_finds_nothing_as_a_factory() {
    examine(Served::factory);
}

/// A client whose types come from the description compiles, joins, and works jobs off, one by one and many at once.
// [§10] [U4]
#[test]
fn a_generated_client_works_jobs_off() {
    let Some(tools) = tools() else { return };
    let served = Served::start();
    let folder = served.fleet.machine.path().join("client");
    copy(&["worker.ts", "misnamed.ts"], &folder);
    std::os::unix::fs::symlink(tools.join("node_modules"), folder.join("node_modules")).unwrap();
    std::fs::write(folder.join("package.json"), r#"{"type": "module"}"#).unwrap();
    let run = |program: &str, args: &[&str]| {
        let program = tools.join("node_modules/.bin").join(program);
        Command::new(program).args(args).current_dir(&folder).output().unwrap()
    };
    let compile = |file: &str| {
        let strict = ["--strict", "--exactOptionalPropertyTypes", "false", "--skipLibCheck"];
        let modules = ["--module", "nodenext", "--target", "es2022", "--types", "node", "--outDir", "out", file];
        run("tsc", &[&strict[..], &modules[..]].concat())
    };

    let description = format!("{}/openapi.json", served.base);
    succeeded(
        "generate",
        &run("openapi-typescript", &[&description, "-o", "schema.d.ts", "--default-non-nullable=false"]),
    );
    succeeded("compile", &compile("worker.ts"));
    let misnamed = compile("misnamed.ts");
    let worked = Command::new("node")
        .arg("out/worker.js")
        .current_dir(&folder)
        .env("GIGA_API", &served.base)
        .env("GIGA_TOKEN", &served.admin)
        .output()
        .unwrap();

    succeeded("work", &worked);
    assert!(!misnamed.status.success(), "a wrong name must not compile");
    assert!(String::from_utf8_lossy(&misnamed.stdout).contains("job_id"), "{misnamed:?}");
}
