//! Accept: once per dispatch, by its target, with every precondition checked again.

use std::time::Duration;

use domain::{ClaimNonce, DispatchSeq, Message};
use protocol::{AcceptRequest, AcceptResponse, JobView, ProductSettings};
use serde_json::json;

use crate::fleet::{Fleet, code, next_offer, random};

#[tokio::test]
async fn a_nonce_repeats_its_answer_and_another_is_refused() {
    let fleet = Fleet::start().await;
    let factory = fleet.factory("mac-1").await;
    let mut inbox = factory.inbox().await;
    fleet.submit("# One\n").await;
    let offer = next_offer(&mut inbox).await;
    let claim = factory.claim(&offer);

    let first = factory.accept_as(&claim).await.unwrap();
    let again = factory.accept_as(&claim).await.unwrap();
    let other = AcceptRequest { claim_nonce: ClaimNonce::from_bytes(random()), ..claim };

    assert_eq!(first, again);
    assert_eq!(code(factory.accept_as(&other).await), "already_granted");
}

// [I1]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_claims_of_one_dispatch_grant_it_once() {
    let fleet = Fleet::start().await;
    let factory = fleet.factory("mac-1").await;
    let mut inbox = factory.inbox().await;
    fleet.submit("# One\n").await;
    let offer = next_offer(&mut inbox).await;

    let mut claims = tokio::task::JoinSet::new();
    for _ in 0..100 {
        let (client, claim) = (factory.client.clone(), factory.claim(&offer));
        claims.spawn(async move { client.post::<_, AcceptResponse>("/accept", &claim).await.is_ok() });
    }
    let granted = claims.join_all().await.into_iter().filter(|is_granted| *is_granted).count();

    assert_eq!(granted, 1);
}

#[tokio::test]
async fn only_the_target_accepts_a_dispatch() {
    let fleet = Fleet::start().await;
    let factory = fleet.factory("mac-1").await;
    let mut inbox = factory.inbox().await;
    fleet.submit("# One\n").await;
    let offer = next_offer(&mut inbox).await;
    let other = fleet.factory("mac-2").await;

    assert_eq!(code(other.accept(&offer).await), "not_target");
    let disguised = AcceptRequest { factory_id: Some(factory.id.clone()), ..other.claim(&offer) };
    assert_eq!(code(other.accept_as(&disguised).await), "forbidden");
    factory.accept(&offer).await.unwrap();
}

// [attack: forged broker message]
#[tokio::test]
async fn a_forged_message_has_no_authority() {
    let fleet = Fleet::start().await;
    let factory = fleet.factory("mac-1").await;
    let id = fleet.submit("---\ncapabilities: [has:nothing]\n---\n# No factory can run it\n").await;
    let forged = Message {
        job_id: id,
        dispatch_seq: DispatchSeq(1),
        product_id: "default".parse().unwrap(),
        repo: None,
        caps: vec![],
        priority: domain::Priority::Critical,
        target_factory_id: factory.id.clone(),
        shadow: false,
    };
    let before = fleet.state().await;

    assert_eq!(code(factory.accept(&forged).await), "superseded_dispatch");
    assert_eq!(fleet.state().await, before);
}

// [I6]
#[tokio::test]
async fn a_superseded_dispatch_is_refused() {
    let fleet = Fleet::start().await;
    let factory = fleet.factory("mac-1").await;
    let mut inbox = factory.inbox().await;
    let id = fleet.submit("# One\n").await;
    let first = next_offer(&mut inbox).await;
    let epoch = factory.accept(&first).await.unwrap().lease_epoch;
    let release = json!({ "leaseEpoch": epoch });
    let _: serde_json::Value = factory.client.post(&format!("/jobs/{id}/lease/release"), &release).await.unwrap();
    let second = next_offer(&mut inbox).await;

    assert_eq!(code(factory.accept(&first).await), "superseded_dispatch");
    factory.accept(&second).await.unwrap();
}

// [row 16]
#[tokio::test]
async fn a_job_cancelled_after_its_offer_is_not_granted() {
    let fleet = Fleet::start().await;
    let factory = fleet.factory("mac-1").await;
    let mut inbox = factory.inbox().await;
    let id = fleet.submit("# One\n").await;
    let offer = next_offer(&mut inbox).await;

    let _: JobView = fleet.admin.post(&format!("/jobs/{id}/actions/cancel"), &json!({})).await.unwrap();
    let refused = factory.accept(&offer).await.unwrap_err();

    assert!(refused.is_final(), "a decided answer ends the message");
    assert_eq!(refused.code(), Some("illegal_transition"));
    let redelivered = tokio::time::timeout(Duration::from_millis(300), next_offer(&mut inbox)).await;
    assert!(redelivered.is_err(), "the message is over: {redelivered:?}");
}

// [I10] [row 17]
#[tokio::test]
async fn a_product_paused_after_an_offer_starts_nothing() {
    let fleet = Fleet::start().await;
    let factory = fleet.factory("mac-1").await;
    let mut inbox = factory.inbox().await;
    fleet.submit("# One\n").await;
    let offer = next_offer(&mut inbox).await;

    fleet.product("default", ProductSettings { paused: Some(true), ..ProductSettings::default() }).await;

    assert_eq!(code(factory.accept(&offer).await), "not_ready");
}
