//! `giga local`: a folder queue, real processes, and users who edit, move and delete files.

mod crashes;
mod folder;
mod hostile_names;
mod once;
mod profiles;
mod questions;
mod records;
mod user_edits;

use rustix::process::Signal;

use crate::giga::Machine;
use folder::{Folder, JOB};

// [F8] [U3]
#[test]
fn a_file_in_the_inbox_becomes_work_on_its_own_branch_and_once_returns_when_it_is_there() {
    let folder = Folder::new();
    folder.drop_in("a.md", JOB);

    let ran = folder.once(&[]);

    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert_eq!(folder.places(), [("testing", "a.md".to_owned())]);
    assert_eq!(folder.read("testing/a.md"), JOB);
    let result = folder.read("testing/a.result.md");
    assert!(result.contains("Some work: testing") && result.contains("Run 1: completed"), "{result}");
    assert_eq!(folder.prompts(), ["Do it.\n"]);
}

// [F8]
#[test]
fn what_ships_by_itself_ends_in_shipped_and_on_main_and_every_line_of_json_says_where() {
    let folder = Folder::new();
    folder.drop_in("a.md", JOB);

    let ran = folder.once(&["--ship", "--json"]);

    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert_eq!(folder.places(), [("shipped", "a.md".to_owned())]);
    let told: Vec<serde_json::Value> = ran.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let folders: Vec<&str> = told.iter().map(|tale| tale["folder"].as_str().unwrap()).collect();
    assert_eq!(folders, ["inbox", "building", "testing", "shipped"], "{told:?}");
    assert!(told.iter().all(|tale| tale["file"] == "a.md" && tale["jobId"].is_string()), "{told:?}");
    assert_eq!(folder.merged(), 1);

    folder.drop_in("b.md", JOB);
    folder.once(&[]);

    assert_eq!((folder.place_of("b.md"), folder.merged()), (vec!["testing"], 1), "no further merge was requested");
}

// [F8]
#[test]
fn a_broken_manifest_goes_to_failed_with_what_where_and_what_to_do_and_the_others_go_on() {
    let folder = Folder::new();
    folder.drop_in("bad.md", "---\ntitle: Bad\nbudget:\n  usd: many\n---\nDo it.\n");
    folder.drop_in("good.md", JOB);
    folder.drop_in("lost.md", "---\ntitle: Lost\nproduct: nobodys\n---\nDo it.\n");

    let ran = folder.once(&[]);

    assert_eq!(ran.code, Some(1), "{}", ran.stderr);
    let expected =
        [("testing", "good.md".to_owned()), ("failed", "bad.md".to_owned()), ("failed", "lost.md".to_owned())];
    assert_eq!(folder.places(), expected);
    let why = folder.read("failed/bad.error.md");
    assert!(why.contains("line 4, budget.usd") && why.contains("move it back to `inbox/`"), "{why}");
    assert!(folder.read("failed/lost.error.md").contains("unknown product `nobodys`"));

    folder.write("failed/bad.md", JOB);
    folder.shift("failed/bad.md", "inbox/bad.md");
    let again = folder.once(&[]);

    assert_eq!(again.code, Some(0), "{}", again.stderr);
    assert!(!folder.exists("failed/bad.error.md"), "the old complaint is still there");
    assert_eq!(folder.place_of("bad.md"), ["testing"]);
}

// [J4] [F8]
#[test]
fn one_file_waits_for_another_by_its_name() {
    let folder = Folder::new();
    folder.drop_in("roof.md", "---\ntitle: Roof\nrepo: work\ndeps: ['key:walls.md']\n---\nroof\n");
    folder.drop_in("walls.md", "---\ntitle: Walls\nrepo: work\n---\nwalls\n");

    let ran = folder.once(&["--ship"]);

    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert_eq!(folder.prompts(), ["walls\n", "roof\n"]);
    assert_eq!(folder.places(), [("shipped", "roof.md".to_owned()), ("shipped", "walls.md".to_owned())]);
}

// [I9]
#[test]
fn a_job_that_nobody_can_run_is_named_and_once_does_not_wait_for_it() {
    let folder = Folder::new();
    folder.drop_in("odd.md", "---\ntitle: Odd\ncapabilities: [gpu:none]\n---\nDo it.\n");
    folder.drop_in("a.md", JOB);

    let ran = folder.once(&[]);

    assert_eq!(ran.code, Some(1), "{}", ran.stderr);
    assert!(ran.stderr.contains("\n  odd.md: still waits: no factory can run it: "), "{}", ran.stderr);
    assert!(!ran.stderr.contains("failed/"), "nothing is there: {}", ran.stderr);
    assert_eq!(folder.places(), [("inbox", "odd.md".to_owned()), ("testing", "a.md".to_owned())]);
}

#[test]
fn an_engine_that_fails_leaves_its_file_in_failed_with_what_happened() {
    let folder = Folder::new();
    folder.drop_in("a.md", "---\ntitle: Doomed\nrepo: work\nretry: {max: 1}\n---\nfail\n");

    let ran = folder.once(&[]);

    assert_eq!(ran.code, Some(1), "{}", ran.stderr);
    assert_eq!(folder.places(), [("failed", "a.md".to_owned())]);
    let result = folder.read("failed/a.result.md");
    assert!(result.contains("failed (engine_error)") || result.contains("failed (crash)"), "{result}");
}

// [F8]
#[test]
fn two_hundred_files_dropped_at_once_all_get_through() {
    let folder = Folder::new();
    for n in 0..200 {
        folder.drop_in(&format!("job-{n:03}.md"), &format!("---\ntitle: Job {n}\n---\njob {n}\n"));
    }

    let ran = folder.once(&["--seats", "8"]);

    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert_eq!(folder.names("shipped").len(), 200, "without a repository they are done at once");
    let mut prompts = folder.prompts();
    prompts.sort();
    prompts.dedup();
    assert_eq!((prompts.len(), folder.runs()), (200, 200));
}

// [F8]
#[test]
fn a_second_keeper_of_the_same_folder_is_refused() {
    let mut folder = Folder::new();
    folder.start();

    let second = folder.once(&[]);

    assert_eq!(second.code, Some(1), "{}", second.stderr);
    assert!(second.stderr.contains("is in use by process"), "{}", second.stderr);
    folder.end(Signal::TERM);
}

// [§12]
#[test]
fn the_names_of_older_scripts_are_honoured() {
    let folder = Folder::bare();
    folder.drop_in("a.md", JOB);
    let base = folder.path("").to_str().unwrap().to_owned();
    let old = [("AQ_FLEET_REPO_BASE", base.as_str()), ("AQ_PRODUCT_ID", "notes"), ("POLL_SECONDS", "1")];

    let ran = folder.once_with(&["--json"], &old);

    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert_eq!(folder.places(), [("testing", "a.md".to_owned())]);
    let listed = folder.giga(&["jobs", "--product", "notes", "--json"]);
    assert!(listed.code == Some(4) || listed.code == Some(6), "nothing serves any more: {listed:?}");
}

// [F8]
#[test]
fn an_engine_on_the_path_is_named_at_the_start_and_only_where_there_is_none_it_is_said() {
    let machine = Machine::new();
    let tools = machine.path().join("tools");
    std::fs::create_dir(&tools).unwrap();
    std::os::unix::fs::symlink("/bin/true", tools.join("claude")).unwrap();
    let with = format!("{}:/usr/bin:/bin", tools.display());

    std::fs::create_dir(machine.path().join("queue")).unwrap();
    let found = machine.giga_with(&["local", "queue", "--once"], &[("PATH", &with)], "");
    let none = machine.giga_with(&["local", "queue", "--once"], &[("PATH", "/usr/bin:/bin")], "");

    assert_eq!((found.code, none.code), (Some(0), Some(0)), "{found:?} {none:?}");
    assert!(found.stderr.contains("found `claude` on the PATH"), "{}", found.stderr);
    assert!(none.stderr.contains("there is no engine yet"), "{}", none.stderr);
}
