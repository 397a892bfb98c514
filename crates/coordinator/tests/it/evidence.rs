//! Evidence of a run is stored beside its log, by its holder only, and escaped for terminals [B4].

use coordinator::Error;
use domain::{Evidence, LogStore, Refusal, RunInsights, RunOutcome};
use protocol::{CommitLine, CompletionReport, EvidenceReport};

use super::quick;
use crate::fleet::{Fleet, IN_REPO};
use crate::machine::{Grip, Machine, sha};

fn shown(grip: Grip, diff: &str) -> EvidenceReport {
    EvidenceReport {
        lease_epoch: grip.epoch,
        diff: Some(diff.to_owned()),
        diff_cut: false,
        commits: vec![CommitLine { sha: sha(7), subject: "Mend the gate\u{1b}[2J".to_owned() }],
        ending: Some("It no longer squeaks.\u{9b}1m".to_owned()),
        refused: vec!["Bash (curl\u{1b}[2J)".to_owned()],
        left_branches: Vec::new(),
    }
}

// [§10] [B4]
#[tokio::test]
async fn one_answer_has_all_evidence_of_a_run() {
    let fleet = Fleet::warm(quick()).await;
    let mac = Machine::join(&fleet, "mac").await;
    let job = fleet.submit(IN_REPO).await;
    let grip = mac.build(&fleet, job).await;
    let verify = Evidence {
        command: "make test".to_owned(),
        exit: Some(0),
        output: "12 passed\n".to_owned(),
        took_ms: 5,
        ..Evidence::default()
    };
    let insights = RunInsights { cost_usd: Some(0.25), files: Some(1), ..RunInsights::default() };

    fleet.coordinator.keep_evidence(&mac.who, job, &shown(grip, "+first\n")).await.unwrap();
    fleet.coordinator.keep_evidence(&mac.who, job, &shown(grip, "-squeak\n+\u{1b}]52;c;x\u{7}\n")).await.unwrap();
    let done = CompletionReport {
        lease_epoch: grip.epoch,
        sha: Some(sha(7)),
        insights: insights.clone(),
        evidence: vec![verify.clone()],
        message: Some("done".to_owned()),
        ..CompletionReport::default()
    };
    fleet.coordinator.complete(&mac.who, job, &done).await.unwrap();
    // The branch is still being moved: the run continues, and may still add evidence.
    fleet.coordinator.keep_evidence(&mac.who, job, &shown(grip, "-squeak\n+\u{1b}]52;c;x\u{7}\n")).await.unwrap();

    let told = fleet.coordinator.evidence(&fleet.admin, job, 1).await.unwrap();
    assert_eq!((told.run, told.epoch, told.outcome), (1, grip.epoch, Some(RunOutcome::Completed)));
    assert_eq!((told.verify, told.insights, told.sha), (vec![verify], insights, Some(sha(7))));
    assert_eq!((told.diff.as_deref(), told.diff_cut), (Some("-squeak\n+]52;c;x\n"), false));
    assert_eq!(told.commits, vec![CommitLine { sha: sha(7), subject: "Mend the gate[2J".to_owned() }]);
    assert_eq!(told.ending.as_deref(), Some("It no longer squeaks.1m"));
    assert_eq!(told.refused, ["Bash (curl[2J)"]);
}

// [§10]
#[tokio::test]
async fn a_run_without_evidence_has_its_report() {
    let fleet = Fleet::warm(quick()).await;
    let mac = Machine::join(&fleet, "mac").await;
    let job = fleet.submit(IN_REPO).await;
    let grip = mac.build(&fleet, job).await;
    mac.fail(&fleet, grip, domain::FailureReason::Crash).await.unwrap();

    let told = fleet.coordinator.evidence(&fleet.admin, job, 1).await.unwrap();
    let none = fleet.coordinator.evidence(&fleet.admin, job, 2).await;

    assert_eq!((told.diff, told.commits, told.ending), (None, vec![], None));
    assert_eq!(told.outcome, Some(RunOutcome::Failed(domain::FailureReason::Crash)));
    assert!(matches!(none, Err(Error::NoSuchRun { n: 2, .. })));
}

// [§9] [B4]
#[tokio::test]
async fn damaged_evidence_counts_as_absent() {
    let fleet = Fleet::warm(quick()).await;
    let mac = Machine::join(&fleet, "mac").await;
    let job = fleet.submit(IN_REPO).await;
    let grip = mac.build(&fleet, job).await;
    fleet.coordinator.keep_evidence(&mac.who, job, &shown(grip, "+first\n")).await.unwrap();
    mac.fail(&fleet, grip, domain::FailureReason::Crash).await.unwrap();

    for spoilt in [&b""[..], b"{\"leaseEpoch\":1,\"diff\":\"+fi", &[0; 64]] {
        fleet.builder.logs.keep_evidence(job, grip.epoch, spoilt).await.unwrap();
        let told = fleet.coordinator.evidence(&fleet.admin, job, 1).await.unwrap();

        assert_eq!((told.diff, told.commits, told.ending), (None, vec![], None));
        assert_eq!(told.outcome, Some(RunOutcome::Failed(domain::FailureReason::Crash)));
    }
}

// [I1] [B4] [row 31]
#[tokio::test]
async fn only_the_holder_of_a_run_adds_evidence() {
    let fleet = Fleet::warm(quick()).await;
    let mac = Machine::join(&fleet, "mac").await;
    let job = fleet.submit(IN_REPO).await;
    let old = mac.build(&fleet, job).await;
    mac.release(&fleet, old).await.unwrap();
    let grip = mac.build(&fleet, job).await;
    let linux = Machine::join(&fleet, "linux").await;

    let stale = fleet.coordinator.keep_evidence(&mac.who, job, &shown(old, "+stale\n")).await;
    let foreign = fleet.coordinator.keep_evidence(&linux.who, job, &shown(grip, "+foreign\n")).await;

    for refused in [stale, foreign] {
        assert!(matches!(refused, Err(Error::Refused(Refusal::StaleEpoch { .. }))));
    }
    assert_eq!(fleet.coordinator.evidence(&fleet.admin, job, 2).await.unwrap().diff, None);
}
