//! Pull-request feedback: each comment counts once, in a limited number of rounds [B5].

use std::time::Duration;

use coordinator::{Error, ForgeHint, Inbox};
use domain::{EventKind, FailureReason, JobId, PullRequest, StageName};
use protocol::{
    Action, AlertCode, CompletionReport, Directive, ErrandOutcome, ErrandReport, PollPullRequest, PullRequestReport,
    PullRequestReportResponse, PullRequestState, ReviewComment, ReviewCommentKind,
};

use super::lasting;
use crate::fleet::{Fleet, IN_REPO};
use crate::machine::{Grip, Machine, checkpoint, drain, sha};

const LOOK_EVERY: Duration = Duration::from_mins(2);

struct PullRequestFixture {
    fleet: Fleet,
    mac: Machine,
    inbox: Inbox,
    job: JobId,
}

impl PullRequestFixture {
    /// A finished job with an open pull request.
    async fn open() -> Self {
        let fleet = Fleet::warm(lasting()).await;
        let mac = Machine::join(&fleet, "mac").await;
        let inbox = mac.open_inbox(&fleet, 4).await;
        let job = fleet.submit(IN_REPO).await;
        let fixture = Self { fleet, mac, inbox, job };
        fixture.finish(1).await;
        fixture
    }

    /// Works on the job until its branch has a commit.
    async fn finish(&self, n: u32) {
        let grip = self.mac.build(&self.fleet, self.job).await;
        let request = CompletionReport {
            lease_epoch: grip.epoch,
            sha: Some(sha(n)),
            checkpoint: Some(checkpoint(grip, &sha(n))),
            ..CompletionReport::default()
        };
        let completed = self.fleet.coordinator.complete(&self.mac.who, self.job, &request).await.unwrap();
        let epoch = completed.promote.unwrap().lease_epoch;
        let report = ErrandReport {
            lease_epoch: epoch,
            outcome: ErrandOutcome::Done,
            pull_request: Some(pull_request()),
            conflicts_with: None,
        };
        self.fleet.coordinator.promote(&self.mac.who, self.job, &report).await.unwrap();
    }

    /// Advances time until a factory is asked to poll.
    async fn asked(&mut self) -> Vec<PollPullRequest> {
        self.fleet.coordinator.request_polls();
        self.fleet.builder.clock.advance(LOOK_EVERY);
        self.fleet.coordinator.request_polls();
        self.orders().await
    }

    async fn orders(&mut self) -> Vec<PollPullRequest> {
        let look = |directive| match directive {
            Directive::Look(order) => Some(order),
            _ => None,
        };
        drain(&mut self.inbox).await.1.into_iter().filter_map(look).collect()
    }

    async fn see(&mut self, report: &PullRequestReport) -> Result<PullRequestReportResponse, Error> {
        self.asked().await;
        self.fleet.coordinator.report_pull_request(&self.mac.who, self.job, report).await
    }
}

fn pull_request() -> PullRequest {
    PullRequest { number: 7, url: "https://forge.example/acme/notes/pull/7".to_owned() }
}

fn report(state: PullRequestState, head: u32, comments: Vec<ReviewComment>) -> PullRequestReport {
    PullRequestReport { number: 7, pull_request: state, head: sha(head), comments, approvals: Vec::new() }
}

fn check(id: u32) -> ReviewComment {
    ReviewComment {
        id: format!("check:{id}"),
        kind: ReviewCommentKind::Check,
        from: "test".to_owned(),
        place: None,
        text: "assertion failed".to_owned(),
    }
}

fn comment(id: u32) -> ReviewComment {
    ReviewComment {
        id: format!("line:{id}"),
        kind: ReviewCommentKind::Comment,
        from: "ann".to_owned(),
        place: Some("src/lib.rs:3".to_owned()),
        text: "Smaller, please.\u{1b}[2J".to_owned(),
    }
}

// [B5]
#[tokio::test]
async fn a_factory_with_the_repository_polls_an_open_pull_request() {
    let mut fixture = PullRequestFixture::open().await;

    let orders = fixture.asked().await;

    let product_id = fixture.fleet.job(fixture.job).await.product_id;
    let expected =
        PollPullRequest { job_id: fixture.job, product_id, repo: "notes".parse().unwrap(), number: 7, sha: sha(1) };
    assert_eq!(orders, vec![expected]);
    assert_eq!(fixture.fleet.job(fixture.job).await.pull_request, Some(pull_request()));
    fixture.fleet.coordinator.request_polls();
    assert_eq!(fixture.orders().await, Vec::new(), "not before its time");
}

// [B5] [attack: forged or repeated webhook]
#[tokio::test]
async fn a_webhook_triggers_one_early_poll() {
    let mut fixture = PullRequestFixture::open().await;
    fixture.fleet.coordinator.request_polls();
    let hint = ForgeHint { repository: "acme/notes".to_owned(), numbers: vec![7], commits: Vec::new() };
    let stranger = ForgeHint { repository: "evil/notes".to_owned(), ..hint.clone() };
    let commit = ForgeHint { commits: vec![sha(1)], ..ForgeHint::default() };

    assert_eq!(fixture.fleet.coordinator.poll_hinted(&stranger), 0);
    for hint in [&hint, &commit, &hint] {
        assert_eq!(fixture.fleet.coordinator.poll_hinted(hint), 1);
        fixture.fleet.coordinator.request_polls();
    }
    let at_once = fixture.orders().await.len();
    fixture.fleet.builder.clock.advance(Duration::from_secs(5));
    fixture.fleet.coordinator.request_polls();

    assert_eq!((at_once, fixture.orders().await.len()), (1, 1));
}

// [B5]
#[tokio::test]
async fn failed_checks_and_comments_start_a_rework_on_the_branch() {
    let mut fixture = PullRequestFixture::open().await;

    let answer = fixture.see(&report(PullRequestState::Open, 1, vec![check(1), comment(2)])).await.unwrap();

    let said = "Changes requested: 1 failed check (test) and 1 comment (round 1 of 3).";
    assert_eq!(answer, PullRequestReportResponse { stage: StageName::Queued, comment: Some(said.to_owned()) });
    fixture.fleet.dispatch().await;
    let claim = fixture.mac.claim(&fixture.fleet, fixture.job, fixture.fleet.job(fixture.job).await.dispatch_seq);
    let assignment = fixture.mac.accept(&fixture.fleet, &claim).await.unwrap().assignment;
    let told = "The check `test` failed:\n\n> assertion failed\n\nA comment by `ann` on src/lib.rs:3:\n\n> Smaller, please.[2J\n\n";
    assert_eq!(assignment.changes.as_deref(), Some(told));
    assert_eq!(assignment.checkpoint.map(|saved| saved.sha), Some(sha(1)));
    assert_eq!(assignment.attempts, 0);
}

// [B5]
#[tokio::test]
async fn a_handled_comment_is_not_handled_again() {
    let mut fixture = PullRequestFixture::open().await;
    fixture.see(&report(PullRequestState::Open, 1, vec![comment(2)])).await.unwrap();
    fixture.finish(2).await;

    let again = fixture.see(&report(PullRequestState::Open, 2, vec![comment(2)])).await.unwrap();

    assert_eq!(again, PullRequestReportResponse { stage: StageName::Testing, comment: None });
    assert_eq!(fixture.fleet.count(fixture.job, EventKind::ChangesRequested).await, 1);
}

// [B5]
#[tokio::test]
async fn excess_comments_wait_for_the_next_round() {
    let mut fixture = PullRequestFixture::open().await;
    let many: Vec<ReviewComment> = (0..60).map(comment).collect();

    let first = fixture.see(&report(PullRequestState::Open, 1, many.clone())).await.unwrap();
    fixture.finish(2).await;
    let second = fixture.see(&report(PullRequestState::Open, 2, many.clone())).await.unwrap();
    fixture.finish(3).await;
    let third = fixture.see(&report(PullRequestState::Open, 3, many)).await.unwrap();

    assert_eq!(first.comment.as_deref(), Some("Changes requested: 50 comments (round 1 of 3)."));
    assert_eq!(second.comment.as_deref(), Some("Changes requested: 10 comments (round 2 of 3)."));
    assert_eq!((third.stage, third.comment), (StageName::Testing, None));
}

// [B5]
#[tokio::test]
async fn a_comment_counts_as_handled_only_when_passed_on_whole() {
    let mut fixture = PullRequestFixture::open().await;
    let long = |id| ReviewComment { text: "x".repeat(4_000), ..comment(id) };
    let many: Vec<ReviewComment> = (0..7).map(long).collect();

    let first = fixture.see(&report(PullRequestState::Open, 1, many.clone())).await.unwrap();
    fixture.finish(2).await;
    let second = fixture.see(&report(PullRequestState::Open, 2, many)).await.unwrap();

    assert_eq!(first.comment.as_deref(), Some("Changes requested: 3 comments (round 1 of 3)."));
    assert_eq!(second.comment.as_deref(), Some("Changes requested: 3 comments (round 2 of 3)."));
}

// [B5]
#[tokio::test]
async fn checks_of_another_commit_are_ignored() {
    let mut fixture = PullRequestFixture::open().await;

    let answer = fixture.see(&report(PullRequestState::Open, 9, vec![check(1)])).await.unwrap();

    assert_eq!(answer.stage, StageName::Testing);
}

// [I9] [D4] [B5] [alert: changes_exhausted]
#[tokio::test]
async fn rework_rounds_are_capped_and_then_alert_once() {
    let mut fixture = PullRequestFixture::open().await;
    for round in 1..=3 {
        fixture.see(&report(PullRequestState::Open, round, vec![check(round)])).await.unwrap();
        fixture.finish(round + 1).await;
    }

    let fourth = fixture.see(&report(PullRequestState::Open, 4, vec![check(4)])).await.unwrap();
    let fifth = fixture.see(&report(PullRequestState::Open, 4, vec![check(5)])).await.unwrap();

    let said = "Stopped after 3 rounds, needs a maintainer: 1 failed check (test).";
    assert_eq!(fourth, PullRequestReportResponse { stage: StageName::Testing, comment: Some(said.to_owned()) });
    assert_eq!(fifth.comment, None);
    assert_eq!(fixture.fleet.count(fixture.job, EventKind::Escalated).await, 1);
    let alerts = fixture.fleet.coordinator.alerts(&fixture.fleet.admin).await.unwrap().items;
    let about: Vec<_> = alerts.iter().map(|alert| (alert.code, alert.job_id)).collect();
    assert_eq!(about, vec![(AlertCode::ChangesExhausted, Some(fixture.job))]);

    fixture.fleet.act(fixture.job, Action::RequestChanges).await.unwrap();
    assert!(
        !fixture
            .fleet
            .coordinator
            .alerts(&fixture.fleet.admin)
            .await
            .unwrap()
            .items
            .iter()
            .any(|alert| alert.code == AlertCode::ChangesExhausted)
    );
    fixture.finish(5).await;
    let anew = fixture.see(&report(PullRequestState::Open, 5, vec![check(6)])).await.unwrap();
    assert_eq!(anew.stage, StageName::Queued);
}

// [T5] [B5]
#[tokio::test]
async fn a_pull_request_merged_on_the_forge_ships_its_job() {
    let mut fixture = PullRequestFixture::open().await;
    let merged = PullRequestState::Merged { merge: Some(sha(99)), by: Some("ann".to_owned()) };

    let answer = fixture.see(&report(merged, 1, Vec::new())).await.unwrap();

    assert_eq!(answer.stage, StageName::Shipped);
    assert_eq!(fixture.fleet.job(fixture.job).await.message.as_deref(), Some("merged on the forge by ann"));
    assert_eq!(fixture.asked().await, Vec::new(), "no factory polls it any more");
}

// [B5]
#[tokio::test]
async fn a_pull_request_closed_on_the_forge_cancels_its_job() {
    let mut fixture = PullRequestFixture::open().await;

    fixture.see(&report(PullRequestState::Closed, 1, Vec::new())).await.unwrap();

    let view = fixture.fleet.job(fixture.job).await;
    assert_eq!((view.stage, view.reason), (StageName::Failed, Some(FailureReason::Cancelled)));
    assert_eq!(view.message.as_deref(), Some("its pull request was closed on the forge"));
}

// [B5] [attack: forged or repeated webhook]
#[tokio::test]
async fn a_factory_that_was_not_asked_cannot_report_a_pull_request() {
    let fixture = PullRequestFixture::open().await;
    let merged = PullRequestState::Merged { merge: None, by: None };

    let unasked = fixture
        .fleet
        .coordinator
        .report_pull_request(&fixture.mac.who, fixture.job, &report(merged, 1, Vec::new()))
        .await;

    assert!(matches!(unasked, Err(Error::NotReady(_))), "{unasked:?}");
    assert_eq!(fixture.fleet.stage(fixture.job).await, StageName::Testing);
}

// [B5]
#[tokio::test]
async fn a_report_during_a_merge_is_ignored() {
    let mut fixture = PullRequestFixture::open().await;
    fixture.asked().await;
    fixture.fleet.act(fixture.job, Action::Ship).await.unwrap();
    fixture.fleet.dispatch().await;
    let claim = fixture.mac.claim(&fixture.fleet, fixture.job, fixture.fleet.job(fixture.job).await.dispatch_seq);
    let epoch = fixture.mac.accept(&fixture.fleet, &claim).await.unwrap().lease_epoch;

    let report = report(PullRequestState::Open, 1, vec![check(1)]);
    let answer = fixture.fleet.coordinator.report_pull_request(&fixture.mac.who, fixture.job, &report).await.unwrap();

    assert_eq!(answer.stage, StageName::Testing);
    let grip = Grip { job: fixture.job, epoch };
    assert_eq!(fixture.mac.promote(&fixture.fleet, grip, ErrandOutcome::Done).await.unwrap().stage, StageName::Shipped);
}

// [F5]
#[tokio::test]
async fn a_postponed_merge_is_retried_and_never_abandoned() {
    let fixture = PullRequestFixture::open().await;
    fixture.fleet.act(fixture.job, Action::Ship).await.unwrap();

    for _ in 0..12 {
        fixture.fleet.dispatch().await;
        let claim = fixture.mac.claim(&fixture.fleet, fixture.job, fixture.fleet.job(fixture.job).await.dispatch_seq);
        let epoch = fixture.mac.accept(&fixture.fleet, &claim).await.unwrap().lease_epoch;
        let put_off = ErrandOutcome::PutOff { message: "checks are running".to_owned(), retry_after_ms: 60_000 };
        fixture.mac.promote(&fixture.fleet, Grip { job: fixture.job, epoch }, put_off).await.unwrap();
        assert_eq!(fixture.fleet.dispatch().await, 0, "it is left alone");
        fixture.fleet.pass(Duration::from_secs(61), &[&fixture.mac]).await;
    }

    assert_eq!(fixture.fleet.job(fixture.job).await.errand, Some(domain::ErrandKind::Ship));
}
