//! What needs a person, over HTTP: the list, the answer to a question, and dismissals.

use domain::{JobId, TokenScope};
use protocol::{HelloEvent, JobView, NeedList, ProductSettings, QuestionReport};
use serde_json::{Value, json};

use crate::fleet::{Fleet, Worker, code, soon};

/// A job whose agent asks a question.
async fn asking(fleet: &Fleet, factory: &Worker, manifest: &str) -> JobId {
    let mut inbox = factory.inbox().await;
    let id = fleet.submit(manifest).await;
    let epoch = factory.take_next(&mut inbox).await.lease_epoch;
    factory.start(id, epoch).await.unwrap();
    let question = "Which brick?".to_owned();
    let ask = QuestionReport { lease_epoch: epoch, question, checkpoint: None, insights: Default::default() };
    let _: Value = factory.client.post(&format!("/jobs/{id}/ask"), &ask).await.unwrap();
    id
}

// [U1] [§10]
#[tokio::test]
async fn a_question_is_listed_and_answered_over_http() {
    question_story(Fleet::start().await).await;
}

pub(crate) async fn question_story(fleet: Fleet) {
    let factory = fleet.factory("mac-1").await;
    let id = asking(&fleet, &factory, "# Build\n").await;

    let asked: NeedList = fleet.admin.get("/needs-me?kind=question&limit=200").await.unwrap();
    let answered: JobView = fleet.admin.post(&format!("/jobs/{id}/answer"), &json!({ "text": "red" })).await.unwrap();
    let again = fleet.admin.post::<_, Value>(&format!("/jobs/{id}/answer"), &json!({ "text": "red" })).await;

    assert_eq!((asked.total, asked.items[0].key.as_str()), (1, format!("question:{id}").as_str()));
    assert_eq!(answered.question, None);
    assert_eq!(code(again), "no_question");
    assert_eq!(fleet.admin.get::<NeedList>("/needs-me").await.unwrap().total, 0);
}

// [T3] [§10]
#[tokio::test]
async fn needs_are_limited_to_the_callers_products_and_bounds() {
    let fleet = Fleet::start().await;
    fleet.product("alpha", ProductSettings::default()).await;
    fleet.product("beta", ProductSettings::default()).await;
    let factory = fleet.factory("mac-1").await;
    asking(&fleet, &factory, "---\ntitle: Asks\nproduct: alpha\n---\nAsk.\n").await;
    let viewer = async |product: &str| {
        let grant = TokenScope::Viewer { products: [product.parse().unwrap()].into() };
        fleet.client(&fleet.token(grant).await.secret)
    };

    let own: NeedList = viewer("alpha").await.get("/needs-me").await.unwrap();
    let foreign: NeedList = viewer("beta").await.get("/needs-me").await.unwrap();
    let refused = viewer("beta").await.get::<NeedList>("/needs-me?product=alpha").await;

    assert_eq!((own.total, own.items[0].actions.len()), (1, 0), "a viewer can only read");
    assert_eq!(foreign.total, 0);
    assert_eq!(code(refused), "forbidden");
    for (query, expected) in [
        ("limit=201", "invalid"),
        ("limit=0", "invalid"),
        ("kind=questions", "invalid"),
        ("cursor=x", "bad_cursor"),
        ("kinds=question", "unknown_key"),
    ] {
        let answer = fleet.admin.get::<NeedList>(&format!("/needs-me?{query}")).await;
        assert_eq!(code(answer), expected, "{query}");
    }
}

// [J10] [§10]
#[tokio::test]
async fn only_a_failure_can_be_dismissed() {
    let fleet = Fleet::start().await;
    let id = fleet.submit("# One\n").await;
    let dismiss = async |body: Value| fleet.admin.post::<_, JobView>(&format!("/jobs/{id}/dismiss"), &body).await;

    let too_early = dismiss(json!({})).await;
    let _: JobView = fleet.admin.post(&format!("/jobs/{id}/actions/cancel"), &json!({})).await.unwrap();
    let misspelled = dismiss(json!({ "mesage": "known" })).await;
    let dismissed = dismiss(json!({ "message": "known" })).await.unwrap();

    assert_eq!(code(too_early), "illegal_transition");
    assert_eq!(code(misspelled), "unknown_key");
    assert!(dismissed.dismissed);
}

// [U1]
#[tokio::test]
async fn hello_names_the_coordinator_and_its_keep_alive() {
    let fleet = Fleet::start().await;
    let mut stream = fleet.admin.events("/events/stream", None).await.unwrap();

    let hello = soon(stream.next()).await.unwrap().unwrap();

    let told: HelloEvent = serde_json::from_str(&hello.data).unwrap();
    assert_eq!((told.keep_alive_seconds, told.version.as_str()), (5, env!("CARGO_PKG_VERSION")));
    assert!(told.build.starts_with(&told.version) && !told.name.is_empty(), "{told:?}");
}

// [U1]
#[tokio::test]
async fn a_stream_tells_of_factories_and_metrics() {
    let fleet = Fleet::start().await;
    let mut stream = fleet.admin.events("/events/stream", None).await.unwrap();
    fleet.factory("mac-1").await;

    let (mut factory, mut metrics) = (None, None);
    while factory.is_none() || metrics.is_none() {
        let event = soon(stream.next()).await.unwrap().unwrap();
        let data: Value = serde_json::from_str(&event.data).unwrap();
        match event.event.as_str() {
            "factory" => factory = Some(data),
            "metrics" => metrics = Some(data),
            _ => {}
        }
    }

    assert_eq!(factory, Some(json!({ "factoryId": "mac-1", "change": "online" })));
    assert_eq!(metrics.unwrap()["seats"], 8);
}
