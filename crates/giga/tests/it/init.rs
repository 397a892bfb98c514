//! `giga init`

use crate::giga::Machine;

#[test]
fn init_writes_once_and_never_over_what_is_there() {
    let machine = Machine::new();

    let first = machine.giga(&["init"]);
    machine.write("job.md", "mine");
    let second = machine.giga(&["init", "--json"]);

    assert_eq!((first.code, first.stdout.as_str()), (Some(0), "wrote giga.toml\nwrote job.md\n"));
    assert!(first.stderr.contains("giga up"), "{}", first.stderr);
    assert_eq!(
        (second.code, second.stdout.as_str()),
        (Some(0), "{\"written\":[],\"kept\":[\"giga.toml\",\"job.md\"]}\n")
    );
    assert_eq!(machine.read("job.md"), "mine");
}

#[test]
fn what_init_wrote_can_be_used_at_once() {
    let machine = Machine::new();
    machine.giga(&["init"]);

    let doctor = machine.giga(&["doctor"]);

    assert!(doctor.stdout.contains("from giga.toml"), "{}", doctor.stdout);
}

#[test]
fn a_broken_file_does_not_keep_init_or_schema_from_working() {
    let machine = Machine::new();
    machine.write("giga.toml", "this is not toml");

    assert_eq!(machine.giga(&["init"]).code, Some(0));
    assert_eq!(machine.giga(&["schema"]).code, Some(0));
    assert_eq!(machine.giga(&["jobs"]).code, Some(2));
}
