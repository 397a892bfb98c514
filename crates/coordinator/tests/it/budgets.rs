//! Money: a product starts what it can pay for, and every dollar is counted once [T2][I10].

use std::time::Duration;

use coordinator::Error;
use domain::{
    Billing, BudgetPeriod, BudgetSettings, Clock as _, DispatchModes, EngineHealth, EngineName, EventKind, JobId, Mode,
    ProductId, RunInsights, RunningWork, StageName,
};
use futures_util::future::join_all;
use protocol::{AlertCode, BudgetView, CompletionReport, Directive, HeldJobProgress, NeedKind, Progress, UsageRequest};

use super::{lasting, quick, retold, share_of};
use crate::fleet::{Fleet, PLAIN};
use crate::machine::{Grip, Machine, Offers, drain};

const DOLLAR: &str = "---\ntitle: Mend the gate\nbudget: { usd: 1 }\n---\nIt squeaks.\n";

fn product() -> ProductId {
    ProductId::default_product()
}

fn ceiling(usd: f64, period: BudgetPeriod) -> BudgetSettings {
    BudgetSettings { ceiling_usd: Some(usd), period, ..BudgetSettings::default() }
}

/// What a test asks of a fleet with money.
trait Treasury {
    async fn enforce(&self, is_enforced: bool);
    async fn budget(&self) -> BudgetView;
    async fn set_ceiling(&self, usd: f64, period: BudgetPeriod);
    async fn set_budget(&self, settings: BudgetSettings);
    async fn codes(&self) -> Vec<AlertCode>;
}

impl Treasury for Fleet {
    async fn enforce(&self, is_enforced: bool) {
        let modes = DispatchModes { budgets: Some(is_enforced), ..DispatchModes::default() };
        self.coordinator.put_flags(&self.admin, modes, None).await.unwrap();
    }

    async fn budget(&self) -> BudgetView {
        self.coordinator.budget(&self.admin, &product()).await.unwrap()
    }

    async fn set_ceiling(&self, usd: f64, period: BudgetPeriod) {
        self.set_budget(ceiling(usd, period)).await;
    }

    async fn set_budget(&self, settings: BudgetSettings) {
        self.coordinator.put_budget(&self.admin, &product(), settings).await.unwrap();
    }

    async fn codes(&self) -> Vec<AlertCode> {
        let alerts = self.coordinator.alerts(&self.admin).await.unwrap().items;
        alerts.into_iter().map(|alert| alert.code).filter(|code| *code >= AlertCode::BudgetWarning).collect()
    }
}

async fn with_money(usd: f64) -> (Fleet, Machine) {
    let fleet = Fleet::warm(quick().with(|settings| settings.budgets = true)).await;
    let machine = Machine::join_with(&fleet, "mac", Offers { seats: 100, ..Offers::default() }).await;
    fleet.coordinator.tick().await;
    fleet.set_ceiling(usd, BudgetPeriod::Day).await;
    (fleet, machine)
}

/// The run completes, and has cost this much.
async fn complete(fleet: &Fleet, machine: &Machine, grip: Grip, usd: f64) {
    let insights = RunInsights { cost_usd: Some(usd), ..RunInsights::default() };
    let request = CompletionReport { lease_epoch: grip.epoch, insights, ..CompletionReport::default() };
    fleet.coordinator.complete(&machine.who, grip.job, &request).await.unwrap();
    machine.let_go(grip);
}

fn usage(grip: Grip, id: Option<&str>, usd: f64) -> UsageRequest {
    let usage_id = id.map(str::to_owned);
    UsageRequest { lease_epoch: grip.epoch, usage_id, cost_usd: Some(usd), tokens_in: None, tokens_out: None }
}

async fn spend_so_far(fleet: &Fleet, machine: &Machine, grip: Grip, usd: f64) {
    let held = protocol::HeldJob { job_id: grip.job, lease_epoch: grip.epoch };
    let progress = Some(Progress { cost_usd: Some(usd), ..Progress::default() });
    machine.renew_showing(fleet, vec![HeldJobProgress { held, progress }]).await;
}

async fn holders(fleet: &Fleet, jobs: &[JobId]) -> usize {
    let mut held = 0;
    for job in jobs {
        held += usize::from(fleet.stage(*job).await == StageName::Assigned);
    }
    held
}

/// Offers of a hundred jobs that were made before the ceiling was in force.
async fn offered_before_the_ceiling() -> (Fleet, Machine, Vec<JobId>) {
    let fleet = Fleet::warm(lasting()).await;
    let mac = Machine::join_with(&fleet, "mac", Offers { seats: 100, ..Offers::default() }).await;
    fleet.coordinator.tick().await;
    let mut jobs = Vec::new();
    for _ in 0..100 {
        jobs.push(fleet.submit(DOLLAR).await);
    }
    fleet.dispatch().await;
    fleet.set_ceiling(10.0, BudgetPeriod::Day).await;
    fleet.enforce(true).await;
    (fleet, mac, jobs)
}

/// Dispatches and accepts until nothing more starts.
async fn settle(fleet: &Fleet, mac: &Machine, jobs: &[JobId]) {
    for _ in 0..4 {
        fleet.coordinator.sweep().await;
        fleet.dispatch().await;
        for job in jobs {
            let view = fleet.job(*job).await;
            if view.stage == StageName::Queued {
                let _ = mac.try_take(fleet, *job).await;
            }
        }
    }
}

// [row 17] [T2] [I10] [I6]
#[tokio::test]
async fn row_17_money_for_ten_starts_ten_of_a_hundred() {
    let (fleet, mac, jobs) = offered_before_the_ceiling().await;
    fleet.store().set(|faults| faults.yields_max = 3);

    let outcomes = join_all(jobs.iter().map(|job| mac.try_take(&fleet, *job))).await;

    fleet.store().heal();
    let granted = outcomes.iter().filter(|outcome| outcome.is_ok()).count();
    assert!(granted <= 10, "{granted} of 100 were granted");
    let refused = outcomes.iter().filter(|outcome| matches!(outcome, Err(Error::OutOfMoney(_)))).count();
    assert_eq!(refused, 100 - granted, "{outcomes:?}");
    settle(&fleet, &mac, &jobs).await;
    assert_eq!(holders(&fleet, &jobs).await, 10);
    let waiting = fleet.job(*jobs.last().unwrap()).await;
    assert_eq!((waiting.attempts, waiting.waiting.unwrap().code.as_str()), (0, "waits_for_money"));
    assert_eq!(fleet.budget().await.reserved_usd, 10.0);
}

// [row 17]
#[tokio::test]
async fn row_17_money_is_neither_lost_nor_doubled_by_crashes() {
    let (rounds, mut cut) = (retold(10), 0.0);
    for round in 0..rounds {
        let (fleet, mac, jobs) = offered_before_the_ceiling().await;
        fleet.store().set(|faults| {
            faults.yields_max = 2;
            faults.answers_lost = 0.1;
            faults.commits_lost = 0.1;
        });

        // Each accept ends at a random moment, between any two of its writes.
        let accepts = jobs.iter().map(|job| {
            let turns = fleet.any(60);
            let accept = mac.try_take(&fleet, *job);
            async move {
                tokio::select! {
                    biased;
                    _ = accept => {}
                    () = async { for _ in 0..turns { tokio::task::yield_now().await; } } => {}
                }
            }
        });
        join_all(accepts).await;
        fleet.store().heal();
        let fleet = fleet.restarted().await;
        let held = holders(&fleet, &jobs).await;
        assert!(held <= 10, "round {round}: {held} holders");
        cut += fleet.budget().await.reserved_usd - held as f64;
        fleet.warm_up();
        mac.beat(&fleet).await;
        fleet.coordinator.sweep().await;
        let held = holders(&fleet, &jobs).await;
        assert!(held <= 10, "round {round}: {held} holders");

        // What a crashed accept reserved is free after a while.
        let leases: Vec<_> = jobs.clone();
        for _ in 0..3 {
            fleet.pass(Duration::from_secs(10), &[&mac]).await;
            fleet.coordinator.sweep().await;
        }
        settle(&fleet, &mac, &leases).await;
        assert_eq!(fleet.budget().await.reserved_usd, 10.0, "round {round}");
        let held = holders(&fleet, &jobs).await;
        assert_eq!(held, 10, "round {round}");
    }
    assert!(rounds < 10 || cut > 0.0, "no accept was cut between its reservation and its grant");
}

// [row 17] [D1]
#[tokio::test]
async fn claims_reserve_money_too() {
    let (fleet, mac) = with_money(3.0).await;
    let modes = DispatchModes { mode: Mode::Poll, ..DispatchModes::default() };
    fleet.coordinator.put_flags(&fleet.admin, modes, None).await.unwrap();
    for _ in 0..10 {
        fleet.submit(DOLLAR).await;
    }

    let granted = mac.ask_for(&fleet, 10).await;
    let more = mac.ask_for(&fleet, 10).await;

    assert_eq!((granted.len(), more.len()), (3, 0));
    assert_eq!(fleet.budget().await.reserved_usd, 3.0);
}

// [row 17]
#[tokio::test]
async fn row_17_a_holder_without_a_reservation_gets_it_again() {
    let (fleet, mac) = with_money(10.0).await;
    let job = fleet.submit(DOLLAR).await;
    mac.build(&fleet, job).await;
    fleet.enforce(false).await;
    let unreserved = fleet.submit(DOLLAR).await;
    mac.build(&fleet, unreserved).await;

    fleet.enforce(true).await;

    assert_eq!(fleet.budget().await.reserved_usd, 2.0);
}

// [T2] [B8]
#[tokio::test]
async fn money_that_a_run_does_not_spend_is_free_again() {
    let (fleet, mac) = with_money(2.0).await;
    let mut jobs = Vec::new();
    for _ in 0..3 {
        jobs.push(fleet.submit(DOLLAR).await);
        fleet.builder.clock.advance(Duration::from_secs(1));
    }
    fleet.dispatch().await;
    let (first, second) = (mac.try_take(&fleet, jobs[0]).await.unwrap(), mac.try_take(&fleet, jobs[1]).await.unwrap());
    assert_eq!(fleet.dispatch().await, 0, "the third waits for money");
    let text = fleet.job(jobs[2]).await.waiting.unwrap().text;
    assert!(text.starts_with("waiting for money: product `default` has spent $0.00 of $2.00 per day"), "{text}");
    mac.start(&fleet, first).await.unwrap();
    mac.start(&fleet, second).await.unwrap();

    complete(&fleet, &mac, first, 0.25).await;
    complete(&fleet, &mac, second, 0.5).await;
    assert!(fleet.coordinator.settle_budgets().await);

    assert_eq!(fleet.dispatch().await, 1);
    mac.try_take(&fleet, jobs[2]).await.unwrap();
    let budget = fleet.budget().await;
    assert_eq!((budget.spent_usd, budget.reserved_usd, budget.left_usd), (0.75, 1.0, Some(0.25)));
    assert_eq!((budget.runs, budget.failed_runs, budget.merged), (2, 0, 0));
}

// [T2] [alert: budget_warning]
#[tokio::test]
async fn spend_during_a_run_warns_and_then_pauses() {
    let (fleet, mac) = with_money(10.0).await;
    let job = fleet.submit(DOLLAR).await;
    fleet.builder.clock.advance(Duration::from_secs(1));
    let next = fleet.submit(DOLLAR).await;
    let grip = mac.build(&fleet, job).await;
    assert_eq!(fleet.codes().await, []);

    let (mut raised, mut since) = (Vec::new(), Vec::new());
    for usd in [4.9, 5.0, 5.5, 8.0, 9.5, 10.0] {
        fleet.builder.clock.advance(Duration::from_secs(1));
        spend_so_far(&fleet, &mac, grip, usd).await;
        raised.push(fleet.codes().await);
        let alerts = fleet.coordinator.alerts(&fleet.admin).await.unwrap().items;
        since.extend(alerts.iter().map(|alert| fleet.builder.clock.now().since(alert.since).as_secs()));
    }
    let refused = mac.try_take(&fleet, next).await;
    let needs = fleet.coordinator.needs_me(&fleet.admin, Default::default(), None, 10).await.unwrap().items;
    fleet.set_ceiling(100.0, BudgetPeriod::Day).await;

    use AlertCode::{BudgetPaused as Paused, BudgetWarning as Warning};
    assert_eq!(raised, [vec![], vec![Warning], vec![Warning], vec![Warning], vec![Warning], vec![Paused]]);
    assert_eq!(since, [0, 1, 0, 0, 0], "each level since it was reached");
    assert!(refused.is_err());
    assert_eq!(needs.iter().filter(|need| need.kind == NeedKind::Budget).count(), 1);
    assert_eq!((fleet.codes().await, fleet.stage(job).await), (vec![], StageName::Building));
}

// [T2] [alert: budget_paused]
#[tokio::test]
async fn a_new_day_starts_what_waited_for_money() {
    let (fleet, mac) = with_money(1.0).await;
    let first = fleet.submit(DOLLAR).await;
    fleet.builder.clock.advance(Duration::from_secs(1));
    let next = fleet.submit(DOLLAR).await;
    let grip = mac.build(&fleet, first).await;
    complete(&fleet, &mac, grip, 1.0).await;
    fleet.coordinator.settle_budgets().await;
    assert_eq!((fleet.dispatch().await, fleet.codes().await), (0, vec![AlertCode::BudgetPaused]));

    for _ in 0..25 {
        fleet.pass(Duration::from_secs(3_600), &[&mac]).await;
    }
    fleet.coordinator.tick().await;

    assert_eq!(fleet.codes().await, []);
    fleet.dispatch().await;
    mac.try_take(&fleet, next).await.unwrap();
}

// [row 18] [row 34]
#[tokio::test]
async fn row_18_usage_in_any_order_gives_the_exact_total() {
    for round in 0..share_of(10).max(2) {
        let (fleet, mac) = with_money(100.0).await;
        let other = Machine::join(&fleet, "vm").await;
        let job = fleet.submit(PLAIN).await;
        let lost = mac.build(&fleet, job).await;
        // Its lease is lost, and another run completes.
        mac.fail(&fleet, lost, domain::FailureReason::Crash).await.unwrap();
        fleet.builder.clock.advance(Duration::from_secs(60));
        mac.beat(&fleet).await;
        other.beat(&fleet).await;
        fleet.coordinator.tick().await;
        fleet.dispatch().await;
        let target = fleet.job(job).await.dispatch_seq;
        let claim = mac.claim(&fleet, job, target);
        let (holder, epoch) = match mac.accept(&fleet, &claim).await {
            Ok(accepted) => (&mac, accepted.lease_epoch),
            Err(_) => (&other, other.accept(&fleet, &other.claim(&fleet, job, target)).await.unwrap().lease_epoch),
        };
        let won = Grip { job, epoch };
        holder.start(&fleet, won).await.unwrap();
        complete(&fleet, holder, won, 1.25).await;
        let stage = fleet.stage(job).await;

        // Sums of each meter, several times, in a random order.
        let mut reports = Vec::new();
        for (usd, id) in [(0.1, None), (0.7, None), (0.3, None), (0.2, Some("tests")), (0.05, Some("tests"))] {
            reports.extend([(&mac, usage(lost, id, usd)), (&mac, usage(lost, id, usd))]);
        }
        for usd in [0.5, 1.25, 1.5, 1.0] {
            reports.extend([(holder, usage(won, None, usd)), (holder, usage(won, None, usd))]);
        }
        fleet.shuffle(&mut reports);
        fleet.store().set(|faults| faults.answers_lost = 0.2);
        for (machine, report) in reports {
            while fleet.coordinator.report_usage(&machine.who, job, &report).await.is_err() {}
        }
        fleet.store().heal();
        let foreign = if holder.id == mac.id { &other } else { &mac };
        let forged = fleet.coordinator.report_usage(&foreign.who, job, &usage(won, None, 99.0)).await;

        let budget = fleet.budget().await;
        assert_eq!(budget.spent_usd, 0.7 + 0.2 + 1.5, "round {round}");
        assert_eq!((budget.runs, budget.failed_runs), (2, 1));
        assert_eq!(fleet.stage(job).await, stage);
        assert!(matches!(forged, Err(Error::NoSuchRun { .. })), "{forged:?}");
        // Counted again from the log by another process.
        let fleet = fleet.restarted().await;
        assert_eq!(fleet.budget().await.spent_usd, 0.7 + 0.2 + 1.5);
    }
}

// [row 18]
#[tokio::test]
async fn row_18_usage_replayed_in_parallel_and_across_a_restart_gives_the_exact_total() {
    const JOBS: usize = 10;
    for round in 0..retold(5).max(1) {
        let fleet = Fleet::warm(lasting().with(|settings| settings.budgets = true)).await;
        let mac = Machine::join_with(&fleet, "mac", Offers { seats: 100, ..Offers::default() }).await;
        fleet.coordinator.tick().await;
        fleet.set_ceiling(100.0, BudgetPeriod::Day).await;
        let (mut reports, mut running) = (Vec::new(), Vec::new());
        for at in 0..JOBS {
            let grip = mac.build(&fleet, fleet.submit(PLAIN).await).await;
            if at % 2 == 0 {
                mac.fail(&fleet, grip, domain::FailureReason::Crash).await.unwrap();
            } else {
                running.push(grip);
            }
            // The highest sum of each meter arrives at least once, everything else 0 to 3 times.
            reports.extend([(grip, None, 0.53), (grip, Some("tests"), 0.07)]);
            for (id, usd) in [(None, 0.11), (None, 0.37), (None, 0.53), (Some("tests"), 0.02), (Some("tests"), 0.07)] {
                for _ in 0..fleet.any(4) {
                    reports.push((grip, id, usd));
                }
            }
        }
        fleet.shuffle(&mut reports);
        let (before, after) = reports.split_at(reports.len() / 2);

        replay(&fleet, &mac, before).await;
        let fleet = fleet.restarted().await;
        replay(&fleet, &mac, after).await;
        mac.beat(&fleet).await;
        for grip in running {
            complete(&fleet, &mac, grip, 0.37).await;
        }

        assert_eq!(fleet.budget().await.spent_usd, 6.0, "round {round}");
        let fleet = fleet.restarted().await;
        assert_eq!(fleet.budget().await.spent_usd, 6.0, "round {round}");
    }
}

/// Sends reports all at once, each until it is answered, to a store that loses commits and answers.
async fn replay(fleet: &Fleet, mac: &Machine, reports: &[(Grip, Option<&str>, f64)]) {
    fleet.store().set(|faults| {
        faults.yields_max = 3;
        faults.answers_lost = 0.1;
        faults.commits_lost = 0.1;
    });
    let sent = reports.iter().map(|(grip, id, usd)| async move {
        while fleet.coordinator.report_usage(&mac.who, grip.job, &usage(*grip, *id, *usd)).await.is_err() {}
    });
    join_all(sent).await;
    fleet.store().heal();
}

// [T2]
#[tokio::test]
async fn usage_during_a_run_counts_once_with_its_result() {
    let (fleet, mac) = with_money(100.0).await;
    let job = fleet.submit(PLAIN).await;
    let grip = mac.build(&fleet, job).await;

    for usd in [0.5, 2.0, 1.0] {
        fleet.coordinator.report_usage(&mac.who, job, &usage(grip, None, usd)).await.unwrap();
    }
    spend_so_far(&fleet, &mac, grip, 1.5).await;
    let running = fleet.budget().await;
    complete(&fleet, &mac, grip, 1.5).await;

    assert_eq!((running.spent_usd, running.running_usd), (2.0, 2.0));

    assert_eq!(fleet.budget().await.spent_usd, 2.0, "the highest sum that was reported");
    assert_eq!(fleet.job(job).await.spent.cost_usd, Some(2.0));
}

// [T2] [alert: budget_paused]
#[tokio::test]
async fn usage_that_is_reported_during_a_run_pauses_at_once_and_survives_a_restart() {
    let (fleet, mac) = with_money(2.0).await;
    let grip = mac.build(&fleet, fleet.submit(DOLLAR).await).await;
    let next = fleet.submit(DOLLAR).await;

    fleet.coordinator.report_usage(&mac.who, grip.job, &usage(grip, None, 2.0)).await.unwrap();
    let (codes, budget) = (fleet.codes().await, fleet.budget().await);
    let fleet = fleet.restarted().await;
    fleet.warm_up();
    mac.beat(&fleet).await;
    fleet.coordinator.tick().await;

    assert_eq!((codes, budget.left_usd, budget.reserved_usd), (vec![AlertCode::BudgetPaused], Some(0.0), 0.0));
    assert_eq!((fleet.dispatch().await, fleet.codes().await), (0, vec![AlertCode::BudgetPaused]));
    assert_eq!(fleet.job(next).await.waiting.unwrap().code, "waits_for_money");
    assert_eq!(fleet.budget().await.spent_usd, 2.0);
}

// [I10] [row 17]
#[tokio::test]
async fn a_pause_withdraws_offers_without_an_attempt() {
    let fleet = Fleet::warm(quick()).await;
    let mac = Machine::join(&fleet, "mac").await;
    let job = fleet.submit(PLAIN).await;
    fleet.dispatch().await;

    let paused = fleet.coordinator.pause_product(&fleet.admin, &product(), Some("  too fast ")).await.unwrap();
    let refused = mac.try_take(&fleet, job).await;

    let pause = paused.pause.unwrap();
    assert_eq!((pause.by.as_str(), pause.reason.as_deref()), ("admin", Some("too fast")));
    assert!(matches!(refused, Err(Error::NotReady(_))), "{refused:?}");
    let view = fleet.job(job).await;
    assert_eq!(
        (view.stage, view.attempts, view.waiting.unwrap().code.as_str()),
        (StageName::Queued, 0, "product_paused")
    );
    assert_eq!(fleet.count(job, EventKind::DispatchExpired).await, 1);
    let resumed = fleet.coordinator.resume_product(&fleet.admin, &product()).await.unwrap();
    assert_eq!((resumed.paused, resumed.pause), (false, None));
    mac.take(&fleet, job).await;
}

// [I10] [row 17]
#[tokio::test]
async fn row_17_a_grant_that_raced_a_pause_is_revoked() {
    let fleet = Fleet::warm(quick()).await;
    let mac = Machine::join(&fleet, "mac").await;
    let (old, raced) = (fleet.submit(PLAIN).await, fleet.submit(PLAIN).await);
    mac.build(&fleet, old).await;
    fleet.builder.clock.advance(Duration::from_secs(10));
    mac.renew(&fleet).await;
    fleet.dispatch().await;
    mac.try_take(&fleet, raced).await.unwrap();

    fleet.coordinator.pause_product(&fleet.admin, &product(), None).await.unwrap();
    fleet.coordinator.sweep().await;

    let view = fleet.job(raced).await;
    assert_eq!((view.stage, view.attempts, view.lost_leases), (StageName::Queued, 0, 0));
    assert_eq!(fleet.stage(old).await, StageName::Building, "running jobs finish");
}

// [T2] [B8]
#[tokio::test]
async fn running_jobs_of_a_paused_product_follow_its_setting() {
    for running in [RunningWork::Finish, RunningWork::Release, RunningWork::Stop] {
        let fleet = Fleet::warm(quick()).await;
        let mac = Machine::join(&fleet, "mac").await;
        fleet.set_budget(BudgetSettings { running, ..BudgetSettings::default() }).await;
        let mut inbox = mac.open_inbox(&fleet, 4).await;
        let job = fleet.submit(PLAIN).await;
        let grip = mac.build(&fleet, job).await;
        fleet.builder.clock.advance(Duration::from_secs(10));
        mac.renew(&fleet).await;

        fleet.coordinator.pause_product(&fleet.admin, &product(), Some("stop")).await.unwrap();

        let asked = Directive::Preempt { job_id: job, lease_epoch: grip.epoch };
        let (_, directives) = drain(&mut inbox).await;
        let expected = match running {
            RunningWork::Finish => (StageName::Building, vec![]),
            RunningWork::Release => (StageName::Building, vec![asked]),
            RunningWork::Stop => (StageName::Queued, vec![]),
        };
        assert_eq!((fleet.stage(job).await, directives), expected, "{running:?}");
        if running == RunningWork::Release {
            // The factory does not follow.
            for _ in 0..5 {
                fleet.pass(Duration::from_secs(30), &[&mac]).await;
                fleet.coordinator.sweep().await;
            }
            assert_eq!(fleet.stage(job).await, StageName::Queued);
            assert_eq!(fleet.job(job).await.attempts, 0);
        }
    }
}

// [T2]
#[tokio::test]
async fn a_subscription_is_counted_apart_and_reserves_nothing() {
    let fleet = Fleet::warm(quick().with(|settings| settings.budgets = true)).await;
    let covered = EngineHealth { billing: Some(Billing::Subscription), ..EngineHealth::named(EngineName::command()) };
    let mac = Machine::join_with(&fleet, "mac", Offers { engines: vec![covered], ..Offers::default() }).await;
    fleet.coordinator.tick().await;
    fleet.set_ceiling(1.0, BudgetPeriod::Month).await;
    let jobs = [fleet.submit(DOLLAR).await, fleet.submit(DOLLAR).await];
    fleet.dispatch().await;

    for job in jobs {
        let grip = mac.try_take(&fleet, job).await.unwrap();
        mac.start(&fleet, grip).await.unwrap();
        spend_so_far(&fleet, &mac, grip, 2.0).await;
        complete(&fleet, &mac, grip, 3.0).await;
    }

    let budget = fleet.budget().await;
    assert_eq!((budget.spent_usd, budget.subscription_usd, budget.left_usd), (0.0, 6.0, Some(1.0)));
    assert_eq!(fleet.codes().await, []);
}

// [T2]
#[tokio::test]
async fn a_budget_without_ceiling_or_spend_has_plain_figures() {
    let fleet = Fleet::warm(quick()).await;

    let budget = fleet.budget().await;
    let chart = fleet.coordinator.burn_down(&fleet.admin, &product(), Some(BudgetPeriod::Total)).await.unwrap();

    assert_eq!((budget.spent_usd, budget.ceiling_usd, budget.used_percent), (0.0, None, None));
    assert_eq!((budget.cost_per_merged_usd, budget.projection.reached_at), (None, None));
    assert_eq!((chart.points.len(), chart.points[0].spent_usd, chart.projection.usd_per_hour), (1, 0.0, 0.0));
}

// [T2] [I12]
#[tokio::test]
async fn only_the_right_people_change_budgets() {
    let fleet = Fleet::warm(quick()).await;
    let who = async |grant| {
        let request = protocol::CreateTokenRequest {
            name: "ann".to_owned(),
            grant,
            ttl_seconds: None,
            owner: None,
            forge_login: None,
        };
        let token = fleet.coordinator.create_token(&fleet.admin, request).await.unwrap().secret;
        fleet.coordinator.authenticate(&token).unwrap()
    };
    let viewer = who(domain::TokenScope::Viewer { products: [product()].into() }).await;
    let operator = who(domain::TokenScope::Operator { products: [product()].into() }).await;
    let foreign = who(domain::TokenScope::Operator { products: ["other".parse().unwrap()].into() }).await;

    let put = fleet.coordinator.put_budget(&operator, &product(), ceiling(1.0, BudgetPeriod::Day)).await;
    let viewed = fleet.coordinator.pause_product(&viewer, &product(), None).await;
    let paused = fleet.coordinator.pause_product(&operator, &product(), None).await;
    let unseen = fleet.coordinator.budget(&foreign, &product()).await;
    let resumed = fleet.coordinator.resume_product(&foreign, &product()).await;

    assert!(matches!(put, Err(Error::Forbidden(_))), "{put:?}");
    assert!(matches!(viewed, Err(Error::Forbidden(_))), "{viewed:?}");
    assert!(paused.unwrap().paused);
    assert!(matches!(unseen, Err(Error::UnknownProduct { .. })), "{unseen:?}");
    assert!(matches!(resumed, Err(Error::UnknownProduct { .. })), "{resumed:?}");
}
