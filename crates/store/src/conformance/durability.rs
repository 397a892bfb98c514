//! Durability.

use domain::{Collection, Expected, JobFilter, Position, Revision, Scope};
use serde_json::json;

use super::sample::{cancelled, create, dispatched, granted, id, job, released, replace, seconds};
use super::writes::{stored, written};
use super::{Harness, Stores};

// [I3]
/// After a restart all reads return the same, and the log continues where it ended.
pub async fn acknowledged_writes_survive_a_restart(bench: &mut dyn Harness) {
    let stores = bench.open().await;
    written(stores.jobs.commit((0..20).map(|n| create(job(n))).collect()).await);
    for n in 0..10 {
        let ended = released(granted(dispatched(stored(&stores, n).await, seconds(9))));
        written(stores.jobs.commit(vec![replace(ended, Revision(1))]).await);
    }
    stores.fleet.put(Collection::Factories, "forge", Expected::Absent, Some(json!({ "seats": 2 }))).await.unwrap();
    let before = everything(&stores).await;
    drop(stores);

    let Some(stores) = bench.reopen().await else { return };

    assert_eq!(everything(&stores).await, before);
    let end = stores.jobs.changed(Position(0)).await.unwrap();
    written(stores.jobs.commit(vec![replace(cancelled(stored(&stores, 0).await), Revision(2)), create(job(20))]).await);
    assert_eq!(stores.jobs.changed(end).await.unwrap(), end.next().next());
}

async fn everything(stores: &Stores) -> impl PartialEq + std::fmt::Debug + use<> {
    let list = stores.history.jobs(&JobFilter::default(), None, 100).await.unwrap();
    let log = stores.history.events(&Scope::Fleet, Position(0), 1000).await.unwrap();
    let mut particulars = Vec::new();
    for n in 0..20 {
        particulars.push((
            stores.jobs.job(id(n)).await.unwrap(),
            stores.history.body(id(n)).await.unwrap(),
            stores.history.runs(id(n), 0, 1_000).await.unwrap(),
        ));
    }
    let documents = stores.fleet.documents(Collection::Factories).await.unwrap();
    (list, log, particulars, documents, stores.history.census().await.unwrap())
}
