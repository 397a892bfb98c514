//! Usage limits belong to credentials: a job that hits one waits for the reset or goes to another credential, and loses
//! nothing [B1][B9].

use std::time::Duration;

use coordinator::{Error, QuotaWindowPolicy};
use domain::{
    Clock as _, EngineHealth, EngineName, EventKind, JobFilter, Mode, Refusal, RunInsights, RunOutcome, StageName,
    Timestamp,
};
use protocol::{CredentialView, QuotaReport, ResumeCredential};

use super::{lasting, quick};
use crate::fleet::{Fleet, PLAIN, TestFleetBuilder, submit};
use crate::machine::{Grip, Machine, Offers, checkpoint, sha};

const HOUR: Duration = Duration::from_hours(1);

fn claude() -> EngineName {
    "claude".parse().unwrap()
}

/// An engine with this credential.
fn by(engine: &str, credential: &str) -> EngineHealth {
    let named = EngineHealth::named(engine.parse().unwrap());
    EngineHealth { credential: Some(credential.to_owned()), signed_in: Some(true), ..named }
}

/// A machine with these engines and credentials.
async fn machine(fleet: &Fleet, name: &str, engines: Vec<EngineHealth>) -> Machine {
    let tokens = engines.iter().map(|health| format!("engine:{}", health.name).parse().unwrap());
    let capabilities = tokens.chain(["os:linux".parse().unwrap()]).collect();
    Machine::join_with(fleet, name, Offers { capabilities, engines, ..Offers::default() }).await
}

/// Without jitter, so that times are exact.
fn exact(builder: TestFleetBuilder) -> TestFleetBuilder {
    builder.with(|settings| settings.windows.spread = Duration::ZERO)
}

fn used_up(grip: Grip, credential: &str, resets_at: Option<Timestamp>) -> QuotaReport {
    QuotaReport {
        lease_epoch: grip.epoch,
        engine: claude(),
        credential: credential.to_owned(),
        window: Some("five_hour".to_owned()),
        resets_at,
        exhausted: false,
        message: None,
        checkpoint: None,
        insights: RunInsights { cost_usd: Some(0.5), ..RunInsights::default() },
    }
}

async fn runs_into_its_window(fleet: &Fleet, mac: &Machine, job: domain::JobId, credential: &str) -> Timestamp {
    let grip = mac.take(fleet, job).await;
    mac.start_by(fleet, grip, "claude").await.unwrap();
    let resets_at = fleet.builder.clock.now().after(HOUR);
    mac.quota(fleet, used_up(grip, credential, Some(resets_at)), job).await.unwrap();
    resets_at
}

async fn summary(fleet: &Fleet, job: domain::JobId) -> String {
    fleet.coordinator.explain(&fleet.admin, job).await.unwrap().summary
}

// [J5] [B1]
#[tokio::test]
async fn a_job_waits_for_the_quota_reset_without_losing_attempts() {
    let fleet = Fleet::warm(exact(lasting())).await;
    let mac = machine(&fleet, "mac", vec![by("claude", "login-1")]).await;
    let job = fleet.submit(PLAIN).await;

    let grip = mac.take(&fleet, job).await;
    mac.start_by(&fleet, grip, "claude").await.unwrap();
    let resets_at = fleet.builder.clock.now().after(HOUR);
    let saved = checkpoint(grip, &sha(7));
    let report = QuotaReport { checkpoint: Some(saved.clone()), ..used_up(grip, "login-1", Some(resets_at)) };
    let answer = mac.quota(&fleet, report, job).await.unwrap();

    assert_eq!((answer.stage, answer.until), (StageName::Queued, Some(resets_at)));
    let view = fleet.job(job).await;
    assert_eq!((view.attempts, view.lost_leases, view.not_before, view.checkpoint), (0, 0, None, Some(saved)));
    assert_eq!(fleet.coordinator.factory_view(&fleet.admin, &mac.id).unwrap().health, 1.0);
    let run = fleet.coordinator.runs(&fleet.admin, job, 0, 1_000).await.unwrap().items.remove(0);
    assert_eq!((run.outcome, run.insights.cost_usd), (Some(RunOutcome::QuotaWindow), Some(0.5)));
    let at = resets_at.to_the_minute();
    assert_eq!(summary(&fleet, job).await, format!("waiting for claude/five_hour to reset at {at}"));
    assert_eq!(fleet.dispatch().await, 0);

    fleet.pass(HOUR - Duration::from_millis(1), &[&mac]).await;
    assert_eq!(fleet.dispatch().await, 0);
    fleet.pass(Duration::from_millis(1), &[&mac]).await;
    assert_eq!(fleet.dispatch().await, 1);
    mac.try_take(&fleet, job).await.unwrap();
}

// [B1]
#[tokio::test]
async fn a_wake_up_alone_resumes_work_at_the_reset() {
    let fleet = Fleet::warm(exact(quick())).await;
    let mac = machine(&fleet, "mac", vec![by("claude", "login-1")]).await;
    let job = fleet.submit(PLAIN).await;
    // Soon enough for the machine not to count as missing.
    let grip = mac.take(&fleet, job).await;
    mac.start_by(&fleet, grip, "claude").await.unwrap();
    let resets_at = fleet.builder.clock.now().after(Duration::from_secs(20));
    mac.quota(&fleet, used_up(grip, "login-1", Some(resets_at)), job).await.unwrap();
    let mut inbox = mac.open_inbox(&fleet, 4).await;
    let mut tasks = tokio::task::JoinSet::new();
    let coordinator = std::sync::Arc::clone(&fleet.coordinator);
    tasks.spawn(async move { coordinator.run().await });
    crate::idle::settle().await;

    fleet.builder.clock.advance(Duration::from_secs(21));
    let offer = tokio::time::timeout(Duration::from_secs(10), inbox.next()).await.unwrap();

    assert!(matches!(offer, Some(protocol::InboxEvent::Dispatch(message)) if message.job_id == job));
    fleet.coordinator.stop();
    tasks.join_all().await;
}

// [S2] [B1]
#[tokio::test]
async fn another_credential_or_engine_takes_the_job_at_once() {
    let fleet = Fleet::warm(quick()).await;
    let mac = machine(&fleet, "mac", vec![by("claude", "login-1")]).await;
    let job = fleet.submit(PLAIN).await;
    runs_into_its_window(&fleet, &mac, job, "login-1").await;

    let twin = machine(&fleet, "twin", vec![by("claude", "login-1")]).await;
    assert_eq!(fleet.dispatch().await, 0, "a machine with the same login cannot go on either");
    let other = machine(&fleet, "other", vec![by("claude", "login-2")]).await;
    other.take(&fleet, job).await;

    let both = machine(&fleet, "both", vec![by("claude", "login-1"), by("codex", "login-3")]).await;
    let next = fleet.submit("---\ntitle: By either\nengines: [claude, codex]\n---\n").await;
    let pinned = protocol::ActionRequest { factory_id: Some(both.id.clone()), ..Default::default() };
    fleet.coordinator.act(&fleet.admin, next, protocol::Action::Pin, pinned).await.unwrap();
    fleet.dispatch().await;
    let claim = both.claim(&fleet, next, fleet.job(next).await.dispatch_seq);
    let accepted = both.accept(&fleet, &claim).await.unwrap();
    assert_eq!(accepted.assignment.engine, Some("codex".parse().unwrap()));
    assert_eq!(accepted.assignment.engines(), vec!["codex".parse().unwrap(), claude()]);
    drop(twin);
}

// [S2] [B1]
#[tokio::test]
async fn an_engine_pauses_when_both_credentials_are_exhausted() {
    let fleet = Fleet::warm(exact(quick())).await;
    let mac = machine(&fleet, "mac", vec![by("claude", "login-1"), by("claude", "login-2")]).await;
    let job = fleet.submit(PLAIN).await;

    let first = runs_into_its_window(&fleet, &mac, job, "login-1").await;
    fleet.pass(HOUR / 2, &[&mac]).await;
    runs_into_its_window(&fleet, &mac, job, "login-2").await;

    assert_eq!(fleet.dispatch().await, 0);
    let at = first.to_the_minute();
    assert_eq!(summary(&fleet, job).await, format!("waiting for claude/five_hour to reset at {at}"));
    let listed: Vec<String> = credentials(&fleet).into_iter().map(|view| view.credential).collect();
    assert_eq!(listed, vec!["login-1", "login-2"]);
}

#[tokio::test]
async fn an_unnamed_quota_report_is_about_a_usable_credential() {
    let fleet = Fleet::warm(quick()).await;
    let mac = machine(&fleet, "mac", vec![by("claude", "login-1"), by("claude", "login-2")]).await;
    let job = fleet.submit(PLAIN).await;

    runs_into_its_window(&fleet, &mac, job, "").await;
    runs_into_its_window(&fleet, &mac, job, "").await;

    assert_eq!(fleet.dispatch().await, 0);
    let listed: Vec<String> = credentials(&fleet).into_iter().map(|view| view.credential).collect();
    assert_eq!(listed, vec!["login-1", "login-2"]);
}

fn credentials(fleet: &Fleet) -> Vec<CredentialView> {
    fleet.coordinator.credentials(&fleet.admin).unwrap().items
}

// [B1]
#[tokio::test]
async fn an_unnamed_credential_pauses_on_its_factory_only() {
    let fleet = Fleet::warm(quick()).await;
    let mac = machine(&fleet, "mac", vec![EngineHealth::named(claude())]).await;
    let job = fleet.submit(PLAIN).await;
    // A factory cannot exhaust a credential that its heartbeats do not name.
    runs_into_its_window(&fleet, &mac, job, "login-of-another-factory").await;

    assert_eq!(credentials(&fleet)[0].credential, "mac/claude");
    let linux = machine(&fleet, "linux", vec![EngineHealth::named(claude())]).await;
    linux.take(&fleet, job).await;
}

// [§9] [B1]
#[tokio::test]
async fn a_quota_window_survives_a_restart() {
    let fleet = Fleet::warm(exact(lasting())).await;
    let mac = machine(&fleet, "mac", vec![by("claude", "login-1")]).await;
    let job = fleet.submit(PLAIN).await;
    runs_into_its_window(&fleet, &mac, job, "login-1").await;

    let fleet = fleet.restarted().await;
    fleet.warm_up();
    mac.renew(&fleet).await;

    assert_eq!(fleet.dispatch().await, 0);
    assert!(summary(&fleet, job).await.starts_with("waiting for claude/five_hour to reset at"));
    fleet.pass(HOUR, &[&mac]).await;
    mac.take(&fleet, job).await;
}

// [B1] [row 7]
#[tokio::test]
async fn a_repeated_quota_report_counts_once() {
    let fleet = Fleet::warm(exact(lasting())).await;
    let mac = machine(&fleet, "mac", vec![by("claude", "login-1")]).await;
    let job = fleet.submit(PLAIN).await;
    let grip = mac.take(&fleet, job).await;
    mac.start_by(&fleet, grip, "claude").await.unwrap();
    let report = used_up(grip, "login-1", None);
    fleet.store().set(|faults| faults.unwritable = [job].into());
    let failed = mac.quota(&fleet, report.clone(), job).await;
    let window = credentials(&fleet);
    fleet.store().heal();

    let fleet = fleet.restarted().await;
    mac.quota(&fleet, report.clone(), job).await.unwrap();
    let again = mac.quota(&fleet, report, job).await;

    assert!(matches!(failed, Err(Error::Store(_))));
    assert!(matches!(again, Err(Error::Refused(Refusal::StaleEpoch { .. }))));
    assert_eq!((window.len(), credentials(&fleet)), (1, window), "the pause does not grow by a repeated report");
    assert_eq!((fleet.stage(job).await, fleet.count(job, EventKind::QuotaHit).await), (StageName::Queued, 1));
}

// [I1] [row 31]
#[tokio::test]
async fn a_quota_report_of_a_stale_holder_is_fenced() {
    let fleet = Fleet::warm(quick()).await;
    let mac = machine(&fleet, "mac", vec![by("claude", "login-1")]).await;
    let other = machine(&fleet, "other", vec![by("claude", "login-1")]).await;
    let job = fleet.submit(PLAIN).await;
    let old = mac.take(&fleet, job).await;
    mac.start_by(&fleet, old, "claude").await.unwrap();
    mac.release(&fleet, old).await.unwrap();
    let before = fleet.job(job).await;

    let stale = mac.quota(&fleet, used_up(old, "login-1", None), job).await;
    fleet.dispatch().await;
    let target = fleet.job(job).await.target_factory_id.unwrap();
    let (holder, thief) = if target == mac.id { (&mac, &other) } else { (&other, &mac) };
    let grip = holder.try_take(&fleet, job).await.unwrap();
    holder.start_by(&fleet, grip, "claude").await.unwrap();
    let foreign = thief.quota(&fleet, used_up(grip, "login-1", None), job).await;

    assert!(matches!(stale, Err(Error::Refused(Refusal::StaleEpoch { .. }))));
    assert!(matches!(foreign, Err(Error::Refused(Refusal::NotHolder { .. }))));
    assert_eq!(credentials(&fleet), vec![]);
    assert_eq!((before.attempts, fleet.job(job).await.stage), (0, StageName::Building));
}

// [B1]
#[tokio::test]
async fn an_unknown_reset_leads_to_growing_pauses() {
    let fleet = Fleet::warm(quick().with(|settings| settings.windows.backoff = Duration::from_mins(4))).await;
    let mac = machine(&fleet, "mac", vec![by("claude", "login-1")]).await;
    let job = fleet.submit(PLAIN).await;
    let mut pauses = Vec::new();
    for _ in 0..3 {
        let grip = mac.take(&fleet, job).await;
        mac.start_by(&fleet, grip, "claude").await.unwrap();
        let answer = mac.quota(&fleet, used_up(grip, "login-1", None), job).await.unwrap();
        let pause = answer.until.unwrap().since(fleet.builder.clock.now());
        pauses.push(pause.as_secs_f64() / 60.0);
        fleet.pass(pause, &[&mac]).await;
    }

    for (pause, least) in pauses.into_iter().zip([4.0, 8.0, 16.0]) {
        assert!((least..=least * 1.2).contains(&pause), "{pause} is not about {least}");
    }
    assert_eq!(fleet.job(job).await.attempts, 0);
}

// [row 10]
#[tokio::test]
async fn clock_changes_neither_prolong_nor_lose_a_quota_window() {
    let fleet = Fleet::warm(exact(quick())).await;
    let mac = machine(&fleet, "mac", vec![by("claude", "login-1")]).await;
    let job = fleet.submit(PLAIN).await;
    *fleet.builder.ahead.lock() = HOUR * 24;
    let grip = mac.take(&fleet, job).await;
    mac.start_by(&fleet, grip, "claude").await.unwrap();
    let resets_at = fleet.coordinator.clock().now().after(HOUR);
    mac.quota(&fleet, used_up(grip, "login-1", Some(resets_at)), job).await.unwrap();

    *fleet.builder.ahead.lock() = Duration::ZERO;
    fleet.pass(HOUR - Duration::from_secs(1), &[&mac]).await;
    assert_eq!(fleet.dispatch().await, 0);
    fleet.pass(Duration::from_secs(1), &[&mac]).await;
    let grip = mac.take(&fleet, job).await;

    // By a clock that is ahead the reset has passed, and the engine reports that it has not.
    mac.start_by(&fleet, grip, "claude").await.unwrap();
    let reset = fleet.coordinator.clock().now().after(HOUR);
    *fleet.builder.ahead.lock() = HOUR * 2;
    let answer = mac.quota(&fleet, used_up(grip, "login-1", Some(reset)), job).await.unwrap();
    assert!(answer.until.unwrap() > fleet.coordinator.clock().now());
    assert_eq!(fleet.dispatch().await, 0);
}

// [§10] [B1]
#[tokio::test]
async fn without_automatic_resume_an_operator_resumes_a_credential() {
    let policy = QuotaWindowPolicy { auto_resume: false, ..QuotaWindowPolicy::default() };
    let fleet = Fleet::warm(quick().with(|settings| settings.windows = policy)).await;
    let mac = machine(&fleet, "mac", vec![by("claude", "login-1")]).await;
    let job = fleet.submit(PLAIN).await;
    runs_into_its_window(&fleet, &mac, job, "login-1").await;

    fleet.pass(HOUR * 3, &[&mac]).await;
    assert_eq!(fleet.dispatch().await, 0);
    let codes = fleet.coordinator.alerts(&fleet.admin).await.unwrap().items.into_iter().map(|alert| alert.code);
    assert_eq!(codes.collect::<Vec<_>>(), vec![protocol::AlertCode::Unplaceable]);
    let told = summary(&fleet, job).await;
    assert!(told.ends_with("an administrator resumes it with `giga credential resume login-1`"), "{told}");
    let others = fleet.coordinator.explain(&mac.who, job).await.unwrap().summary;
    assert!(!others.contains("login-1"), "{others}");
    let request = ResumeCredential { credential: "login-1".to_owned() };
    assert!(matches!(fleet.coordinator.resume_credential(&mac.who, &request).await, Err(Error::Forbidden(_))));
    fleet.coordinator.resume_credential(&fleet.admin, &request).await.unwrap();

    mac.take(&fleet, job).await;
    assert_eq!(credentials(&fleet), vec![]);
}

// [D4] [alert: credential_exhausted]
#[tokio::test]
async fn a_credential_without_credit_alerts_until_resumed() {
    let fleet = Fleet::warm(quick()).await;
    let mac = machine(&fleet, "mac", vec![by("claude", "login-1")]).await;
    let job = fleet.submit(PLAIN).await;
    let grip = mac.take(&fleet, job).await;
    mac.start_by(&fleet, grip, "claude").await.unwrap();
    let codes = async || {
        let alerts = fleet.coordinator.alerts(&fleet.admin).await.unwrap().items;
        alerts.into_iter().map(|alert| alert.code).collect::<Vec<_>>()
    };

    let report = QuotaReport { exhausted: true, window: None, ..used_up(grip, "login-1", None) };
    let answer = mac.quota(&fleet, report, job).await.unwrap();

    assert_eq!((answer.stage, answer.until, fleet.job(job).await.attempts), (StageName::Queued, None, 0));
    fleet.pass(HOUR * 3, &[&mac]).await;
    assert_eq!(fleet.dispatch().await, 0);
    assert!(codes().await.contains(&protocol::AlertCode::CredentialExhausted), "{:?}", codes().await);
    let told = summary(&fleet, job).await;
    assert!(told.starts_with("waiting for credit of claude"), "{told}");
    assert!(credentials(&fleet)[0].exhausted);
    let request = ResumeCredential { credential: "login-1".to_owned() };
    fleet.coordinator.resume_credential(&fleet.admin, &request).await.unwrap();
    assert!(!codes().await.contains(&protocol::AlertCode::CredentialExhausted));
    mac.take(&fleet, job).await;
}

// [D1]
#[tokio::test]
async fn a_claim_skips_exhausted_credentials_and_names_the_reset() {
    let fleet = Fleet::warm(exact(quick())).await;
    fleet.switch(Mode::Gate).await;
    let mac = machine(&fleet, "mac", vec![by("claude", "login-1")]).await;
    let job = fleet.submit(PLAIN).await;
    let request = mac.request(&fleet, 1);
    let grip = mac.ask(&fleet, &request).await.unwrap()[0];
    mac.start_by(&fleet, grip, "claude").await.unwrap();
    let resets_at = fleet.builder.clock.now().after(HOUR);
    mac.quota(&fleet, used_up(grip, "login-1", Some(resets_at)), job).await.unwrap();

    assert_eq!(mac.ask_for(&fleet, 4).await, vec![]);
    let version = || fleet.coordinator.queue_state(&fleet.admin, Vec::new()).unwrap()[0].version;
    let before = version();
    fleet.pass(HOUR, &[&mac]).await;

    assert!(version() > before, "a factory that waits for the version to move has to ask again");
    assert_eq!(mac.ask_for(&fleet, 4).await, vec![job]);
}

// [B1]
#[tokio::test]
async fn old_quota_windows_are_purged() {
    let fleet = Fleet::warm(exact(lasting())).await;
    let mac = machine(&fleet, "mac", vec![by("claude", "login-1")]).await;
    let job = fleet.submit(PLAIN).await;
    runs_into_its_window(&fleet, &mac, job, "login-1").await;

    fleet.pass(HOUR * 3, &[&mac]).await;
    fleet.coordinator.sweep().await;
    let fleet = fleet.restarted().await;

    let request = ResumeCredential { credential: "login-1".to_owned() };
    assert!(matches!(fleet.coordinator.resume_credential(&fleet.admin, &request).await, Err(Error::Invalid { .. })));
}

// [S2] [B9]
#[tokio::test]
async fn only_signed_in_engines_get_work() {
    let fleet = Fleet::warm(quick()).await;
    let signed_out = EngineHealth {
        signed_in: Some(false),
        problem: Some("sign in with `claude login`".to_owned()),
        ..EngineHealth::named(claude())
    };
    let mut mac = machine(&fleet, "mac", vec![signed_out]).await;
    let job = fleet.submit(PLAIN).await;

    assert_eq!(fleet.dispatch().await, 0);
    assert!(summary(&fleet, job).await.ends_with("such as `claude` on `mac`: sign in with `claude login`"));
    mac.offers.engines = vec![by("claude", "login-1")];
    mac.beat(&fleet).await;

    mac.take(&fleet, job).await;
    let shown = fleet.coordinator.factory_view(&fleet.admin, &mac.id).unwrap().engines;
    assert_eq!(shown, vec![by("claude", "login-1")]);
}

// [B9]
#[tokio::test]
async fn a_quota_window_reported_by_a_factory_is_awaited_and_shown() {
    let fleet = Fleet::warm(quick()).await;
    let until = fleet.builder.clock.now().after(HOUR);
    let told = EngineHealth { window_until: Some(until), ..by("claude", "login-1") };
    let mac = machine(&fleet, "mac", vec![told.clone()]).await;
    let job = fleet.submit(PLAIN).await;

    assert_eq!(fleet.dispatch().await, 0);
    assert_eq!(fleet.coordinator.factory_view(&fleet.admin, &mac.id).unwrap().engines, vec![told]);
    fleet.pass(HOUR, &[&mac]).await;

    mac.take(&fleet, job).await;
}

#[tokio::test]
async fn a_resumed_credential_ignores_the_repeated_window() {
    let fleet = Fleet::warm(exact(lasting())).await;
    let mut mac = machine(&fleet, "mac", vec![EngineHealth::named(claude())]).await;
    let job = fleet.submit(PLAIN).await;
    let grip = mac.take(&fleet, job).await;
    mac.start_by(&fleet, grip, "claude").await.unwrap();
    let resets_at = fleet.builder.clock.now().after(HOUR * 20);
    mac.quota(&fleet, used_up(grip, "", Some(resets_at)), job).await.unwrap();
    let reports = |until| vec![EngineHealth { window_until: Some(until), ..EngineHealth::named(claude()) }];
    mac.offers.engines = reports(resets_at);
    mac.beat(&fleet).await;
    let request = ResumeCredential { credential: "mac/claude".to_owned() };

    fleet.coordinator.resume_credential(&fleet.admin, &request).await.unwrap();
    mac.beat(&fleet).await;
    let fleet = fleet.restarted().await;
    mac.beat(&fleet).await;

    let shown = fleet.coordinator.factory_view(&fleet.admin, &mac.id).unwrap().engines.remove(0);
    assert_eq!(shown.window_until, None);
    assert!(matches!(fleet.coordinator.resume_credential(&fleet.admin, &request).await, Err(Error::Invalid { .. })));
    let later = resets_at.after(HOUR);
    mac.offers.engines = reports(later);
    mac.beat(&fleet).await;
    let shown = fleet.coordinator.factory_view(&fleet.admin, &mac.id).unwrap().engines.remove(0);
    assert_eq!(shown.window_until, Some(later), "another hit closes it again");
}

#[tokio::test]
async fn a_credential_paused_by_a_factory_report_can_be_resumed() {
    let fleet = Fleet::warm(quick()).await;
    let until = fleet.builder.clock.now().after(HOUR);
    let closed = EngineHealth { window_until: Some(until), ..EngineHealth::named(claude()) };
    let mac = machine(&fleet, "mac", vec![closed]).await;
    let job = fleet.submit(PLAIN).await;
    assert_eq!(fleet.dispatch().await, 0);
    let shown = fleet.coordinator.factory_view(&fleet.admin, &mac.id).unwrap().engines.remove(0);
    let request = ResumeCredential { credential: shown.credential.unwrap() };

    fleet.coordinator.resume_credential(&fleet.admin, &request).await.unwrap();
    mac.beat(&fleet).await;

    mac.take(&fleet, job).await;
}

// [S2] [B9]
#[tokio::test]
async fn an_engine_without_a_health_report_is_usable() {
    let fleet = Fleet::warm(quick()).await;
    let capabilities = ["engine:claude".parse().unwrap()].into();
    let mac = Machine::join_with(&fleet, "mac", Offers { capabilities, ..Offers::default() }).await;
    let job = fleet.submit("---\ntitle: By claude\nengine: claude\n---\n").await;

    mac.take(&fleet, job).await;
}

// [I6]
#[tokio::test]
async fn an_offer_overtaken_by_a_quota_window_is_not_accepted() {
    let fleet = Fleet::warm(quick()).await;
    let mac = machine(&fleet, "mac", vec![by("claude", "login-1")]).await;
    let (first, second) = (fleet.submit(PLAIN).await, fleet.submit(PLAIN).await);
    fleet.dispatch().await;
    let grip = mac.try_take(&fleet, first).await.unwrap();
    mac.start_by(&fleet, grip, "claude").await.unwrap();
    mac.quota(&fleet, used_up(grip, "login-1", None), first).await.unwrap();

    let overtaken = mac.try_take(&fleet, second).await;

    assert!(matches!(overtaken, Err(Error::NotReady(_))));
    let other = machine(&fleet, "other", vec![by("claude", "login-2")]).await;
    fleet.pass(fleet.coordinator.settings().accept_within * 2, &[&mac, &other]).await;
    other.take(&fleet, second).await;
    assert_eq!(fleet.job(second).await.attempts, 0);
}

// [D4] [alert: engine_paused]
#[tokio::test]
async fn an_outage_is_a_wait_with_a_known_end() {
    let fleet = Fleet::warm(quick()).await;
    let retry_at = fleet.builder.clock.now().after(Duration::from_secs(30));
    let problem = "its provider is not available: the API answered 529";
    let paused =
        EngineHealth { problem: Some(problem.to_owned()), retry_at: Some(retry_at), ..by("claude", "login-1") };
    let mut mac = machine(&fleet, "mac", vec![paused.clone()]).await;
    let submitted = fleet.coordinator.submit(&fleet.admin, submit(PLAIN, None)).await.unwrap();
    let job = submitted.job.id;

    assert_eq!(fleet.dispatch().await, 0);

    let text = format!("waiting for engine `claude` on `mac`, next try at {}: {problem}", retry_at.to_the_second());
    assert_eq!((submitted.forecast.text.as_str(), summary(&fleet, job).await), (text.as_str(), text.clone()));
    assert!(matches!(submitted.forecast.answer, scheduler::ExplainedOutcome::Waits { unplaceable: false, .. }));
    let listed = fleet.coordinator.jobs(&fleet.admin, JobFilter::default(), None, 10).await.unwrap().items.remove(0);
    let waiting = listed.waiting.unwrap();
    assert_eq!((waiting.text, waiting.unplaceable, waiting.retry_at), (text.clone(), false, Some(retry_at)));
    let alert = fleet.coordinator.alerts(&fleet.admin).await.unwrap().items.remove(0);
    assert_eq!((alert.code, alert.retry_at), (protocol::AlertCode::EnginePaused, Some(retry_at)));
    assert!(alert.message.ends_with(&text), "{}", alert.message);
    assert_eq!(fleet.coordinator.factory_view(&fleet.admin, &mac.id).unwrap().engines, vec![paused]);
    mac.offers.engines = vec![by("claude", "login-1")];
    mac.beat(&fleet).await;
    assert_eq!(fleet.coordinator.alerts(&fleet.admin).await.unwrap().items, vec![]);
    mac.take(&fleet, job).await;
}
