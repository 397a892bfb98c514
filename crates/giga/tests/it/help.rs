//! The help screens, compared with what was agreed on.

use std::path::Path;

use crate::giga::Machine;

const SCREENS: [(&str, &[&str]); 22] = [
    ("giga", &["--help"]),
    ("up", &["up", "--help"]),
    ("serve", &["serve", "--help"]),
    ("factory", &["factory", "run", "--help"]),
    ("local", &["local", "--help"]),
    ("submit", &["submit", "--help"]),
    ("wait", &["wait", "--help"]),
    ("jobs", &["jobs", "--help"]),
    ("runs", &["runs", "--help"]),
    ("logs", &["logs", "--help"]),
    ("explain", &["explain", "--help"]),
    ("factories", &["factory", "list", "--help"]),
    ("ship", &["ship", "--help"]),
    ("gc", &["gc", "--help"]),
    ("backup", &["backup", "create", "--help"]),
    ("restore", &["backup", "restore", "--help"]),
    ("products-set", &["product", "set", "--help"]),
    ("mode", &["mode", "--help"]),
    ("bench", &["bench", "--help"]),
    ("bench-throughput", &["bench", "throughput", "--help"]),
    ("sign-in", &["sign-in", "--help"]),
    ("token-create", &["token", "create", "--help"]),
];

// [U3]
#[test]
fn the_help_screens_are_as_agreed() {
    let machine = Machine::new();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/golden/help");
    let mut stale = Vec::new();

    for (name, args) in SCREENS {
        let ran = machine.giga(args);
        assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{name}");
        let path = folder.join(format!("{name}.txt"));
        if !testkit::golden_matches(&path, &ran.stdout) {
            stale.push(name);
        }
    }

    assert_eq!(stale, Vec::<&str>::new(), "run with UPDATE_GOLDEN=1 and look at the difference");
}

#[test]
fn machinery_is_not_shown() {
    let shown = Machine::new().giga(&["--help"]).stdout;

    assert!(!shown.contains("__"), "{shown}");
}

#[test]
fn no_command_is_a_mistake_that_shows_the_help() {
    let ran = Machine::new().giga(&[]);

    assert_eq!(ran.code, Some(2));
    assert!(ran.stderr.contains("Usage: giga"), "{}", ran.stderr);
    let listed = ran.stderr.lines().skip_while(|line| *line != "Common commands:").skip(1);
    let first: Vec<&str> = listed.take(5).filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(first, ["up", "submit", "wait", "jobs", "ship"], "{}", ran.stderr);
}

#[test]
fn a_word_from_another_program_is_translated() {
    let ran = Machine::new().giga(&["status"]);

    assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""));
    assert!(ran.stderr.contains("unrecognized subcommand 'status'"), "{}", ran.stderr);
    assert!(ran.stderr.ends_with("hint: `giga jobs` lists jobs, `giga job ID` shows one\n"), "{}", ran.stderr);
}

// [U3]
#[test]
fn every_shell_gets_its_completions() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let ran = Machine::new().giga(&["completions", shell]);

        assert_eq!(ran.code, Some(0), "{shell}");
        assert!(ran.stdout.contains("dead-letters"), "{shell}");
    }
}

#[test]
fn the_schema_is_the_one_that_manifests_are_read_by() {
    let ran = Machine::new().giga(&["schema"]);

    let schema: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!((ran.code, schema), (Some(0), domain::manifest_schema()));
}
