//! Modes and claims over HTTP [D1].

use client::ClientError;
use domain::{ClaimNonce, DispatchModes, Mode, ProductId, TokenScope};
use http::{Method, StatusCode};
use protocol::{ClaimRequest, JobDetail, ProductSettings, QueueVersion};
use serde_json::json;

use crate::fleet::{Fleet, Worker, code, random, soon};
use crate::raw::{Asking, ask};

fn claim(worker: &Worker, limit: u32) -> ClaimRequest {
    let claim_nonce = ClaimNonce::from_bytes(random());
    ClaimRequest {
        factory_id: Some(worker.id.clone()),
        instance: worker.instance,
        claim_nonce,
        limit: Some(limit),
        products: None,
        jobs: None,
        except_products: Vec::new(),
    }
}

fn product(name: &str) -> ProductId {
    name.parse().unwrap()
}

// [§10]
#[tokio::test]
async fn a_claim_answers_like_an_accept_and_a_dry_run_is_inert() {
    let fleet = Fleet::start().await;
    let mac = fleet.factory("mac").await;
    fleet.admin.set_mode(None, Some(Mode::Poll)).await.unwrap();
    let job = fleet.submit("# Mend the gate\n").await;
    let request = claim(&mac, 2);
    let before = fleet.state().await;

    let dry = mac.client.claim_dry_run(&request).await.unwrap();
    let state = fleet.state().await;
    let claimed = mac.client.claim(&request).await.unwrap();
    let again = mac.client.claim(&request).await.unwrap();

    assert_eq!(state, before);
    assert_eq!((dry.would_grant[0].job_id, dry.waiting), (job, 1));
    assert_eq!(claimed.granted[0].accepted.assignment.body_md, "# Mend the gate\n");
    assert_eq!(again, claimed);
    let (epoch, detail) = (claimed.granted[0].accepted.lease_epoch, fleet.job(job).await);
    assert_eq!(detail.job.lease_epoch, epoch);
    mac.start(job, epoch).await.unwrap();
    mac.complete(job, epoch, None).await.unwrap();
    assert_eq!(code(mac.client.claim(&request).await), "already_granted");
}

// [D1]
#[tokio::test]
async fn an_unchanged_queue_gives_304_but_not_after_a_restart() {
    let fleet = Fleet::start().await;
    let mac = fleet.factory("mac").await;
    fleet.admin.set_mode(None, Some(Mode::Gate)).await.unwrap();
    fleet.submit("---\ntitle: Build\ncapabilities: [\"has:xcode\"]\n---\n").await;
    let look = |client: client::Client, tag: Option<String>| async move {
        client.queue_state(&[product("default")], tag.as_deref()).await.unwrap()
    };
    let version = |news: &QueueVersion| match news {
        QueueVersion::Moved { products, .. } => products[0].version,
        QueueVersion::Same => panic!("it has moved"),
    };
    let tag = |news: &QueueVersion| match news {
        QueueVersion::Moved { tag, .. } => Some(tag.clone()),
        QueueVersion::Same => None,
    };

    let first = look(mac.client.clone(), None).await;
    let reads = fleet.store.operations();
    let second = look(mac.client.clone(), tag(&first)).await;
    let read = fleet.store.operations();
    let fleet = fleet.restarted().await;
    let client = fleet.client(&mac.token);
    let third = look(client.clone(), tag(&first)).await;
    fleet.submit("# Another\n").await;
    let fourth = look(client, tag(&third)).await;

    assert_eq!((second, read), (QueueVersion::Same, reads));
    assert!(version(&first) < version(&third), "{first:?} then {third:?}");
    assert!(version(&third) < version(&fourth), "{third:?} then {fourth:?}");
}

// [§10]
#[tokio::test]
async fn admins_switch_modes_operators_read_and_stale_writes_fail() {
    let fleet = Fleet::start().await;
    fleet.product("notes", ProductSettings::default()).await;
    let mac = fleet.factory("mac").await;
    let operator = TokenScope::Operator { products: [product("default")].into() };
    let operator = fleet.client(&fleet.token(operator).await.secret);
    let (_, tag) = fleet.admin.flags().await.unwrap();

    let switched = fleet.admin.set_mode(Some(&product("notes")), Some(Mode::Poll)).await.unwrap();
    let late = fleet.admin.set_flags(&DispatchModes::default(), Some(&tag)).await;
    let followed = fleet.admin.set_mode(Some(&product("notes")), None).await.unwrap();

    let off = DispatchModes { preemption: Some(false), ..DispatchModes::default() };
    assert_eq!(switched, DispatchModes { products: [(product("notes"), Mode::Poll)].into(), ..off.clone() });
    assert_eq!(followed, off);
    assert_eq!(code(late), "precondition_failed");
    assert_eq!(operator.flags().await.unwrap().0, off);
    assert_eq!(code(operator.set_flags(&DispatchModes::default(), None).await), "forbidden");
    assert_eq!(code(mac.client.flags().await), "forbidden");
    for nonsense in [json!({ "mode": "pull" }), json!({})] {
        let nonsense = Asking::new(Method::PUT, "/api/fleet/flags").token(&fleet.admin_token).json(&nonsense);
        assert_eq!(ask(fleet.address, nonsense).await.status, StatusCode::UNPROCESSABLE_ENTITY);
    }
}

#[tokio::test]
async fn an_open_inbox_begins_with_the_modes() {
    let fleet = Fleet::start().await;
    let mac = fleet.factory("mac").await;
    let mut inbox = mac.inbox().await;
    let hello = soon(inbox.next()).await.unwrap().unwrap();

    fleet.admin.set_mode(None, Some(Mode::Gate)).await.unwrap();
    let told = soon(inbox.next()).await.unwrap().unwrap();

    assert_eq!((hello.event.as_str(), hello.data.as_str()), ("hello", r#"{"modes":{"mode":"push"}}"#));
    assert_eq!((told.event.as_str(), told.data.as_str()), ("modes", r#"{"mode":"gate"}"#));
    assert_eq!(mac.beat().await.unwrap().modes, DispatchModes { mode: Mode::Gate, ..DispatchModes::default() });
}

// [I14]
#[tokio::test]
async fn idle_claims_cost_no_store_operation_in_any_mode() {
    let fleet = Fleet::start().await;
    let mac = fleet.factory("mac").await;
    for mode in [Mode::Poll, Mode::Gate] {
        fleet.admin.set_mode(None, Some(mode)).await.unwrap();
        let before = fleet.store.operations();

        let mut tag = None;
        for _ in 0..100 {
            assert_eq!(mac.client.claim(&claim(&mac, 8)).await.unwrap().granted, []);
            if let QueueVersion::Moved { tag: moved, .. } = mac.client.queue_state(&[], tag.as_deref()).await.unwrap() {
                tag = Some(moved);
            }
        }

        assert_eq!(fleet.store.operations(), before, "in mode {mode}");
    }
}

// [§10]
#[tokio::test]
async fn a_claim_without_a_token_is_rejected() {
    let fleet = Fleet::start().await;
    let mac = fleet.factory("mac").await;
    let job = fleet.submit("# One\n").await;

    let by_an_admin = fleet.admin.claim(&claim(&mac, 1)).await;
    let by_nobody: Result<_, ClientError> = fleet.client("none").claim(&claim(&mac, 1)).await;

    assert_eq!((code(by_an_admin), code(by_nobody)), ("forbidden".to_owned(), "unauthenticated".to_owned()));
    let detail: JobDetail = fleet.job(job).await;
    assert_eq!(detail.job.holder_factory_id, None);
}
