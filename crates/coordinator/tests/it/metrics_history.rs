//! The metrics of the last hour: in memory, without a timer.

use std::time::Duration;

use coordinator::Principal;
use domain::TokenScope;
use protocol::{MetricsPoint, ProductSettings};

use super::lasting;
use crate::fleet::{Fleet, PLAIN};
use crate::machine::Machine;

fn points(fleet: &Fleet, who: &Principal) -> Vec<MetricsPoint> {
    fleet.coordinator.metrics_history(who).unwrap().points
}

// [D4]
#[tokio::test]
async fn steps_show_queue_seats_and_grants() {
    let fleet = Fleet::warm(lasting()).await;
    let mac = Machine::join(&fleet, "mac").await;
    let job = fleet.submit(PLAIN).await;
    fleet.builder.clock.advance(Duration::from_secs(10));
    let grip = mac.build(&fleet, job).await;
    fleet.builder.clock.advance(Duration::from_secs(10));
    mac.complete(&fleet, grip, None).await.unwrap();

    let points = points(&fleet, &fleet.admin);

    let shown: Vec<_> = points.iter().map(|point| (point.queued, point.building, point.claims)).collect();
    assert_eq!(shown, [(1, 0, 0), (0, 1, 1), (0, 0, 0)]);
    assert_eq!(points[1].lag_ms.map(|lag| lag.p50), Some(10_000));
    assert!(points.iter().all(|point| point.seats_total > 0), "{points:?}");
    // The write that begins a step is counted in the one before.
    assert!(points[..2].iter().all(|point| point.store_ops.write > 0), "{points:?}");
}

// [I14] [P4]
#[tokio::test]
async fn an_idle_fleet_records_no_points_and_reads_nothing() {
    let fleet = Fleet::warm(lasting()).await;
    let mac = Machine::join(&fleet, "mac").await;
    let job = fleet.submit(PLAIN).await;
    mac.run(&fleet, job).await;
    let (before, operations) = (points(&fleet, &fleet.admin).len(), fleet.operations());

    fleet.pass(Duration::from_secs(300), &[&mac]).await;

    assert_eq!((points(&fleet, &fleet.admin).len(), fleet.operations()), (before, operations));
    fleet.builder.clock.advance(Duration::from_secs(3_600));
    fleet.submit(PLAIN).await;
    assert_eq!(points(&fleet, &fleet.admin).len(), 1, "only the last hour is shown");
}

// [T3] [I12]
#[tokio::test]
async fn a_history_shows_only_the_callers_products() {
    let fleet = Fleet::warm(lasting()).await;
    for product in ["alpha", "beta"] {
        let id = product.parse().unwrap();
        fleet.coordinator.put_product(&fleet.admin, &id, ProductSettings::default()).await.unwrap();
    }
    fleet.submit("---\ntitle: Waits\nproduct: alpha\n---\nWait.\n").await;
    let viewer = |product: &str| {
        let grant = TokenScope::Viewer { products: [product.parse().unwrap()].into() };
        Principal { grant, ..fleet.admin.clone() }
    };

    let own = points(&fleet, &viewer("alpha"));
    let foreign = points(&fleet, &viewer("beta"));

    assert_eq!((own[0].queued, own[0].store_ops.write), (1, 0));
    assert_eq!((foreign[0].queued, foreign[0].claims), (0, 0));
}
