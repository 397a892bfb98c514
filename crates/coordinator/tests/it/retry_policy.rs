//! How the coordinator treats permanent failures, questions and unknown costs.

use std::time::Duration;

use coordinator::Error;
use domain::{FailureReason, Retryability, RunEnd, RunInsights, RunOutcome, StageName, TotalSpend};
use protocol::{
    Action, ActionRequest, Alert, AlertCode, FailureReport, FailureResponse, HeldJob, HeldJobProgress, Progress,
    QuestionReport,
};

use super::{lasting, quick};
use crate::fleet::{Fleet, PLAIN};
use crate::machine::{Grip, Machine};

async fn fail_for_good(fleet: &Fleet, mac: &Machine, grip: Grip) -> Result<FailureResponse, Error> {
    let request = FailureReport {
        lease_epoch: grip.epoch,
        reason: FailureReason::EngineError,
        again: Retryability::Pointless,
        message: Some("it was not allowed to use Bash (make)".to_owned()),
        checkpoint: None,
        insights: RunInsights::default(),
        evidence: Vec::new(),
        no_changes: false,
    };
    fleet.coordinator.fail(&mac.who, grip.job, &request).await
}

// [J5]
#[tokio::test]
async fn a_permanent_failure_is_not_retried() {
    let fleet = Fleet::warm(quick()).await;
    let mac = Machine::join(&fleet, "mac").await;
    let job = fleet.submit(PLAIN).await;
    let grip = mac.build(&fleet, job).await;

    let failed = fail_for_good(&fleet, &mac, grip).await.unwrap();

    assert_eq!(failed, FailureResponse { stage: StageName::Failed, not_before: None });
    let view = fleet.job(job).await;
    assert_eq!((view.reason, view.attempts), (Some(FailureReason::EngineError), 0));
    assert_eq!(view.message.as_deref(), Some("it was not allowed to use Bash (make)"));
    fleet.act(job, Action::Requeue).await.unwrap();
    assert_eq!(fleet.stage(job).await, StageName::Queued);
}

// [J5] [J10] [§10] [B6]
#[tokio::test]
async fn a_question_parks_the_job_and_its_answer_reaches_the_next_run() {
    let fleet = Fleet::warm(quick()).await;
    let mac = Machine::join(&fleet, "mac").await;
    let job = fleet.submit(PLAIN).await;
    let grip = mac.build(&fleet, job).await;
    let insights = RunInsights { cost_usd: Some(0.5), ..RunInsights::default() };
    let question = "Which database?".to_owned();

    let ask = QuestionReport { lease_epoch: grip.epoch, question, checkpoint: None, insights };
    let parked = fleet.coordinator.ask(&mac.who, job, &ask).await.unwrap();

    assert_eq!(parked.stage, StageName::Blocked);
    let view = fleet.job(job).await;
    assert_eq!((view.message.as_deref(), view.attempts, view.reason), (Some("Which database?"), 0, None));
    assert_eq!(view.spent.cost_usd, Some(0.5));
    let runs = fleet.coordinator.runs(&fleet.admin, job, 0, 1_000).await.unwrap();
    assert_eq!(runs.items[0].outcome, Some(RunOutcome::Asked));
    fleet.coordinator.sweep().await;
    assert_eq!(fleet.stage(job).await, StageName::Blocked, "no sweep answers for a person");
    let answer = ActionRequest { message: Some("Postgres.".to_owned()), ..ActionRequest::default() };
    fleet.coordinator.act(&fleet.admin, job, Action::Requeue, answer).await.unwrap();
    fleet.dispatch().await;
    let claim = mac.claim(&fleet, job, fleet.job(job).await.dispatch_seq);
    let told = mac.accept(&fleet, &claim).await.unwrap().assignment.answer;
    assert_eq!(told.as_deref(), Some("Question: Which database?\n\nAnswer: Postgres."));
}

#[tokio::test]
async fn a_requeue_passes_the_operators_message_and_the_failure_on() {
    let fleet = Fleet::warm(quick()).await;
    let mac = Machine::join(&fleet, "mac").await;
    for is_cancelled in [false, true] {
        let job = fleet.submit(PLAIN).await;
        let grip = mac.build(&fleet, job).await;
        match is_cancelled {
            true => drop(fleet.act(job, Action::Cancel).await.unwrap()),
            false => drop(fail_for_good(&fleet, &mac, grip).await.unwrap()),
        }
        assert_eq!(fleet.stage(job).await, StageName::Failed);

        let message = Some("Use the other tool.".to_owned());
        let request = ActionRequest { message: message.clone(), ..ActionRequest::default() };
        fleet.coordinator.act(&fleet.admin, job, Action::Requeue, request).await.unwrap();
        fleet.dispatch().await;

        let claim = mac.claim(&fleet, job, fleet.job(job).await.dispatch_seq);
        let told = mac.accept(&fleet, &claim).await.unwrap().assignment;
        let end = match is_cancelled {
            true => RunEnd::Cancelled { message: None },
            false => RunEnd::EngineFailed { message: "it was not allowed to use Bash (make)".to_owned() },
        };
        assert_eq!((told.message, told.previous_run.map(|previous| previous.end)), (message, Some(end)));
    }
}

// [D4] [alert: jobs_failed]
#[tokio::test]
async fn failed_jobs_are_one_alert_per_product_for_a_day() {
    let fleet = Fleet::warm(quick()).await;
    let mac = Machine::join(&fleet, "mac").await;
    let mut jobs = Vec::new();
    for _ in 0..2 {
        let job = fleet.submit(PLAIN).await;
        let grip = mac.build(&fleet, job).await;
        fail_for_good(&fleet, &mac, grip).await.unwrap();
        fleet.builder.clock.advance(Duration::from_secs(1));
        jobs.push(job);
    }
    let cancelled = fleet.submit(PLAIN).await;
    fleet.coordinator.act(&fleet.admin, cancelled, Action::Cancel, ActionRequest::default()).await.unwrap();
    let alerts = async || {
        let items = fleet.coordinator.alerts(&fleet.admin).await.unwrap().items;
        let failed = items.into_iter().filter(|alert| alert.code == AlertCode::JobsFailed);
        failed.map(|alert| (alert.jobs, alert.job_id, alert.message)).collect::<Vec<_>>()
    };

    let short = jobs[1].short();
    let message = format!(
        "2 jobs of product `default` failed in the last 24 hours, the newest is {short} \"Mend the gate\": read why with \
         `giga job {short}`, requeue it with `giga requeue {short}`"
    );
    assert_eq!(alerts().await, [(Some(2), Some(jobs[1]), message)]);
    fleet.coordinator.act(&fleet.admin, jobs[1], Action::Requeue, ActionRequest::default()).await.unwrap();
    assert_eq!(
        alerts().await.iter().map(|(count, job, _)| (*count, *job)).collect::<Vec<_>>(),
        [(Some(1), Some(jobs[0]))]
    );
    fleet.builder.clock.advance(Duration::from_hours(24));
    assert_eq!(alerts().await, []);
}

// [I9] [B6] [alert: question_waiting]
#[tokio::test]
async fn a_question_is_an_alert_until_it_is_answered() {
    let fleet = Fleet::warm(lasting()).await;
    let mac = Machine::join(&fleet, "mac").await;
    let job = fleet.submit(PLAIN).await;
    let grip = mac.build(&fleet, job).await;
    let question = format!("Which\n\u{1b}[2Jgate? {}", "x".repeat(900));
    let ask = QuestionReport { lease_epoch: grip.epoch, question, checkpoint: None, insights: RunInsights::default() };
    fleet.coordinator.ask(&mac.who, job, &ask).await.unwrap();
    let since = fleet.job(job).await.updated_at;
    fleet.builder.clock.advance(Duration::from_secs(600));

    let fleet = fleet.restarted().await;

    let asked = format!("Which [2Jgate? {}", "x".repeat(200 - 15));
    let short = job.short();
    let message = format!("job {short} \"Mend the gate\" asks: {asked} (answer with `giga answer {short} -m \"…\"`)");
    let alert = Alert {
        code: AlertCode::QuestionWaiting,
        message,
        since,
        job_id: Some(job),
        job_title: Some("Mend the gate".to_owned()),
        factory_id: None,
        product_id: Some(domain::ProductId::default_product()),
        subject: None,
        jobs: None,
        retry_at: None,
    };
    assert_eq!(fleet.coordinator.alerts(&fleet.admin).await.unwrap().items, vec![alert]);
    let nothing = ActionRequest { message: Some(String::new()), ..ActionRequest::default() };
    fleet.coordinator.act(&fleet.admin, job, Action::Requeue, nothing).await.unwrap();
    assert_eq!(fleet.coordinator.alerts(&fleet.admin).await.unwrap().items, vec![]);
    assert_eq!(fleet.job(job).await.message, None, "what was answered is no longer asked");
}

// [J6] [B8] [row 18]
#[tokio::test]
async fn the_reported_cost_of_a_lost_run_counts() {
    let fleet = Fleet::warm(quick()).await;
    let mac = Machine::join(&fleet, "mac").await;
    let ttl = fleet.coordinator.settings().lease_ttl;
    let job = fleet.submit(PLAIN).await;
    let grip = mac.build(&fleet, job).await;
    let progress = Progress { cost_usd: Some(0.25), tokens_in: Some(70), ..Progress::default() };
    let held = HeldJob { job_id: job, lease_epoch: grip.epoch };
    mac.renew_showing(&fleet, vec![HeldJobProgress { held, progress: Some(progress) }]).await;

    fleet.pass(ttl * 2, &[]).await;
    mac.beat(&fleet).await;
    mac.build(&fleet, job).await;
    fleet.act(job, Action::Cancel).await.unwrap();

    let TotalSpend { cost_usd, tokens, runs_without_cost, runs_without_tokens, engine_ms, .. } =
        fleet.job(job).await.spent;
    assert_eq!((cost_usd, tokens), (Some(0.25), Some(70)));
    assert_eq!((runs_without_cost, runs_without_tokens), (1, 1), "the second was never heard of");
    assert!(engine_ms.is_some_and(|ms| ms >= u64::try_from(ttl.as_millis()).unwrap()), "{engine_ms:?}");
}
