//! How many factories each pool should have [F9].

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use domain::{BudgetPeriod, MoneyWait, Pool, Product};
use scheduler::{
    EngineUnavailable, FactoryState, PoolDemand, PoolState, Pools, Presence, Seat, Unplaced, WaitingJob, demand,
    explain,
};

use crate::golden;
use crate::scenario::{NOW, Scenario, ago, factory, id, job, name, with_shape};

/// A pool of factories with two seats, as [`factory`] makes them.
fn pool(pool: &str, max: u32) -> Pool {
    Pool {
        capabilities: [name("os:linux")].into(),
        engines: [name("command")].into(),
        repos: [name("notes")].into(),
        seats: 2,
        ..Pool::new(name(pool), max)
    }
}

fn pools(declared: impl IntoIterator<Item = Pool>) -> Pools {
    let mut pools = Pools::default();
    declared.into_iter().for_each(|pool| pools.insert(PoolState::new(pool)));
    pools
}

/// A member of a pool, as the pool declares it.
fn member(id: &str, of: &str, change: impl FnOnce(&mut FactoryState)) -> FactoryState {
    let mut member = factory(id, &["os:linux"]);
    member.factory.pool = Some(name(of));
    member.factory.repos.insert(name("notes"));
    change(&mut member);
    member
}

fn live(id: &str) -> FactoryState {
    member(id, "linux", |_| {})
}

fn jobs(count: u8) -> Vec<WaitingJob> {
    (1..=count).map(|number| job(number, &[])).collect()
}

fn seats(factory: &str, count: u8) -> Vec<(domain::JobId, Seat)> {
    let seat = Seat { factory: name(factory), product: name("default"), repo: None, engine: Some(name("command")) };
    let base = factory.bytes().last().unwrap();
    (0..count).map(|number| (id(base.wrapping_mul(7).wrapping_add(100 + number)), seat.clone())).collect()
}

fn linux(jobs: Vec<WaitingJob>) -> Scenario {
    Scenario { jobs, pools: pools([pool("linux", 3)]), ..Scenario::default() }
}

fn with(factories: Vec<FactoryState>, scenario: Scenario) -> Scenario {
    Scenario { factories, ..scenario }
}

fn on_notes(number: u8) -> WaitingJob {
    with_shape(job(number, &[]), |shape| shape.repo = Some(name("notes")))
}

fn window() -> EngineUnavailable {
    EngineUnavailable::Paused { until: NOW.after(Duration::from_mins(5)), problem: "overloaded".to_owned() }
}

fn rows() -> Vec<(&'static str, Scenario)> {
    let paused = Product { paused: true, ..Product::new(name("default")) };
    let limited = Product { repo_seats: [(name("notes"), 0)].into(), ..Product::new(name("default")) };
    let cheap = |max| Pool { cost: 1, ..pool("cheap", max) };
    let dear = |max| Pool { cost: 50, ..pool("dear", max) };
    let docker = || with_shape(job(1, &["has:docker"]), |_| {});
    let in_use = |count| Scenario { seats: seats("linux-1", count), ..linux(jobs(1)) };
    vec![
        ("nothing waits", linux(Vec::new())),
        ("one job, no factory", linux(jobs(1))),
        ("three jobs on seats of two", linux(jobs(3))),
        ("more jobs than the maximum has seats", linux(jobs(9))),
        (
            "a warm factory without work",
            Scenario { pools: pools([Pool { warm: 1, ..pool("linux", 3) }]), ..Scenario::default() },
        ),
        ("a job that no pool fits", linux(vec![docker()])),
        ("a pinned job", linux(vec![with_shape(job(1, &[]), |shape| shape.pin = Some(name("mac")))])),
        ("a paused product", Scenario { products: [(paused.id.clone(), paused)].into(), ..linux(jobs(2)) }),
        (
            "a repository at its limit",
            with(
                vec![live("linux-1")],
                Scenario { products: [(limited.id.clone(), limited)].into(), ..linux(vec![on_notes(1)]) },
            ),
        ),
        ("a free seat on a member", with(vec![live("linux-1")], linux(jobs(2)))),
        ("a member with one seat in use", with(vec![live("linux-1")], in_use(1))),
        ("a member with both seats in use", with(vec![live("linux-1")], in_use(2))),
        (
            "a busy factory outside of the pool",
            with(vec![factory("mac", &["os:linux"])], Scenario { seats: seats("mac", 2), ..linux(jobs(2)) }),
        ),
        ("a free factory outside of the pool", with(vec![factory("mac", &["os:linux"])], linux(jobs(2)))),
        (
            "a factory outside without the capability",
            with(vec![factory("mac", &["os:mac"])], linux(vec![job(1, &["os:linux"])])),
        ),
        (
            "a factory outside without the engine",
            with(
                vec![factory("mac", &["os:linux", "engine:codex"])],
                linux(vec![with_shape(job(1, &[]), |shape| shape.engines = vec![name("command")])]),
            ),
        ),
        (
            "a factory outside without the repository",
            with(vec![factory("mac", &["os:linux"])], linux(vec![on_notes(1)])),
        ),
        (
            "a member that is away",
            with(vec![member("linux-1", "linux", |state| state.presence = Presence::Disconnected)], linux(jobs(1))),
        ),
        (
            "a stale member that holds jobs",
            with(vec![member("linux-1", "linux", |state| state.presence = Presence::Stale)], in_use(2)),
        ),
        ("a draining member", with(vec![member("linux-1", "linux", |state| state.factory.draining = true)], in_use(1))),
        (
            "a member with a full disk",
            with(vec![member("linux-1", "linux", |state| state.disk_low = true)], linux(jobs(1))),
        ),
        (
            "a member whose engine has no seat",
            with(
                vec![member("linux-1", "linux", |state| {
                    state.factory.engine_seats.insert(name("command"), 1);
                })],
                in_use(1),
            ),
        ),
        (
            "a member whose engine is overloaded",
            with(
                vec![member("linux-1", "linux", |state| drop(state.resting.insert(name("command"), window())))],
                linux(jobs(1)),
            ),
        ),
        (
            "a member that lacks what the pool declares",
            with(vec![member("linux-1", "linux", |state| state.factory.repos.clear())], linux(vec![on_notes(1)])),
        ),
        (
            "members that have not reconnected yet",
            with(
                (1..=2)
                    .map(|n| member(&format!("linux-{n}"), "linux", |state| state.presence = Presence::Warming))
                    .collect(),
                linux(Vec::new()),
            ),
        ),
        ("the cheapest pool first", Scenario { pools: pools([dear(3), cheap(3)]), ..linux(jobs(3)) }),
        ("what the cheapest has no room for", Scenario { pools: pools([dear(3), cheap(1)]), ..linux(jobs(5)) }),
        (
            "a pool of another product",
            Scenario { pools: pools([Pool { products: [name("shop")].into(), ..pool("shop", 3) }]), ..linux(jobs(1)) },
        ),
    ]
}

fn line(demand: &PoolDemand) -> String {
    let PoolDemand { pool, waiting, used, present, closed, wanted, misfits, .. } = demand;
    let misfits = if misfits.is_empty() { String::new() } else { format!(", {} misfit", misfits.len()) };
    format!("{pool}: wanted {wanted} (waiting {waiting}, used {used}, present {present}, closed {closed}{misfits})")
}

// [F9]
#[test]
fn each_pool_wants_the_factories_that_would_help() {
    let mut grid = String::new();
    for (title, scenario) in rows() {
        let _ = writeln!(grid, "{title}");
        for demand in demand(&scenario.world().view(), &[]) {
            let _ = writeln!(grid, "    {}", line(&demand));
        }
    }
    golden::check("demand.txt", &grid);
}

// [F9]
#[test]
fn a_product_without_money_starts_no_factory() {
    let scenario = linux(jobs(2));
    let mut world = scenario.world();
    let wait = MoneyWait {
        ceiling_usd: 1.0,
        period: BudgetPeriod::Day,
        spent_usd: 1.0,
        reserved_usd: 0.0,
        needs_usd: None,
        resets_at: None,
        may_be_returned: false,
    };
    world.set_out_of_money([(name("default"), wait)].into());

    assert_eq!(demand(&world.view(), &[])[0].wanted, 0);
}

// [F9]
#[test]
fn a_promotion_that_no_factory_can_take_starts_one() {
    let shape = (*on_notes(1).shape).clone();
    let wanted = |scenario: &Scenario, errands: &[domain::Shape]| demand(&scenario.world().view(), errands)[0].wanted;
    let elsewhere = domain::Shape { repo: Some(name("web")), ..shape.clone() };

    assert_eq!(wanted(&linux(Vec::new()), std::slice::from_ref(&shape)), 1);
    assert_eq!(wanted(&linux(Vec::new()), &[elsewhere]), 0, "no pool has the repository");
}

// [F9] [I9]
#[test]
fn a_job_that_a_pool_starts_a_factory_for_is_not_unplaceable() {
    let why = |scenario: &Scenario| scenario.plan().unplaced.remove(0).why;
    let mut scenario = linux(jobs(1));
    let starting = |since| Unplaced::Starting { pool: name("linux"), since };

    assert_eq!(why(&scenario), starting(NOW));
    assert!(!why(&scenario).is_unplaceable());
    let waiting = job(1, &[]);
    let explained = explain(&scenario.world().view(), waiting.demand());
    assert_eq!(explained.text, why(&scenario).to_string());

    scenario.pools.get_mut(&name("linux")).unwrap().starting_since = Some(ago(4));
    assert_eq!(why(&scenario), starting(ago(4)));

    // Then it has taken too long.
    scenario.pools.get_mut(&name("linux")).unwrap().starting_since = Some(ago(5));
    assert_eq!(why(&scenario), Unplaced::NoFactories);
    assert_eq!(demand(&scenario.world().view(), &[])[0].wanted, 1, "it is tried further");
}

// [F9]
#[test]
fn a_pool_without_room_starts_nothing() {
    let mut full = with(vec![live("linux-1")], Scenario { seats: seats("linux-1", 2), ..linux(jobs(1)) });
    full.pools = pools([pool("linux", 1)]);

    assert_eq!(full.plan().unplaced[0].why, Unplaced::AllBusy);
}

// [F9]
#[test]
fn a_pool_whose_members_do_not_fit_starts_no_more_of_them() {
    let waiting = on_notes(1);
    let mut scenario = linux(vec![waiting.clone()]);
    scenario.pools.get_mut(&name("linux")).unwrap().misfits.insert(Arc::clone(&waiting.shape));

    assert_eq!(scenario.plan().unplaced[0].why, Unplaced::NoFactories);
    assert_eq!(demand(&scenario.world().view(), &[])[0].wanted, 0);
}
