//! Records that a crash of the machine tore or lost: the store identifies the job of a file.

use rustix::process::Signal;

use super::folder::{Folder, JOB};

const WAITS: &str = "---\ntitle: Odd\nrepo: work\ncapabilities: [gpu:none]\n---\nDo it.\n";

/// The file of a waiting job, without a running `giga local`, whose record was changed by `treat`.
fn waiting(treat: impl Fn(&std::path::Path)) -> Folder {
    let mut folder = Folder::new();
    folder.start();
    folder.drop_in("a.md", WAITS);
    folder.until("a job", |folder| !folder.jobs().is_empty());
    folder.end(Signal::KILL);
    each_record(&folder, treat);
    folder
}

fn each_record(folder: &Folder, treat: impl Fn(&std::path::Path)) {
    let records: Vec<_> = std::fs::read_dir(folder.path("queue/.giga/files")).unwrap().flatten().collect();
    assert!(!records.is_empty());
    records.iter().for_each(|record| treat(&record.path()));
}

fn tear(record: &std::path::Path) {
    let text = std::fs::read(record).unwrap();
    std::fs::write(record, &text[..text.len() / 2]).unwrap();
}

fn lose(record: &std::path::Path) {
    std::fs::remove_file(record).unwrap();
}

// [F8]
#[test]
fn a_file_whose_record_is_torn_empty_or_lost_stays_the_one_job_that_it_was() {
    for treat in [tear, |record: &std::path::Path| std::fs::write(record, "").unwrap(), lose] {
        let mut folder = waiting(treat);

        folder.start();
        let jobs = folder.jobs();
        folder.remove("inbox/a.md");
        folder.until("its end", |folder| folder.jobs()[0]["reason"] == "cancelled");

        assert_eq!(jobs.len(), 1, "{jobs:?}");
        assert_eq!(folder.jobs().len(), 1);
        folder.end(Signal::TERM);
    }
}

// [F8]
#[test]
fn a_file_that_was_changed_while_its_record_was_torn_or_lost_is_another_job_and_the_old_one_ends() {
    for treat in [tear, lose] {
        let mut folder = waiting(treat);
        folder.write("inbox/a.md", JOB);

        folder.start();
        folder.until_in("testing", "a.md");

        let jobs = folder.jobs();
        let mut stages: Vec<&str> = jobs.iter().map(|job| job["stage"].as_str().unwrap()).collect();
        stages.sort_unstable();
        assert_eq!((stages, folder.runs()), (vec!["failed", "testing"], 1));
        folder.end(Signal::TERM);
    }
}

// [F8]
#[test]
fn a_file_that_was_moved_while_its_record_was_torn_or_lost_still_moves_as_its_job_does() {
    for treat in [tear, lose] {
        let mut folder = Folder::new();
        folder.start();
        folder.drop_in("a.md", "---\ntitle: Slow\nrepo: work\n---\nwait\n");
        folder.until_in("building", "a.md");
        folder.end(Signal::KILL);
        each_record(&folder, treat);

        folder.start();
        folder.give_the_signal();
        folder.until_in("testing", "a.md");

        assert_eq!(folder.jobs().len(), 1);
        folder.end(Signal::TERM);
    }
}

// [F8]
#[test]
fn a_second_job_of_a_name_whose_first_is_done_is_a_job_of_its_own_although_no_record_is_left() {
    let mut folder = Folder::new();
    folder.start();
    folder.drop_in("a.md", JOB);
    folder.until_in("testing", "a.md");

    folder.remove("testing/a.md");
    folder.until("nothing known of it", |folder| {
        std::fs::read_dir(folder.path("queue/.giga/files")).unwrap().next().is_none()
    });
    folder.drop_in("a.md", JOB);
    folder.until_in("testing", "a.md");

    assert_eq!((folder.jobs().len(), folder.runs()), (2, 2));
    folder.end(Signal::TERM);
}

// [F8]
#[test]
fn a_new_file_is_not_taken_for_one_whose_job_is_done_and_whose_record_is_torn() {
    let mut folder = Folder::new();
    folder.start();
    folder.drop_in("a.md", JOB);
    folder.until_in("testing", "a.md");
    folder.end(Signal::KILL);
    each_record(&folder, tear);
    folder.remove("testing/a.md");

    folder.drop_in("a.md", JOB);
    folder.start();
    folder.until_in("testing", "a.md");

    assert_eq!((folder.jobs().len(), folder.runs()), (2, 2));
    folder.end(Signal::TERM);
}
