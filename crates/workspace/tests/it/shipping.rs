//! Merges the recorded commit, once.

use std::fs;

use domain::{CommitSha, MergeConflict};
use testkit::host::{TestRemote, git, job, main, run};
use workspace::{AfterShip, BranchEnd, CommitOutcome, Mirror, ShipOrder, ShipOutcome};

use crate::promotion::promote_first;

const BRANCH: &str = "aq/job/0190f3a4-7c1e-7b52-9d0a-1f2e3d4c5b6a";

/// A promoted run that wrote `text` into `file`.
async fn promoted(forge: &TestRemote, file: &str, text: &str) -> (Mirror, CommitSha) {
    let (mirror, worktree) = forge.worktree(&forge.host("host"), run(1)).await;
    fs::write(worktree.path().join(file), text).unwrap();
    let CommitOutcome::Made(sha) = mirror.commit_all(&worktree, "Work").await.unwrap() else {
        panic!("nothing to commit")
    };
    mirror.push_run(&worktree, &sha).await.unwrap();
    promote_first(&mirror, &sha).await;
    (mirror, sha)
}

fn order(sha: &CommitSha) -> ShipOrder {
    let message = "Merge the work".to_owned();
    ShipOrder { job: job(), sha: sha.clone(), base: main(), message, after: AfterShip::DeleteBranch }
}

// [F7]
#[tokio::test]
async fn a_ship_merges_onto_a_base_that_moved_and_deletes_the_branch() {
    let forge = TestRemote::new();
    let (mirror, sha) = promoted(&forge, "work.txt", "x").await;
    let moved = forge.commit("main", "other.txt", "y");

    let shipped = mirror.ship(&order(&sha)).await.unwrap();

    let tip = forge.shows("refs/heads/main").unwrap();
    assert_eq!(shipped, ShipOutcome::Merged { merge: tip.clone(), branch: BranchEnd::Gone });
    assert_eq!(git(&forge.remote(), &["log", "-1", "--format=%P", tip.as_str()]), format!("{moved} {sha}"));
    assert_eq!(forge.files_at(&tip), ["other.txt", "readme.md", "work.txt"]);
    assert_eq!(forge.shows(&format!("refs/heads/{BRANCH}")), None);
}

// [I15] [row 13]
#[tokio::test]
async fn a_ship_merges_the_recorded_commit_although_the_branch_moved() {
    let forge = TestRemote::new();
    let (mirror, sha) = promoted(&forge, "work.txt", "reviewed").await;
    let unreviewed = forge.commit(BRANCH, "work.txt", "sneaked in after the review");

    let shipped = mirror.ship(&order(&sha)).await.unwrap();

    let tip = forge.shows("refs/heads/main").unwrap();
    assert_eq!(forge.file_at(&tip, "work.txt").as_deref(), Some("reviewed"));
    assert_eq!(shipped, ShipOutcome::Merged { merge: tip, branch: BranchEnd::HoldsMore { found: unreviewed.clone() } });
    assert_eq!(forge.shows(&format!("refs/heads/{BRANCH}")), Some(unreviewed), "unmerged work is never deleted");
}

// [F5]
#[tokio::test]
async fn shipping_twice_is_shipping_once() {
    let forge = TestRemote::new();
    let (mirror, sha) = promoted(&forge, "work.txt", "x").await;

    let first = mirror.ship(&order(&sha)).await.unwrap();
    let merge = forge.shows("refs/heads/main").unwrap();
    forge.commit("main", "later.txt", "y");
    let tip = forge.shows("refs/heads/main");
    let other = forge.mirror(&forge.host("another")).await;
    let second = other.ship(&order(&sha)).await.unwrap();

    assert_eq!(first, ShipOutcome::Merged { merge, branch: BranchEnd::Gone });
    assert_eq!(second, first);
    assert_eq!(forge.shows("refs/heads/main"), tip);
}

#[tokio::test]
async fn two_hosts_that_ship_at_once_merge_once() {
    let forge = TestRemote::new();
    let (mirror, sha) = promoted(&forge, "work.txt", "x").await;
    let other = forge.mirror(&forge.host("another")).await;

    let (here, there) = (order(&sha), order(&sha));
    let (here, there) = tokio::join!(mirror.ship(&here), other.ship(&there));

    let merges = git(&forge.remote(), &["rev-list", "--merges", "main"]);
    let merge = |shipped| match shipped {
        ShipOutcome::Merged { merge, .. } => merge.to_string(),
        other => panic!("{other:?}"),
    };
    assert_eq!(merge(here.unwrap()), merges);
    assert_eq!(merge(there.unwrap()), merges);
}

// [F5]
#[tokio::test]
async fn a_conflicting_ship_is_an_outcome_that_names_the_files_and_changes_nothing() {
    let forge = TestRemote::new();
    let (mirror, sha) = promoted(&forge, "readme.md", "from the job\n").await;
    let moved = forge.commit("main", "readme.md", "from somebody else\n");

    let shipped = mirror.ship(&order(&sha)).await.unwrap();

    let files = vec!["readme.md".to_owned()];
    assert_eq!(shipped, ShipOutcome::Conflict(MergeConflict { base: main(), base_sha: moved.clone(), files }));
    assert_eq!(forge.shows("refs/heads/main"), Some(moved));
    assert_eq!(forge.shows(&format!("refs/heads/{BRANCH}")), Some(sha));
}

// [F7]
#[tokio::test]
async fn a_branch_is_kept_when_the_order_says_so() {
    let forge = TestRemote::new();
    let (mirror, sha) = promoted(&forge, "work.txt", "x").await;

    let shipped = mirror.ship(&ShipOrder { after: AfterShip::KeepBranch, ..order(&sha) }).await.unwrap();

    assert!(matches!(shipped, ShipOutcome::Merged { branch: BranchEnd::Kept, .. }), "{shipped:?}");
    assert_eq!(forge.shows(&format!("refs/heads/{BRANCH}")), Some(sha));
}

#[tokio::test]
async fn a_base_that_was_moved_onto_the_commit_by_hand_counts_as_shipped() {
    let forge = TestRemote::new();
    let (mirror, sha) = promoted(&forge, "work.txt", "x").await;
    git(&forge.remote(), &["update-ref", "refs/heads/main", sha.as_str()]);

    let shipped = mirror.ship(&order(&sha)).await.unwrap();

    assert_eq!(shipped, ShipOutcome::Merged { merge: sha, branch: BranchEnd::Gone });
}

// [I15] [F5]
#[tokio::test]
async fn row_28_a_merge_that_the_fleet_has_forgotten_is_found() {
    let forge = TestRemote::new();
    let (mirror, forgotten) = promoted(&forge, "work.txt", "x").await;
    let before = mirror.prior_merge(job(), &main(), &forgotten).await.unwrap();
    mirror.ship(&order(&forgotten)).await.unwrap();
    let merge = forge.shows("refs/heads/main").unwrap();
    forge.commit("main", "later.txt", "y");
    let (_, worktree) = forge.worktree(&forge.host("another"), run(2)).await;
    fs::write(worktree.path().join("again.txt"), "z").unwrap();
    let again = match mirror.commit_all(&worktree, "Work").await {
        Ok(CommitOutcome::Made(sha)) => sha,
        other => panic!("nothing to commit: {other:?}"),
    };

    let same = mirror.prior_merge(job(), &main(), &forgotten).await.unwrap();
    let another = mirror.prior_merge(job(), &main(), &again).await.unwrap();
    let of_another_job = mirror.prior_merge(domain::JobId::from_bytes([9; 16]), &main(), &again).await.unwrap();

    assert_eq!((before, same, another, of_another_job), (None, None, Some(merge), None));
}
