//! Votes on completed work: one per person and commit, by the right people, and never by omission [T5].

use std::time::Duration;

use coordinator::{Error, Inbox, NeedsFilter, Principal};
use domain::{EventKind, FailureReason, JobId, Position, Refusal, StageName, TokenScope, VoteDecision};
use protocol::{
    Action, ActionRequest, AlertCode, CreateTokenRequest, ErrandOutcome, ErrandReport, ForgeApproval, JobView,
    NeedAction, NeedKind, PullRequestReport, PullRequestState, QuestionReport, ReviewRequest, VoteRequest,
};

use super::{lasting, quick, share_of};
use crate::fleet::{Fleet, IN_REPO, PLAIN};
use crate::machine::{Grip, Machine, drain, sha};

const BY_TWO: &str = "---\ntitle: Mend the gate\nrepo: notes\nreview: {quorum: 2}\n---\nIt squeaks.\n";
const BY_ADA: &str = "---\ntitle: Mend the gate\nrepo: notes\nreview: {reviewers: [Ada, grace]}\n---\nIt squeaks.\n";

/// The principal of a new token of a person.
async fn person(fleet: &Fleet, name: &str, owner: Option<&str>) -> Principal {
    token(fleet, name, owner, None, TokenScope::Operator { products: Default::default() }).await
}

async fn token(
    fleet: &Fleet,
    name: &str,
    owner: Option<&str>,
    forge_login: Option<&str>,
    grant: TokenScope,
) -> Principal {
    let request = CreateTokenRequest {
        name: name.to_owned(),
        grant,
        ttl_seconds: None,
        owner: owner.map(str::to_owned),
        forge_login: forge_login.map(str::to_owned),
    };
    let secret = fleet.coordinator.create_token(&fleet.admin, request).await.unwrap().secret;
    fleet.coordinator.authenticate(&secret).unwrap()
}

/// Works on a job until its branch has commit `n`.
async fn finish(fleet: &Fleet, mac: &Machine, job: JobId, n: u32) {
    let grip = mac.build(fleet, job).await;
    let completed = mac.complete(fleet, grip, Some(sha(n))).await.unwrap();
    let epoch = completed.promote.unwrap().lease_epoch;
    mac.promote(fleet, Grip { job, epoch }, ErrandOutcome::Done).await.unwrap();
}

fn on(n: u32, decision: VoteDecision) -> VoteRequest {
    VoteRequest { decision, sha: Some(sha(n)), run: None, comment: Some("so be it".to_owned()) }
}

async fn vote(fleet: &Fleet, who: &Principal, job: JobId, n: u32, decision: VoteDecision) -> Result<JobView, Error> {
    fleet.coordinator.vote(who, job, None, &on(n, decision)).await
}

async fn approve(fleet: &Fleet, who: &Principal, job: JobId, n: u32) -> Result<JobView, Error> {
    vote(fleet, who, job, n, VoteDecision::Approve).await
}

fn approvals(job: &JobView) -> u32 {
    job.review.as_ref().unwrap().approvals
}

// [T5] [row 21]
#[tokio::test]
async fn row_21_fifty_concurrent_votes_of_three_people_are_three() {
    let mut fleet = Fleet::warm(quick()).await;
    let mac = Machine::join(&fleet, "mac").await;
    let mut people = Vec::new();
    for n in 0..6 {
        people.push(person(&fleet, &format!("token {n}"), Some(["ada", "bob", "eve"][n % 3])).await);
    }
    for round in 0..share_of(1_000) {
        mac.beat(&fleet).await;
        let quorum = if fleet.any(2) == 0 { 3 } else { 4 };
        let manifest = format!("---\ntitle: Mend\nrepo: notes\nreview: {{quorum: {quorum}}}\n---\nIt squeaks.\n");
        let job = fleet.submit(&manifest).await;
        finish(&fleet, &mac, job, 1).await;
        let mut voters: Vec<usize> = (0..50).map(|n| n % 6).collect();
        fleet.shuffle(&mut voters);
        fleet.store().set(|faults| {
            (faults.yields_max, faults.answers_lost, faults.commits_lost) = (3, 0.2, 0.1);
        });

        let votes = voters.iter().map(|&who| approve(&fleet, &people[who], job, 1));
        let all = futures_util::future::join_all(votes);
        // Some rounds end in the middle of the writes.
        let turns = fleet.any(60);
        let crash = async {
            for _ in 0..turns {
                tokio::task::yield_now().await;
            }
        };
        if fleet.any(2) == 0 {
            tokio::select! { biased; _ = crash => {}, _ = all => {} }
        } else {
            all.await;
        }
        fleet.store().heal();
        if round % 20 == 0 {
            fleet = fleet.restarted().await;
            fleet.warm_up();
            mac.beat(&fleet).await;
        }
        for who in &people {
            // The clients repeat the votes whose answers they did not get.
            approve(&fleet, who, job, 1).await.unwrap();
        }

        let view = fleet.job(job).await;
        let kinds = fleet.kinds(job).await;
        let count = |wanted| kinds.iter().filter(|kind| **kind == wanted).count();
        assert_eq!((approvals(&view), count(EventKind::Voted)), (3, 3), "round {round}: {kinds:?}");
        let (stage, approved) = if quorum == 3 { (StageName::Testing, 1) } else { (StageName::Review, 0) };
        assert_eq!((view.stage, count(EventKind::Approved)), (stage, approved), "round {round}: {kinds:?}");
        fleet.act(job, Action::Cancel).await.unwrap();
    }
}

// [T5] [row 21]
#[tokio::test]
async fn row_21_approvals_and_changes_in_any_order_end_in_one_stage() {
    let fleet = Fleet::warm(quick()).await;
    let mac = Machine::join(&fleet, "mac").await;
    let mut people = Vec::new();
    for name in ["ada", "bob", "eve"] {
        people.push(person(&fleet, name, None).await);
    }
    fleet.store().set(|faults| faults.yields_max = 3);
    for round in 0..share_of(300) {
        mac.beat(&fleet).await;
        let job = fleet.submit(BY_TWO).await;
        finish(&fleet, &mac, job, 1).await;
        let mut votes: Vec<(usize, VoteDecision)> = Vec::new();
        for who in 0..3 {
            let decision = [VoteDecision::Approve, VoteDecision::Changes, VoteDecision::Approve][fleet.any(3)];
            votes.push((who, decision));
        }
        fleet.shuffle(&mut votes);

        let cast = votes.iter().map(|(who, decision)| vote(&fleet, &people[*who], job, 1, *decision));
        futures_util::future::join_all(cast).await;

        let view = fleet.job(job).await;
        let review = view.review.clone().unwrap();
        let has = |decision| review.votes.iter().any(|vote| vote.decision == decision);
        let expected = match (has(VoteDecision::Changes), review.approvals) {
            (true, _) => StageName::Queued,
            (false, 2) => StageName::Testing,
            (false, _) => StageName::Review,
        };
        assert_eq!(view.stage, expected, "round {round}: {:?} of {votes:?}", review.votes);
        assert_eq!(fleet.count(job, EventKind::Voted).await, review.votes.len(), "round {round}");
        fleet.act(job, Action::Cancel).await.unwrap();
    }
}

// [T5] [I9]
#[tokio::test]
async fn the_quorum_moves_the_work_to_testing_and_not_before() {
    let fleet = Fleet::warm(lasting()).await;
    let mac = Machine::join(&fleet, "mac").await;
    let (ada, bob) = (person(&fleet, "ada", None).await, person(&fleet, "bob", None).await);
    let job = fleet.submit(BY_TWO).await;
    finish(&fleet, &mac, job, 1).await;

    let shipped = fleet.act(job, Action::Ship).await.unwrap_err();
    let first = approve(&fleet, &ada, job, 1).await.unwrap();
    let again = approve(&fleet, &ada, job, 1).await.unwrap();
    let second = approve(&fleet, &bob, job, 1).await.unwrap();

    assert!(
        matches!(shipped, Error::Refused(Refusal::IllegalTransition { stage: StageName::Review, .. })),
        "{shipped}"
    );
    assert_eq!((first.stage, approvals(&first), again.seq), (StageName::Review, 1, first.seq));
    assert_eq!((second.stage, approvals(&second)), (StageName::Testing, 2));
    assert!(fleet.kinds(job).await.ends_with(&[EventKind::Voted, EventKind::Voted, EventKind::Approved]));
    // A repeated request whose answer was lost finds its vote.
    assert_eq!(approve(&fleet, &bob, job, 1).await.unwrap().seq, second.seq);
}

// [T5] [SECURITY self-approval]
#[tokio::test]
async fn authors_factories_and_strangers_cannot_vote() {
    let fleet = Fleet::warm(lasting()).await;
    let mac = Machine::join(&fleet, "mac").await;
    let other_token = person(&fleet, "laptop", Some(" ADMIN")).await;
    let stranger = person(&fleet, "eve", None).await;
    let reviewer = person(&fleet, "work laptop", Some("ada")).await;
    let viewer = token(&fleet, "ada's tablet", Some("ada"), None, TokenScope::Viewer { products: Default::default() });
    let viewer = viewer.await;
    let foreign = ["other".parse().unwrap()].into();
    let foreign = token(&fleet, "ada abroad", Some("ada"), None, TokenScope::Operator { products: foreign }).await;
    let job = fleet.submit(BY_ADA).await;
    finish(&fleet, &mac, job, 1).await;
    let before = fleet.job(job).await;

    for author in [&fleet.admin, &other_token] {
        let refused = approve(&fleet, author, job, 1).await.unwrap_err();
        assert!(matches!(refused, Error::Refused(Refusal::OwnWork { .. })), "{refused}");
    }
    let refused = approve(&fleet, &stranger, job, 1).await.unwrap_err();
    assert!(matches!(refused, Error::Refused(Refusal::NotAReviewer { .. })), "{refused}");
    for who in [&mac.who, &viewer] {
        let refused = approve(&fleet, who, job, 1).await.unwrap_err();
        assert!(matches!(refused, Error::Forbidden(_)), "{refused}");
    }
    let refused = approve(&fleet, &foreign, job, 1).await.unwrap_err();
    assert!(matches!(refused, Error::NoSuchJob(_)), "{refused}");
    assert_eq!(fleet.job(job).await, before);
    assert_eq!(approve(&fleet, &reviewer, job, 1).await.unwrap().stage, StageName::Testing);
}

// [T5] [I15]
#[tokio::test]
async fn a_vote_counts_for_the_commit_that_it_names() {
    let fleet = Fleet::warm(lasting()).await;
    let mac = Machine::join(&fleet, "mac").await;
    let (ada, bob) = (person(&fleet, "ada", None).await, person(&fleet, "bob", None).await);
    let job = fleet.submit(BY_TWO).await;
    finish(&fleet, &mac, job, 1).await;
    approve(&fleet, &ada, job, 1).await.unwrap();

    let sent_back = vote(&fleet, &bob, job, 1, VoteDecision::Changes).await.unwrap();
    finish(&fleet, &mac, job, 2).await;
    let late = approve(&fleet, &bob, job, 1).await.unwrap_err();
    let void = fleet.job(job).await;
    approve(&fleet, &bob, job, 2).await.unwrap();
    let approved = approve(&fleet, &ada, job, 2).await.unwrap();

    assert_eq!((sent_back.stage, sent_back.message.as_deref()), (StageName::Queued, Some("so be it")));
    assert!(matches!(&late, Error::Refused(Refusal::OtherCommit { sha: Some(now), .. }) if *now == sha(2)), "{late}");
    assert_eq!((void.stage, approvals(&void)), (StageName::Review, 0), "a new commit voids the votes");
    assert_eq!((approved.stage, approved.completed_sha), (StageName::Testing, Some(sha(2))));
    let shipping = fleet.act(job, Action::Ship).await.unwrap();
    let errand = fleet.coordinator.job(&fleet.admin, shipping.id).await.unwrap().job;
    assert_eq!(errand.completed_sha, Some(sha(2)), "what ships is the reviewed commit");
}

// [T5] [J5]
#[tokio::test]
async fn changes_resume_the_same_branch_and_session_with_the_comment() {
    let fleet = Fleet::warm(lasting()).await;
    let mac = Machine::join(&fleet, "mac").await;
    let ada = person(&fleet, "ada", None).await;
    let job = fleet.submit(BY_TWO).await;
    finish(&fleet, &mac, job, 1).await;
    let mute = VoteRequest { comment: None, ..on(1, VoteDecision::Changes) };

    let refused = fleet.coordinator.vote(&ada, job, None, &mute).await.unwrap_err();
    let checkpoint = fleet.job(job).await.checkpoint;
    vote(&fleet, &ada, job, 1, VoteDecision::Changes).await.unwrap();
    fleet.dispatch().await;
    let offered = fleet.job(job).await;
    let claim = mac.claim(&fleet, job, offered.dispatch_seq);
    let accepted = mac.accept(&fleet, &claim).await.unwrap();

    assert!(matches!(refused, Error::Invalid { what: "comment", .. }), "{refused}");
    assert_eq!(accepted.assignment.changes.as_deref(), Some("so be it"));
    assert_eq!(accepted.assignment.checkpoint, checkpoint);
}

// [T5]
#[tokio::test]
async fn a_rejection_ends_the_job() {
    let fleet = Fleet::warm(lasting()).await;
    let mac = Machine::join(&fleet, "mac").await;
    let ada = person(&fleet, "ada", None).await;
    let job = fleet.submit(BY_TWO).await;
    finish(&fleet, &mac, job, 1).await;

    let rejected = vote(&fleet, &ada, job, 1, VoteDecision::Reject).await.unwrap();
    let again = vote(&fleet, &ada, job, 1, VoteDecision::Reject).await.unwrap();

    assert_eq!((rejected.stage, rejected.reason), (StageName::Failed, Some(FailureReason::Rejected)));
    assert_eq!(again.seq, rejected.seq);
}

// [T5]
#[tokio::test]
async fn work_without_a_commit_is_reviewed_by_its_run() {
    let fleet = Fleet::warm(lasting()).await;
    let mac = Machine::join(&fleet, "mac").await;
    let ada = person(&fleet, "ada", None).await;
    let job = fleet.submit("---\ntitle: Count the gates\nreview: {}\n---\nHow many?\n").await;
    let grip = mac.build(&fleet, job).await;
    mac.complete(&fleet, grip, None).await.unwrap();
    let on_run = |run| VoteRequest { decision: VoteDecision::Approve, sha: None, run, comment: None };

    let unnamed = fleet.coordinator.vote(&ada, job, None, &on_run(None)).await.unwrap_err();
    let other = fleet.coordinator.vote(&ada, job, None, &on_run(Some(2))).await.unwrap_err();
    let approved = fleet.coordinator.vote(&ada, job, None, &on_run(Some(1))).await.unwrap();

    assert!(matches!(unnamed, Error::Invalid { what: "sha", .. }), "{unnamed}");
    assert!(matches!(other, Error::Refused(Refusal::OtherCommit { sha: None, .. })), "{other}");
    assert_eq!(approved.stage, StageName::Shipped, "a job without a repository is done");
}

// [T5] [F5]
#[tokio::test]
async fn a_product_that_ships_automatically_waits_for_the_quorum() {
    let fleet = Fleet::warm(lasting()).await;
    fleet.ship_everything().await;
    let mac = Machine::join(&fleet, "mac").await;
    let ada = person(&fleet, "ada", None).await;
    let job = fleet.submit(BY_ADA).await;
    finish(&fleet, &mac, job, 1).await;

    fleet.coordinator.sweep().await;
    let waiting = fleet.stage(job).await;
    let approved = approve(&fleet, &ada, job, 1).await.unwrap();

    assert_eq!(waiting, StageName::Review);
    assert_eq!((approved.stage, approved.errand), (StageName::Testing, Some(domain::ErrandKind::Ship)));
}

// [T5]
#[tokio::test]
async fn a_requested_review_is_never_weaker_and_holds_for_later_commits() {
    let fleet = Fleet::warm(lasting()).await;
    let mac = Machine::join(&fleet, "mac").await;
    let (ada, bob) = (person(&fleet, "ada", None).await, person(&fleet, "bob", None).await);
    let job = fleet.submit(IN_REPO).await;
    finish(&fleet, &mac, job, 1).await;
    let request = |quorum, reviewers: &[&str]| ReviewRequest {
        quorum,
        reviewers: reviewers.iter().map(|&name| name.to_owned()).collect(),
        message: None,
    };
    let ask = async |wanted| fleet.coordinator.request_review(&fleet.admin, job, None, &wanted).await;

    let testing = fleet.stage(job).await;
    let unreachable = ask(request(Some(2), &["ada", "admin"])).await.unwrap_err();
    let asked = ask(request(Some(1), &["ada", "bob"])).await.unwrap();
    let weaker = ask(request(Some(1), &["ada", "bob", "eve"])).await.unwrap_err();
    let stricter = ask(request(Some(2), &[])).await.unwrap();
    approve(&fleet, &ada, job, 1).await.unwrap();
    vote(&fleet, &bob, job, 1, VoteDecision::Changes).await.unwrap();
    finish(&fleet, &mac, job, 2).await;

    assert_eq!((testing, asked.stage), (StageName::Testing, StageName::Review));
    assert!(matches!(unreachable, Error::Invalid { what: "review", .. }), "{unreachable}");
    assert!(matches!(weaker, Error::Refused(Refusal::WeakerReview { quorum: 1, .. })), "{weaker}");
    assert_eq!(stricter.review.map(|review| (review.quorum, review.reviewers.len())), Some((2, 2)));
    assert_eq!(fleet.stage(job).await, StageName::Review, "the next commit needs the review as well");
}

// [T5] [J1]
#[tokio::test]
async fn a_review_that_the_author_makes_impossible_is_rejected() {
    let fleet = Fleet::warm(lasting()).await;
    let ada = person(&fleet, "laptop", Some("ada")).await;
    let request = |body: &str| crate::fleet::submit(body, None);
    let alone = "---\ntitle: Mend\nreview: {reviewers: [ada]}\n---\nIt.\n";

    let refused = fleet.coordinator.submit(&ada, request(alone)).await.unwrap_err();
    let accepted = fleet.coordinator.submit(&fleet.admin, request(alone)).await;

    assert!(refused.to_string().contains("the author never counts"), "{refused}");
    assert!(accepted.is_ok());
}

// [T5] [U1]
#[tokio::test]
async fn a_review_is_listed_for_those_who_may_still_vote() {
    let fleet = Fleet::warm(lasting()).await;
    let mac = Machine::join(&fleet, "mac").await;
    let (ada, grace) = (person(&fleet, "ada", None).await, person(&fleet, "grace", None).await);
    let eve = person(&fleet, "eve", None).await;
    let by_both = "---\ntitle: Mend\nrepo: notes\nreview: {quorum: 2, reviewers: [ada, grace]}\n---\nIt.\n";
    let job = fleet.submit(by_both).await;
    finish(&fleet, &mac, job, 1).await;
    let listed = async |who: &Principal| {
        let filter = NeedsFilter { kinds: vec![NeedKind::Review], ..NeedsFilter::default() };
        fleet.coordinator.needs_me(who, filter, None, 10).await.unwrap().items
    };

    let before = [listed(&ada).await.len(), listed(&grace).await.len(), listed(&eve).await.len()];
    let (author, item) = (listed(&fleet.admin).await.len(), listed(&grace).await.remove(0));
    approve(&fleet, &ada, job, 1).await.unwrap();

    assert_eq!((before, author), ([1, 1, 0], 0));
    assert_eq!(item.actions, [NeedAction::Review, NeedAction::Cancel]);
    assert_eq!(item.review.unwrap().sha, Some(sha(1)));
    assert_eq!((listed(&ada).await.len(), listed(&grace).await.len()), (0, 1));
    let right = fleet.coordinator.job(&fleet.admin, job).await.unwrap().vote.unwrap();
    assert!(!right.allowed && right.why_not.unwrap().contains("the author"), "the card says why");
}

// [T5] [I9] [alert: review_waiting]
#[tokio::test]
async fn a_waiting_review_is_an_alert_and_reminds() {
    let fleet = Fleet::warm(lasting()).await;
    let mac = Machine::join(&fleet, "mac").await;
    let ada = person(&fleet, "ada", None).await;
    let job = fleet.submit(BY_ADA).await;
    finish(&fleet, &mac, job, 1).await;
    let alerts = async || {
        let items = fleet.coordinator.alerts(&fleet.admin).await.unwrap().items;
        items.into_iter().filter(|alert| alert.code == AlertCode::ReviewWaiting).collect::<Vec<_>>()
    };
    let reminders = async || fleet.count(job, EventKind::Reminded).await;
    let remind_after = fleet.coordinator.settings().remind_after;

    let raised = alerts().await;
    fleet.coordinator.sweep().await;
    let at_once = reminders().await;
    let mut counts = Vec::new();
    for _ in 0..40 {
        fleet.builder.clock.advance(remind_after);
        fleet.coordinator.sweep().await;
        fleet.coordinator.sweep().await;
        counts.push(reminders().await);
    }
    approve(&fleet, &ada, job, 1).await.unwrap();

    assert_eq!((raised.len(), raised[0].job_id, at_once), (1, Some(job), 0));
    assert!(raised[0].message.contains("0 of 1 approval, of Ada or grace"), "{}", raised[0].message);
    assert_eq!((counts[0], counts[1], counts[2], counts[3]), (1, 2, 2, 3), "after 4, 8 and 16 hours");
    assert_eq!(counts[39], 5, "the reminders end");
    assert!(alerts().await.is_empty());
}

// [B6] [I9]
#[tokio::test]
async fn an_unanswered_question_reminds_and_then_expires() {
    let expires = Duration::from_hours(24);
    let fleet = Fleet::warm(lasting().with(|settings| settings.question_expires_after = Some(expires))).await;
    let mac = Machine::join(&fleet, "mac").await;
    let job = fleet.submit(PLAIN).await;
    let grip = mac.build(&fleet, job).await;
    let question = "Which gate?".to_owned();
    let ask = QuestionReport { lease_epoch: grip.epoch, question, checkpoint: None, insights: Default::default() };
    fleet.coordinator.ask(&mac.who, job, &ask).await.unwrap();

    fleet.builder.clock.advance(Duration::from_hours(5));
    fleet.coordinator.sweep().await;
    let reminded = fleet.count(job, EventKind::Reminded).await;
    fleet.builder.clock.advance(Duration::from_hours(20));
    fleet.coordinator.sweep().await;
    let expired = fleet.job(job).await;
    let request = ActionRequest { message: Some("the left one".to_owned()), ..ActionRequest::default() };
    let requeued = fleet.coordinator.act(&fleet.admin, job, Action::Requeue, request).await.unwrap();

    assert_eq!((reminded, expired.stage, expired.reason), (1, StageName::Failed, Some(FailureReason::Timeout)));
    assert_eq!(expired.message.as_deref(), Some("its question was not answered within 1 day"));
    assert_eq!((requeued.stage, expired.attempts), (StageName::Queued, 0));
}

/// A job in review with an open pull request, which a factory was asked to poll.
async fn with_pull_request(fleet: &Fleet, mac: &Machine, manifest: &str) -> (JobId, Inbox) {
    let mut inbox = mac.open_inbox(fleet, 4).await;
    let job = fleet.submit(manifest).await;
    let grip = mac.build(fleet, job).await;
    let completed = mac.complete(fleet, grip, Some(sha(1))).await.unwrap();
    let report = ErrandReport {
        lease_epoch: completed.promote.unwrap().lease_epoch,
        outcome: ErrandOutcome::Done,
        pull_request: Some(domain::PullRequest { number: 7, url: "https://forge.example/7".to_owned() }),
        conflicts_with: None,
    };
    fleet.coordinator.promote(&mac.who, job, &report).await.unwrap();
    fleet.coordinator.request_polls();
    fleet.builder.clock.advance(fleet.coordinator.settings().look_every);
    fleet.coordinator.request_polls();
    drain(&mut inbox).await;
    (job, inbox)
}

// [T5] [I9]
#[tokio::test]
async fn a_merge_on_the_forge_is_recorded_and_is_no_approval() {
    let fleet = Fleet::warm(lasting()).await;
    let mac = Machine::join(&fleet, "mac").await;
    let (job, _inbox) = with_pull_request(&fleet, &mac, BY_TWO).await;
    let merged = PullRequestReport {
        number: 7,
        head: sha(1),
        pull_request: PullRequestState::Merged { merge: Some(sha(9)), by: Some("ann".to_owned()) },
        comments: Vec::new(),
        approvals: Vec::new(),
    };

    fleet.coordinator.report_pull_request(&mac.who, job, &merged).await.unwrap();

    let view = fleet.job(job).await;
    assert_eq!(view.stage, StageName::Shipped);
    assert!(view.message.unwrap().contains("before its review was complete (0 of 2)"));
    assert_eq!(fleet.count(job, EventKind::Approved).await, 0);
    let events = fleet.coordinator.events(&fleet.admin, job, Position(0), 1_000).await.unwrap().items;
    assert!(events.last().unwrap().sentence().contains("merged"));
}

// [T5] [B5]
#[tokio::test]
async fn forge_reviews_count_for_mapped_logins_and_the_same_commit() {
    let fleet = Fleet::warm(lasting()).await;
    let mac = Machine::join(&fleet, "mac").await;
    let operator = || TokenScope::Operator { products: Default::default() };
    let ada = token(&fleet, "ada", None, Some("ada42"), operator()).await;
    token(&fleet, "eve", Some("admin"), Some("the-author"), operator()).await;
    let taken = CreateTokenRequest {
        name: "bob".to_owned(),
        grant: operator(),
        ttl_seconds: None,
        owner: None,
        forge_login: Some("ADA42".to_owned()),
    };
    let taken = fleet.coordinator.create_token(&fleet.admin, taken).await.map(drop).unwrap_err();
    let (job, _inbox) = with_pull_request(&fleet, &mac, BY_TWO).await;
    let approval = |login: &str, n| ForgeApproval { login: login.to_owned(), sha: sha(n) };
    let report = |approvals| PullRequestReport {
        number: 7,
        head: sha(1),
        pull_request: PullRequestState::Open,
        comments: Vec::new(),
        approvals,
    };
    let strangers = report(vec![approval("mallory", 1), approval("the-author", 1), approval("ada42", 2)]);

    fleet.coordinator.report_pull_request(&mac.who, job, &strangers).await.unwrap();
    let nothing = fleet.job(job).await;
    for _ in 0..2 {
        let counted = report(vec![approval("Ada42", 1)]);
        fleet.coordinator.report_pull_request(&mac.who, job, &counted).await.unwrap();
    }
    let again = approve(&fleet, &ada, job, 1).await.unwrap();

    assert!(matches!(taken, Error::Invalid { what: "forgeLogin", .. }), "{taken}");
    assert_eq!((approvals(&nothing), fleet.count(job, EventKind::Voted).await), (0, 1));
    let votes = again.review.unwrap().votes;
    assert_eq!((votes.len(), votes[0].by.as_str(), votes[0].on_forge), (1, "ada", true));
    assert_eq!(again.stage, StageName::Review, "one person is one vote, wherever it is cast");
}
