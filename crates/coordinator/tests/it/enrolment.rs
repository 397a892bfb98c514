//! Tokens, enrolment, processes of one factory, and removal [T3][T7].

use std::collections::BTreeSet;
use std::time::Duration;

use coordinator::{Error, Principal};
use domain::{Clock, EventKind, FactoryId, FailureReason, Refusal, StageName, TokenScope, UnavailableRepo};
use protocol::{
    Action, AlertCode, CreateTokenRequest, Directive, EnrolRequest, ErrandOutcome, Heartbeat, HeldJob, Presence,
    ProductSettings,
};

use super::{lasting, quick};
use crate::fleet::{Fleet, IN_REPO, PLAIN};
use crate::machine::{Machine, drain, sha};

const LEASE_TTL: Duration = Duration::from_secs(90);

async fn join_token(fleet: &Fleet, ttl_seconds: Option<u64>) -> String {
    let grant =
        TokenScope::Join { factory: None, products: BTreeSet::new(), capabilities: BTreeSet::new(), pool: None };
    let request = CreateTokenRequest { name: "join".to_owned(), grant, ttl_seconds, owner: None, forge_login: None };
    fleet.coordinator.create_token(&fleet.admin, request).await.unwrap().secret
}

// [T3]
#[tokio::test]
async fn a_join_token_enrols_one_of_fifty_factories() {
    let fleet = Fleet::warm(lasting()).await;
    let join_token = join_token(&fleet, None).await;
    fleet.store().set(|faults| faults.yields_max = 3);

    let enrolments = (0..50).map(|n| {
        let request = EnrolRequest {
            join_token: join_token.clone(),
            factory_id: format!("factory-{n}").parse().unwrap(),
            nonce: None,
        };
        let coordinator = &fleet.coordinator;
        async move { coordinator.enroll(&request).await }
    });
    let outcomes = futures_util::future::join_all(enrolments).await;

    let tokens: Vec<_> = outcomes.into_iter().filter_map(Result::ok).collect();
    assert_eq!(tokens.len(), 1);
    assert!(fleet.coordinator.authenticate(&tokens[0].token).is_ok());
    let known = fleet.coordinator.list_tokens(&fleet.admin).unwrap().items;
    assert_eq!(known.len(), 2, "the admin's and the factory's");
}

// [T3]
#[tokio::test]
async fn a_join_token_expires_and_allows_only_enrolment() {
    let fleet = Fleet::warm(quick()).await;
    let secret = join_token(&fleet, Some(60)).await;
    let who = fleet.coordinator.authenticate(&secret).unwrap();
    assert!(matches!(fleet.coordinator.factories(&who), Err(Error::Forbidden(_))));

    fleet.builder.clock.advance(Duration::from_secs(60));

    let late = EnrolRequest { join_token: secret.clone(), factory_id: "mac".parse().unwrap(), nonce: None };
    assert!(matches!(fleet.coordinator.enroll(&late).await, Err(Error::JoinTokenExpired { .. })));
    assert!(matches!(fleet.coordinator.authenticate(&secret), Err(Error::Unauthenticated)));
}

// [T3] [attack: stolen factory token]
#[tokio::test]
async fn a_rotated_token_is_valid_for_the_overlap_only() {
    let fleet = Fleet::warm(lasting()).await;
    let mac = Machine::join(&fleet, "mac").await;

    let rotated = fleet.coordinator.rotate_token(&mac.who, &mac.id).await.unwrap();
    let at_once = [fleet.coordinator.authenticate(&mac.token).is_ok(), fleet.coordinator.is_valid(&mac.who)];
    fleet.builder.clock.advance(fleet.coordinator.settings().token_overlap);

    assert_eq!(at_once, [true, true]);
    assert_eq!(rotated.old_until, fleet.coordinator.clock().now());
    assert!(matches!(fleet.coordinator.authenticate(&mac.token), Err(Error::Unauthenticated)));
    assert!(!fleet.coordinator.is_valid(&mac.who));
    let fleet = fleet.restarted().await;
    let who = fleet.coordinator.authenticate(&rotated.token).unwrap();
    assert_eq!(who.factory().unwrap(), &mac.id);
    assert!(fleet.coordinator.authenticate(&mac.token).is_err());
}

// [D6] [T3]
#[tokio::test]
async fn a_revoked_factory_loses_its_token_and_stream() {
    let fleet = Fleet::warm(lasting()).await;
    let mac = Machine::join(&fleet, "mac").await;
    let mut inbox = mac.open_inbox(&fleet, 4).await;

    fleet.coordinator.revoke_factory(&fleet.admin, &mac.id).await.unwrap();

    assert_eq!(inbox.next().await, None);
    assert!(matches!(fleet.coordinator.authenticate(&mac.token), Err(Error::Unauthenticated)));
    assert!(!fleet.coordinator.is_valid(&mac.who));
    let fleet = fleet.restarted().await;
    assert!(fleet.coordinator.authenticate(&mac.token).is_err());
}

#[tokio::test]
async fn a_revocation_with_a_lost_answer_can_be_repeated() {
    let fleet = Fleet::warm(quick()).await;
    for n in 0..30 {
        let mac = Machine::join(&fleet, &format!("mac-{n}")).await;
        fleet.store().set(|faults| (faults.answers_lost, faults.commits_lost) = (0.5, 0.2));
        let mut tries = 0;
        while fleet.coordinator.revoke_factory(&fleet.admin, &mac.id).await.is_err() {
            tries += 1;
            assert!(tries < 50, "the token can never be revoked");
        }
        fleet.store().heal();

        assert!(fleet.coordinator.authenticate(&mac.token).is_err());
    }
}

#[tokio::test]
async fn row_06_writes_of_a_superseded_process_are_fenced() {
    let fleet = Fleet::warm(lasting()).await;
    let old = Machine::join(&fleet, "mac").await;
    let mut old_inbox = old.open_inbox(&fleet, 4).await;
    let job = fleet.submit(PLAIN).await;
    let grip = old.build(&fleet, job).await;
    drain(&mut old_inbox).await;

    let new = Machine::clone_of(&fleet, &old, Duration::ZERO);
    new.beat(&fleet).await;

    assert_eq!(fleet.stage(job).await, StageName::Queued);
    let refused = old.complete(&fleet, grip, None).await.unwrap_err();
    assert!(matches!(refused, Error::Refused(Refusal::StaleEpoch { .. })), "{refused}");
    assert_eq!(old.renew(&fleet).await.lost, vec![HeldJob { job_id: job, lease_epoch: grip.epoch }]);
    assert!(old.beat(&fleet).await.superseded);
    while let Some(event) = old_inbox.next().await {
        assert!(matches!(event, protocol::InboxEvent::Directive(Directive::Cancel { .. })), "{event:?}");
    }
    fleet.dispatch().await;
    let claim = old.claim(&fleet, job, fleet.job(job).await.dispatch_seq);
    let refused = old.accept(&fleet, &claim).await.unwrap_err();
    assert!(matches!(refused, Error::Refused(Refusal::NotHolder { .. })), "{refused}");
    new.run(&fleet, job).await;
    assert_eq!(fleet.stage(job).await, StageName::Shipped);
}

#[tokio::test]
async fn row_06_two_processes_of_a_factory_are_granted_once() {
    let fleet = Fleet::warm(quick()).await;
    let mac = Machine::join(&fleet, "mac").await;
    fleet.store().set(|faults| faults.yields_max = 3);

    for _ in 0..200 {
        let job = fleet.submit(PLAIN).await;
        fleet.dispatch().await;
        let seq = fleet.job(job).await.dispatch_seq;
        let claims: Vec<_> = (0..3).map(|_| mac.claim(&fleet, job, seq)).collect();
        let accepts = claims.iter().map(|claim| fleet.coordinator.accept(&mac.who, claim));
        let outcomes = futures_util::future::join_all(accepts).await;

        assert_eq!(outcomes.iter().filter(|outcome| outcome.is_ok()).count(), 1);
        fleet.act(job, protocol::Action::Cancel).await.unwrap();
    }
}

#[tokio::test]
async fn renewals_of_a_superseded_process_are_no_heartbeat() {
    let fleet = Fleet::warm(quick()).await;
    let old = Machine::join(&fleet, "mac").await;
    let new = Machine::clone_of(&fleet, &old, Duration::ZERO);
    new.beat(&fleet).await;

    fleet.pass(LEASE_TTL * 2, &[&old]).await;

    let view = fleet.coordinator.factory_view(&fleet.admin, &new.id).unwrap();
    assert_eq!(view.presence, Presence::Stale);
    assert!(!old.beat(&fleet).await.superseded, "with the newer process gone the older one may serve again");
}

// [attack: factory A writes to B's job]
#[tokio::test]
async fn a_lease_of_another_factory_is_reported_as_lost() {
    let fleet = Fleet::warm(quick()).await;
    let mac = Machine::join(&fleet, "mac").await;
    let job = fleet.submit(PLAIN).await;
    let grip = mac.build(&fleet, job).await;
    let linux = Machine::join(&fleet, "linux").await;
    let held = HeldJob { job_id: job, lease_epoch: grip.epoch };

    let renewed = linux.renew_only(&fleet, vec![held]).await;
    let completed = linux.complete(&fleet, grip, None).await.unwrap_err();

    assert_eq!(renewed.lost, vec![held]);
    assert!(matches!(completed, Error::Refused(Refusal::NotHolder { .. })), "{completed}");
    assert_eq!(mac.renew(&fleet).await.lost, vec![]);
}

// [T7]
#[tokio::test]
async fn a_removed_factory_loses_its_leases_and_tokens() {
    let fleet = Fleet::warm(lasting()).await;
    let mac = Machine::join(&fleet, "mac").await;
    let mut inbox = mac.open_inbox(&fleet, 4).await;
    let job = fleet.submit(PLAIN).await;
    let grip = mac.build(&fleet, job).await;
    drain(&mut inbox).await;

    fleet.coordinator.deregister(&fleet.admin, &mac.id).await.unwrap();

    assert_eq!(fleet.stage(job).await, StageName::Queued);
    assert!(matches!(fleet.coordinator.authenticate(&mac.token), Err(Error::Unauthenticated)));
    assert!(mac.complete(&fleet, grip, None).await.is_err());
    assert!(matches!(fleet.coordinator.factory_view(&fleet.admin, &mac.id), Err(Error::NoSuchFactory(_))));
    while inbox.next().await.is_some() {}
    let fleet = fleet.restarted().await;
    assert_eq!(fleet.coordinator.factories(&fleet.admin).unwrap().items, vec![]);
}

// [T7]
#[tokio::test]
async fn only_long_silent_factories_without_leases_are_pruned() {
    let fleet = Fleet::warm(quick().with(|settings| settings.stale_after = Duration::from_secs(95))).await;
    let alive = Machine::join(&fleet, "alive").await;
    let silent = Machine::join(&fleet, "silent").await;
    fleet.pass(Duration::from_secs(100), &[&alive]).await;

    let pruned = fleet.coordinator.prune(&fleet.admin).await.unwrap();

    assert_eq!(pruned.factories, vec![silent.id.clone()]);
    let left: Vec<FactoryId> =
        fleet.coordinator.factories(&fleet.admin).unwrap().items.into_iter().map(|view| view.id).collect();
    assert_eq!(left, vec![alive.id.clone()]);
    let fleet = fleet.restarted().await;
    assert!(matches!(fleet.coordinator.prune(&fleet.admin).await, Err(Error::NotReady(_))));
}

// [I12] [S2] [T3] [attack: stolen factory token]
#[tokio::test]
async fn a_factorys_capabilities_are_limited_by_its_token() {
    let fleet = Fleet::warm(quick()).await;
    let grant = TokenScope::Join {
        factory: Some("mac".parse().unwrap()),
        products: BTreeSet::new(),
        capabilities: ["has:docker", "os:macos", "repo:notes"].map(|token| token.parse().unwrap()).into(),
        pool: None,
    };
    let request =
        CreateTokenRequest { name: "join".to_owned(), grant, ttl_seconds: None, owner: None, forge_login: None };
    let join_token = fleet.coordinator.create_token(&fleet.admin, request).await.unwrap().secret;
    let other = EnrolRequest { join_token: join_token.clone(), factory_id: "linux".parse().unwrap(), nonce: None };
    assert!(matches!(fleet.coordinator.enroll(&other).await, Err(Error::Forbidden(_))));
    let enrolled = fleet
        .coordinator
        .enroll(&EnrolRequest { join_token, factory_id: "mac".parse().unwrap(), nonce: None })
        .await
        .unwrap();
    let mut mac = Machine::join(&fleet, "template").await;
    mac.who = fleet.coordinator.authenticate(&enrolled.token).unwrap();
    mac.instance = domain::InstanceId::from_bytes(fleet.bytes());
    mac.offers.capabilities = ["has:docker", "gpu:l4", "os:darwin"].map(|token| token.parse().unwrap()).into();
    mac.offers.repos = ["notes", "secrets"].map(|repo| repo.parse().unwrap()).into();

    mac.beat(&fleet).await;

    let view = fleet.coordinator.factory_view(&fleet.admin, &"mac".parse().unwrap()).unwrap();
    assert_eq!(view.capabilities, ["has:docker", "os:mac", "repo:notes"].map(|token| token.parse().unwrap()).into());
    assert_eq!(view.repos, ["notes".parse().unwrap()].into());
}

// [T3] [attack: stolen factory token]
#[tokio::test]
async fn an_unnamed_join_token_cannot_take_over_a_factory() {
    let fleet = Fleet::warm(lasting()).await;
    let mac = Machine::join(&fleet, "mac").await;
    let anonymous = join_token(&fleet, None).await;
    let named = fleet.coordinator.join_token(mac.id.clone()).await.unwrap();

    let stranger = EnrolRequest { join_token: anonymous.clone(), factory_id: mac.id.clone(), nonce: None };
    let refused = fleet.coordinator.enroll(&stranger).await.map(drop);
    let invited = EnrolRequest { join_token: named.reveal().to_owned(), factory_id: mac.id.clone(), nonce: None };
    let enrolled = fleet.coordinator.enroll(&invited).await.unwrap();

    assert!(matches!(refused, Err(Error::Forbidden(_))), "{refused:?}");
    assert_eq!(enrolled.factory_id, mac.id);
    let elsewhere = EnrolRequest { join_token: anonymous, factory_id: "linux".parse().unwrap(), nonce: None };
    fleet.coordinator.enroll(&elsewhere).await.unwrap();
}

// [I12] [T3] [attack: stolen factory token]
#[tokio::test]
async fn a_token_of_another_product_cannot_write() {
    let fleet = Fleet::warm(quick()).await;
    let mut mac = Machine::join(&fleet, "mac").await;
    let job = fleet.submit(IN_REPO).await;
    let grip = mac.build(&fleet, job).await;
    let products = ["another".parse().unwrap()].into();
    mac.who.grant =
        TokenScope::Factory { factory: mac.id.clone(), products, capabilities: BTreeSet::new(), pool: None };
    let before = fleet.kinds(job).await;

    let outcomes = [
        mac.start(&fleet, grip).await.map(drop),
        mac.save(&fleet, grip, &sha(1)).await.map(drop),
        mac.complete(&fleet, grip, Some(sha(1))).await.map(drop),
        mac.promote(&fleet, grip, ErrandOutcome::Done).await.map(drop),
        mac.fail(&fleet, grip, FailureReason::Crash).await.map(drop),
        mac.release(&fleet, grip).await.map(drop),
        fleet.coordinator.append_log(&mac.who, job, grip.epoch, 0, b"hello").await.map(drop),
    ];

    for outcome in outcomes {
        assert!(matches!(outcome, Err(Error::NoSuchJob(_))), "{outcome:?}");
    }
    assert_eq!(fleet.kinds(job).await, before);
}

// [T3]
#[tokio::test]
async fn ended_tokens_are_purged_on_creation_and_at_the_start() {
    let fleet = Fleet::warm(lasting()).await;
    let names = |fleet: &Fleet| -> Vec<String> {
        let tokens = fleet.coordinator.list_tokens(&fleet.admin).unwrap().items;
        tokens.into_iter().map(|token| token.name).collect()
    };
    join_token(&fleet, Some(60)).await;
    fleet.builder.clock.advance(Duration::from_secs(60));

    join_token(&fleet, Some(60)).await;
    let after_another = names(&fleet);
    fleet.builder.clock.advance(Duration::from_secs(60));
    let fleet = fleet.restarted().await;

    assert_eq!((after_another.len(), names(&fleet)), (2, vec!["admin".to_owned()]));
}

// [T3]
#[tokio::test]
async fn a_factory_token_has_the_configured_lifetime() {
    let ttl = Duration::from_hours(1);
    let fleet = Fleet::warm(quick().with(|settings| settings.factory_token_ttl = Some(ttl))).await;
    let mac = Machine::join(&fleet, "mac").await;

    fleet.builder.clock.advance(ttl);

    assert!(matches!(fleet.coordinator.authenticate(&mac.token), Err(Error::Unauthenticated)));
}

// [§12]
#[tokio::test]
async fn an_unsupported_protocol_version_is_rejected() {
    let fleet = Fleet::warm(quick()).await;
    let mac = Machine::join(&fleet, "mac").await;

    let newer = protocol::PROTOCOL_VERSION + 1;
    let refused = fleet.coordinator.heartbeat(&mac.who, mac.heartbeat(newer)).await.unwrap_err();

    assert!(matches!(refused, Error::OldProtocol { found } if found == newer), "{refused}");
}

// [row 6]
#[tokio::test]
async fn a_restart_remembers_the_newest_process_of_a_factory() {
    let fleet = Fleet::warm(lasting()).await;
    let old = Machine::join(&fleet, "mac").await;
    let new = Machine::clone_of(&fleet, &old, Duration::ZERO);
    new.beat(&fleet).await;

    let fleet = fleet.restarted().await;
    let answer = old.beat(&fleet).await;

    assert!(answer.superseded);
    assert!(!new.beat(&fleet).await.superseded);
}

#[tokio::test]
async fn a_repeated_enrolment_returns_the_same_token() {
    let fleet = Fleet::warm(lasting()).await;
    let join_token = fleet.coordinator.join_token("mac".parse().unwrap()).await.unwrap().reveal().to_owned();
    let nonce = Some(domain::ClaimNonce::from_bytes([7; 16]));
    let request = EnrolRequest { join_token, factory_id: "mac".parse().unwrap(), nonce };

    let first = fleet.coordinator.enroll(&request).await.unwrap();
    let again = fleet.coordinator.enroll(&request).await.unwrap();
    let other_nonce = Some(domain::ClaimNonce::from_bytes([8; 16]));
    let thief = fleet.coordinator.enroll(&EnrolRequest { nonce: other_nonce, ..request }).await.err();

    assert_eq!(first.token, again.token);
    assert!(fleet.coordinator.authenticate(&first.token).is_ok());
    let is_used = matches!(&thief, Some(Error::JoinTokenUsed { by }) if by.as_str() == "mac");
    assert!(is_used, "a join token is good once: {thief:?}");
}

// [I12] [alert: remote_unavailable]
#[tokio::test]
async fn an_alert_about_another_products_repository_is_not_shown() {
    let fleet = Fleet::warm(quick()).await;
    let mac = Machine::join(&fleet, "mac").await;
    let owned = ProductSettings { repos: Some(["secret".parse().unwrap()].into()), ..ProductSettings::default() };
    fleet.coordinator.put_product(&fleet.admin, &"beta".parse().unwrap(), owned).await.unwrap();
    let unavailable = UnavailableRepo { message: "gone".to_owned(), since: fleet.builder.clock.now() };
    let unavailable_repos = [("secret".parse().unwrap(), unavailable)].into();
    let heartbeat = Heartbeat { unavailable_repos, ..mac.heartbeat(protocol::PROTOCOL_VERSION) };
    fleet.coordinator.heartbeat(&mac.who, heartbeat).await.unwrap();
    let alpha = ["alpha".parse().unwrap()].into();
    let viewer = Principal { grant: TokenScope::Viewer { products: alpha }, ..fleet.admin.clone() };

    let mut codes = Vec::new();
    for who in [&fleet.admin, &viewer] {
        let alerts = fleet.coordinator.alerts(who).await.unwrap().items;
        codes.push(alerts.into_iter().map(|alert| alert.code).collect::<Vec<_>>());
    }

    assert_eq!(codes, vec![vec![protocol::AlertCode::RemoteUnavailable], vec![]]);
}

/// A closed stream is noticed at once: the factory gets no offers, and keeps its leases.
// [T7]
#[tokio::test]
async fn a_factory_without_its_stream_gets_no_offers() {
    let fleet = Fleet::warm(lasting()).await;
    let mac = Machine::join(&fleet, "mac").await;
    let inbox = mac.open_inbox(&fleet, 4).await;
    let held = fleet.submit(PLAIN).await;
    let grip = mac.build(&fleet, held).await;
    let presence = || fleet.coordinator.factory_view(&fleet.admin, &mac.id).unwrap().presence;
    assert_eq!(presence(), Presence::Live);

    drop(inbox);
    let waiting = fleet.submit(PLAIN).await;
    fleet.dispatch().await;
    mac.beat(&fleet).await;
    let (view, explained) = (fleet.job(waiting).await, fleet.coordinator.explain(&fleet.admin, held).await.unwrap());

    assert_eq!((presence(), view.target_factory_id), (Presence::Disconnected, None));
    assert!(explained.summary.contains("which is disconnected since"), "{}", explained.summary);
    assert_eq!(explained.holder_presence, Some(Presence::Disconnected));
    assert_eq!(mac.renew_only(&fleet, mac.held()).await.lost, []);

    let _inbox = mac.open_inbox(&fleet, 4).await;
    fleet.dispatch().await;

    assert_eq!((presence(), fleet.job(waiting).await.target_factory_id), (Presence::Live, Some(mac.id.clone())));
    mac.complete(&fleet, grip, None).await.unwrap();
}

// [J10]
#[tokio::test]
async fn a_dismissed_dead_letter_is_unlisted_and_can_be_requeued() {
    let fleet = Fleet::warm(lasting()).await;
    let mac = Machine::join(&fleet, "mac").await;
    let job = fleet.submit("---\ntitle: Hopeless\nretry: { max: 1 }\n---\nTry.\n").await;
    let too_early = fleet.coordinator.dismiss(&fleet.admin, job, None, None).await;
    let grip = mac.build(&fleet, job).await;
    mac.fail(&fleet, grip, FailureReason::VerifyFailed).await.unwrap();
    let shown = async || {
        let letters = fleet.coordinator.dead_letters(&fleet.admin, None, 10).await.unwrap().items.len();
        let alerts = fleet.coordinator.alerts(&fleet.admin).await.unwrap().items;
        (letters, alerts.iter().filter(|alert| alert.code == AlertCode::DeadLetter).count())
    };
    assert!(too_early.is_err());
    assert_eq!(shown().await, (1, 1));

    let view = fleet.coordinator.dismiss(&fleet.admin, job, None, Some("known".to_owned())).await.unwrap();

    assert_eq!((view.stage, view.dismissed, shown().await), (StageName::DeadLetter, true, (0, 0)));
    assert_eq!(fleet.kinds(job).await.last(), Some(&EventKind::Dismissed));
    fleet.act(job, Action::Requeue).await.unwrap();
    assert_eq!((fleet.stage(job).await, fleet.job(job).await.dismissed), (StageName::Queued, false));
}
