//! Reasons why a job waits.

use std::time::Duration;

use domain::{Pause, Pool, Product, UnavailableRepo, UsageWindow};
use scheduler::{EngineUnavailable, FactoryState, OfferPause, PoolState, Pools, Presence, Seat, Unplaced, WaitingJob};

use crate::golden;
use crate::scenario::{NOW, Scenario, ago, factory, id, job, name, with_shape};

fn why(scenario: &Scenario) -> Unplaced {
    let plan = scenario.plan();
    assert_eq!(plan.placements, []);
    plan.unplaced.into_iter().next().expect("a job is left").why
}

fn alone(change: impl FnOnce(&mut FactoryState), waiting: WaitingJob) -> Scenario {
    let mut one = factory("mac-1", &["os:mac", "engine:codex"]);
    change(&mut one);
    Scenario { factories: vec![one], jobs: vec![waiting], ..Scenario::default() }
}

fn on_notes(number: u8) -> WaitingJob {
    with_shape(job(number, &[]), |shape| shape.repo = Some(name("notes")))
}

fn by_claude(number: u8) -> WaitingJob {
    with_shape(job(number, &[]), |shape| shape.engines = vec![name("claude")])
}

fn taken(scenario: Scenario, repo: Option<&str>, engine: Option<&str>) -> Scenario {
    let seat =
        Seat { factory: name("mac-1"), product: name("default"), repo: repo.map(name), engine: engine.map(name) };
    Scenario { seats: vec![(id(99), seat)], ..scenario }
}

fn used_up(minutes: Option<u64>) -> EngineUnavailable {
    let until = minutes.map(|minutes| NOW.after(Duration::from_mins(minutes)));
    EngineUnavailable::Window(UsageWindow {
        engine: name("codex"),
        window: Some("five_hour".to_owned()),
        until,
        exhausted: false,
    })
}

fn silent(is_busy: bool) -> OfferPause {
    OfferPause { problem: "left 3 offers unanswered".to_owned(), is_busy }
}

fn rest(one: &mut FactoryState, rest: EngineUnavailable) {
    one.resting.insert(name("codex"), rest);
}

/// One scenario for each reason, in the order of the enum.
fn every_reason() -> Vec<Scenario> {
    let pinned = |pin: &str| with_shape(job(1, &["has:xcode"]), |shape| shape.pin = Some(name(pin)));
    let reason = Some("checking the provider".to_owned());
    let pause = Some(Pause { by: "ann".to_owned(), at: NOW, reason });
    let paused = Product { paused: true, pause, ..Product::new(name("default")) };
    let mut linux = factory("linux-1", &["os:linux", "has:docker"]);
    linux.factory.cost = 1;
    vec![
        Scenario { jobs: vec![job(1, &[])], ..Scenario::default() },
        alone(|_| {}, job(1, &["has:xcode", "os:mac"])),
        Scenario {
            factories: vec![linux, factory("mac-1", &["os:mac"])],
            jobs: vec![job(1, &["has:docker", "os:mac"])],
            ..Scenario::default()
        },
        alone(|_| {}, by_claude(1)),
        alone(|_| {}, on_notes(1)),
        alone(
            |one| {
                let message = "https://forge.example/notes: repository not found".to_owned();
                let found = UnavailableRepo { message, since: NOW };
                one.factory.unavailable_repos.insert(name("notes"), found);
            },
            on_notes(1),
        ),
        alone(|one| one.products = [name("tracker")].into(), job(1, &[])),
        alone(|one| one.presence = Presence::Stale, job(1, &[])),
        alone(|one| one.factory.draining = true, job(1, &[])),
        alone(|one| one.disk_low = true, job(1, &[])),
        alone(|one| one.unresponsive = Some(silent(false)), job(1, &[])),
        alone(|one| one.unresponsive = Some(silent(true)), job(1, &[])),
        alone(|one| rest(one, used_up(Some(300))), job(1, &[])),
        alone(|one| rest(one, used_up(None)), job(1, &[])),
        alone(
            |one| {
                let problem = "its provider is not available: the API answered 529".to_owned();
                rest(one, EngineUnavailable::Paused { until: NOW.after(Duration::from_secs(30)), problem });
            },
            job(1, &[]),
        ),
        alone(
            |one| rest(one, EngineUnavailable::Unusable { problem: "sign in with `codex login`".to_owned() }),
            job(1, &[]),
        ),
        alone(|_| {}, pinned("mac-9")),
        alone(|one| one.factory.draining = true, pinned("mac-1")),
        alone(|one| one.presence = Presence::Warming, job(1, &[])),
        Scenario { products: [(paused.id.clone(), paused)].into(), ..alone(|_| {}, job(1, &[])) },
        alone(|one| one.factory.seat_limit = 0, job(1, &[])),
        taken(
            alone(
                |one| {
                    one.factory.capabilities.insert(name("engine:claude"));
                    one.factory.engine_seats.insert(name("claude"), 1);
                },
                by_claude(1),
            ),
            None,
            Some("claude"),
        ),
        taken(
            alone(
                |one| {
                    one.factory.repos.insert(name("notes"));
                    one.factory.repo_seats.insert(name("notes"), 1);
                },
                on_notes(1),
            ),
            Some("notes"),
            None,
        ),
        on_demand(job(1, &[])),
    ]
}

/// A fleet without a factory, and a pool that starts one.
fn on_demand(waiting: WaitingJob) -> Scenario {
    let mut pools = Pools::default();
    let pool = Pool { engines: [name("command")].into(), ..Pool::new(name("linux"), 3) };
    pools.insert(PoolState { starting_since: Some(ago(1)), ..PoolState::new(pool) });
    Scenario { jobs: vec![waiting], pools, ..Scenario::default() }
}

// [I9] [S4] [B2] [B10]
#[test]
fn every_reason_names_the_obstacle_and_the_remedy() {
    let mut text = String::new();
    for scenario in every_reason() {
        let why = why(&scenario);
        let kind = if why.is_unplaceable() { "unplaceable" } else { "waits" };
        text += &format!("{} ({kind})\n    {why}\n", why.code());
    }

    golden::check("reasons.txt", &text);
}

#[test]
fn the_code_equals_the_one_in_json() {
    for scenario in every_reason() {
        let why = why(&scenario);
        let json = serde_json::to_value(&why).unwrap();

        assert_eq!(json["code"], why.code());
        assert_eq!(serde_json::from_value::<Unplaced>(json).unwrap(), why);
    }
}

// [S6]
#[test]
fn a_fleet_wide_repository_limit_is_used_fully() {
    let mut product = Product::new(name("default"));
    product.repo_seats.insert(name("notes"), 1);
    let mut scenario = alone(|one| one.factory.clones = true, on_notes(1));
    scenario.factories.push(factory("mac-2", &[]));
    scenario.factories[1].factory.clones = true;
    scenario.jobs.push(on_notes(2));
    scenario.products.insert(product.id.clone(), product);

    let plan = scenario.plan();

    assert_eq!(plan.placements.len(), 1);
    assert_eq!(plan.unplaced[0].why, Unplaced::RepoBusy { repo: name("notes") });
    assert_eq!((plan.unplaced[0].jobs, plan.unplaced[0].oldest), (1, id(2)));
}

// [S2]
#[test]
fn a_warming_factory_is_not_reported_missing() {
    let scenario = alone(|one| one.presence = Presence::Warming, job(1, &["os:mac"]));

    assert_eq!(why(&scenario), Unplaced::Warming);
}

// [I9] [S2]
#[test]
fn a_job_uses_the_available_engine_or_waits_for_the_first() {
    let mut scenario = alone(|one| rest(one, used_up(Some(300))), job(1, &[]));
    scenario.factories.push(factory("mac-2", &["os:mac", "engine:claude", "engine:codex"]));
    scenario.factories[1].resting.insert(name("codex"), used_up(Some(60)));

    let placed = scenario.plan().placements;
    assert_eq!((&placed[0].factory, &placed[0].engine), (&name("mac-2"), &Some(name("claude"))));

    let unusable = EngineUnavailable::Unusable { problem: "sign in".to_owned() };
    scenario.factories[1].resting.insert(name("claude"), unusable);
    let EngineUnavailable::Window(window) = used_up(Some(60)) else { unreachable!("it is a window") };
    assert_eq!(why(&scenario), Unplaced::UsageWindow { window });
}
