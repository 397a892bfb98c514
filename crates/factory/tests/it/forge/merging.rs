//! Merging the recorded commit, and nothing else [I15].

use std::time::Duration;

use domain::CommitSha;
use forge::{AutoMerge, MergeMethod, MergeOrder, MergeOutcome};
use http::Method;
use testkit::host::{git, job};

use super::fake_github::Fault;
use super::{Scene, proposal};

fn order(sha: &CommitSha) -> MergeOrder {
    MergeOrder {
        request: 1,
        sha: sha.clone(),
        method: MergeMethod::Merge,
        title: "Write it down (#1)".to_owned(),
        message: format!("Gigafactory-Job: {}", job()),
        auto: AutoMerge::Never,
    }
}

async fn opened(text: &str) -> (Scene, CommitSha) {
    let scene = Scene::new().await;
    let sha = scene.push(text);
    scene.forge.open(&proposal()).await.unwrap();
    (scene, sha)
}

// [I15]
#[tokio::test]
async fn the_expected_commit_is_merged_with_our_words() {
    let (scene, sha) = opened("one").await;

    let merging = scene.forge.merge(&order(&sha)).await;

    assert_eq!(merging, Ok(MergeOutcome::Merged));
    let told = git(&scene.remote.remote(), &["log", "-1", "--format=%P|%B", "main"]);
    assert!(told.split('|').next().unwrap().ends_with(sha.as_str()), "{told}");
    assert!(told.contains(&format!("Write it down (#1)\n\nGigafactory-Job: {}", job())), "{told}");
}

#[tokio::test]
async fn a_squash_leaves_one_commit_with_one_parent() {
    let (scene, sha) = opened("one").await;
    let before = scene.main();

    scene.forge.merge(&MergeOrder { method: MergeMethod::Squash, ..order(&sha) }).await.unwrap();

    assert_eq!(git(&scene.remote.remote(), &["log", "-1", "--format=%P", "main"]), before.to_string());
    assert_eq!(scene.remote.file_at(&scene.main(), "done.md").as_deref(), Some("one"));
}

// [I15]
#[tokio::test]
async fn a_branch_that_was_moved_is_not_merged() {
    let (scene, sha) = opened("one").await;
    let before = scene.main();
    let moved = scene.push("two");

    let merging = scene.forge.merge(&order(&sha)).await;

    let message = format!("its branch was moved by another writer: it shows {moved}");
    assert_eq!((merging, scene.main()), (Ok(MergeOutcome::Refused { message }), before));
}

// [I15] [row 13]
#[tokio::test]
async fn a_branch_that_moves_under_our_hands_is_not_merged_either() {
    let (scene, sha) = opened("one").await;
    let before = scene.main();
    scene.forge.read_pull_request(1).await.unwrap();
    scene.push("two");
    // The cached state is outdated.
    scene.github.fail(Method::GET, "/pulls/1", Fault::Instead(304, &[], ""));

    let merging = scene.forge.merge(&order(&sha)).await.unwrap();

    assert_eq!(scene.github.heard(&Method::PUT, "/merge").last().unwrap().status, 409);
    assert!(matches!(merging, MergeOutcome::Refused { .. }), "{merging:?}");
    assert_eq!(scene.main(), before);
}

// [I15] [row 13]
#[tokio::test]
async fn a_merge_whose_answer_was_cut_off_is_not_made_again() {
    let (scene, sha) = opened("one").await;
    scene.github.fail(Method::PUT, "/merge", Fault::CutAfter);

    let first = scene.forge.merge(&order(&sha)).await;
    let after = scene.main();
    let second = scene.forge.merge(&order(&sha)).await;

    assert_eq!((first, second, scene.main()), (Ok(MergeOutcome::Merged), Ok(MergeOutcome::Merged), after));
    assert_eq!(scene.github.heard(&Method::PUT, "/merge").len(), 1);
}

#[tokio::test]
async fn failed_checks_are_named() {
    let (scene, sha) = opened("one").await;
    scene.github.book(|book| {
        book.required = true;
        book.check(&sha, "lint", Some("success"));
        book.check(&sha, "test", Some("failure"));
    });

    let merging = scene.forge.merge(&order(&sha)).await;

    assert_eq!(merging, Ok(MergeOutcome::Refused { message: "checks failed: test".to_owned() }));
}

// [F5]
#[tokio::test]
async fn running_checks_are_waited_for_and_named() {
    let (scene, sha) = opened("one").await;
    scene.github.book(|book| {
        book.required = true;
        book.check(&sha, "test", None);
    });

    let merging = scene.forge.merge(&order(&sha)).await;

    let message = "checks are still running: test".to_owned();
    assert_eq!(merging, Ok(MergeOutcome::NotYet { message, after: Duration::from_secs(60) }));
    assert_eq!(scene.github.pulls()[0].auto_merge, None);
}

// [I15]
#[tokio::test]
async fn a_merge_that_is_left_to_the_forge_is_of_the_recorded_commit() {
    let (scene, sha) = opened("one").await;
    scene.github.book(|book| {
        book.required = true;
        book.check(&sha, "test", None);
    });

    let merging = scene.forge.merge(&MergeOrder { auto: AutoMerge::WhenAllowed, ..order(&sha) }).await.unwrap();

    assert!(matches!(merging, MergeOutcome::NotYet { .. }), "{merging:?}");
    assert_eq!(scene.github.pulls()[0].auto_merge.as_deref(), Some(sha.as_str()));
    scene.github.book(|book| book.check(&sha, "test", Some("success")));
    assert_eq!(scene.forge.merge(&order(&sha)).await, Ok(MergeOutcome::Merged));
}

#[tokio::test]
async fn a_conflict_is_told_as_one() {
    let (scene, sha) = opened("one").await;
    scene.remote.commit("main", "done.md", "something else");

    let merging = scene.forge.merge(&order(&sha)).await;

    assert_eq!(merging, Ok(MergeOutcome::Conflicts));
}

#[tokio::test]
async fn a_draft_that_is_to_ship_ends_being_one() {
    let (scene, sha) = opened("one").await;
    scene.github.book(|book| book.pulls[0].draft = true);

    assert_eq!(scene.forge.merge(&order(&sha)).await, Ok(MergeOutcome::Merged));
}

#[tokio::test]
async fn a_pull_request_that_was_closed_is_not_merged() {
    let (scene, sha) = opened("one").await;
    scene.github.book(|book| book.close());

    let merging = scene.forge.merge(&order(&sha)).await;

    assert_eq!(merging, Ok(MergeOutcome::Refused { message: "it was closed without a merge".to_owned() }));
}
