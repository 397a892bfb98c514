//! Many jobs on one repository with eight seats: no worktree is ever another's, and the host is clean afterwards. Sixty-six
//! of them, two hundred with `GIGA_SOAK` (`make soak`).

use std::collections::BTreeSet;

use super::fleet::Fleet;
use super::repetitions;
use crate::repository;

// [I3] [F3] [F7]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_jobs_on_eight_seats_share_no_worktree_and_leave_a_clean_host() {
    let count = repetitions(200);
    let mut fleet = Fleet::new(1);
    let settings = fleet.path("giga.toml");
    let text = std::fs::read_to_string(&settings).unwrap();
    let state = format!("state = '{}'\nseats = 8", fleet.path("factory-0").display());
    let text = text.replace("seats = 3", &state);
    // No process dies here, and with the default leases a slow one does not lose a job to a second run either.
    let text = text.replace("lease_ttl = '3s'\n", "").replace("stale_after = '3s'\n", "");
    std::fs::write(&settings, text).unwrap();
    fleet.start_coordinator(None);
    fleet.ship_by_itself().await;
    fleet.start_factory(0, None).await;

    let mut jobs = BTreeSet::new();
    for number in 0..count {
        jobs.insert(fleet.submit(number, "do some work").await);
    }
    fleet.until_all_shipped(&jobs).await;

    fleet.assert_nothing_lost_or_doubled(&jobs);
    let places = std::fs::read_to_string(fleet.path("places")).unwrap();
    let own: BTreeSet<&str> = places.lines().collect();
    assert_eq!((own.len(), places.lines().count()), (count, count), "a worktree was used twice");
    let repo = fleet.path("work.git");
    for job in &jobs {
        let progress = repository::text(&repo, &format!("main:progress-{job}"));
        assert_eq!(progress.as_deref(), Some("1\n2\n3\n4\n"), "another run wrote into the worktree of {job}");
    }
    let left = |folder: &str| std::fs::read_dir(fleet.path("factory-0").join(folder)).unwrap().count();
    fleet.until("empty folders", || ["worktrees", "runs", "desks", "outbox"].map(left) == [0; 4]).await;
    let cleaned = fleet.run(&["gc"], None);
    assert!(cleaned.status.success(), "{}", String::from_utf8_lossy(&cleaned.stderr));
    assert_eq!(repository::refs(&repo, "refs/heads/aq"), [], "{}", String::from_utf8_lossy(&cleaned.stdout));
    fleet.end();
}
