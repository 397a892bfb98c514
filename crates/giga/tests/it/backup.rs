//! Backups and restores through the command line.

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::fleet::Fleet;

fn ids(listed: &[Value]) -> Vec<String> {
    let items = listed[0]["items"].as_array().unwrap().iter();
    items.map(|job| job["id"].as_str().unwrap().to_owned()).collect()
}

fn submit(fleet: &Fleet, key: &str) -> String {
    fleet.json(&["submit", "job.md", "--key", key])[0]["job"]["id"].as_str().unwrap().to_owned()
}

// [§12]
#[test]
fn a_fleet_is_restored_while_it_runs_and_goes_on() {
    let mut fleet = Fleet::up();
    let first = submit(&fleet, "first");
    fleet.machine.giga(&["wait", &first, "--until", "testing"]);
    let taken = fleet.json(&["backup", "create", "b.db"]);
    let second = submit(&fleet, "second");

    let restored = fleet.json(&["backup", "restore", "b.db", "--yes"]);
    let listed = ids(&fleet.json(&["jobs"]));
    let third = submit(&fleet, "third");
    let waited = fleet.machine.giga(&["wait", &third, "--until", "testing", "--timeout", "60s"]);
    let seen = fleet.json(&["job", &third]);

    assert_eq!((taken[0]["jobs"].as_u64(), taken[0]["generation"].as_u64()), (Some(1), Some(0)));
    assert_eq!(listed, [first], "job {second} was submitted after the backup");
    assert_eq!(waited.code, Some(0), "{}", waited.stderr);
    let generation = restored[0]["generation"].as_u64().unwrap();
    assert!(generation > 0);
    assert!(seen[0]["job"]["leaseEpoch"].as_u64().unwrap() > generation << 24, "{}", seen[0]);
    assert!(restored[0]["notice"].as_str().unwrap().contains("including tokens"), "{}", restored[0]);
    let kept = restored[0]["kept"].as_str().unwrap();
    assert!(fleet.machine.path().join("data").join(kept).exists());
    assert_eq!(fleet.end(Signal::TERM), Some(0));
}

// [row 28]
#[test]
fn a_run_of_a_job_that_a_restored_store_never_heard_of_is_stopped_before_its_next_renewal() {
    let mut fleet = Fleet::new();
    let config = fleet.machine.read("giga.toml").replace("renew_every = '1s'", "renew_every = '40s'");
    fleet.machine.write("giga.toml", &config);
    fleet.machine.write("engine.sh", "while :; do echo at work; sleep 0.2; done\n");
    fleet.start_up();
    fleet.json(&["backup", "create", "b.db"]);
    let unknown = submit(&fleet, "unknown");
    fleet.machine.giga(&["wait", &unknown, "--until", "building"]);

    fleet.json(&["backup", "restore", "b.db", "--yes"]);

    let is_kept = || fleet.machine.read("long-lived.log").contains("Stopped the run of job");
    let is_stopped = crate::processes::becomes_so(std::time::Duration::from_secs(25), is_kept);
    assert!(is_stopped, "{}", fleet.machine.read("long-lived.log"));
    fleet.end(Signal::TERM);
}

// [§12]
#[test]
fn without_a_coordinator_the_data_folder_is_backed_up_and_restored() {
    let mut fleet = Fleet::serve();
    let first = submit(&fleet, "first");
    fleet.end(Signal::TERM);

    let taken = fleet.json(&["backup", "create", "b.db"]);
    fleet.start_serving();
    submit(&fleet, "second");
    // Killed, so that it leaves its address and its log behind.
    let killed = fleet.end(Signal::KILL);
    let unsaid = fleet.machine.giga(&["backup", "restore", "b.db"]);
    let restored = fleet.json(&["backup", "restore", "b.db", "--yes"]);
    std::fs::remove_file(fleet.machine.path().join("data/endpoint")).unwrap();
    fleet.start_serving();
    let listed = ids(&fleet.json(&["jobs"]));

    assert_eq!((taken[0]["jobs"].as_u64(), taken[0]["open"].as_u64()), (Some(1), Some(1)));
    assert_eq!(killed, None);
    assert_eq!((unsaid.code, unsaid.stdout.as_str()), (Some(2), ""), "{}", unsaid.stderr);
    assert!(unsaid.stderr.contains("--yes"), "{}", unsaid.stderr);
    assert_eq!(restored[0]["backup"]["sha256"], taken[0]["sha256"]);
    assert_eq!(listed, [first]);
    fleet.end(Signal::TERM);
}

// [U3] [§12]
#[test]
fn a_backup_is_checked_and_never_written_over_anything() {
    let mut fleet = Fleet::serve();
    submit(&fleet, "first");
    let taken = fleet.json(&["backup", "create", "b.db"]);
    fleet.machine.write("notes", &"a text file\n".repeat(100));

    let good = fleet.json(&["backup", "verify", "b.db"]);
    let bad = fleet.machine.giga(&["backup", "verify", "notes"]);
    let absent = fleet.machine.giga(&["backup", "verify", "nowhere.db"]);
    let again = fleet.machine.giga(&["backup", "create", "b.db"]);
    let no_backup = fleet.machine.giga(&["backup", "restore", "notes", "--yes"]);
    let unnamed = fleet.machine.giga(&["backup", "create"]);

    assert_eq!(good, taken);
    assert_eq!(good[0]["file"], json!("b.db"));
    let codes = [&bad, &absent, &again, &no_backup, &unnamed].map(|ran| ran.code);
    assert_eq!(codes, [Some(1), Some(5), Some(1), Some(1), Some(0)], "{}", bad.stderr);
    assert!(bad.stderr.contains("is not a backup of a fleet"), "{}", bad.stderr);
    assert!(again.stderr.contains("already exists"), "{}", again.stderr);
    assert!(unnamed.stdout.starts_with("giga-backup-2"), "{}", unnamed.stdout);
    let mode = std::fs::metadata(fleet.machine.path().join("b.db")).unwrap().permissions();
    assert_eq!(std::os::unix::fs::PermissionsExt::mode(&mode) & 0o777, 0o600);
    let left: Vec<_> = std::fs::read_dir(fleet.machine.path().join("data/transfers")).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
    fleet.end(Signal::TERM);
}

// [§12]
#[test]
fn a_fleet_moves_to_postgresql_is_restored_there_while_it_runs_and_moves_back() {
    let Some(server) = pgserver::for_test(pgserver::Flushes::Real).unwrap() else { return };
    let url = server.url();
    let mut fleet = Fleet::serve();
    let first = submit(&fleet, "first");
    fleet.json(&["backup", "create", "file.db"]);
    fleet.end(Signal::TERM);

    fleet.json(&["backup", "restore", "file.db", "--store", &url, "--yes"]);
    fleet.start_serving_on(&url);
    let moved = ids(&fleet.json(&["jobs"]));
    let second = submit(&fleet, "second");
    fleet.json(&["backup", "create", "server.db"]);
    submit(&fleet, "third");
    let restored = fleet.json(&["backup", "restore", "server.db", "--yes"]);
    let put_back = ids(&fleet.json(&["jobs"]));
    let beside = fleet.machine.giga(&["backup", "restore", "file.db", "--store", &url, "--yes"]);
    let again = fleet.json(&["backup", "create", "again.db", "--store", &url]);
    let ended = fleet.end(Signal::TERM);
    fleet.json(&["backup", "restore", "again.db", "--store", "sqlite", "--yes"]);
    fleet.start_serving();
    let moved_back = ids(&fleet.json(&["jobs"]));
    fleet.end(Signal::TERM);

    let both = [second, first.clone()];
    assert_eq!((moved, put_back, moved_back), (vec![first], both.to_vec(), both.to_vec()));
    let kept = restored[0]["kept"].as_str().unwrap();
    assert!(kept.starts_with("fleet_before_generation_"), "{kept}");
    assert_eq!((beside.code, again[0]["jobs"].as_u64(), ended), (Some(1), Some(2), Some(0)), "{}", beside.stderr);
    assert!(beside.stderr.contains("another coordinator uses the database"), "{}", beside.stderr);
}

#[test]
fn a_folder_on_the_command_line_is_the_one_that_is_meant_whatever_address_is_set_for_every_day() {
    let mut fleet = Fleet::serve();
    submit(&fleet, "first");
    fleet.json(&["backup", "create", "b.db"]);
    submit(&fleet, "second");
    let read = |name: &str| fleet.machine.read(name).trim().to_owned();
    let (api, token) = (read("data/endpoint"), read("data/admin.token"));
    let every_day = [("GIGA_API", api.as_str()), ("GIGA_TOKEN", token.as_str())];
    std::fs::create_dir(fleet.machine.path().join("copy")).unwrap();

    let restored = fleet.machine.giga_with(&["backup", "restore", "b.db", "--data", "copy", "--yes"], &every_day, "");
    let both = ["backup", "restore", "b.db", "--data", "copy", "--api", &api, "--yes"];
    let refused = fleet.machine.giga_with(&both, &every_day, "");
    let backed_up = fleet.machine.giga_with(&["backup", "create", "c.db", "--data", "copy", "--json"], &every_day, "");
    let elsewhere = [("GIGA_API", "http://127.0.0.1:1"), ("GIGA_TOKEN", "of another fleet")];
    let running = fleet.machine.giga_with(&["backup", "create", "d.db", "--data", "data", "--json"], &elsewhere, "");

    assert_eq!(restored.code, Some(0), "{}", restored.stderr);
    assert_eq!(ids(&fleet.json(&["jobs"])).len(), 2, "the running fleet is as it was");
    assert_eq!(refused.code, Some(2), "{}", refused.stderr);
    let taken: Value = serde_json::from_str(&backed_up.stdout).unwrap();
    assert_eq!(taken["jobs"], json!(1));
    assert_eq!(running.code, Some(0), "{}", running.stderr);
    let taken: Value = serde_json::from_str(&running.stdout).unwrap();
    assert_eq!(taken["jobs"], json!(2), "its coordinator has the folder and is asked");
    fleet.end(Signal::TERM);
}

// [§12] [B4]
#[test]
fn what_backs_a_run_is_in_a_backup_and_comes_back_with_it() {
    let mut fleet = Fleet::up();
    let id = submit(&fleet, "first");
    fleet.machine.giga(&["wait", &id, "--until", "testing"]);
    let shown = |fleet: &Fleet| fleet.json(&["runs", &id, "1"]);
    let logs = fleet.machine.path().join("data/logs");
    let before = shown(&fleet);

    let taken = fleet.json(&["backup", "create", "running.db"]);
    std::fs::remove_dir_all(&logs).unwrap();
    let without = shown(&fleet);
    fleet.json(&["backup", "restore", "running.db", "--yes"]);
    let after = shown(&fleet);
    fleet.end(Signal::TERM);
    let taken_closed = fleet.json(&["backup", "create", "closed.db"]);
    std::fs::remove_dir_all(&logs).unwrap();
    fleet.json(&["backup", "restore", "closed.db", "--yes"]);
    fleet.start_serving();
    let after_closed = shown(&fleet);
    let nothing_twice = fleet.json(&["backup", "create", "again.db"]);

    assert!(before[0]["diff"].as_str().is_some_and(|diff| diff.contains("out-")), "{before:?}");
    assert!(without[0]["diff"].is_null(), "{without:?}");
    assert_eq!((&after, &after_closed), (&before, &before));
    let counted = [taken, taken_closed, nothing_twice].map(|taken| taken[0]["evidence"].as_u64());
    assert_eq!(counted, [Some(1); 3]);
    fleet.end(Signal::TERM);
}

// [§12] [B4]
#[test]
fn what_backs_a_run_is_in_a_backup_of_postgresql_and_comes_back_with_it() {
    let Some(server) = pgserver::for_test(pgserver::Flushes::Real).unwrap() else { return };
    let url = server.url();
    let mut fleet = Fleet::new();
    fleet.start(&["up"], &[("GIGA_STORE", url.as_str())]);
    fleet.until_connected();
    let id = submit(&fleet, "first");
    fleet.machine.giga(&["wait", &id, "--until", "testing"]);
    let shown = |fleet: &Fleet| fleet.json(&["runs", &id, "1"]);
    let logs = fleet.machine.path().join("data/logs");
    let before = shown(&fleet);

    let taken = fleet.json(&["backup", "create", "running.db"]);
    std::fs::remove_dir_all(&logs).unwrap();
    let none = fleet.json(&["backup", "create", "none.db"]);
    fleet.json(&["backup", "restore", "running.db", "--yes"]);
    let after = shown(&fleet);
    fleet.end(Signal::TERM);
    let taken_closed = fleet.json(&["backup", "create", "closed.db", "--store", &url]);
    std::fs::remove_dir_all(&logs).unwrap();
    fleet.json(&["backup", "restore", "closed.db", "--store", &url, "--yes"]);
    fleet.start_serving_on(&url);
    let after_closed = shown(&fleet);
    fleet.end(Signal::TERM);

    assert!(before[0]["diff"].as_str().is_some_and(|diff| diff.contains("out-")), "{before:?}");
    assert_eq!((&after, &after_closed), (&before, &before));
    let counted = [taken, none, taken_closed].map(|taken| taken[0]["evidence"].as_u64());
    assert_eq!(counted, [Some(1), Some(0), Some(1)], "they are beside the logs, and not in the database");
}

#[test]
fn a_restore_that_cannot_put_back_what_backs_runs_leaves_the_store_as_it_was_and_works_when_tried_again() {
    let mut fleet = Fleet::up();
    let first = submit(&fleet, "first");
    fleet.machine.giga(&["wait", &first, "--until", "testing"]);
    let before = fleet.json(&["runs", &first, "1"]);
    fleet.json(&["backup", "create", "b.db"]);
    let second = submit(&fleet, "second");
    fleet.machine.giga(&["wait", &second, "--until", "testing"]);
    fleet.end(Signal::TERM);
    let logs = fleet.machine.path().join("data/logs");
    std::fs::remove_dir_all(&logs).unwrap();
    std::fs::write(&logs, "in the way").unwrap();

    let refused = fleet.machine.giga(&["backup", "restore", "b.db", "--yes"]);
    std::fs::remove_file(&logs).unwrap();
    let unchanged = fleet.json(&["backup", "create", "unchanged.db"]);
    fleet.json(&["backup", "restore", "b.db", "--yes"]);
    fleet.start_serving();
    let (jobs, after) = (ids(&fleet.json(&["jobs"])), fleet.json(&["runs", &first, "1"]));
    fleet.end(Signal::TERM);

    assert_eq!(refused.code, Some(1), "{}", refused.stderr);
    assert_eq!((unchanged[0]["jobs"].as_u64(), unchanged[0]["generation"].as_u64()), (Some(2), Some(0)));
    assert_eq!((jobs, after), (vec![first], before));
}
