//! Deaths at random moments, from a printed seed: sixty-six of them, two hundred with `GIGA_SOAK` (`make soak`).

use std::collections::BTreeSet;
use std::time::Duration;

use clock::SeededEntropy;
use domain::Entropy;

use super::fleet::Fleet;
use super::repetitions;

const FACTORIES: usize = 3;

/// Fixed, so that a failure can be reproduced; `GIGA_CRASH_SEED` sets another.
const SEED: u64 = 20_261;

// [I3] [F4]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jobs_survive_random_kills() {
    let seed = std::env::var("GIGA_CRASH_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(SEED);
    // As many jobs as kills.
    let kills = repetitions(200);
    println!("seed {seed}, {kills} kills");
    let chance: Box<dyn Entropy> = Box::new(SeededEntropy::new(seed));
    let mut fleet = Fleet::new(FACTORIES);
    fleet.start_coordinator(None);
    fleet.ship_by_itself().await;
    for index in 0..FACTORIES {
        fleet.start_factory(index, None).await;
    }

    let mut jobs = BTreeSet::new();
    for round in 0..kills {
        jobs.insert(fleet.submit(round, "do some work").await);
        fleet.pause(Duration::from_millis(50 + (chance.fraction() * 350.0) as u64)).await;
        let roll = chance.fraction();
        let victim = (chance.fraction() * FACTORIES as f64) as usize;
        let hits_coordinator = roll < 0.55;
        let hits_factory = roll >= 0.40;
        if hits_factory {
            fleet.kill_factory(victim);
        }
        if hits_coordinator {
            fleet.kill_coordinator();
        }
        fleet.pause(Duration::from_millis((chance.fraction() * 200.0) as u64)).await;
        if hits_coordinator {
            fleet.start_coordinator(None);
        }
        if hits_factory {
            fleet.start_factory(victim, None).await;
        }
    }
    fleet.until_all_shipped(&jobs).await;

    assert_eq!(jobs.len(), kills);
    fleet.assert_nothing_lost_or_doubled(&jobs);
    let resumed = fleet.resumed();
    println!("{} runs of {kills} jobs, {resumed} resumed from a checkpoint", fleet.journal().len());
    assert!(resumed > 0, "no run was ever resumed from a checkpoint");
}
