//! Engines that look for secrets wherever they can, and engines that give away the one they were trusted with.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Child;

use rustix::process::Signal;
use serde_json::Value;
use testkit::requirement::Requirement;

use crate::fleet::Fleet;
use crate::{processes, repository};

/// The secrets that must not leak.
const CANARY: &str = "canary-4f1d9c";

/// An account that is on every machine and may do nothing.
const NOBODY: &str = "nobody";

/// Everything that a program can try to read: its own environment, all processes, and every directory up to the root.
const DUMP: &str = r#"
{
    env
    cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline
    ls -l /proc/[0-9]*/fd
    cat "$HOME"/* "$HOME"/.[a-z]* "$HOME"/.ssh/*
    git config --list --show-origin
    git remote --verbose
    cat .git ../../factory.token ../../../data/admin.token ../../../data/fleet.db ../../../far.log
    dir=$PWD
    while [ "$dir" != "$TOP" ] && [ "$dir" != / ]; do
        find "$dir" -type f -size -256k -not -name dump -exec cat {} +
        dir=$(dirname "$dir")
    done
    find "$TOP" -type f -size -256k -not -name dump -exec cat {} +
} > dump 2>&1
head -c 200000 dump
"#;

/// Prints its own secret in one piece, in pieces, and in the middle of a long line.
const LEAK: &str = r#"
echo "my key is $API_KEY"
printf '%s' "$API_KEY" | cut -c 1-9 | tr -d '\n'; sleep 0.3; printf '%s\n' "$API_KEY" | cut -c 10-
head -c 20000 /dev/zero | tr '\0' x; echo "$API_KEY"
echo done > out
"#;

/// Reads its own credential, and the files beside it, as far as it can.
const CLAUDE: &str = r#"#!/bin/sh
if [ "$1" = --version ]; then echo '2.1.197 (Claude Code)'; exit; fi
cat > /dev/null
cat "$CLAUDE_CONFIG_DIR"/.credentials.json "$CLAUDE_CONFIG_DIR"/../.codex/auth.json "$CLAUDE_CONFIG_DIR"/../of-my-own > seen 2> /dev/null
echo renewed > "$CLAUDE_CONFIG_DIR/renewed"
echo '{"type":"result","subtype":"success","is_error":false,"num_turns":1,"total_cost_usd":0,"result":"Done."}'
"#;

/// The operator's credential of Claude Code.
fn claude_login() -> String {
    format!(r#"{{"claudeAiOauth":{{"accessToken":"claude-{CANARY}"}}}}"#)
}

/// Puts files where a later process would run or trust them.
const PLANT: &str = r#"
planted() { echo "$1" >> planted; }
{
    (echo '# x' >> "$TOP/giga.toml") && planted settings
    mv "$TOP/giga.toml" "$TOP/giga.old" && planted settings-by-move
    (echo x >> "$TOP/home/.profile") && planted profile
    (echo x > "$TOP/home/.local/bin/git") && planted program
    (echo x > "$TOP/home/.config/systemd/user/x.service") && planted service
    (: > "$EXE.planted") && planted beside-the-guard && rm "$EXE.planted"
} 2> /dev/null
echo done > out
"#;

/// A coordinator, and a factory of its own with secrets all around it.
struct House {
    fleet: Fleet,
    factory: Option<Child>,
}

impl House {
    /// Engines run under another account if `run_as` names one.
    fn new(run_as: Option<&str>) -> Self {
        let mut fleet = Fleet::new();
        let top = fleet.machine.path().to_owned();
        // Another account may pass through, and read what is not kept from it.
        std::fs::set_permissions(&top, std::fs::Permissions::from_mode(0o711)).unwrap();
        std::fs::create_dir_all(top.join("home/.ssh")).unwrap();
        std::fs::set_permissions(top.join("home"), std::fs::Permissions::from_mode(0o700)).unwrap();
        fleet.machine.write("home/.ssh/id", CANARY);
        for folder in ["home/.claude", "home/.codex", "home/.cargo/bin"] {
            std::fs::create_dir_all(top.join(folder)).unwrap();
        }
        fleet.machine.write("home/.claude/.credentials.json", &claude_login());
        for file in ["home/.codex/auth.json", "home/.cargo/credentials.toml", "home/of-my-own"] {
            fleet.machine.write(file, CANARY);
        }
        fleet.machine.write("claude.sh", CLAUDE);
        std::fs::set_permissions(top.join("claude.sh"), std::fs::Permissions::from_mode(0o755)).unwrap();
        fleet.machine.write("dump.sh", &format!("TOP='{}'\n{DUMP}", top.display()));
        fleet.machine.write("leak.sh", LEAK);
        let config = fleet.machine.read("giga.toml");
        let run_as = run_as.map_or_else(String::new, |account| format!("run_as = '{account}'\n"));
        let config = config.replace("[factory]\n", &format!("[factory]\n{run_as}"));
        let engines = format!(
            "[factory.engines.dumper]\nargv = ['sh', '{dump}']\n\
             [factory.engines.leaker]\nargv = ['sh', '{leak}']\n\
             environment = {{ set = {{ API_KEY = 'sk-{CANARY}-of-the-engine' }} }}\n\
             [factory.engines.claude]\nprogram = '{claude}'\n",
            claude = top.join("claude.sh").display(),
            dump = top.join("dump.sh").display(),
            leak = top.join("leak.sh").display(),
        );
        fleet.machine.write("giga.toml", &(config + &engines));
        fleet.start_serving();
        let mut house = Self { fleet, factory: None };
        house.start_factory();
        house
    }

    fn start_factory(&mut self) {
        let made = self.fleet.json(&["token", "create", "--join", "--factory", "far"]);
        let join = made[0]["secret"].as_str().unwrap();
        let state = self.path("far").to_str().unwrap().to_owned();
        let variables = [
            ("GIGA_JOIN", join),
            ("GH_TOKEN", CANARY),
            ("AWS_SECRET_ACCESS_KEY", CANARY),
            ("AQ_FLEET_TOKEN", CANARY),
            ("MY_SETTING", CANARY),
        ];
        let args = ["factory", "run", "--name", "far", "--state", &state];
        self.factory = Some(self.fleet.machine.start_into("far.log", &args, &variables));
        self.fleet.until_connected();
    }

    fn path(&self, name: &str) -> PathBuf {
        self.fleet.machine.path().join(name)
    }

    /// Runs a job with an engine; its id.
    fn run(&self, engine: &str) -> String {
        self.run_verified(engine, "true")
    }

    fn run_verified(&self, engine: &str, verify: &str) -> String {
        let job = format!("---\ntitle: Look around\nrepo: work\nengine: {engine}\nverify: ['{verify}']\n---\nLook.\n");
        self.fleet.machine.write("look.md", &job);
        let done: Vec<Value> = self.fleet.json(&["submit", "look.md", "--wait"]);
        assert_eq!(done[1]["stage"], "testing", "{done:?}\n{}", self.fleet.machine.read("far.log"));
        done[0]["job"]["id"].as_str().unwrap().to_owned()
    }

    fn logs(&self, id: &str) -> String {
        self.fleet.machine.giga(&["logs", id, "--raw"]).stdout
    }

    /// The secrets that exist in files and memory, beside the canary.
    fn secrets(&self) -> Vec<String> {
        let token = |name: &str| std::fs::read_to_string(self.path(name)).unwrap().trim().to_owned();
        vec![CANARY.to_owned(), token("far/factory.token"), token("data/admin.token")]
    }
}

impl Drop for House {
    fn drop(&mut self) {
        if let Some(mut factory) = self.factory.take() {
            processes::send(Signal::TERM, &factory);
            let _ = factory.wait();
        }
    }
}

// [attack: a prompt-injected agent steals secrets]
#[test]
fn an_engine_under_another_account_that_dumps_everything_it_can_read_finds_no_secret() {
    let is_root = rustix::process::geteuid().is_root();
    let has_nobody = std::fs::read_to_string("/etc/passwd").is_ok_and(|passwd| passwd.contains("\nnobody:"));
    if !is_root || !has_nobody {
        Requirement::Root.skip(format_args!("another account needs root and an account `{NOBODY}`"));
        return;
    }
    let house = House::new(Some(NOBODY));

    let id = house.run("dumper");

    assert_nothing_was_found(&house, &id);
}

/// A run that dumped everything it could read found no secret, neither in its files nor in what it printed.
fn assert_nothing_was_found(house: &House, id: &str) {
    let dump = repository::text(&house.path("work.git"), &format!("aq/job/{id}:dump")).unwrap();
    let found = format!("{dump}\n{}", house.logs(id));
    assert!(found.contains(&format!("GIGA_JOB_ID={id}")), "it looked at nothing: {found}");
    for secret in house.secrets() {
        let lines: Vec<&str> = found.lines().filter(|line| line.contains(&secret)).collect();
        assert_eq!(lines, Vec::<&str>::new(), "a secret was found");
    }
}

// [T8] [attack: a prompt-injected agent steals secrets]
#[test]
fn an_engine_of_the_same_account_that_dumps_everything_it_can_read_finds_no_secret() {
    if let sandbox::SandboxSummary::None(why) = sandbox::SandboxMode::Auto.in_force() {
        Requirement::Landlock.skip(why);
        return;
    }
    let house = House::new(None);

    let id = house.run("dumper");

    let log = house.fleet.machine.read("far.log");
    assert!(log.contains("Agents of factory `far` are sandboxed by Landlock (ABI"), "{log}");
    let is_root = rustix::process::geteuid().is_root();
    assert_eq!(log.contains("run as root, which weakens the sandbox"), is_root, "{log}");
    assert_nothing_was_found(&house, &id);
}

// [attack: secrets in logs, events, artifacts]
#[test]
fn an_engine_that_says_the_secret_it_was_trusted_with_is_not_repeated_in_any_log() {
    let house = House::new(None);

    let id = house.run("leaker");

    let logs = house.logs(&id);
    assert!(logs.contains("my key is"), "{logs}");
    assert!(!logs.contains(CANARY), "{logs}");
    let kept = everything_in(&house.path("data"));
    assert!(!kept.contains(CANARY), "a file of the coordinator has it");
}

/// Everything that a coordinator keeps, as text.
fn everything_in(folder: &std::path::Path) -> String {
    let mut text = String::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            text.push_str(&everything_in(&path));
        } else {
            text.push_str(&String::from_utf8_lossy(&std::fs::read(&path).unwrap()));
        }
    }
    text
}

// [T8] [attack: a prompt-injected agent steals secrets]
#[test]
fn an_engine_has_its_own_login_and_nothing_else_of_the_operators_home_and_a_verify_command_has_not_even_that() {
    if let sandbox::SandboxSummary::None(why) = sandbox::SandboxMode::Auto.in_force() {
        Requirement::Landlock.skip(why);
        return;
    }
    let house = House::new(None);
    let login = house.path("home/.claude/.credentials.json");

    let id = house.run_verified("claude", &format!("test -e {0} && ! cat {0}", login.display()));

    let seen = repository::text(&house.path("work.git"), &format!("aq/job/{id}:seen"));
    assert_eq!(seen, Some(claude_login()));
    assert!(!house.path("home/.claude/renewed").exists(), "what it writes stays in its job's own folder");
}

// [T8]
#[test]
fn the_accounts_own_home_is_closed_although_the_factorys_home_is_elsewhere() {
    if let sandbox::SandboxSummary::None(why) = sandbox::SandboxMode::Auto.in_force() {
        Requirement::Landlock.skip(why);
        return;
    }
    let uid = rustix::process::geteuid().as_raw().to_string();
    let passwd = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let fields = passwd.lines().map(|line| line.split(':').collect::<Vec<_>>());
    let home = fields.filter(|fields| fields.get(2) == Some(&uid.as_str())).find_map(|fields| fields.get(5).copied());
    let home = home.filter(|home| ["/root", "/home/"].iter().any(|place| home.starts_with(place)));
    let files = [".profile", ".bashrc", ".gitconfig"].map(|name| PathBuf::from(home.unwrap_or_default()).join(name));
    let Some(file) = files.into_iter().find(|file| file.is_absolute() && std::fs::read(file).is_ok()) else {
        Requirement::Home.skip("the account that runs the tests has no home with a readable file");
        return;
    };
    let house = House::new(None);

    house.run_verified("claude", &format!("test -e {0} && ! cat {0}", file.display()));
}

// [T8] [attack: a prompt-injected agent steals secrets]
#[test]
fn an_engine_plants_nothing_that_somebody_runs_or_believes_later() {
    if let sandbox::SandboxSummary::None(why) = sandbox::SandboxMode::Auto.in_force() {
        Requirement::Landlock.skip(why);
        return;
    }
    let mut fleet = Fleet::new();
    let top = fleet.machine.path().to_owned();
    for folder in ["home/.local/bin", "home/.config/systemd/user"] {
        std::fs::create_dir_all(top.join(folder)).unwrap();
    }
    fleet.machine.write("home/.profile", "");
    let exe = env!("CARGO_BIN_EXE_giga");
    fleet.machine.write("engine.sh", &format!("TOP='{}'; EXE='{exe}'\n{PLANT}", top.display()));
    let path = format!("{}:{}", top.join("home/.local/bin").display(), std::env::var("PATH").unwrap());
    fleet.start(&["up"], &[("PATH", path.as_str())]);
    fleet.until_connected();

    let done: Vec<Value> = fleet.json(&["submit", "job.md", "--wait"]);

    assert_eq!(done[1]["stage"], "testing", "{done:?}");
    let id = done[0]["job"]["id"].as_str().unwrap();
    let file = |name: &str| repository::text(&top.join("work.git"), &format!("aq/job/{id}:{name}"));
    assert_eq!((file("out").as_deref(), file("planted")), (Some("done\n"), None));
}
