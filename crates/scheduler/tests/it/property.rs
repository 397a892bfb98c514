//! Safety and progress over random fleets.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use domain::{Mode, Product, Shape};
use proptest::prelude::*;
use scheduler::{ExplainedOutcome, Plan, Unplaced, WaitingJob, claim, errand, explain, plan};

use crate::naive::{Naive, NaivePlan};
use crate::scenario::{Scenario, World, ago, factory, id, job, name, scenarios, seat_of, shape_on, with_shape};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_500))]

    // [S8]
    #[test]
    fn the_indexes_change_no_decision(scenario in scenarios()) {
        let indexed = scenario.plan();
        let expected = Naive::of(&scenario).plan();

        prop_assert_eq!(essence(&indexed), expected);
    }

    // [S6]
    #[test]
    fn no_seat_is_assigned_twice(scenario in scenarios()) {
        let mut world = scenario.world();
        let plan = plan(&world.view());

        for placement in &plan.placements {
            world.carry_out(placement);
            let waiting = scenario.jobs.iter().find(|waiting| waiting.job == placement.job).unwrap();
            let seat = seat_of(&waiting.shape, placement);
            let factory = &world.fleet.get(&seat.factory).unwrap().factory;
            prop_assert!(world.fleet.used(&seat.factory) <= factory.seat_limit);
            if let Some(engine) = &seat.engine {
                let limit = factory.engine_seats.get(engine).copied().unwrap_or(u32::MAX);
                prop_assert!(world.fleet.engine_used(&seat.factory, engine) <= limit);
            }
            if let Some(repo) = &seat.repo {
                let here = factory.repo_seats.get(repo).copied().unwrap_or(u32::MAX);
                let everywhere = scenario.products[&seat.product].repo_seats.get(repo).copied().unwrap_or(u32::MAX);
                prop_assert!(world.fleet.repo_used_at(&seat.factory, repo) <= here);
                prop_assert!(world.fleet.repo_used(repo) <= everywhere);
            }
        }
    }

    // [S2]
    #[test]
    fn a_job_is_placed_only_on_an_eligible_factory(scenario in scenarios()) {
        let mut naive = Naive::of(&scenario);

        for placement in scenario.plan().placements {
            let waiting = scenario.jobs.iter().find(|waiting| waiting.job == placement.job).unwrap();
            let eligible: Vec<_> = naive.eligible(waiting).into_iter().map(|state| &state.factory.id).collect();
            prop_assert!(eligible.contains(&&placement.factory));
            naive.seats.push(seat_of(&waiting.shape, &placement));
        }
    }

    // [T2]
    #[test]
    fn a_paused_product_starts_nothing(scenario in scenarios()) {
        let world = scenario.world();
        let plan = plan(&world.view());

        for placement in &plan.placements {
            prop_assert!(!scenario.products[&world.queue.get(&placement.job).unwrap().shape.product].paused);
        }
    }

    // [S1]
    #[test]
    fn the_order_of_insertion_does_not_matter(scenario in scenarios()) {
        let mut backwards = scenario.clone();
        backwards.factories.reverse();
        backwards.jobs.reverse();
        backwards.seats.reverse();
        let mut detour = backwards.world();
        churn(&mut detour, &scenario);

        let expected = scenario.plan();
        prop_assert_eq!(&backwards.plan(), &expected);
        prop_assert_eq!(&plan(&detour.view()), &expected);
    }

    #[test]
    fn a_plan_places_every_placeable_job(mut scenario in scenarios()) {
        scenario.limit = 1_000;
        let mut world = scenario.world();
        let first = plan(&world.view());
        for placement in &first.placements {
            world.carry_out(placement);
        }

        let second = plan(&world.view());
        prop_assert_eq!(second.placements, vec![]);
        let left: usize = first.unplaced.iter().map(|shape| shape.jobs).sum();
        prop_assert_eq!(left, world.queue.len());
    }

    // [S7]
    #[test]
    fn an_unplaceable_shape_blocks_no_other(scenario in scenarios(), burden in 1_u8..40) {
        let mut burdened = scenario.clone();
        for (number, product) in (100..100 + burden).zip(scenario.products.keys().cycle()) {
            let hopeless = with_shape(job(number, &["has:unknown"]), |shape| shape.product = product.clone());
            burdened.jobs.push(WaitingJob { priority: domain::Priority::Critical, since: ago(1_000), ..hopeless });
        }

        prop_assert_eq!(burdened.plan().placements, scenario.plan().placements);
    }

    // [S7]
    #[test]
    fn products_get_seats_in_proportion_to_their_weights(alpha in 1_u32..6, beta in 1_u32..6, seats in 0_u32..40) {
        let mut scenario = Scenario { factories: vec![factory("f1", &[])], ..Scenario::default() };
        scenario.factories[0].factory.seat_limit = seats;
        for number in 0..80 {
            let product = if number < 40 { "alpha" } else { "beta" };
            scenario.jobs.push(with_shape(job(number, &[]), |shape| shape.product = name(product)));
        }
        for (product, weight) in [("alpha", alpha), ("beta", beta)] {
            let product = Product { weight, ..Product::new(name(product)) };
            scenario.products.insert(product.id.clone(), product);
        }

        let placements = scenario.plan().placements;
        let first = placements.iter().filter(|placement| placement.job < id(40)).count();
        let second = placements.len() - first;
        prop_assert_eq!(placements.len(), seats as usize);
        // While both have work, the shares differ by at most one seat of the lighter product.
        let apart = (first as f64 / f64::from(alpha) - second as f64 / f64::from(beta)).abs();
        prop_assert!(apart <= 1.0 / f64::from(alpha.min(beta)) + 1e-9, "{first} and {second}");
    }

    // [S4]
    #[test]
    fn an_explanation_agrees_with_the_plan(scenario in scenarios()) {
        let mut world = scenario.world();
        let plan = plan(&world.view());

        for placement in &plan.placements {
            let waiting = world.queue.get(&placement.job).unwrap().clone();
            let explanation = explain(&world.view(), waiting.demand());
            let first = explanation.factories.iter().find(|fit| fit.rank == Some(1)).unwrap();
            prop_assert_eq!((&first.factory, first.score), (&placement.factory, placement.score));
            let (factory, engine) = (placement.factory.clone(), placement.engine.clone());
            prop_assert_eq!(explanation.answer, ExplainedOutcome::Goes { factory, engine });
            world.carry_out(placement);
        }
        for left in scheduler::plan(&world.view()).unplaced {
            let explanation = explain(&world.view(), world.queue.get(&left.oldest).unwrap().demand());
            if scenario.limit == 1_000 {
                prop_assert!(explanation.factories.iter().all(|fit| !fit.eligible && fit.rank.is_none()));
                let unplaceable = left.why.is_unplaceable();
                prop_assert_eq!(explanation.answer, ExplainedOutcome::Waits { why: left.why, unplaceable });
            }
        }
    }

    // [S3]
    #[test]
    fn a_claim_gets_the_first_eligible_job(scenario in scenarios()) {
        let world = scenario.world();
        let naive = Naive::of(&scenario);

        for state in &scenario.factories {
            let own = &state.factory.id;
            let mut left: Vec<&WaitingJob> = scenario.jobs.iter().collect();
            left.retain(|waiting| !scenario.products[&waiting.shape.product].paused);
            let expected = loop {
                let Some(next) = naive.next(&left) else { break None };
                let eligible: BTreeSet<_> = naive.eligible(next).into_iter().map(|state| &state.factory.id).collect();
                let avoids = next.avoid.as_ref() == Some(own) && eligible.len() > 1;
                if eligible.contains(own) && !avoids {
                    break Some(next.job);
                }
                left.retain(|waiting| waiting.job != next.job);
            };
            prop_assert_eq!(claim(&world.view(), own, |_| true).map(|placement| placement.job), expected);
        }
    }

    // [S3]
    #[test]
    fn push_and_claim_agree_on_factory_and_score(scenario in scenarios()) {
        let mut world = scenario.world();

        for placement in scenario.plan().placements {
            prop_assert_eq!(claim(&world.view(), &placement.factory, |_| true), Some(placement.clone()));
            world.carry_out(&placement);
        }
    }

    #[test]
    fn a_plan_skips_polled_products_and_a_claim_gets_them(scenario in scenarios()) {
        let mut world = scenario.world();
        let pulled = scenario.products.keys().next().cloned();
        let claims = |world: &World| {
            scenario.factories.iter().map(|state| claim(&world.view(), &state.factory.id, |_| true)).collect::<Vec<_>>()
        };
        let before = claims(&world);

        world.flags.products.extend(pulled.clone().map(|product| (product, Mode::Gate)));

        prop_assert_eq!(claims(&world), before);
        let placed = plan(&world.view()).placements;
        let is_pulled = |job| Some(&world.queue.get(job).unwrap().shape.product) == pulled.as_ref();
        prop_assert!(!placed.iter().any(|placement| is_pulled(&placement.job)));
    }

    #[test]
    fn an_errand_goes_to_a_live_factory_with_the_repository(scenario in scenarios()) {
        let world = scenario.world();
        let (repo, product, avoid) = (name("web"), name("alpha"), name("f1"));

        let chosen = errand(&world.view(), &shape_on(&repo, &product), Some(&avoid));
        let has = |state: &scheduler::FactoryState| {
            state.factory.repos.contains(&repo) || state.factory.capabilities.contains(&domain::Capability::repo(&repo))
        };
        let able: Vec<_> = world
            .fleet
            .iter()
            .filter(|state| state.presence == scheduler::Presence::Live && !state.factory.draining)
            .filter(|state| state.unresponsive.is_none())
            .filter(|state| state.products.is_empty() || state.products.contains(&product))
            .filter(|state| has(state) || (state.factory.clones && !state.disk_low))
            .collect();
        let load = |state: &scheduler::FactoryState| match state.factory.seat_limit {
            0 => state.load,
            limit => state.load.max(f64::from(world.fleet.used(&state.factory.id)) / f64::from(limit)),
        };
        let expected = able.into_iter().min_by(|a, b| {
            let key = |state: &scheduler::FactoryState| (state.factory.id == avoid, !has(state));
            key(a).cmp(&key(b)).then(load(a).total_cmp(&load(b))).then(a.factory.id.cmp(&b.factory.id))
        });
        prop_assert_eq!(chosen, expected.map(|state| state.factory.id.clone()));
    }
}

/// The parts of a plan that the reference scheduler computes.
fn essence(plan: &Plan) -> NaivePlan {
    let placements = plan.placements.iter();
    let unplaced = plan.unplaced.iter().filter(|left| !matches!(left.why, Unplaced::ProductPaused { .. }));
    NaivePlan {
        placements: placements.map(|placed| (placed.job, placed.factory.clone(), placed.engine.clone())).collect(),
        unplaced: unplaced.map(|left| (left.oldest, left.why.code())).collect(),
    }
}

/// Inserts and removes everything in ways that must leave no trace.
fn churn(world: &mut World, scenario: &Scenario) {
    for (number, state) in (230..).zip(&scenario.factories) {
        let mut other = state.clone();
        other.factory.capabilities = BTreeSet::from([name("has:passing")]);
        other.load = 7.0;
        world.fleet.upsert(other);
        let seat = scheduler::Seat {
            factory: state.factory.id.clone(),
            product: name("alpha"),
            repo: Some(name("web")),
            engine: Some(name("claude")),
        };
        world.fleet.occupy(id(number), seat);
        world.fleet.remove(&state.factory.id);
        world.fleet.vacate(&id(number));
        world.fleet.upsert(state.clone());
    }
    let seats: BTreeMap<_, _> = scenario.seats.iter().map(|(job, seat)| (*job, seat.clone())).collect();
    for (job, seat) in seats {
        world.fleet.vacate(&job);
        world.fleet.occupy(job, seat);
    }
    for waiting in &scenario.jobs {
        let shape = Arc::new(Shape { pin: Some(name("f9")), ..(*waiting.shape).clone() });
        world.queue.insert(WaitingJob { shape, since: ago(5_000), ..waiting.clone() });
        world.queue.insert(waiting.clone());
    }
}
