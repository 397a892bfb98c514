//! Killed at any moment: every file is in one folder, the one that its job is in, and no job is there twice.

use std::time::Duration;

use ambient::SeededEntropy;
use domain::Entropy;
use rustix::process::Signal;

use super::folder::Folder;

const FILES: usize = 24;
const KILLS: usize = 20;

/// Fixed, so that a failure can be looked at again; `GIGA_CRASH_SEED` asks for another.
const SEED: u64 = 8_117;

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
