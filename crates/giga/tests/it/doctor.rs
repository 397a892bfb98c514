//! `giga doctor`

use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};

use crate::coordinator::{Answer, Coordinator};
use crate::giga::{Machine, Ran};

fn verdict(ran: &Ran, name: &str) -> Value {
    let found: Value = serde_json::from_str(&ran.stdout).unwrap_or_else(|_| panic!("{ran:?}"));
    let checks = found["checks"].as_array().unwrap();
    checks.iter().find(|check| check["name"] == name).map_or(Value::Null, |check| check["verdict"].clone())
}

#[test]
fn an_empty_machine_is_well_and_is_told_what_is_missing() {
    let ran = Machine::new().giga(&["doctor", "--json"]);

    let verdicts = ["program", "configuration", "data directory", "disk", "database", "git", "engines"];
    let verdicts = verdicts.map(|name| verdict(&ran, name));
    assert_eq!(verdicts, ["ok", "ok", "ok", "ok", "ok", "ok", "warn"], "{}", ran.stdout);
    assert!(ran.stdout.contains("[factory.engines.NAME]"), "{}", ran.stdout);
}

// [§12]
#[test]
fn a_healthy_fleet_passes_and_the_settings_are_shown_with_their_origin() {
    let coordinator = Coordinator::start();
    let health = json!({"status": "ok", "version": "0.1.0", "protocol": 1});
    coordinator.expect("GET /healthz", Answer::json(200, &health));
    coordinator.expect("GET /jobs", Answer::json(200, &json!({"items": []})));

    let ran = Machine::new().giga_with(&["doctor", "--api", coordinator.api()], &[("GIGA_TOKEN", "x")], "");

    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{}", ran.stdout);
    let listed = ran.stdout.lines().find(|line| line.starts_with("client.api ")).unwrap();
    let words: Vec<&str> = listed.split_whitespace().collect();
    assert_eq!(words, ["client.api", coordinator.api(), "--api"]);
}

#[test]
fn a_broken_file_is_a_finding_and_not_the_end() {
    let machine = Machine::new();
    machine.write("giga.toml", "[log]\nlevle = \"debug\"\n");

    let ran = machine.giga(&["doctor"]);

    assert_eq!(ran.code, Some(1));
    assert!(ran.stdout.contains("giga.toml:2: unknown key `levle`: did you mean `level`?"), "{}", ran.stdout);
    assert_eq!(ran.stderr, "error: 1 check failed\n");
}

#[test]
fn what_cannot_work_fails_and_what_is_odd_warns() {
    let machine = Machine::new();
    machine.write(
        "giga.toml",
        "[coordinator]\nlisten = \"0.0.0.0:7878\"\nrenew_every = \"80s\"\n[factory.engines.ghost]\nargv = [\"no-such-program\"]\n",
    );
    machine.write("fleet.db", "not a database");

    let ran = machine.giga_with(&["doctor", "--json", "--data", "."], &[("GIGA_LISTN", "x")], "");

    assert_eq!(ran.code, Some(1));
    for (name, expected) in [("listener", "fail"), ("engine", "fail"), ("database", "fail"), ("git", "ok")] {
        assert_eq!(verdict(&ran, name), expected, "{name}: {}", ran.stdout);
    }
    assert!(ran.stdout.contains("unknown environment variable GIGA_LISTN"), "{}", ran.stdout);
    assert!(ran.stdout.contains("renew_every"), "{}", ran.stdout);
}

// [F3]
#[test]
fn a_repository_or_an_opened_folder_that_is_not_there_is_pointed_out() {
    let machine = Machine::new();
    let top = machine.path().display().to_string();
    std::fs::create_dir(machine.path().join("here")).unwrap();
    let repos = format!("[factory.repos.here]\nurl = '{top}/here'\n[factory.repos.gone]\nurl = '{top}/gone.git'\n");
    machine.write("giga.toml", &format!("[factory]\nwrite = ['{top}/here', '{top}/notthere']\n{repos}"));

    let ran = machine.giga(&["doctor"]);

    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let told = |words: &str| ran.stdout.lines().any(|line| line.starts_with("warn") && line.contains(words));
    assert!(told(&format!("`gone` is not offered: {top}/gone.git does not exist")), "{}", ran.stdout);
    assert!(told(&format!("`write` names {top}/notthere, which does not exist")), "{}", ran.stdout);
    assert!(!ran.stdout.contains(&format!("{top}/here does not exist")), "{}", ran.stdout);
}

// [T8] [attack: a prompt-injected agent steals secrets]
#[test]
fn what_keeps_agents_from_secrets_is_told_and_so_is_what_does_not() {
    let machine = Machine::new();
    let with = |confine: &str| machine.giga_with(&["doctor", "--json"], &[("GIGA_CONFINE", confine)], "");

    let (off, by_default, wrong) = (with("off"), machine.giga(&["doctor", "--json"]), with("sometimes"));

    assert_eq!(verdict(&off, "agents"), "warn", "{}", off.stdout);
    assert!(off.stdout.contains("not sandboxed") && off.stdout.contains("`confine` is off"), "{}", off.stdout);
    let is_root = rustix::process::geteuid().is_root();
    let expected = match sandbox::SandboxMode::Auto.in_force() {
        sandbox::SandboxSummary::Kernel(means) if means.gap.is_none() && !is_root => "ok",
        sandbox::SandboxSummary::Kernel(_) | sandbox::SandboxSummary::None(_) => "warn",
    };
    assert_eq!(off.stdout.contains("run as root"), is_root, "{}", off.stdout);
    assert_eq!(verdict(&by_default, "agents"), expected, "{}", by_default.stdout);
    assert!(wrong.stdout.contains("`sometimes` is none of `auto`, `required` and `off`"), "{}", wrong.stdout);
}

#[test]
fn a_coordinator_that_does_not_know_the_token_is_reported() {
    let coordinator = Coordinator::start();
    let health = json!({"status": "ok", "version": "0.1.0", "protocol": 1});
    coordinator.expect("GET /healthz", Answer::json(200, &health));
    coordinator.expect("GET /jobs", Answer::problem(401, "unauthenticated", "a valid bearer token is needed"));

    let ran = Machine::new().giga_with(&["doctor", "--json", "--api", coordinator.api()], &[("GIGA_TOKEN", "x")], "");

    assert_eq!((verdict(&ran, "coordinator"), verdict(&ran, "token")), (json!("ok"), json!("fail")));
    assert_eq!(ran.code, Some(1));
}

// [§12]
#[test]
fn names_of_older_scripts_are_shown() {
    let old = [
        ("AQ_FLEET_ROUTE", "0"),
        ("POLL_SECONDS", "0"),
        ("AQ_FLEET_DASH", "1"),
        ("AQ_FLEET_SHADOW", "1"),
        ("AQ_FLEET_TOKEN", "giga_op_not-for-show"),
    ];

    let ran = Machine::new().giga_with(&["doctor"], &old, "");

    let row = |key: &str| {
        let line = ran.stdout.lines().find(|line| line.starts_with(key)).unwrap_or_default();
        line.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(row("factory.route "), ["factory.route", "false", "AQ_FLEET_ROUTE"], "{}", ran.stdout);
    assert_eq!(row("factory.poll_every "), ["factory.poll_every", "0s", "POLL_SECONDS"]);
    assert_eq!(row("client.token "), ["client.token", "giga_op_…", "AQ_FLEET_TOKEN"]);
    assert!(!ran.stdout.contains("not-for-show"));
    assert_eq!(row("client.dash "), ["client.dash", "true", "AQ_FLEET_DASH"]);
    assert_eq!(row("coordinator.shadow "), ["coordinator.shadow", "true", "AQ_FLEET_SHADOW"]);
    assert!(ran.stdout.contains("asking for work every 0s is out of bounds: every 1s"), "{}", ran.stdout);
}

/// What doctor reports on Linux about the user's credential, with a `claude` on the `PATH` and a file in `~/.claude`.
#[cfg(target_os = "linux")]
fn logins_with((file, text): (&str, &str), variables: &[(&str, &str)]) -> (Value, String) {
    let machine = Machine::new();
    for folder in ["bin", "home/.claude"] {
        std::fs::create_dir_all(machine.path().join(folder)).unwrap();
    }
    machine.write("bin/claude", "#!/bin/sh\necho '2.1.197 (Claude Code)'\n");
    let program = machine.path().join("bin/claude");
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    machine.write(&format!("home/.claude/{file}"), text);
    let path = format!("{}:/usr/bin:/bin", machine.path().join("bin").display());
    let ran = machine.giga_with(&["doctor", "--json"], &[&[("PATH", path.as_str())], variables].concat(), "");
    (verdict(&ran, "login"), ran.stdout)
}

// [B9]
#[test]
#[cfg(target_os = "linux")]
fn doctor_tells_what_of_an_ordinary_folder_is_a_login() {
    let oauth = r#"{"claudeAiOauth":{"accessToken":"a","refreshToken":"r","expiresAt":1}}"#;
    let cases = [
        (".credentials.json", oauth, "ok", "`claude` has one"),
        (".credentials.json", r#"{"mcpOAuth":{}}"#, "warn", "not signed in: set CLAUDE_CODE_OAUTH_TOKEN"),
        ("settings.json", r#"{"apiKeyHelper":"~/bin/key"}"#, "warn", "its `apiKeyHelper` is not run for agents"),
        ("settings.json", r#"{"env":{"ANTHROPIC_API_KEY":"sk-own"}}"#, "ok", "`claude` has one"),
        ("CLAUDE.md", "be brief", "warn", "not signed in: set CLAUDE_CODE_OAUTH_TOKEN"),
    ];

    for (file, text, expected, words) in cases {
        let (verdict, said) = logins_with((file, text), &[]);

        assert!(verdict == expected && said.contains(words), "{file}: {said}");
    }
    let (verdict, _) = logins_with(("CLAUDE.md", "be brief"), &[("CLAUDE_CODE_OAUTH_TOKEN", "t")]);
    assert_eq!(verdict, "ok");
}

// [F2]
#[test]
fn a_login_that_agents_cannot_use_is_no_login_and_doctor_says_what_to_do() {
    let machine = Machine::new();
    let (program, operators) = (machine.path().join("claude"), machine.path().join("operators"));
    machine.write("claude", "#!/bin/sh\necho '2.1.197 (Claude Code)'\n");
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    std::fs::create_dir(&operators).unwrap();
    machine.write("operators/settings.json", r#"{"apiKeyHelper":"~/bin/key"}"#);
    machine.write(
        "giga.toml",
        &format!(
            "[factory.engines.claude]\nprogram = {program:?}\nenvironment = {{ set = {{ CLAUDE_CONFIG_DIR = {operators:?} }} }}\n"
        ),
    );
    let with = |key: &str| machine.giga_with(&["doctor", "--json"], &[("ANTHROPIC_API_KEY", key)], "");

    let (without, with) = (with(""), with("sk-test"));

    assert_eq!(verdict(&without, "login"), "warn", "{}", without.stdout);
    assert!(without.stdout.contains("set CLAUDE_CODE_OAUTH_TOKEN (from `claude setup-token`)"), "{}", without.stdout);
    assert_eq!(verdict(&with, "login"), "ok", "{}", with.stdout);
}

#[test]
fn the_key_of_a_codex_provider_that_is_not_set_is_reported() {
    let machine = Machine::new();
    let (program, operators) = (machine.path().join("codex"), machine.path().join("operators"));
    machine.write("codex", "#!/bin/sh\necho 'codex-cli 0.169.0'\n");
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    std::fs::create_dir(&operators).unwrap();
    let provider = "model_provider = 'gate'\n[model_providers.gate]\nname = 'gate'\nenv_key = 'GATE_KEY'\n";
    machine.write("operators/config.toml", provider);
    machine.write(
        "giga.toml",
        &format!(
            "[factory.engines.codex]\nprogram = {program:?}\n\
             environment = {{ pass = ['GATE_KEY'], set = {{ CODEX_HOME = {operators:?} }} }}\n"
        ),
    );
    let with = |key: &str| machine.giga_with(&["doctor", "--json"], &[("CODEX_API_KEY", "sk"), ("GATE_KEY", key)], "");

    let (without, with) = (with(""), with("sk-test"));

    assert_eq!(verdict(&without, "login"), "warn", "{}", without.stdout);
    assert!(without.stdout.contains("provider `gate` reads its key from `GATE_KEY`"), "{}", without.stdout);
    assert_eq!(verdict(&with, "login"), "ok", "{}", with.stdout);
}

// [U3]
#[test]
fn a_factorys_state_directory_is_examined() {
    let machine = Machine::new();
    machine.write("giga.toml", "[factory]\nstate = 'own'\ndisk_floor_mib = 0\n");
    let before = machine.giga(&["doctor", "--json"]);
    let runs = machine.path().join("own/runs");
    std::fs::create_dir_all(&runs).unwrap();
    let record = r#"{"v":1,"job":"0190f3a4-7c1e-7b52-9d0a-1f2e3d4c5b6a","dispatchSeq":1,
        "nonce":"0190f3a4-7c1e-7b52-9d0a-1f2e3d4c5b6b","epoch":1,"stage":"running"}"#;
    std::fs::write(runs.join("left.json"), record).unwrap();

    let after = machine.giga(&["doctor", "--json"]);
    std::fs::remove_dir_all(machine.path().join("own")).unwrap();
    machine.write("own", "");
    let broken = machine.giga(&["doctor", "--json"]);

    let of = |ran: &Ran| ["factory state", "factory disk", "factory runs"].map(|name| verdict(ran, name));
    assert_eq!(of(&before), [json!("ok"), Value::Null, Value::Null], "{}", before.stdout);
    assert_eq!(of(&after), [json!("warn"), json!("ok"), json!("warn")], "{}", after.stdout);
    assert!(after.stdout.contains("1 open, 0 kept"), "{}", after.stdout);
    assert_eq!((verdict(&broken, "factory state"), broken.code), (json!("fail"), Some(1)), "{}", broken.stdout);
}

#[test]
fn a_running_factory_is_found_by_doctor() {
    for is_up in [true, false] {
        let mut fleet = if is_up { crate::fleet::Fleet::up() } else { crate::fleet::Fleet::serve() };
        let beside = (!is_up).then(|| {
            let made = fleet.json(&["token", "create", "--join", "--factory", "here"]);
            let variables = [("GIGA_JOIN", made[0]["secret"].as_str().unwrap())];
            let factory = fleet.machine.start_into("factory.log", &["factory", "run"], &variables);
            fleet.until_connected();
            factory
        });

        if is_up {
            // Left from another coordinator, and not in use.
            let left = fleet.machine.path().join("data/factory");
            std::fs::create_dir_all(&left).unwrap();
            std::fs::write(left.join("factory.token"), "giga_fac_x").unwrap();
            std::fs::write(left.join("coordinator.url"), "https://other.example:7878").unwrap();
        }
        let doctor = fleet.machine.giga(&["doctor", "--json"]);

        let found: Value = serde_json::from_str(&doctor.stdout).unwrap();
        let listed = found["settings"].as_array().unwrap().iter().find(|one| one["key"] == "factory.state").unwrap();
        let used = listed["value"].as_str().unwrap();
        assert!(used.ends_with(if is_up { "data/factories/here" } else { "data/factory" }), "{used}");
        let checks = found["checks"].as_array().unwrap().iter().filter(|check| check["name"] == "factory coordinator");
        let verdicts: Vec<_> = checks.map(|check| &check["verdict"]).collect();
        assert!(!verdicts.is_empty() && verdicts.iter().all(|verdict| *verdict == "ok"), "{}", doctor.stdout);
        let state = if is_up { "data/factories/here" } else { "data/factory" };
        assert!(doctor.stdout.contains("factory running, process "), "{}", doctor.stdout);
        assert!(doctor.stdout.contains(state), "{}", doctor.stdout);
        assert!(!doctor.stdout.contains("does not exist yet; `giga factory run`"), "{}", doctor.stdout);
        if let Some(mut factory) = beside {
            crate::processes::send(rustix::process::Signal::TERM, &factory);
            factory.wait().unwrap();
        }
        fleet.end(rustix::process::Signal::TERM);
    }
}

/// A program in the home of a machine.
fn program(machine: &Machine, name: &str, script: &str) {
    let file = machine.path().join("home").join(name);
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(&file, format!("#!/bin/sh\n{script}\n")).unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
}

// [F1]
#[test]
fn tools_are_probed_as_agents_would_run_them() {
    let machine = Machine::new();
    let home = machine.path().join("home");
    // As pyenv, nvm and sdkman lay them out, without a variable that names their directory.
    program(&machine, ".pyenv/shims/python3", "exec \"$PYENV_ROOT/versions/3.9/bin/python3\" \"$@\"");
    program(&machine, ".pyenv/versions/3.9/bin/python3", "echo Python 3.9.7");
    program(&machine, ".nvm/versions/node/v17/bin/node", "test -d \"$NVM_DIR/versions\" && echo v17.3.0");
    program(&machine, ".sdkman/candidates/java/9/bin/java", "test -n \"$SDKMAN_DIR\" && echo openjdk 9.0.4");
    std::os::unix::fs::symlink("9", home.join(".sdkman/candidates/java/current")).unwrap();
    // Its version is in a place that agents cannot read.
    std::fs::create_dir(home.join("private")).unwrap();
    std::fs::write(home.join("private/version"), "go version go1.3").unwrap();
    program(&machine, ".local/bin/go", &format!("cat '{}'", home.join("private/version").display()));
    let bins = [".pyenv/shims", ".nvm/versions/node/v17/bin", ".sdkman/candidates/java/current/bin", ".local/bin"];
    let bins = bins.map(|bin| home.join(bin).display().to_string()).join(":");
    let path = format!("{bins}:{}", std::env::var("PATH").unwrap());

    let ran = machine.giga_with(&["doctor", "--json"], &[("PATH", &path)], "");

    let found: Value = serde_json::from_str(&ran.stdout).unwrap_or_else(|_| panic!("{ran:?}"));
    let of = |name: &str| {
        let checks = found["checks"].as_array().unwrap().iter().filter(|check| check["name"] == name);
        checks.map(ToString::to_string).collect::<Vec<_>>().join("\n")
    };
    let (capabilities, broken) = (of("capabilities"), of("tool"));
    for token in ["python:3.9", "node:17", "java:9"] {
        assert!(capabilities.contains(token), "{token}: {capabilities} {broken}");
    }
    if let sandbox::SandboxSummary::Kernel(_) = sandbox::SandboxMode::Required.in_force() {
        assert!(!capabilities.contains("go:1.3"), "{capabilities}");
        assert!(broken.contains("`go` is not advertised") && broken.contains("ermission denied"), "{broken}");
        assert!(broken.contains("`read` under [factory]"), "{broken}");
    }
}
