//! A store that lost acknowledged work, seen through the API (row 37).

use domain::{Collection, Expected, FleetStore};
use http::StatusCode;
use store::{OpenError, Options as StoreOptions, SqliteStore};

use crate::fleet::{Fleet, code};
use crate::raw::{Asking, ask};

// [row 37]
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

    let refused = SqliteStore::open(&database, StoreOptions::default()).map(drop);
    let at = domain::Timestamp::from_millis(1_800_000_000_000);
    let accepted = StoreOptions { accept_data_loss: Some(at), ..StoreOptions::default() };
    let store = SqliteStore::open(&database, accepted).unwrap();
    let fleet = Fleet::on_store(dir, store, token).await;
    let factory = fleet.rejoin(factory);
    factory.beat().await.unwrap();

    assert!(matches!(refused, Err(OpenError::DataLoss(_))), "{refused:?}");
    assert_eq!(code(factory.start(job, epoch).await), "fenced");
    assert_eq!(code(factory.complete(job, epoch, None).await), "fenced");
}

// [row 37] [alert: store_damaged]
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
    // A restart opens the store that replaced it.
    let fleet = fleet.restarted().await;
    let alerts: protocol::AlertList = fleet.admin.get("/alerts").await.unwrap();
    assert_eq!(alerts.items, []);
}

// [row 37] [alert: unreadable_document]
#[tokio::test]
async fn unreadable_documents_prevent_no_start_and_are_listed() {
    let fleet = Fleet::start().await;
    let bad = serde_json::json!({ "expiresAt": "the end of time" });
    let documents = [
        (Collection::Tokens, "a-hash"),
        (Collection::Factories, "gone"),
        (Collection::Products, "odd"),
        (Collection::Products, "default"),
        (Collection::Flags, "modes"),
        (Collection::Credentials, "login"),
        (Collection::Profiles, "_fleet:odd@000001"),
        (Collection::Pools, "odd"),
        (Collection::TrackerItems, "github:odd"),
        (Collection::Webhooks, "odd"),
        (Collection::Meta, "lineage"),
    ];
    for (collection, key) in documents {
        let there = fleet.store.document(collection, key).await.unwrap();
        let expected = there.map_or(Expected::Absent, |there| Expected::At(there.revision));
        let torn = if collection == Collection::Meta { "torn".into() } else { bad.clone() };
        fleet.store.put(collection, key, expected, Some(torn)).await.unwrap();
    }

    let fleet = fleet.restarted().await;
    let alerts: protocol::AlertList = fleet.admin.get("/alerts").await.unwrap();
    let unreadable: Vec<_> =
        alerts.items.iter().filter(|alert| alert.code == protocol::AlertCode::UnreadableDocument).collect();
    let kept = fleet.store.document(Collection::Tokens, "a-hash").await.unwrap().unwrap();
    let paused: domain::Product = fleet.admin.get("/products/default").await.unwrap();
    fleet.product("default", protocol::ProductSettings { paused: Some(false), ..Default::default() }).await;
    let repaired: protocol::AlertList = fleet.admin.get("/alerts").await.unwrap();
    fleet.submit("# Work\n").await;
    let profile = serde_json::json!({ "name": "odd", "bodyMd": "Other text.\n" });
    let made: protocol::CreateProfileResponse = fleet.admin.post("/profiles", &profile).await.unwrap();

    for (collection, key) in &documents[..8] {
        let place = format!("{} `{key}`", collection.name());
        assert!(unreadable.iter().any(|alert| alert.message.contains(&place)), "{place}: {unreadable:?}");
    }
    assert_eq!(kept.value, bad, "it is kept as it was");
    assert_eq!(made.profile.profile.version, 2, "a version is never replaced, not even one that cannot be read");
    assert!(paused.paused, "a product whose settings cannot be read starts nothing");
    assert!(!repaired.items.iter().any(|alert| alert.message.contains("`default`")), "{repaired:?}");
    assert!(
        fleet.coordinator.generation() > domain::Generation(0),
        "which holders to fence is unknown: all of them are fenced"
    );
}
