//! Opening a pull request and commenting on it.

use std::time::Duration;

use domain::PullRequest;
use forge::{ForgeError, PullRequestDraft};
use http::Method;
use testkit::host::{clock, job};

use super::fake_github::{Fault, TOKEN};
use super::{Scene, proposal};

/// The path of these tests' only pull request.
fn first() -> PullRequest {
    PullRequest { number: 1, url: "https://github.example/acme/notes/pull/1".to_owned() }
}

// [F5] [row 13]
#[tokio::test]
async fn a_pull_request_is_opened_once_however_often_it_is_asked_for() {
    let scene = Scene::new().await;
    scene.push("one");

    let opened = scene.forge.open(&proposal()).await.unwrap();
    let again = scene.forge.open(&proposal()).await.unwrap();

    assert_eq!((opened, again), (first(), first()));
    let pulls = scene.github.pulls();
    assert_eq!(pulls.len(), 1);
    assert_eq!((pulls[0].title.as_str(), pulls[0].base.as_str()), ("Write it down", "main"));
}

// [F5]
#[tokio::test]
async fn one_that_was_made_although_the_line_was_cut_is_found_and_not_made_again() {
    let scene = Scene::new().await;
    scene.push("one");
    scene.github.fail(Method::POST, "/pulls", Fault::CutAfter);

    let opened = scene.forge.open(&proposal()).await.unwrap();

    assert_eq!((opened, scene.github.pulls().len()), (first(), 1));
    assert_eq!(scene.github.heard(&Method::POST, "/pulls").len(), 1);
}

// [row 13]
#[tokio::test]
async fn one_that_another_factory_opened_meanwhile_is_taken_over() {
    let scene = Scene::new().await;
    scene.push("one");
    scene.forge.open(&proposal()).await.unwrap();
    scene.github.fail(Method::GET, "/pulls", Fault::Instead(200, &[], "[]"));

    let opened = scene.forge.open(&proposal()).await.unwrap();

    assert_eq!((opened, scene.github.pulls().len()), (first(), 1));
    assert_eq!(scene.github.heard(&Method::POST, "/pulls").last().unwrap().status, 422);
}

#[tokio::test]
async fn a_server_in_trouble_is_asked_again_and_nothing_is_done_twice() {
    let scene = Scene::new().await;
    scene.push("one");
    for _ in 0..2 {
        scene.github.fail(Method::GET, "/pulls", Fault::Instead(502, &[], "<html>"));
    }
    scene.github.fail(Method::GET, "/pulls", Fault::Slow(Duration::from_millis(500)));

    let opened = scene.forge.open(&proposal()).await.unwrap();

    assert_eq!((opened, scene.github.pulls().len()), (first(), 1));
}

#[tokio::test]
async fn a_server_that_stays_in_trouble_is_left_alone_after_a_few_tries() {
    let scene = Scene::new().await;
    for _ in 0..20 {
        scene.github.fail(Method::GET, "/pulls", Fault::Instead(500, &[], r#"{"message":"Server Error"}"#));
    }

    let error = scene.forge.open(&proposal()).await.unwrap_err();

    let expected = ForgeError::Refused {
        what: "GET /repos/acme/notes/pulls".to_owned(),
        status: 500,
        message: "Server Error".to_owned(),
    };
    assert_eq!((error, scene.github.count()), (expected, 4));
}

// [attack: secrets in logs, events, artifacts]
#[tokio::test]
async fn a_token_that_is_refused_is_never_shown_even_if_the_forge_repeats_it() {
    let scene = Scene::new().await;
    std::fs::write(scene.remote.path("forge.token"), format!("{TOKEN}-expired")).unwrap();

    let error = scene.forge.open(&proposal()).await.unwrap_err();

    assert!(matches!(error, ForgeError::Unauthenticated(_)), "{error:?}");
    assert!(!format!("{error} {error:?}").contains(TOKEN), "{error:?}");
    std::fs::write(scene.remote.path("forge.token"), TOKEN).unwrap();
    assert_eq!(scene.forge.find("nothing").await, Ok(None), "a new token is taken at once");
}

#[tokio::test]
async fn a_rate_limit_that_ends_soon_is_waited_out() {
    let scene = Scene::new().await;
    scene.push("one");
    let limit =
        Fault::Instead(429, &[("retry-after", "1")], r#"{"message":"You have exceeded a secondary rate limit"}"#);
    scene.github.fail(Method::POST, "/pulls", limit);
    let clock = clock();

    let opened = scene.forge.open(&proposal()).await.unwrap();

    assert_eq!((opened, scene.github.pulls().len()), (first(), 1));
    assert!(clock.monotonic() >= Duration::from_secs(1), "it came back too early");
}

#[tokio::test]
async fn a_long_rate_limit_is_returned_and_stops_requests() {
    let scene = Scene::new().await;
    let headers = &[("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "99999999999")];
    scene.github.fail(Method::GET, "/pulls", Fault::Instead(403, headers, r#"{"message":"API rate limit exceeded"}"#));

    let first = scene.forge.find("a").await.unwrap_err();
    let second = scene.forge.find("b").await.unwrap_err();

    assert_eq!(first, ForgeError::RateLimited { wait: Duration::from_secs(3_600) });
    assert!(matches!(second, ForgeError::RateLimited { wait } if wait <= Duration::from_secs(3_600)), "{second:?}");
    assert_eq!(scene.github.count(), 1);
}

#[tokio::test]
async fn labels_and_reviewers_and_drafts_are_as_asked_for() {
    let scene = Scene::new().await;
    scene.push("one");
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let proposal = PullRequestDraft {
        draft: true,
        labels: names(&["agent", "night"]),
        reviewers: names(&["ann", "acme/core"]),
        ..proposal()
    };

    scene.forge.open(&proposal).await.unwrap();
    scene.forge.open(&proposal).await.unwrap();

    let pull = scene.github.pulls().remove(0);
    assert_eq!((pull.draft, pull.labels, pull.reviewers), (true, names(&["agent", "night"]), names(&["ann", "core"])));
}

#[tokio::test]
async fn a_label_that_cannot_be_given_does_not_cost_the_pull_request() {
    let scene = Scene::new().await;
    scene.push("one");
    scene.github.fail(Method::POST, "/labels", Fault::Instead(403, &[], r#"{"message":"Resource not accessible"}"#));

    let opened = scene.forge.open(&PullRequestDraft { labels: vec!["agent".to_owned()], ..proposal() }).await;

    assert_eq!(opened, Ok(first()));
}

#[tokio::test]
async fn what_people_write_around_our_text_stays() {
    let scene = Scene::new().await;
    scene.push("one");
    scene.forge.open(&proposal()).await.unwrap();
    scene.github.book(|book| book.pulls[0].body = format!("Please hurry.\n{}\nThanks.", book.pulls[0].body));
    let later = PullRequestDraft {
        body: "<!-- gigafactory:begin -->\nIt is done better.\n<!-- gigafactory:end -->".to_owned(),
        ..proposal()
    };

    scene.forge.open(&later).await.unwrap();

    let expected = format!("Please hurry.\n{}\nThanks.", later.body);
    assert_eq!(scene.github.pulls()[0].body, expected);
}

// [F5]
#[tokio::test]
async fn a_job_has_one_comment_which_is_edited_whatever_happens_to_the_line() {
    let scene = Scene::new().await;
    scene.push("one");
    scene.forge.open(&proposal()).await.unwrap();
    scene.github.fail(Method::POST, "/comments", Fault::CutAfter);

    scene.forge.say(1, job(), "first").await.unwrap();
    scene.github.book(|book| book.comment("ann", "MEMBER", "Nice."));
    scene.forge.say(1, job(), "second").await.unwrap();

    let said: Vec<_> = scene.github.book(|book| book.comments.iter().map(|said| said.text.clone()).collect());
    let ours = format!("<!-- gigafactory:job:{} -->\nsecond", job());
    assert_eq!(said, vec![ours, "Nice.".to_owned()]);
}
