//! Golden explanations.

use domain::Priority;
use scheduler::{Presence, Seat, WaitingJob, explain};

use crate::golden;
use crate::scenario::{Scenario, ago, factory, id, job, name, with_shape};

/// A small fleet in which every factory is different.
fn fleet() -> Scenario {
    let mut here = factory("linux-1", &["os:linux", "engine:claude", "has:docker"]);
    here.factory.repos.insert(name("notes"));
    let mut cheap = factory("linux-2", &["os:ubuntu", "engine:claude", "engine:codex"]);
    cheap.factory.clones = true;
    cheap.factory.cost = 20;
    cheap.load = 0.25;
    let mut gpu = factory("linux-3", &["os:linux", "engine:claude", "gpu:l4"]);
    gpu.factory.clones = true;
    gpu.health = 0.8;
    let mut mac = factory("mac-1", &["os:mac", "engine:codex", "has:xcode"]);
    mac.presence = Presence::Stale;
    mac.factory.draining = true;
    let seat = Seat { factory: name("linux-1"), product: name("default"), repo: None, engine: None };
    Scenario { factories: vec![here, cheap, gpu, mac], seats: vec![(id(90), seat)], ..Scenario::default() }
}

// [S3]
#[test]
fn a_placement_explanation_matches_its_golden_file() {
    let world = fleet().world();
    let shaped = with_shape(job(1, &["os:linux"]), |shape| {
        shape.repo = Some(name("notes"));
        shape.engines = vec![name("claude")];
    });
    let waiting = WaitingJob { priority: Priority::High, since: ago(15), avoid: Some(name("linux-3")), ..shaped };

    let explanation = explain(&world.view(), waiting.demand());

    golden::check("placed.json", &(serde_json::to_string_pretty(&explanation).unwrap() + "\n"));
}

// [S4]
#[test]
fn a_wait_explanation_matches_its_golden_file() {
    let world = fleet().world();
    let waiting = job(1, &["os:linux", "has:xcode"]);

    let explanation = explain(&world.view(), waiting.demand());

    golden::check("waiting.json", &(serde_json::to_string_pretty(&explanation).unwrap() + "\n"));
}
