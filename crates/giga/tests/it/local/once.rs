//! What `--once` answers when it could not see, or was not allowed to finish.

use rustix::process::Signal;

use super::folder::Folder;

const SLOW: &str = "---\ntitle: Slow\nrepo: work\n---\nwait\n";

// [F8]
#[test]
fn folders_that_cannot_be_read_are_an_error_and_never_everything_done() {
    let mut folder = Folder::new();
    folder.drop_in("a.md", SLOW);
    folder.start_with(&["--once"]);
    folder.until_in("building", "a.md");

    std::fs::remove_dir(folder.path("queue/review")).unwrap();
    folder.give_the_signal();
    let code = folder.until_over();

    assert_eq!(code, Some(1), "{}", folder.log());
    let log = folder.log();
    assert!(log.contains("error: cannot read the folders") && !log.contains("succeeded"), "{log}");
}

// [F8]
#[test]
fn once_that_was_stopped_says_so_and_names_what_is_not_over() {
    let mut folder = Folder::new();
    folder.drop_in("a.md", SLOW);
    folder.start_with(&["--once"]);
    folder.until_in("building", "a.md");

    let code = folder.end(Signal::TERM);

    assert_eq!(code, Some(1), "{}", folder.log());
    assert!(folder.log().contains("a.md: still waits"), "{}", folder.log());
    assert_eq!(folder.places(), [("inbox", "a.md".to_owned())]);
}

// [F8]
#[test]
fn the_summary_names_each_file_that_failed_and_why() {
    let folder = Folder::new();
    folder.drop_in("bad.md", "---\ntitle: Bad\nbudget:\n  usd: many\n---\nDo it.\n");
    folder.drop_in("doomed.md", "---\ntitle: Doomed\nrepo: work\nretry: {max: 1}\n---\nfail\n");
    folder.drop_in("good.md", super::folder::JOB);

    let ran = folder.once(&[]);

    assert_eq!(ran.code, Some(1), "{}", ran.stderr);
    let summary = ran.stderr.split_once("error: ").map_or("", |(_, summary)| summary);
    assert!(summary.contains("2 of 3 files failed"), "{}", ran.stderr);
    assert!(summary.contains("bad.md: not a job: line 4, budget.usd"), "{}", ran.stderr);
    assert!(summary.contains("doomed.md: failed (retries_exhausted): exit code 1"), "{}", ran.stderr);
    assert!(!ran.stdout.contains("not a job: -"), "{}", ran.stdout);
}

// [F8]
#[test]
fn a_refused_file_that_cannot_be_moved_away_did_not_get_through_either() {
    let mut folder = Folder::new();
    // What reports are written to before they get their name: nothing can be written into failed/ any more.
    std::fs::create_dir(folder.path("queue/failed/.giga.unfinished")).unwrap();
    folder.drop_in("bad.md", "---\ntitle: Bad\nbudget:\n  usd: many\n---\nDo it.\n");
    folder.drop_in("lost.md", "---\ntitle: Lost\nproduct: nobodys\n---\nDo it.\n");
    folder.drop_in("slow.md", SLOW);
    folder.start_with(&["--once"]);
    folder.until_in("building", "slow.md");
    folder.drop_in("another.md", super::folder::JOB);
    folder.give_the_signal();

    let code = folder.until_over();

    let log = folder.log();
    assert_eq!((code, folder.names("inbox")), (Some(1), vec!["bad.md".to_owned(), "lost.md".to_owned()]), "{log}");
    let summary = log.split_once("error: ").map_or("", |(_, summary)| summary);
    assert!(summary.contains("2 of 4 files failed"), "{log}");
    assert!(summary.contains("bad.md: not a job: line 4, budget.usd"), "{log}");
    assert!(summary.contains("lost.md: not a job: ") && summary.contains("could not be moved to failed/"), "{log}");
    assert_eq!(log.matches("lost.md is not a job, and cannot be moved").count(), 1, "{log}");
}

// [F8]
#[test]
fn once_gives_up_when_it_cannot_write_down_what_it_took() {
    let mut folder = Folder::new();
    folder.drop_in("a.md", SLOW);
    folder.start_with(&["--once"]);
    folder.until_in("building", "a.md");

    // Writing into a folder that is a file fails, as it does on a full disk.
    let records = folder.path("queue/.giga/files");
    std::fs::rename(&records, folder.path("records")).unwrap();
    std::fs::write(&records, "").unwrap();
    folder.drop_in("b.md", super::folder::JOB);
    folder.give_the_signal();
    let code = folder.until_over();

    let log = folder.log();
    assert_eq!(code, Some(1), "{log}");
    assert!(log.contains("error: cannot record which files were accepted"), "{log}");
    assert!(log.contains("gave up after 10 s"), "{log}");
    assert_eq!(folder.place_of("b.md"), ["inbox"]);
}
