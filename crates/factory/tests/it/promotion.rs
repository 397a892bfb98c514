//! The pull request's branch moves only by a promotion that was granted.

use std::fs;

use domain::CommitSha;
use factory::{Committed, Mirror, Promotion};

use crate::stage::{Forge, git, job, run};

const BRANCH: &str = "refs/heads/aq/job/0190f3a4-7c1e-7b52-9d0a-1f2e3d4c5b6a";

/// A host that finished the run of `epoch` and pushed its run ref.
async fn finished(forge: &Forge, epoch: u64) -> (Mirror, CommitSha) {
    let (mirror, worktree) = forge.worktree(&forge.host(&format!("host-{epoch}")), run(epoch)).await;
    fs::write(worktree.path().join("work.txt"), format!("by epoch {epoch}")).unwrap();
    let Committed::Made(sha) = mirror.commit_all(&worktree, "Work").await.unwrap() else { panic!("nothing to commit") };
    mirror.push_run(&worktree, &sha).await.unwrap();
    (mirror, sha)
}

#[tokio::test]
async fn a_stale_promotion_after_a_re_grant_leaves_the_branch_unchanged() {
    let forge = Forge::new();
    let (stale, old) = finished(&forge, 1).await;
    let (current, new) = finished(&forge, 2).await;
    assert_eq!(current.promote(job(), &new, &[]).await.unwrap(), Promotion::Promoted);

    let late = stale.promote(job(), &old, &[]).await.unwrap();

    assert_eq!(late, Promotion::Moved { found: Some(new.clone()) });
    assert_eq!(forge.shows(BRANCH), Some(new));
}

#[tokio::test]
async fn a_promotion_is_idempotent() {
    let forge = Forge::new();
    let (mirror, sha) = finished(&forge, 1).await;

    for _ in 0..3 {
        assert_eq!(mirror.promote(job(), &sha, &[]).await.unwrap(), Promotion::Promoted);
    }

    assert_eq!(forge.shows(BRANCH), Some(sha));
}

#[tokio::test]
async fn a_granted_promotion_replaces_the_recorded_commit() {
    let forge = Forge::new();
    let (first, old) = finished(&forge, 1).await;
    let (second, new) = finished(&forge, 2).await;
    first.promote(job(), &old, &[]).await.unwrap();

    let promotion = second.promote(job(), &new, &[old]).await.unwrap();

    assert_eq!(promotion, Promotion::Promoted);
    assert_eq!(forge.shows(BRANCH), Some(new));
}

#[tokio::test]
async fn a_promotion_that_stopped_half_way_is_finished_by_another_host() {
    let forge = Forge::new();
    let (_, sha) = finished(&forge, 1).await;
    let other = forge.mirror(&forge.host("another")).await;

    assert_eq!(other.promote(job(), &sha, &[]).await.unwrap(), Promotion::Promoted);
    assert_eq!(forge.shows(BRANCH), Some(sha));
}

#[tokio::test]
async fn of_many_promotions_at_once_one_wins_and_the_others_see_it() {
    let forge = Forge::new();
    let mut racers = tokio::task::JoinSet::new();
    for epoch in 1..=4 {
        let (mirror, sha) = finished(&forge, epoch).await;
        racers.spawn(async move { (mirror.promote(job(), &sha, &[]).await.unwrap(), sha) });
    }

    let outcomes = racers.join_all().await;

    let winner = forge.shows(BRANCH);
    for (promotion, sha) in outcomes {
        let expected = if Some(&sha) == winner.as_ref() {
            Promotion::Promoted
        } else {
            Promotion::Moved { found: winner.clone() }
        };
        assert_eq!(promotion, expected);
    }
}

#[tokio::test]
async fn a_branch_that_a_person_pushed_to_is_not_overwritten() {
    let forge = Forge::new();
    let (mirror, sha) = finished(&forge, 1).await;
    mirror.promote(job(), &sha, &[]).await.unwrap();
    let by_hand = forge.commit(BRANCH.strip_prefix("refs/heads/").unwrap(), "by-hand", "x");
    let (next, new) = finished(&forge, 2).await;

    let promotion = next.promote(job(), &new, &[sha]).await.unwrap();

    assert_eq!(promotion, Promotion::Moved { found: Some(by_hand.clone()) });
    assert_eq!(git(&forge.remote(), &["rev-parse", BRANCH]), by_hand.as_str());
}
