//! What people do to files, and what it means.

use std::time::Duration;

use clock::SystemClock;
use domain::Clock;
use rustix::process::Signal;

use super::folder::{Folder, JOB};

/// The pause of a user between two writes to a file.
const PAUSE: Duration = Duration::from_millis(300);

/// After a second of silence a file counts as whole, and rightly so.
const PAUSE_MAX: Duration = Duration::from_millis(900);

const FAILS: &str = "---\ntitle: Doomed\nrepo: work\nretry: {max: 1}\n---\nfail\n";

// [F8]
#[test]
fn a_file_moved_from_failed_to_inbox_is_tried_again_as_the_same_job() {
    let mut folder = Folder::new();
    folder.start();
    folder.drop_in("a.md", FAILS);
    folder.until_in("failed", "a.md");
    let runs = folder.runs();

    folder.shift("failed/a.md", "inbox/a.md");
    folder.until("another run", |folder| folder.runs() > runs);
    folder.until_in("failed", "a.md");

    assert_eq!(folder.jobs().len(), 1);
    assert_eq!(folder.end(Signal::TERM), Some(0));
}

#[test]
fn a_file_that_was_mended_before_it_was_moved_back_is_another_job() {
    let mut folder = Folder::new();
    folder.start();
    folder.drop_in("a.md", FAILS);
    folder.until_in("failed", "a.md");

    folder.write("failed/a.md", JOB);
    folder.shift("failed/a.md", "inbox/a.md");
    folder.until_in("testing", "a.md");

    assert_eq!(folder.jobs().len(), 2);
    assert!(!folder.exists("failed/a.result.md"));
    folder.end(Signal::TERM);
}

// [F8]
#[test]
fn a_file_deleted_from_the_inbox_is_a_cancelled_job() {
    let mut folder = Folder::new();
    folder.start();
    folder.drop_in("odd.md", "---\ntitle: Odd\ncapabilities: [gpu:none]\n---\nDo it.\n");
    folder.until("a job", |folder| !folder.jobs().is_empty());

    folder.remove("inbox/odd.md");
    folder.until("its end", |folder| folder.jobs()[0]["stage"] == "failed");

    assert_eq!(folder.jobs()[0]["reason"], "cancelled");
    assert_eq!(folder.places(), []);
    folder.end(Signal::TERM);
}

#[test]
fn a_file_deleted_while_nobody_looked_is_cancelled_before_anything_runs() {
    let mut folder = Folder::new();
    folder.start();
    folder.drop_in("odd.md", "---\ntitle: Odd\ncapabilities: [gpu:none]\n---\nDo it.\n");
    folder.until("a job", |folder| !folder.jobs().is_empty());
    folder.end(Signal::KILL);

    folder.remove("inbox/odd.md");
    folder.start_with(&[]);
    folder.until("its end", |folder| {
        let ran = folder.giga(&["jobs", "--json"]);
        ran.code == Some(0) && ran.stdout.contains("\"reason\":\"cancelled\"")
    });

    folder.end(Signal::TERM);
}

// [F8]
#[test]
fn a_file_changed_while_it_waits_is_submitted_anew_and_the_old_job_ends() {
    let mut folder = Folder::new();
    folder.start();
    folder.drop_in("a.md", "---\ntitle: Odd\nrepo: work\ncapabilities: [gpu:none]\n---\nDo it.\n");
    folder.until("a job", |folder| !folder.jobs().is_empty());

    folder.write("inbox/a.md", JOB);
    folder.until_in("testing", "a.md");

    let jobs = folder.jobs();
    let mut stages: Vec<&str> = jobs.iter().map(|job| job["stage"].as_str().unwrap()).collect();
    stages.sort_unstable();
    assert_eq!(stages, ["failed", "testing"]);
    assert_eq!(folder.runs(), 1);
    folder.end(Signal::TERM);
}

// [F8]
#[test]
fn a_file_moved_from_testing_to_shipped_is_merged_and_one_moved_to_failed_is_rejected() {
    let mut folder = Folder::new();
    folder.start();
    folder.drop_in("a.md", JOB);
    folder.drop_in("b.md", JOB);
    folder.until_in("testing", "a.md");
    folder.until_in("testing", "b.md");

    folder.shift("testing/a.md", "shipped/a.md");
    folder.shift("testing/b.md", "failed/b.md");
    folder.until("the merge", |folder| folder.merged() == 1);
    folder.until_in("shipped", "a.md");
    folder.until("the rejection", |folder| folder.jobs().iter().any(|job| job["reason"] == "rejected"));

    assert_eq!(folder.place_of("b.md"), ["failed"]);
    folder.end(Signal::TERM);
}

// [F8]
#[test]
fn a_move_that_means_nothing_is_undone() {
    let mut folder = Folder::new();
    folder.start();
    folder.drop_in("a.md", "---\ntitle: Slow\nrepo: work\n---\nwait\n");
    folder.until_in("building", "a.md");

    folder.shift("building/a.md", "shipped/a.md");
    folder.until_in("building", "a.md");
    folder.give_the_signal();
    folder.until_in("testing", "a.md");

    assert_eq!(folder.merged(), 0);
    folder.end(Signal::TERM);
}

#[test]
fn a_second_file_of_the_same_name_is_a_job_of_its_own_and_replaces_nothing() {
    let mut folder = Folder::new();
    folder.start();
    folder.drop_in("a.md", JOB);
    folder.until_in("testing", "a.md");

    folder.drop_in("a.md", JOB);
    folder.until_in("testing", "a-2.md");

    assert_eq!(folder.place_of("a.md"), ["testing"]);
    assert_eq!((folder.jobs().len(), folder.runs()), (2, 2));
    folder.end(Signal::TERM);
}

/// Writes a file with pauses in between; `false` if the machine made a pause too long.
fn write_in_pieces(folder: &Folder, place: &str, text: &str) -> bool {
    let (clock, mut written_at) = (SystemClock::new(), None);
    let pieces: Vec<&str> = text.split_inclusive('\n').collect();
    for end in 1..=pieces.len() {
        let begins_at = clock.monotonic();
        folder.write(place, &pieces[..end].concat());
        if written_at.replace(begins_at).is_some_and(|last| clock.monotonic() - last > PAUSE_MAX) {
            return false;
        }
        std::thread::sleep(PAUSE);
    }
    true
}

// [F8]
#[test]
fn a_file_written_in_pieces_is_taken_when_it_is_whole() {
    let mut folder = Folder::new();
    folder.start();
    while !write_in_pieces(&folder, "inbox/a.md", JOB) {
        folder.end(Signal::KILL);
        folder = Folder::new();
        folder.start();
    }
    folder.until_in("testing", "a.md");

    assert_eq!(folder.prompts(), ["Do it.\n"]);
    assert_eq!(folder.jobs().len(), 1);
    folder.end(Signal::TERM);
}

// [F8]
#[test]
fn a_keeper_that_is_stopped_puts_what_ran_back_into_the_inbox() {
    let mut folder = Folder::new();
    folder.start();
    folder.drop_in("a.md", "---\ntitle: Slow\nrepo: work\n---\nwait\n");
    folder.until_in("building", "a.md");

    let code = folder.end(Signal::TERM);

    assert_eq!((code, folder.places()), (Some(0), vec![("inbox", "a.md".to_owned())]));
    folder.give_the_signal();
    let ran = folder.once(&[]);
    assert_eq!((ran.code, folder.places()), (Some(0), vec![("testing", "a.md".to_owned())]), "{}", ran.stderr);
}
