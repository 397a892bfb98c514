//! Selection among several factories.

use domain::{Product, ProductId, ScoreWeights};
use scheduler::{FactoryState, Ineligible, Presence, Seat, SkippedJob, WaitingJob, claim, errand, explain, skipped};

use crate::scenario::{Scenario, factory, id, job, name, shape_on, with_shape};

/// The factory selected for the only job.
fn goes_to(factories: Vec<FactoryState>, waiting: WaitingJob) -> Option<String> {
    let scenario = Scenario { factories, jobs: vec![waiting], ..Scenario::default() };
    scenario.plan().placements.first().map(|placement| placement.factory.to_string())
}

fn with_repo(mut state: FactoryState, repo: &str) -> FactoryState {
    state.factory.repos.insert(name(repo));
    state
}

// [S2]
#[test]
fn two_spellings_of_a_capability_are_equal() {
    let mac = factory("f1", &["os:darwin"]);

    assert_eq!(goes_to(vec![mac], job(1, &["os:macos"])).as_deref(), Some("f1"));
}

// [S7]
#[test]
fn rare_capabilities_are_kept_for_jobs_that_need_them() {
    let rare = || factory("a", &["os:linux", "gpu:l4"]);
    let plain = || vec![rare(), factory("b", &["os:linux"]), factory("c", &["os:linux"])];

    assert_eq!(goes_to(plain(), job(1, &["os:linux"])).as_deref(), Some("b"));
    assert_eq!(goes_to(plain(), job(1, &["gpu:l4"])).as_deref(), Some("a"));
    assert_eq!(goes_to(vec![rare()], job(1, &["os:linux"])).as_deref(), Some("a"));
}

// [S3]
#[test]
fn a_factory_with_the_repository_is_preferred_to_cloning() {
    let wants = with_shape(job(1, &[]), |shape| shape.repo = Some(name("notes")));
    let mut cloner = factory("a", &[]);
    cloner.factory.clones = true;

    assert_eq!(
        goes_to(vec![cloner.clone(), with_repo(factory("b", &[]), "notes")], wants.clone()).as_deref(),
        Some("b")
    );
    assert_eq!(goes_to(vec![cloner, factory("b", &[])], wants.clone()).as_deref(), Some("a"));
    assert_eq!(goes_to(vec![factory("b", &[])], wants), None);
}

// [I7]
#[test]
fn an_avoided_factory_is_the_last_resort() {
    let wary = || WaitingJob { avoid: Some(name("a")), ..job(1, &[]) };

    assert_eq!(goes_to(vec![factory("a", &[]), factory("b", &[])], wary()).as_deref(), Some("b"));
    assert_eq!(goes_to(vec![factory("a", &[])], wary()).as_deref(), Some("a"));
}

#[test]
fn a_claim_skips_jobs_that_avoid_the_factory() {
    let mut scenario = Scenario { factories: vec![factory("a", &[]), factory("b", &[])], ..Scenario::default() };
    scenario.jobs = vec![WaitingJob { avoid: Some(name("a")), ..job(1, &[]) }, job(2, &[])];
    let world = scenario.world();

    let claimed = |factory: &str| claim(&world.view(), &name(factory), |_| true).map(|placement| placement.job);

    assert_eq!((claimed("a"), claimed("b"), claimed("unknown")), (Some(id(2)), Some(id(1)), None));
}

#[test]
fn an_empty_claim_explains_why() {
    let mut scenario = Scenario { factories: vec![factory("a", &["os:linux"])], ..Scenario::default() };
    scenario.jobs = vec![job(1, &["has:xcode"]), job(2, &["os:linux"]), job(3, &["has:xcode"])];

    let passed = skipped(&scenario.world().view(), &name("a"), |_| true, 10);

    let unfit = vec![Ineligible::Lacks { capability: name("has:xcode") }];
    assert_eq!(passed, vec![SkippedJob { job: id(1), unfit }]);
}

#[test]
fn a_pinned_job_runs_only_on_its_factory() {
    let pinned = with_shape(job(1, &[]), |shape| shape.pin = Some(name("b")));
    let mut busy = factory("b", &[]);
    busy.load = 9.0;

    assert_eq!(goes_to(vec![factory("a", &[]), busy], pinned.clone()).as_deref(), Some("b"));
    assert_eq!(goes_to(vec![factory("a", &[])], pinned), None);
}

// [I12]
#[test]
fn a_pin_tells_nothing_about_factories_of_other_products() {
    let reason = |factories| {
        let pinned = with_shape(job(1, &["has:xcode"]), |shape| shape.pin = Some(name("b")));
        Scenario { factories, jobs: vec![pinned], ..Scenario::default() }.plan().unplaced
    };
    let mut foreign = factory("b", &["os:linux"]);
    foreign.products = [name("other")].into();

    assert_eq!(reason(vec![foreign]), reason(Vec::new()));
}

// [S3]
#[test]
fn jobs_spread_over_idle_factories() {
    let mut scenario =
        Scenario { factories: ["a", "b", "c"].map(|id| factory(id, &[])).to_vec(), ..Scenario::default() };
    scenario.jobs = (0..6).map(|number| job(number, &[])).collect();

    let targets: Vec<String> = scenario.plan().placements.iter().map(|placed| placed.factory.to_string()).collect();

    assert_eq!(targets, ["a", "b", "c", "a", "b", "c"]);
}

#[test]
fn the_second_engine_is_used_when_the_first_has_no_seat() {
    let mut one = factory("a", &["engine:claude", "engine:codex"]);
    one.factory.engine_seats.insert(name("claude"), 1);
    let both = |number| with_shape(job(number, &[]), |shape| shape.engines = vec![name("claude"), name("codex")]);
    let scenario = Scenario { factories: vec![one], jobs: vec![both(1), both(2)], ..Scenario::default() };

    let engines: Vec<_> = scenario.plan().placements.into_iter().map(|placed| placed.engine).collect();

    assert_eq!(engines, [Some(name("claude")), Some(name("codex"))]);
}

#[test]
fn a_vacated_seat_is_reused() {
    let mut scenario = Scenario { factories: vec![factory("a", &[])], jobs: vec![job(1, &[])], ..Scenario::default() };
    scenario.factories[0].factory.seat_limit = 1;
    let seat = Seat { factory: name("a"), product: name("default"), repo: None, engine: None };
    scenario.seats.push((id(9), seat.clone()));
    let mut world = scenario.world();
    assert_eq!(scheduler::plan(&world.view()).placements, []);

    assert_eq!(world.fleet.vacate(&id(9)), Some(seat));

    assert_eq!(scheduler::plan(&world.view()).placements.len(), 1);
    assert_eq!(world.fleet.vacate(&id(9)), None);
}

#[test]
fn an_errand_needs_no_seat_and_prefers_the_repository() {
    let mut holder = with_repo(factory("b", &[]), "notes");
    holder.factory.seat_limit = 0;
    holder.load = 5.0;
    let mut cloner = factory("a", &[]);
    cloner.factory.clones = true;
    let mut gone = with_repo(factory("c", &[]), "notes");
    gone.presence = Presence::Stale;
    let scenario = Scenario { factories: vec![holder, cloner, gone], ..Scenario::default() };
    let world = scenario.world();

    let runs = |avoid: Option<&str>| {
        errand(&world.view(), &shape_on(&name("notes"), &name("default")), avoid.map(name).as_ref())
            .map(|id| id.to_string())
    };

    assert_eq!(runs(None).as_deref(), Some("b"));
    assert_eq!(runs(Some("b")).as_deref(), Some("a"));
}

#[test]
fn saved_work_requires_the_same_repository_identity() {
    let holding = |id: &str, identity: Option<&str>| {
        let mut state = factory(id, &["repo:notes"]);
        state.factory.repo_identities = identity.map(|identity| (name("notes"), name(identity))).into_iter().collect();
        state
    };
    let ours = "github.com/acme/notes";
    let factories = || vec![holding("a", Some("github.com/other/notes")), holding("b", None), holding("c", Some(ours))];
    let saved =
        || with_shape(job(1, &[]), |shape| (shape.repo, shape.identity) = (Some(name("notes")), Some(name(ours))));
    let without_c = || factories().into_iter().take(2).collect::<Vec<_>>();
    let errand_of = |factories| {
        let scenario = Scenario { factories, ..Scenario::default() };
        errand(&scenario.world().view(), &saved().shape, None).map(|id| id.to_string())
    };

    assert_eq!(goes_to(factories(), saved()).as_deref(), Some("c"));
    assert_eq!(goes_to(without_c(), saved()), None);
    assert_eq!(errand_of(factories()).as_deref(), Some("c"));
    assert_eq!(errand_of(without_c()), None);
    // Work that is not saved yet can go to any factory.
    let fresh = with_shape(job(1, &[]), |shape| shape.repo = Some(name("notes")));
    assert_eq!(goes_to(without_c(), fresh).as_deref(), Some("a"));
}

#[test]
fn explain_names_both_repositories() {
    let mut other = factory("a", &["repo:notes"]);
    other.factory.repo_identities = [(name("notes"), name("github.com/other/notes"))].into();
    let scenario = Scenario { factories: vec![other], ..Scenario::default() };
    let ours = "github.com/acme/notes";
    let saved = with_shape(job(1, &[]), |shape| (shape.repo, shape.identity) = (Some(name("notes")), Some(name(ours))));

    let explained = explain(&scenario.world().view(), saved.demand());

    assert_eq!(
        explained.text,
        "the saved work of this job is in github.com/acme/notes, and the `notes` of every eligible factory is \
         `github.com/other/notes`: connect a factory whose `notes` is github.com/acme/notes, or discard the work and start over"
    );
    let unfit: Vec<String> = explained.factories[0].unfit.iter().map(ToString::to_string).collect();
    assert_eq!(
        unfit,
        ["has github.com/other/notes as `notes`, and the saved work of this job is in github.com/acme/notes"]
    );
}

#[test]
fn a_job_without_named_engines_still_needs_one() {
    let mut bare = factory("bare", &["os:linux"]);
    bare.factory.capabilities.remove(&name("engine:command"));
    let scenario = Scenario { factories: vec![bare], ..Scenario::default() };

    let explained = explain(&scenario.world().view(), job(1, &[]).demand());

    assert_eq!(
        explained.text,
        "no eligible factory has an engine: install one and sign in, or configure one under `[factory.engines]` in its \
         giga.toml; `giga doctor` there shows what it finds"
    );
    assert_eq!(explained.factories[0].unfit[0].to_string(), "has no engine");
}

// [S3]
#[test]
fn a_product_weighs_the_terms_in_its_own_way() {
    let mut cheap = factory("cheap", &[]);
    cheap.load = 1.0;
    let mut idle = factory("idle", &[]);
    idle.factory.cost = 40;
    let chosen = |own: ScoreWeights| {
        let product = Product { score_weights: own, ..Product::new(ProductId::default_product()) };
        let products = [(product.id.clone(), product)].into();
        let factories = vec![cheap.clone(), idle.clone()];
        let scenario = Scenario { factories, jobs: vec![job(1, &[])], products, ..Scenario::default() };
        let world = scenario.world();
        let explained = explain(&world.view(), job(1, &[]).demand()).weights;
        let placement = scenario.plan().placements.remove(0);
        assert_eq!(placement.weights, explained);
        placement.factory.to_string()
    };

    assert_eq!(chosen(ScoreWeights::default()), "idle");
    assert_eq!(chosen(ScoreWeights { cost_fit: Some(5.0), ..ScoreWeights::default() }), "cheap");
    assert_eq!(chosen(ScoreWeights { idleness: Some(0.0), ..ScoreWeights::default() }), "cheap");
}

// [S4]
#[test]
fn a_placement_names_the_factories_that_came_next() {
    let of_cost = |number: u8| {
        let mut state = factory(&format!("f{number}"), &[]);
        state.factory.cost = number * 10;
        state
    };
    let mut scenario = Scenario { factories: (1..=8).map(of_cost).collect(), ..Scenario::default() };
    scenario.jobs = vec![job(1, &[])];
    let busy = Seat { factory: name("f2"), product: name("default"), repo: None, engine: Some(name("command")) };
    scenario.seats = vec![(id(8), busy.clone()), (id(9), busy)];

    let placement = scenario.plan().placements.remove(0);
    let claimed = claim(&scenario.world().view(), &name("f7"), |_| true).unwrap();

    let named = |placement: &scheduler::Placement| {
        placement.runners_up.iter().map(|next| next.factory.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(
        (placement.factory.as_str(), named(&placement)),
        ("f1", ["f3", "f4", "f5", "f6", "f7"].map(str::to_owned).to_vec())
    );
    assert!(placement.runners_up.windows(2).all(|pair| pair[0].total >= pair[1].total));
    assert_eq!(named(&claimed), ["f1", "f3", "f4", "f5", "f6"]);
}

// [S4] [S8]
#[test]
fn equal_factories_are_named_too_and_few_are_searched() {
    let factories = (0..200).map(|number| factory(&format!("f{number:03}"), &[])).collect();
    let scenario = Scenario { factories, jobs: vec![job(1, &[])], ..Scenario::default() };

    let placement = scenario.plan().placements.remove(0);

    let next: Vec<_> = placement.runners_up.iter().map(|next| next.factory.as_str()).collect();
    assert_eq!((placement.factory.as_str(), next), ("f000", vec!["f001", "f002", "f003", "f004", "f005"]));
}
