//! The sources of settings, as `giga doctor --json` reports them.

use serde_json::Value;

use crate::giga::{Machine, Ran};

fn setting(ran: &Ran, key: &str) -> (String, String) {
    let found: Value = serde_json::from_str(&ran.stdout).unwrap_or_else(|_| panic!("{ran:?}"));
    let settings = found["settings"].as_array().unwrap();
    let row = settings.iter().find(|row| row["key"] == key).unwrap();
    (row["value"].as_str().unwrap().to_owned(), row["origin"].as_str().unwrap().to_owned())
}

fn pair(value: &str, origin: &str) -> (String, String) {
    (value.to_owned(), origin.to_owned())
}

#[test]
fn flags_win_over_variables_and_variables_over_the_file() {
    let machine = Machine::new();
    machine.write("giga.toml", "[client]\n# where\napi = \"http://127.0.0.1:1\"\n");
    let doctor = ["doctor", "--json"];
    let env = [("GIGA_API", "http://127.0.0.1:2")];

    let by_file = machine.giga(&doctor);
    let by_env = machine.giga_with(&doctor, &env, "");
    let by_flag = machine.giga_with(&["doctor", "--json", "--api", "http://127.0.0.1:3"], &env, "");

    assert_eq!(setting(&by_file, "client.api"), pair("http://127.0.0.1:1", "giga.toml:3"));
    assert_eq!(setting(&by_env, "client.api"), pair("http://127.0.0.1:2", "GIGA_API"));
    assert_eq!(setting(&by_flag, "client.api"), pair("http://127.0.0.1:3", "--api"));
}

// [§12]
#[test]
fn the_file_of_the_working_directory_comes_before_that_of_the_platform() {
    let machine = Machine::new();
    let folder = machine.path().join("config");
    std::fs::create_dir_all(folder.join("gigafactory")).unwrap();
    std::fs::write(folder.join("gigafactory/giga.toml"), "[factory]\nseats = 7\n").unwrap();
    let env = [("XDG_CONFIG_HOME", folder.to_str().unwrap())];

    let by_platform = machine.giga_with(&["doctor", "--json"], &env, "");
    machine.write("giga.toml", "[factory]\nseats = 3\n");
    let by_folder = machine.giga_with(&["doctor", "--json"], &env, "");
    machine.write("other.toml", "[factory]\nseats = 5\n");
    let by_flag = machine.giga_with(&["doctor", "--json", "--config", "other.toml"], &env, "");

    let platform_file = format!("{}:2", folder.join("gigafactory/giga.toml").display());
    assert_eq!(setting(&by_platform, "factory.seats"), pair("7", &platform_file));
    assert_eq!(setting(&by_folder, "factory.seats"), pair("3", "giga.toml:2"));
    assert_eq!(setting(&by_flag, "factory.seats"), pair("5", "other.toml:2"));
}

// [§12] [attack: secrets in logs, events, artifacts]
#[test]
fn the_forge_is_listed_by_its_kind_and_place_and_never_with_its_token() {
    let machine = Machine::new();
    let text = "[coordinator]\nlook_every = \"1m\"\nfeedback_rounds_max = 5\nconflict_rounds_max = 0\n\
                [factory.forge]\nkind = \"github\"\napi = \"https://forge.example/api/v3\"\ntoken_env = \"FORGE_TOKEN\"\n\
                slugs = { notes = \"acme/notes\" }\n\
                [factory.forge.repos.notes]\ndraft = true\nmethod = \"squash\"\nbranch = \"agents/{id}\"\n";
    machine.write("giga.toml", text);

    let ran = machine.giga_with(&["doctor", "--json"], &[("FORGE_TOKEN", "ghp_canary")], "");

    assert_eq!(setting(&ran, "factory.forge").0, "github at https://forge.example/api/v3");
    assert_eq!(setting(&ran, "coordinator.look_every"), pair("1m", "giga.toml:2"));
    assert_eq!(setting(&ran, "coordinator.feedback_rounds_max"), pair("5", "giga.toml:3"));
    assert_eq!(setting(&ran, "coordinator.conflict_rounds_max"), pair("0", "giga.toml:4"));
    assert!(!ran.stdout.contains("ghp_canary"), "{ran:?}");
}

// [§12]
#[test]
fn a_branch_without_the_jobs_id_is_refused_with_its_line() {
    let machine = Machine::new();
    machine.write("giga.toml", "[factory.forge.pull_requests]\nbranch = \"agents\"\n");

    let ran = machine.giga(&["doctor"]);

    assert!(ran.stdout.contains("giga.toml:2") && ran.stdout.contains("ends in `{id}`"), "{ran:?}");
}

// [§12] [attack: secrets in logs, events, artifacts]
#[test]
fn what_a_factory_and_its_programs_are_told_is_listed_without_values() {
    let machine = Machine::new();
    let text = "[coordinator]\nsweep_every = \"30s\"\n[factory]\ncost = 40\nref_prefix = \"bots\"\ndelete_branch = false\n\
                [factory.engine_seats]\nclaude = 1\n[factory.repo_seats]\n\"acme/notes\" = 2\n\
                [factory.environment]\npass = [\"NPM_TOKEN\"]\nset = { CI = \"hidden\" }\n";
    machine.write("giga.toml", text);

    let ran = machine.giga(&["doctor", "--json"]);

    assert_eq!(setting(&ran, "coordinator.sweep_every"), pair("30s", "giga.toml:2"));
    assert_eq!(setting(&ran, "coordinator.disk_free_min_mib"), pair("1024", "default"));
    assert_eq!(setting(&ran, "factory.cost"), pair("40", "giga.toml:4"));
    assert_eq!(setting(&ran, "factory.ref_prefix"), pair("bots", "giga.toml:5"));
    assert_eq!(setting(&ran, "factory.delete_branch"), pair("false", "giga.toml:6"));
    assert_eq!(setting(&ran, "factory.default_base"), pair("main", "default"));
    assert_eq!(setting(&ran, "factory.engine_seats"), pair("claude 1", "giga.toml"));
    assert_eq!(setting(&ran, "factory.repo_seats"), pair("acme/notes 2", "giga.toml"));
    assert_eq!(setting(&ran, "factory.environment"), pair("NPM_TOKEN, CI", "giga.toml"));
    assert!(!ran.stdout.contains("hidden"), "{}", ran.stdout);
}

// [§12]
#[test]
fn a_cost_beyond_the_dearest_is_refused_with_its_place() {
    let machine = Machine::new();
    machine.write("giga.toml", "[factory]\ncost = 101\n");

    let ran = machine.giga(&["jobs"]);

    let expected = "error: giga.toml:2: 101 is not a cost: write 0 to 100\n";
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(2), expected));
}

// [§12]
#[test]
fn an_unknown_key_stops_every_command_with_the_place_and_a_suggestion() {
    let machine = Machine::new();
    machine.write("giga.toml", "[coordinator]\n\nlease_tll = \"90s\"\n");

    let ran = machine.giga(&["jobs"]);

    let expected = "error: giga.toml:3: unknown key `lease_tll`\nhint: did you mean `lease_ttl`?\n";
    assert_eq!((ran.code, ran.stdout.as_str(), ran.stderr.as_str()), (Some(2), "", expected));
}

#[test]
fn a_file_that_was_asked_for_must_be_there() {
    let by_flag = Machine::new().giga(&["jobs", "--config", "no.toml"]);
    let by_variable = Machine::new().giga_with(&["jobs"], &[("GIGA_CONFIG", "/gone/giga.toml")], "");

    let expected = "error: --config names a file that does not exist: no.toml\nhint: `giga init` writes a giga.toml\n";
    assert_eq!((by_flag.code, by_flag.stderr.as_str()), (Some(2), expected));
    let expected = "error: GIGA_CONFIG names a file that does not exist: /gone/giga.toml\n\
                    hint: unset GIGA_CONFIG, or set it to your giga.toml; `giga init` writes one\n";
    assert_eq!((by_variable.code, by_variable.stderr.as_str()), (Some(2), expected));
}

#[test]
fn the_address_of_a_running_coordinator_is_found_in_the_data_folder() {
    let machine = Machine::new();
    machine.write("endpoint", "http://127.0.0.1:9\n");
    machine.write("admin.token", "giga_adm_secretsecret\n");

    let ran = machine.giga(&["doctor", "--json", "--data", "."]);

    assert_eq!(setting(&ran, "client.api"), pair("http://127.0.0.1:9", "./endpoint"));
    let token = pair("giga_adm_… (from file ./admin.token)", "default");
    assert_eq!(setting(&ran, "client.token"), token);
    assert!(!ran.stdout.contains("secretsecret"), "{}", ran.stdout);
}
