//! A store that lost acknowledged work, seen through the API (row 37).

use http::StatusCode;
use store::{OpenError, Options as StoreOptions, Sqlite};

use crate::fleet::{Fleet, code};
use crate::raw::{Asking, ask};

#[tokio::test]
async fn accepting_a_loss_fences_the_old_holders() {
    let fleet = Fleet::start().await;
    let factory = fleet.factory("here").await;
    let mut inbox = factory.inbox().await;
    let job = fleet.submit("---\ntitle: Work\nrepo: notes\n---\nDo it.\n").await;
    let older = fleet.copy_of_the_database().await;
    let epoch = factory.take_next(&mut inbox).await.lease_epoch;
    factory.start(job, epoch).await.unwrap();
    let (dir, token) = fleet.end().await;
    let database = dir.path().join("fleet.db");
    std::fs::copy(older.path().join("copy.db"), &database).unwrap();

    let refused = Sqlite::open(&database, StoreOptions::default()).map(drop);
    let at = domain::Timestamp::from_millis(1_800_000_000_000);
    let accepted = StoreOptions { accept_data_loss: Some(at), ..StoreOptions::default() };
    let store = Sqlite::open(&database, accepted).unwrap();
    let fleet = Fleet::on_store(dir, store, token).await;
    let factory = fleet.rejoin(factory);
    factory.beat().await.unwrap();

    assert!(matches!(refused, Err(OpenError::DataLoss(_))), "{refused:?}");
    assert_eq!(code(factory.start(job, epoch).await), "fenced");
    assert_eq!(code(factory.complete(job, epoch, None).await), "fenced");
}

#[tokio::test]
async fn a_damaged_store_fails_readyz_and_is_an_alert() {
    let fleet = Fleet::start().await;

    let before = ask(fleet.address, Asking::get("/readyz")).await.status;
    fleet.coordinator.report_store_damage("fleet_jobs: a page is gone");
    let after = ask(fleet.address, Asking::get("/readyz")).await;
    let alive = ask(fleet.address, Asking::get("/healthz")).await.status;
    let alerts: protocol::AlertList = fleet.admin.get("/alerts").await.unwrap();

    assert_eq!((before, after.status, alive), (StatusCode::OK, StatusCode::SERVICE_UNAVAILABLE, StatusCode::OK));
    let problem: protocol::Problem = serde_json::from_slice(&after.body).unwrap();
    assert_eq!(problem.code, "store_damaged");
    assert!(problem.detail.contains("a page is gone"), "{}", problem.detail);
    let codes: Vec<_> = alerts.items.iter().map(|alert| alert.code).collect();
    assert_eq!(codes, [protocol::AlertCode::StoreDamaged]);
}
