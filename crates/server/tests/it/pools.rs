//! Pools and the demand of scalers over HTTP [F9].

use domain::TokenScope;
use http::Method;
use protocol::{PoolList, PoolSettings, PoolView, ScaleResponse};
use serde_json::json;

use crate::fleet::{Fleet, code};

// [F9] [§10]
#[tokio::test]
async fn a_pool_is_declared_read_and_removed() {
    let fleet = Fleet::start().await;
    let settings = json!({ "engines": ["claude"], "max": 3 });
    let put: PoolView = fleet.admin.call(Method::PUT, "/pools/linux", Some(&settings)).await.unwrap();

    assert_eq!(
        (put.pool.seats, put.pool.warm, put.pool.start_within_ms, put.pool.idle_after_ms),
        (1, 0, 300_000, 300_000)
    );
    let listed: PoolList = fleet.admin.get("/pools").await.unwrap();
    assert_eq!(listed.items, std::slice::from_ref(&put));
    let other = PoolSettings { max: 5, ..PoolSettings::of(&put.pool) };
    let changed: PoolView = fleet.admin.call(Method::PUT, "/pools/linux", Some(&other)).await.unwrap();
    assert_eq!(changed.pool.max, 5);
    let read: PoolView = fleet.admin.get("/pools/linux").await.unwrap();
    assert_eq!(read, changed);

    let without_max = json!({ "engines": ["claude"] });
    let refused = fleet.admin.call::<_, PoolView>(Method::PUT, "/pools/linux", Some(&without_max)).await;
    assert_eq!(code(refused), "invalid");
    let _: serde_json::Value = fleet.admin.call(Method::DELETE, "/pools/linux", None::<&()>).await.unwrap();
    assert_eq!(code(fleet.admin.get::<PoolView>("/pools/linux").await), "no_such_pool");
    assert_eq!(code(fleet.admin.get::<ScaleResponse>("/scale?pool=linux").await), "no_such_pool");
}

// [F9] [T3] [I12]
#[tokio::test]
async fn a_viewer_reads_the_demand_of_its_products() {
    let fleet = Fleet::start().await;
    for (name, product) in [("shop", "shop"), ("notes", "notes")] {
        let settings = json!({ "engines": ["claude"], "max": 3, "warm": 1, "products": [product] });
        let _: PoolView = fleet.admin.call(Method::PUT, &format!("/pools/{name}"), Some(&settings)).await.unwrap();
    }
    let viewer = fleet.token(TokenScope::Viewer { products: ["shop".parse().unwrap()].into() }).await;
    let viewer = fleet.client(&viewer.secret);

    let seen: ScaleResponse = viewer.get("/scale").await.unwrap();
    let all: ScaleResponse = fleet.admin.get("/scale").await.unwrap();

    assert_eq!((seen.wanted, seen.pools[0].pool.as_str(), seen.pools.len()), (1, "shop", 1));
    assert_eq!((all.wanted, all.pools.len()), (2, 2));
    assert_eq!(code(viewer.get::<ScaleResponse>("/scale?pool=notes").await), "no_such_pool");
    let settings = json!({ "engines": ["claude"], "max": 3 });
    assert_eq!(code(viewer.call::<_, PoolView>(Method::PUT, "/pools/shop", Some(&settings)).await), "forbidden");
}
