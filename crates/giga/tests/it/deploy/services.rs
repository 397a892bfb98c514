//! The systemd units.

use super::files::{assert_accepted, assert_known, read};
use crate::giga::Machine;

/// The values of a key in a unit, in order.
fn values(unit: &str, key: &str) -> Vec<String> {
    let lines = unit.lines().filter_map(|line| line.split_once('='));
    lines.filter(|(name, _)| *name == key).map(|(_, value)| value.to_owned()).collect()
}

fn value(unit: &str, key: &str) -> String {
    values(unit, key).pop().unwrap_or_else(|| panic!("{key} is missing"))
}

// [U3]
#[test]
fn the_units_start_giga_as_accounts_of_their_own() {
    let machine = Machine::new();
    let accounts = read("deploy/systemd/giga.sysusers");

    for (name, account) in [("coordinator", "giga"), ("factory", "giga-factory")] {
        let path = format!("deploy/systemd/giga-{name}.service");
        let unit = read(&path);

        let command = value(&unit, "ExecStart");
        let (program, args) = command.split_once(' ').unwrap();
        assert_eq!(program, "/usr/local/bin/giga", "{path}");
        assert_accepted(&machine, &path, &args.split(' ').collect::<Vec<_>>());
        assert_eq!((value(&unit, "User").as_str(), value(&unit, "Group").as_str()), (account, account), "{path}");
        assert!(accounts.lines().any(|line| line.starts_with(&format!("u {account} - "))), "{path}");
        assert_eq!(value(&unit, "NoNewPrivileges"), "yes", "{path}");
        for variable in values(&unit, "Environment") {
            assert_known(&path, variable.split_once('=').unwrap().0);
        }
        assert_eq!(value(&unit, "EnvironmentFile"), format!("-/etc/gigafactory/{name}.env"), "{path}");
    }
}

#[test]
fn the_samples_beside_the_units_name_real_settings() {
    let machine = Machine::new();
    for name in ["coordinator", "factory"] {
        let path = format!("deploy/systemd/{name}.env");
        let text = read(&path);
        let lines = text.lines().map(|line| line.trim_start_matches("# ")).filter(|line| line.starts_with("GIGA_"));
        lines.for_each(|line| assert_known(&path, line.split_once('=').unwrap().0));
        // An unknown key of the file is an error.
        machine.write("giga.toml", &read(&format!("deploy/systemd/{name}.toml")));
        let ran = machine.giga(&["jobs"]);
        assert_ne!(ran.code, Some(2), "{name}.toml: {}", ran.stderr);
    }
}
