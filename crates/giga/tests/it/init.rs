//! `giga init`

use crate::giga::Machine;

// [U3]
#[test]
fn init_writes_once_and_never_over_what_is_there() {
    let machine = Machine::new();

    let first = machine.giga(&["init"]);
    machine.write("job.md", "mine");
    let second = machine.giga(&["init", "--json"]);

    let names = ["backend", "reviewer", "security-engineer", "technical-writer", "test-engineer", "ux-designer"];
    let profiles = names.map(|name| format!("profiles/{name}.md"));
    let wrote =
        profiles.iter().fold("wrote giga.toml\nwrote job.md\n".to_owned(), |text, name| text + "wrote " + name + "\n");
    assert_eq!((first.code, first.stdout.as_str()), (Some(0), wrote.as_str()));
    assert!(first.stderr.contains("giga up"), "{}", first.stderr);
    let second_output: serde_json::Value = serde_json::from_str(&second.stdout).unwrap();
    assert_eq!((second.code, &second_output["written"]), (Some(0), &serde_json::json!([])));
    assert_eq!(second_output["kept"].as_array().map(Vec::len), Some(8));
    assert_eq!(machine.read("job.md"), "mine");
}

#[test]
fn what_init_wrote_can_be_used_at_once() {
    let machine = Machine::new();
    machine.giga(&["init"]);

    let doctor = machine.giga(&["doctor"]);

    assert!(doctor.stdout.contains("from giga.toml"), "{}", doctor.stdout);
    assert!(doctor.stdout.contains("6 profiles in "), "{}", doctor.stdout);
}

// [J2]
#[test]
fn doctor_names_the_line_of_a_broken_profile() {
    let machine = Machine::new();
    machine.giga(&["init"]);
    machine.write("profiles/broken.md", "---\nengin: claude\n---\nYou break.\n");

    let doctor = machine.giga(&["doctor"]);

    assert!(
        doctor.stdout.contains("broken.md: line 2, engin: unknown key; did you mean `engine`?"),
        "{}",
        doctor.stdout
    );
}

#[test]
fn init_finds_the_repository_its_remote_and_its_tests() {
    let machine = Machine::new();
    let remote = crate::repository::make(machine.path(), "notes");
    let mut clone = std::process::Command::new("git");
    clone.args(["clone", "--quiet"]).arg(&remote).arg(machine.path().join("here"));
    assert!(clone.status().unwrap().success());
    machine.write("here/Makefile", "test:\n\ttrue\n");
    crate::repository::commit(&machine.path().join("here"), "Makefile");
    let here = machine.path().join("here");
    let giga = |args: &[&str]| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_giga"));
        let path = std::env::var("PATH").unwrap();
        command.args(args).current_dir(&here).env_clear().env("HOME", machine.path()).env("PATH", path);
        command.output().unwrap()
    };

    let init = giga(&["init"]);
    let doctor = giga(&["doctor"]);

    let said = String::from_utf8(init.stderr).unwrap();
    assert!(said.contains("repository  notes (") && said.contains("tests       make test"), "{said}");
    let (settings, job) = (machine.read("here/giga.toml"), machine.read("here/job.md"));
    assert!(settings.contains("[factory.repos.notes]\nurl = \".\"\nbase = \"main\"\n"), "{settings}");
    assert!(job.contains("repo: notes\n") && job.contains("verify: [\"make test\"]\n"), "{job}");
    // If no engine is signed in, both report it.
    let examined = String::from_utf8(doctor.stdout).unwrap();
    let is_signed_in = said.contains("engines     claude") || said.contains("engines     codex");
    let doctor_agrees = examined.contains("`claude` has one") || examined.contains("`codex` has one");
    assert_eq!(is_signed_in, doctor_agrees, "{said}\n{examined}");
    assert!(is_signed_in || settings.contains("No engine is signed in"), "{settings}");
    assert!(is_signed_in || examined.contains("none here") || examined.contains("gets no work"), "{examined}");
}

#[test]
fn init_names_a_repository_once_and_warns_without_a_remote() {
    let machine = Machine::new();
    let git = |args: &[&str]| {
        let status = std::process::Command::new("git").current_dir(machine.path()).args(args).status().unwrap();
        assert!(status.success(), "{args:?}");
    };
    git(&["init", "--quiet"]);
    machine.write("giga.toml", "[factory.repos.notes]\nurl = '.'\n");

    let init = machine.giga(&["init"]);
    std::fs::remove_file(machine.path().join("job.md")).unwrap();
    git(&["remote", "add", "origin", "https://forge.example/acme/other.git"]);
    let with_remote = machine.giga(&["init"]);

    assert!(init.stderr.contains("has no remote: results stay as branches of this clone"), "{}", init.stderr);
    assert!(!with_remote.stderr.contains("has no remote"), "{}", with_remote.stderr);
    assert!(machine.read("job.md").contains("repo: notes\n"), "{}", machine.read("job.md"));
}

#[test]
fn a_broken_file_does_not_keep_init_or_schema_from_working() {
    let machine = Machine::new();
    machine.write("giga.toml", "this is not toml");

    assert_eq!(machine.giga(&["init"]).code, Some(0));
    assert_eq!(machine.giga(&["schema"]).code, Some(0));
    assert_eq!(machine.giga(&["jobs"]).code, Some(2));
}
