//! Killed at any moment: every file is in exactly one folder, that of its job's stage, and no job exists twice.

use std::time::Duration;

use clock::SeededEntropy;
use domain::Entropy;
use rustix::process::Signal;

use super::folder::Folder;

const FILES: usize = 24;
const KILLS: usize = 20;

/// Fixed, so that a failure can be reproduced; `GIGA_CRASH_SEED` sets another.
const SEED: u64 = 8_117;

// [I3] [F8]
#[test]
fn files_survive_kills_at_random_moments_and_each_is_one_job() {
    let seed = std::env::var("GIGA_CRASH_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(SEED);
    println!("seed {seed}");
    let chance: Box<dyn Entropy> = Box::new(SeededEntropy::new(seed));
    let mut folder = Folder::new();

    for round in 0..KILLS {
        for n in (round * FILES / KILLS)..((round + 1) * FILES / KILLS) {
            folder.drop_in(&format!("job-{n:02}.md"), &format!("---\ntitle: Job {n}\nrepo: work\n---\nslow {n}\n"));
        }
        folder.start_with(&["--ship"]);
        std::thread::sleep(Duration::from_millis(100 + (chance.fraction() * 1_500.0) as u64));
        folder.end(Signal::KILL);
        let places = folder.places();
        assert_eq!(places.len(), (round + 1) * FILES / KILLS, "{places:?}\n{}", folder.log());
    }
    let ran = folder.once(&["--ship"]);

    assert_eq!(ran.code, Some(0), "{}\n{}", ran.stderr, folder.log());
    assert_eq!(folder.names("shipped").len(), FILES, "{:?}", folder.places());
    assert_eq!(folder.merged(), FILES);
    folder.start();
    let jobs = folder.jobs();
    assert_eq!(jobs.len(), FILES);
    assert!(jobs.iter().all(|job| job["stage"] == "shipped"), "{jobs:?}");
    folder.end(Signal::TERM);
}

/// Starts a keeper that dies at a step, waits until it has, and lets the next one finish.
#[cfg(feature = "failpoints")]
fn dies_at(step: &str, prepare: impl FnOnce(&mut Folder)) -> Folder {
    let mut folder = Folder::new();
    prepare(&mut folder);
    folder.start_to_die_at(step);
    folder.until_dead();
    let places = folder.places();
    assert_eq!(places.len(), 2, "{step}: {places:?}");
    folder
}

// [F8]
#[cfg(feature = "failpoints")]
#[test]
fn a_death_at_any_step_between_two_effects_leaves_each_file_one_job_in_one_folder() {
    for step in ["local::taken@1", "local::taken@2", "local::submitted@1", "local::moving@1", "local::moving@3"]
        .into_iter()
        .chain(["local::moved@1", "local::moved@2", "local::moved@3", "local::moved@4"])
    {
        let mut folder = dies_at(step, |folder| {
            folder.drop_in("a.md", super::folder::JOB);
            folder.drop_in("b.md", super::folder::JOB);
        });

        let ran = folder.once(&[]);

        assert_eq!(ran.code, Some(0), "{step}: {}", ran.stderr);
        assert_eq!(folder.names("testing"), ["a.md", "b.md"], "{step}");
        let is_told = ["a", "b"].map(|name| folder.exists(&format!("testing/{name}.result.md")));
        assert_eq!(is_told, [true; 2], "{step}");
        folder.start();
        assert_eq!(folder.jobs().len(), 2, "{step}");
        folder.end(Signal::TERM);
    }
}

// [F8]
#[cfg(feature = "failpoints")]
#[test]
fn a_death_after_a_persons_wish_was_done_and_before_that_was_written_down_does_it_once() {
    let mut folder = dies_at("local::acted@1", |folder| {
        folder.drop_in("a.md", super::folder::JOB);
        folder.drop_in("b.md", super::folder::JOB);
        assert_eq!(folder.once(&[]).code, Some(0));
        folder.shift("testing/a.md", "shipped/a.md");
    });

    folder.start();
    folder.until("the merge", |folder| folder.merged() == 1);
    folder.until_in("shipped", "a.md");

    assert_eq!((folder.place_of("b.md"), folder.jobs().len(), folder.merged()), (vec!["testing"], 2, 1));
    folder.end(Signal::TERM);
}
