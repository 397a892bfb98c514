//! The pull request's branch moves only by a promotion that was granted.

use std::fs;

use domain::CommitSha;
use testkit::host::{TestRemote, git, job, run};
use workspace::{AcceptableBranch, CommitOutcome, Mirror, Promotion};

const BRANCH: &str = "refs/heads/aq/job/0190f3a4-7c1e-7b52-9d0a-1f2e3d4c5b6a";

/// A host that finished the run of `epoch` and pushed its run ref.
async fn finished(forge: &TestRemote, epoch: u64) -> (Mirror, CommitSha) {
    let (mirror, worktree) = forge.worktree(&forge.host(&format!("host-{epoch}")), run(epoch)).await;
    fs::write(worktree.path().join("work.txt"), format!("by epoch {epoch}")).unwrap();
    let CommitOutcome::Made(sha) = mirror.commit_all(&worktree, "Work").await.unwrap() else {
        panic!("nothing to commit")
    };
    mirror.push_run(&worktree, &sha).await.unwrap();
    (mirror, sha)
}

/// A promotion of a job without a recorded one.
pub(crate) async fn promote_first(mirror: &Mirror, sha: &CommitSha) -> Promotion {
    let seen = mirror.look_at_branch(job()).await.unwrap();
    mirror.promote(seen, sha, AcceptableBranch::FirstTime(&[])).await.unwrap()
}

/// A promotion of a job whose branch is recorded at one of these.
async fn promote_over(mirror: &Mirror, sha: &CommitSha, known: &[CommitSha]) -> Promotion {
    let seen = mirror.look_at_branch(job()).await.unwrap();
    mirror.promote(seen, sha, AcceptableBranch::OneOf(known)).await.unwrap()
}

// [F3] [row 13]
#[tokio::test]
async fn a_stale_promotion_after_a_re_grant_leaves_the_branch_unchanged() {
    let forge = TestRemote::new();
    let (stale, old) = finished(&forge, 1).await;
    let (current, new) = finished(&forge, 2).await;
    assert_eq!(promote_first(&current, &new).await, Promotion::Created);

    let late = promote_first(&stale, &old).await;

    assert_eq!(late, Promotion::Moved { found: Some(new.clone()) });
    assert_eq!(forge.shows(BRANCH), Some(new));
}

#[tokio::test]
async fn a_promotion_is_idempotent() {
    let forge = TestRemote::new();
    let (mirror, sha) = finished(&forge, 1).await;

    assert_eq!(promote_first(&mirror, &sha).await, Promotion::Created);
    for _ in 0..2 {
        assert_eq!(promote_first(&mirror, &sha).await, Promotion::Promoted);
    }

    assert_eq!(forge.shows(BRANCH), Some(sha));
}

#[tokio::test]
async fn a_granted_promotion_replaces_the_recorded_commit() {
    let forge = TestRemote::new();
    let (first, old) = finished(&forge, 1).await;
    let (second, new) = finished(&forge, 2).await;
    promote_first(&first, &old).await;

    let promotion = promote_over(&second, &new, &[old]).await;

    assert_eq!(promotion, Promotion::Promoted);
    assert_eq!(forge.shows(BRANCH), Some(new));
}

#[tokio::test]
async fn a_promotion_that_stopped_half_way_is_finished_by_another_host() {
    let forge = TestRemote::new();
    let (_, sha) = finished(&forge, 1).await;
    let other = forge.mirror(&forge.host("another")).await;

    assert_eq!(promote_first(&other, &sha).await, Promotion::Created);
    assert_eq!(forge.shows(BRANCH), Some(sha));
}

#[tokio::test]
async fn of_many_promotions_at_once_one_wins_and_the_others_see_it() {
    let forge = TestRemote::new();
    let mut racers = tokio::task::JoinSet::new();
    for epoch in 1..=4 {
        let (mirror, sha) = finished(&forge, epoch).await;
        racers.spawn(async move { (promote_first(&mirror, &sha).await, sha) });
    }

    let outcomes = racers.join_all().await;

    let winner = forge.shows(BRANCH);
    for (promotion, sha) in outcomes {
        let expected =
            if Some(&sha) == winner.as_ref() { Promotion::Created } else { Promotion::Moved { found: winner.clone() } };
        assert_eq!(promotion, expected);
    }
}

// [F3]
#[tokio::test]
async fn a_branch_that_a_person_pushed_to_is_not_overwritten() {
    let forge = TestRemote::new();
    let (mirror, sha) = finished(&forge, 1).await;
    promote_first(&mirror, &sha).await;
    let by_hand = forge.commit(BRANCH.strip_prefix("refs/heads/").unwrap(), "by-hand", "x");
    let (next, new) = finished(&forge, 2).await;

    let promotion = promote_over(&next, &new, &[sha]).await;

    assert_eq!(promotion, Promotion::Moved { found: Some(by_hand.clone()) });
    assert_eq!(git(&forge.remote(), &["rev-parse", BRANCH]), by_hand.as_str());
}

// [I15] [F3] [F5] [row 13]
#[tokio::test]
async fn a_branch_that_was_shown_before_and_is_gone_is_not_made_again() {
    let forge = TestRemote::new();
    let (first, old) = finished(&forge, 1).await;
    let (late, new) = finished(&forge, 2).await;
    promote_first(&first, &old).await;
    let before = late.look_at_branch(job()).await.unwrap();
    git(&forge.remote(), &["update-ref", "-d", BRANCH]);

    let looked_late = promote_over(&late, &new, std::slice::from_ref(&old)).await;
    let pushed_late = late.promote(before, &new, AcceptableBranch::OneOf(&[old])).await.unwrap();

    assert_eq!((looked_late, pushed_late), (Promotion::Moved { found: None }, Promotion::Moved { found: None }));
    assert_eq!(forge.shows(BRANCH), None);
}

// [I11] [F3] [row 13]
#[tokio::test]
async fn a_branch_that_was_made_too_late_goes_only_while_it_shows_what_was_put_there() {
    let forge = TestRemote::new();
    let (mirror, sha) = finished(&forge, 1).await;
    promote_first(&mirror, &sha).await;
    let by_hand = forge.commit(BRANCH.strip_prefix("refs/heads/").unwrap(), "by-hand", "x");

    mirror.unmake_branch(job(), &sha).await.unwrap();
    let kept = forge.shows(BRANCH);
    mirror.unmake_branch(job(), &by_hand).await.unwrap();

    assert_eq!((kept, forge.shows(BRANCH)), (Some(by_hand), None));
}
