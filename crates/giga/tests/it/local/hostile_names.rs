//! Names and things that are meant to hurt.

use std::os::unix::ffi::OsStrExt;

use testkit::requirement::Requirement;

use super::folder::{Folder, JOB};
use crate::repository;

const NAMES: [&str; 12] = [
    "-rf.md",
    "--help.md",
    "$(touch canary).md",
    "`touch canary`.md",
    "a;touch canary;.md",
    "a\nb.md",
    "a\u{1b}]52;c;ZXZpbA==\u{7}.md",
    "\u{202e}dm.exe.md",
    "..evil.md ",
    "' OR 1=1 --.md",
    "con.md",
    "a|b>c.md",
];

// [attack: hostile names] [attack: terminal escapes]
#[test]
fn no_name_runs_anything_or_speaks_to_the_terminal_and_each_job_gets_through() {
    let folder = Folder::new();
    let long = format!("{}.md", "x".repeat(252));
    let jobs: Vec<&str> = NAMES.into_iter().filter(|name| name.ends_with(".md")).chain([long.as_str()]).collect();
    for name in &jobs {
        folder.drop_in(name, JOB);
    }

    let ran = folder.once(&[]);

    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let mut expected: Vec<String> = jobs.iter().map(|name| (*name).to_owned()).collect();
    expected.sort();
    assert_eq!(folder.names("testing"), expected);
    let told = ran.stdout + &ran.stderr;
    let harmful: Vec<char> = told.chars().filter(|c| *c != '\n' && !domain::is_terminal_safe(*c)).collect();
    assert_eq!(harmful, Vec::<char>::new(), "{told:?}");
    for place in ["canary", "queue/canary", "queue/inbox/canary", "queue/testing/canary"] {
        assert!(!folder.path(place).exists(), "{place}");
    }
}

// [F8]
#[test]
fn links_folders_pipes_scratch_files_and_unreadable_names_are_left_alone_and_named() {
    let folder = Folder::new();
    let inbox = folder.path("queue/inbox");
    let secret = folder.path("secret");
    std::fs::write(&secret, "---\ntitle: Secret\n---\nread me\n").unwrap();
    std::os::unix::fs::symlink(&secret, inbox.join("link.md")).unwrap();
    std::fs::create_dir(inbox.join("folder.md")).unwrap();
    let fifo = inbox.join("pipe.md");
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    std::fs::write(inbox.join(std::ffi::OsStr::from_bytes(b"\xff\xfe.md")), JOB).unwrap();
    for scratch in [".a.md.swp", "a.md~", "#a.md#", ".hidden.md", "4913", "a.md.part"] {
        std::fs::write(inbox.join(scratch), JOB).unwrap();
    }

    let ran = folder.once(&[]);

    assert_eq!(ran.code, Some(1), "{}", ran.stderr);
    assert_eq!(folder.runs(), 0);
    assert_eq!(std::fs::read_dir(&inbox).unwrap().count(), 10);
    for name in ["link.md", "folder.md", "pipe.md"] {
        assert!(ran.stderr.contains(&format!("{name} is ignored")), "{name}: {}", ran.stderr);
    }
    assert!(!ran.stderr.contains("hidden") && !ran.stderr.contains("4913"), "{}", ran.stderr);
}

#[test]
fn a_file_that_is_no_text_or_too_long_is_refused_without_harm() {
    let folder = Folder::new();
    std::fs::write(folder.path("queue/inbox/binary.md"), [0_u8, 159, 146, 150]).unwrap();
    std::fs::write(folder.path("queue/inbox/huge.md"), "x".repeat(2 * 1024 * 1024)).unwrap();

    let ran = folder.once(&[]);

    assert_eq!(ran.code, Some(1), "{}", ran.stderr);
    assert_eq!(folder.names("failed"), ["binary.md", "huge.md"]);
    assert!(folder.read("failed/binary.error.md").contains("not text"));
    assert!(folder.read("failed/huge.error.md").contains("at most 1048576 are allowed"));
}

// [T8] [F8]
#[test]
fn an_agent_neither_approves_work_nor_orders_more_by_moving_files() {
    if let sandbox::SandboxSummary::None(why) = sandbox::SandboxMode::Auto.in_force() {
        Requirement::Landlock.skip(why);
        return;
    }
    let folder = Folder::new();
    folder.drop_in("a.md", JOB);
    assert_eq!(folder.once(&[]).code, Some(0));
    let queue = folder.path("queue");
    let engine = format!(
        "cd '{}' && mv testing/a.md shipped/a.md; cp giga.toml inbox/more.md; echo '{}' > inbox/more.md\n\
         ln testing/a.md inbox/again.md; mkdir inbox/folder; cd -; echo tried > tried.txt\n",
        queue.display(),
        JOB.replace('\n', "\\n")
    );
    std::fs::write(folder.path("engine.sh"), engine).unwrap();
    folder.drop_in("b.md", JOB);

    let ran = folder.once(&[]);

    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert_eq!(folder.places(), [("testing", "a.md".to_owned()), ("testing", "b.md".to_owned())]);
    let repo = folder.path("work.git");
    let branches = repository::refs(&repo, "refs/heads/aq/job");
    let tried = branches.iter().filter(|(name, _)| repository::text(&repo, &format!("{name}:tried.txt")).is_some());
    assert_eq!(tried.count(), 1, "it has tried nothing");
}
