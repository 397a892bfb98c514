use serde_json::{Value, json};

use super::*;
use crate::event::{Actor, EventKind};
use crate::ids::{Epoch, EventSeq};
use crate::stage::StageName;

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn noon() -> Timestamp {
    at("2026-11-18T12:00:00.000Z")
}

fn key(n: u8) -> ReservationKey {
    ReservationKey { job: JobId::from_bytes([n; 16]), seq: DispatchSeq(1) }
}

fn budget(ceiling: f64, period: BudgetPeriod) -> ProductBudget {
    let mut budget = ProductBudget::new(ProductId::default_product());
    budget.settings = BudgetSettings { ceiling_usd: Some(ceiling), period, ..BudgetSettings::default() };
    budget
}

fn event(n: u8, kind: EventKind, at: Timestamp, data: Value) -> JobEvent {
    JobEvent {
        job_id: JobId::from_bytes([n; 16]),
        product_id: ProductId::default_product(),
        seq: EventSeq(1),
        at,
        kind,
        stage: StageName::Testing,
        epoch: Epoch(1),
        by: Actor::Coordinator,
        text: String::new(),
        data,
    }
}

fn ended(n: u8, usd: f64, at: Timestamp) -> JobEvent {
    let usage = json!({ "run": 1, "dispatchSeq": 1, "started": true, "costUsd": usd, "engine": "claude" });
    event(n, EventKind::Completed, at, json!({ "usage": usage }))
}

// [T2] [row 17]
#[test]
fn reservations_never_exceed_the_ceiling() {
    let mut budget = budget(10.0, BudgetPeriod::Day);

    let granted = (0..100).filter(|n| budget.reserve(key(*n), Usd::of(1.0), noon()).is_ok()).count();
    let again = budget.reserve(key(3), Usd::of(1.0), noon());
    budget.release(key(4));
    let freed = budget.reserve(key(50), Usd::of(1.0), noon());

    assert_eq!((granted, again, freed), (10, Ok(false), Ok(true)));
    assert_eq!(budget.left(noon()), Some(Usd::ZERO));
}

// [T2]
#[test]
fn a_run_returns_what_it_reserved_and_did_not_spend() {
    let mut budget = budget(10.0, BudgetPeriod::Day);
    budget.reserve(key(1), Usd::of(5.0), noon()).unwrap();

    budget.absorb([ended(1, 1.25, noon())].iter(), Position(7));

    assert_eq!(budget.left(noon()), Some(Usd::of(8.75)));
    assert_eq!((budget.reserved(), budget.spending.position), (Usd::ZERO, Position(7)));
}

// [T2]
#[test]
fn a_new_period_begins_with_nothing_spent() {
    let (last, next) = (at("2026-11-30T23:59:59.000Z"), at("2026-12-01T00:00:00.000Z"));
    for (period, spent) in [(BudgetPeriod::Day, 0.0), (BudgetPeriod::Month, 0.0), (BudgetPeriod::Total, 2.0)] {
        let mut budget = budget(10.0, period);
        budget.absorb([ended(1, 2.0, last)].iter(), Position(1));

        assert_eq!(budget.spent(last), Usd::of(2.0), "{period:?}");
        assert_eq!(budget.spent(next), Usd::of(spent), "{period:?}");
        assert_eq!(period.end(last), (period != BudgetPeriod::Total).then_some(next));
    }
}

// [T2]
#[test]
fn the_total_is_exact_in_any_order() {
    let costs = [0.1, 0.2, 0.3, 0.7, 1e-6, 12_345.678_901];
    let events: Vec<_> = costs.iter().map(|usd| ended(1, *usd, noon())).collect();
    let total = |events: &[JobEvent]| {
        let mut budget = budget(1.0, BudgetPeriod::Total);
        budget.absorb(events.iter(), Position(1));
        budget.spent(noon())
    };

    let forwards = total(&events);
    let backwards = total(&events.iter().rev().cloned().collect::<Vec<_>>());

    assert_eq!((forwards, backwards), (Usd::of(12_346.978_902), forwards));
}

// [T2]
#[test]
fn old_days_are_added_up_and_still_count() {
    let mut budget = budget(1.0, BudgetPeriod::Total);
    let day = Duration::from_hours(24);
    let events: Vec<_> = (0..500_u32).map(|n| ended(1, 1.0, noon().after(day * n))).collect();

    budget.absorb(events.iter(), Position(1));

    let now = noon().after(day * 499);
    assert_eq!(budget.spent(now), Usd::of(500.0));
    assert!(serde_json::to_string(&budget).unwrap().len() < 20_000);
}

// [T2] [B8]
#[test]
fn a_run_that_parks_or_gives_way_is_no_failed_run() {
    let ends = [
        (EventKind::Asked, 0),
        (EventKind::Released, 0),
        (EventKind::Preempted, 0),
        (EventKind::QuotaHit, 0),
        (EventKind::Completed, 0),
        (EventKind::AttemptFailed, 1),
        (EventKind::Reaped, 1),
    ];
    for (kind, failed) in ends {
        let usage = json!({ "run": 1, "dispatchSeq": 1, "started": true, "costUsd": 1.0 });
        let mut budget = budget(5.0, BudgetPeriod::Day);
        budget.absorb([event(1, kind, noon(), json!({ "usage": usage }))].iter(), Position(1));
        let totals = budget.spending.since(None);
        assert_eq!((totals.runs, totals.failed_runs), (1, failed), "{kind:?}");
    }
}

// [T2]
#[test]
fn subscriptions_are_counted_apart() {
    let usage = json!({ "run": 1, "dispatchSeq": 1, "started": true, "costUsd": 3.0, "billing": "subscription" });
    let covered = event(1, EventKind::AttemptFailed, noon(), json!({ "usage": usage }));
    let merged = event(1, EventKind::Shipped, noon(), json!({ "sha": "a" }));
    let mut budget = budget(1.0, BudgetPeriod::Day);

    budget.absorb([covered, merged].iter(), Position(1));

    let totals = budget.spending.since(None);
    assert_eq!((totals.usd, totals.subscription_usd), (Usd::ZERO, Usd::of(3.0)));
    assert_eq!((totals.runs, totals.failed_runs, totals.merged), (1, 1, 1));
}

// [T2]
#[test]
fn a_budget_without_a_ceiling_refuses_nothing() {
    let mut budget = ProductBudget::new(ProductId::default_product());

    let granted = budget.reserve(key(1), Usd::of(1e6), noon());

    assert_eq!((granted, budget.left(noon())), (Ok(true), None));
}

// [T2]
#[test]
fn a_ceiling_of_zero_starts_nothing() {
    let mut budget = budget(0.0, BudgetPeriod::Month);

    let amount = budget.settings.amount_for(None);

    assert!(budget.reserve(key(1), amount, noon()).is_err());
}

// [T2]
#[test]
fn a_projection_is_always_finite() {
    let end = Some(noon().after(Duration::from_hours(12)));
    let hour = Duration::from_hours(1);

    let nothing = project(Usd::ZERO, (Usd::ZERO, Duration::ZERO), None, noon(), None);
    let steady = project(Usd::of(6.0), (Usd::of(6.0), hour * 6), Some(Usd::of(10.0)), noon(), end);
    let over = project(Usd::of(11.0), (Usd::of(1.0), hour), Some(Usd::of(10.0)), noon(), end);
    let huge = project(Usd::of(1e12), (Usd::of(1e12), Duration::ZERO), Some(Usd::of(1e-6)), noon(), end);

    assert_eq!(nothing, SpendProjection { usd_per_hour: 0.0, at_end_usd: None, reached_at: None });
    assert_eq!((steady.usd_per_hour, steady.at_end_usd), (1.0, Some(18.0)));
    assert_eq!(steady.reached_at, Some(noon().after(hour * 4)));
    assert_eq!(over.reached_at, Some(noon()));
    assert!(huge.usd_per_hour.is_finite() && huge.at_end_usd.is_some_and(f64::is_finite));
}

#[test]
fn a_stored_budget_reads_back() {
    let mut budget = budget(10.0, BudgetPeriod::Day);
    budget.reserve(key(1), Usd::of(5.0), noon()).unwrap();
    budget.absorb([ended(2, 1.25, noon())].iter(), Position(7));
    budget.note_pause(Some(("ada", Some("too fast"))), noon());

    let stored = serde_json::to_value(&budget).unwrap();

    assert_eq!(serde_json::from_value::<ProductBudget>(stored).unwrap(), budget);
}
