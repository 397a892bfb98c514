//! Factories on demand: demand, joining, retirement, and what is shown meanwhile [F9].

use std::collections::BTreeSet;
use std::time::Duration;

use coordinator::Error;
use domain::{EventKind, FactoryId, StageName, TokenScope};
use protocol::{AlertCode, CreateTokenRequest, DrainRequest, EnrolRequest, JobWait, PoolScale, PoolSettings, Presence};

use super::{lasting, quick};
use crate::fleet::{Fleet, PLAIN};
use crate::machine::{Machine, Offers, drain};

const IDLE_AFTER: Duration = Duration::from_secs(300);
const START_WITHIN: Duration = Duration::from_secs(300);
/// How long a stopped factory may still report.
const FAREWELL: Duration = Duration::from_secs(3);

fn settings(max: u32) -> PoolSettings {
    PoolSettings {
        capabilities: ["os:linux".parse().unwrap()].into(),
        engines: ["command".parse().unwrap()].into(),
        repos: ["notes".parse().unwrap()].into(),
        clones: false,
        products: BTreeSet::new(),
        seats: Some(4),
        warm: 0,
        max,
        cost: 0,
        start_within_ms: None,
        idle_after_ms: None,
    }
}

async fn declare(fleet: &Fleet, settings: PoolSettings) {
    fleet.coordinator.put_pool(&fleet.admin, &"linux".parse().unwrap(), settings).await.unwrap();
}

fn scale(fleet: &Fleet) -> PoolScale {
    fleet.coordinator.scale(&fleet.admin, None).unwrap().pools.remove(0)
}

fn wanted(fleet: &Fleet) -> (u32, u32) {
    let scale = scale(fleet);
    (scale.wanted, scale.live)
}

async fn waiting(fleet: &Fleet, job: domain::JobId) -> JobWait {
    fleet.job(job).await.waiting.unwrap()
}

async fn pool_alerts(fleet: &Fleet) -> Vec<String> {
    let items = fleet.coordinator.alerts(&fleet.admin).await.unwrap().items;
    items.into_iter().filter(|alert| alert.code == AlertCode::PoolNotStarting).map(|alert| alert.message).collect()
}

async fn goodbye(fleet: &Fleet, member: &Machine) {
    let beat = protocol::Heartbeat { leaving: true, ..member.heartbeat(protocol::PROTOCOL_VERSION) };
    fleet.coordinator.heartbeat(&member.who, beat).await.unwrap();
}

async fn factories(fleet: &Fleet) -> Vec<FactoryId> {
    fleet.coordinator.factories(&fleet.admin).unwrap().items.into_iter().map(|factory| factory.id).collect()
}

async fn pool_token(fleet: &Fleet, factory: Option<&str>) -> Result<String, Error> {
    let grant = TokenScope::Join {
        factory: factory.map(|name| name.parse().unwrap()),
        products: BTreeSet::new(),
        capabilities: BTreeSet::new(),
        pool: Some("linux".parse().unwrap()),
    };
    let request =
        CreateTokenRequest { name: "pool".to_owned(), grant, ttl_seconds: None, owner: None, forge_login: None };
    Ok(fleet.coordinator.create_token(&fleet.admin, request).await?.secret)
}

async fn enrol(fleet: &Fleet, join_token: &str, name: &str) -> Result<String, Error> {
    let enroll = EnrolRequest { join_token: join_token.to_owned(), factory_id: name.parse().unwrap(), nonce: None };
    Ok(fleet.coordinator.enroll(&enroll).await?.token)
}

// [F9]
#[tokio::test]
async fn waiting_work_wants_a_factory_and_is_not_unplaceable() {
    let fleet = Fleet::warm(quick()).await;
    declare(&fleet, settings(3)).await;
    assert_eq!(wanted(&fleet), (0, 0));

    let job = fleet.submit(PLAIN).await;
    fleet.coordinator.tick().await;

    assert_eq!(wanted(&fleet), (1, 0));
    let wait = waiting(&fleet, job).await;
    assert_eq!((wait.code.as_str(), wait.unplaceable), ("starting", false), "{}", wait.text);
    assert!(wait.text.contains("pool `linux` is starting a factory"), "{}", wait.text);
    let explained = fleet.coordinator.explain(&fleet.admin, job).await.unwrap();
    assert_eq!(explained.summary, wait.text);
    let counts = fleet.coordinator.job_counts(&fleet.admin, Vec::new()).await.unwrap();
    assert_eq!(counts.waiting.unplaceable, 0);
    assert!(fleet.coordinator.alerts(&fleet.admin).await.unwrap().items.is_empty());

    let member = Machine::join_pool(&fleet, "linux-1", Offers::default()).await;
    fleet.dispatch().await;
    assert_eq!(wanted(&fleet), (1, 1));
    member.run(&fleet, job).await;
    assert_eq!(fleet.coordinator.factory_view(&fleet.admin, &member.id).unwrap().pool, Some("linux".parse().unwrap()));
}

// [F9] [D4] [alert: pool_not_starting]
#[tokio::test]
async fn an_overdue_start_is_an_alert_until_a_factory_joins() {
    let fleet = Fleet::warm(quick()).await;
    declare(&fleet, settings(3)).await;
    let job = fleet.submit(PLAIN).await;
    fleet.coordinator.tick().await;

    fleet.pass(START_WITHIN - Duration::from_secs(1), &[]).await;
    assert_eq!(waiting(&fleet, job).await.code, "starting");
    assert_eq!(pool_alerts(&fleet).await, Vec::<String>::new());
    fleet.pass(Duration::from_secs(2), &[]).await;

    let wait = waiting(&fleet, job).await;
    assert_eq!((wait.code.as_str(), wait.unplaceable), ("no_factories", true));
    assert_eq!(wanted(&fleet), (1, 0), "it is tried further");
    let raised = pool_alerts(&fleet).await;
    assert!(raised.len() == 1 && raised[0].contains("has waited for 1 factory"), "{raised:?}");

    Machine::join_pool(&fleet, "linux-1", Offers::default()).await;
    fleet.dispatch().await;
    assert_eq!(pool_alerts(&fleet).await, Vec::<String>::new());
}

// [F9]
#[tokio::test]
async fn a_factory_that_does_not_fit_is_not_started_again_until_the_pool_changes() {
    let fleet = Fleet::warm(quick()).await;
    declare(&fleet, settings(3)).await;
    let job = fleet.submit("---\nrepo: notes\n---\n# Count the gates\n").await;
    fleet.coordinator.tick().await;
    assert_eq!(wanted(&fleet), (1, 0));

    let without = Offers { repos: BTreeSet::new(), ..Offers::default() };
    let member = Machine::join_pool(&fleet, "linux-1", without).await;
    fleet.coordinator.tick().await;

    assert_eq!(wanted(&fleet).0, 0, "another one would lack the repository as well");
    assert_eq!(waiting(&fleet, job).await.code, "no_factory_has_repo");
    let raised = pool_alerts(&fleet).await;
    assert!(raised.len() == 1 && raised[0].contains("`repo:notes`"), "{raised:?}");

    // It is remembered when the member is gone.
    goodbye(&fleet, &member).await;
    fleet.pass(FAREWELL, &[]).await;
    assert_eq!(factories(&fleet).await, Vec::<FactoryId>::new());
    assert_eq!(wanted(&fleet), (0, 0));

    declare(&fleet, settings(3)).await;
    assert_eq!(wanted(&fleet), (1, 0));
    assert_eq!(pool_alerts(&fleet).await, Vec::<String>::new());
}

// [F9]
#[tokio::test]
async fn an_idle_member_is_told_to_leave_and_forgotten() {
    let fleet = Fleet::warm(lasting()).await;
    declare(&fleet, settings(3)).await;
    let member = Machine::join_pool(&fleet, "linux-1", Offers::default()).await;
    let mut inbox = member.open_inbox(&fleet, 4).await;
    let busy = Machine::join_pool(&fleet, "linux-2", Offers::default()).await;
    fleet.coordinator.tick().await;
    assert_eq!(wanted(&fleet), (0, 2), "nothing is stopped by a number");

    fleet.pass(IDLE_AFTER - Duration::from_secs(1), &[&member, &busy]).await;
    assert_eq!(drain(&mut inbox).await.1, []);
    fleet.pass(Duration::from_secs(2), &[&member, &busy]).await;

    assert_eq!(drain(&mut inbox).await.1, [protocol::Directive::Leave]);
    assert!(member.renew(&fleet).await.directives.contains(&protocol::Directive::Leave), "it is repeated");
    assert!(fleet.coordinator.factory_view(&fleet.admin, &member.id).unwrap().draining);
    let job = fleet.submit(PLAIN).await;
    assert_eq!(fleet.dispatch().await, 0, "a retiring member gets no work");
    assert_eq!(waiting(&fleet, job).await.code, "starting");

    goodbye(&fleet, &member).await;
    goodbye(&fleet, &busy).await;
    fleet.pass(FAREWELL, &[]).await;
    assert_eq!(factories(&fleet).await, Vec::<FactoryId>::new());
    assert!(matches!(fleet.coordinator.authenticate(&member.token), Err(Error::Unauthenticated)), "its token is gone");
    assert_eq!(fleet.coordinator.list_tokens(&fleet.admin).unwrap().items.len(), 1);
    assert!(fleet.coordinator.alerts(&fleet.admin).await.unwrap().items.is_empty());
}

// [F9] [I4]
#[tokio::test]
async fn a_member_with_work_is_never_retired() {
    let fleet = Fleet::warm(quick()).await;
    declare(&fleet, settings(3)).await;
    let member = Machine::join_pool(&fleet, "linux-1", Offers::default()).await;
    let job = fleet.submit(PLAIN).await;
    fleet.dispatch().await;
    let grip = member.build(&fleet, job).await;

    fleet.pass(IDLE_AFTER * 3, &[&member]).await;
    assert_eq!(member.renew(&fleet).await.directives, []);
    assert_eq!(wanted(&fleet), (1, 1));

    // At its goodbye it is kept until its run has ended.
    goodbye(&fleet, &member).await;
    fleet.pass(FAREWELL, &[]).await;
    assert_eq!(factories(&fleet).await, std::slice::from_ref(&member.id));
    member.release(&fleet, grip).await.unwrap();
    fleet.pass(FAREWELL, &[]).await;
    assert_eq!(factories(&fleet).await, Vec::<FactoryId>::new());
    assert_eq!(fleet.stage(job).await, StageName::Queued);
}

// [F9]
#[tokio::test]
async fn warm_members_stay_and_a_drained_one_leaves() {
    let fleet = Fleet::warm(lasting()).await;
    declare(&fleet, PoolSettings { warm: 1, ..settings(3) }).await;
    assert_eq!(wanted(&fleet), (1, 0));
    let member = Machine::join_pool(&fleet, "linux-1", Offers::default()).await;

    fleet.pass(IDLE_AFTER * 3, &[&member]).await;
    assert_eq!(member.renew(&fleet).await.directives, []);
    assert_eq!(wanted(&fleet), (1, 1));

    let draining = DrainRequest { draining: true };
    fleet.coordinator.drain(&fleet.admin, &member.id, &draining).await.unwrap();
    fleet.coordinator.tick().await;
    assert!(member.renew(&fleet).await.directives.contains(&protocol::Directive::Leave));
    assert_eq!(wanted(&fleet), (2, 1), "another one keeps the pool warm");
}

// [F9]
#[tokio::test]
async fn the_members_of_a_removed_pool_leave() {
    let fleet = Fleet::warm(quick()).await;
    declare(&fleet, settings(3)).await;
    let member = Machine::join_pool(&fleet, "linux-1", Offers::default()).await;
    fleet.coordinator.tick().await;

    fleet.coordinator.delete_pool(&fleet.admin, &"linux".parse().unwrap()).await.unwrap();
    fleet.coordinator.tick().await;

    assert!(member.renew(&fleet).await.directives.contains(&protocol::Directive::Leave));
    assert!(matches!(
        fleet.coordinator.scale(&fleet.admin, Some(&"linux".parse().unwrap())),
        Err(Error::NoSuchPool(_))
    ));
}

// [F9] [I14]
#[tokio::test]
async fn a_restarted_coordinator_never_answers_less_than_what_may_run() {
    let fleet = Fleet::warm(lasting()).await;
    declare(&fleet, settings(3)).await;
    let first = Machine::join_pool(&fleet, "linux-1", Offers::default()).await;
    let second = Machine::join_pool(&fleet, "linux-2", Offers::default()).await;
    let job = fleet.submit(PLAIN).await;
    fleet.dispatch().await;
    let holder = [&first, &second].into_iter().find(|one| {
        let view = fleet.coordinator.factory_view(&fleet.admin, &one.id).unwrap();
        !view.seats.is_empty()
    });
    holder.unwrap().build(&fleet, job).await;

    let fleet = fleet.restarted().await;
    fleet.coordinator.tick().await;
    assert_eq!(wanted(&fleet), (2, 2), "both may still run");

    // Only the holder of the job comes back.
    let holder = holder.unwrap().id.clone();
    let alive = if first.id == holder { &first } else { &second };
    fleet.warm_up();
    alive.renew(&fleet).await;
    fleet.coordinator.tick().await;
    fleet.coordinator.tick().await;
    assert_eq!(wanted(&fleet), (1, 1));
    assert_eq!(factories(&fleet).await, [holder], "the other one is not a stale factory for ever");
}

// [F9] [T3] [I12]
#[tokio::test]
async fn a_join_token_of_a_pool_enrols_its_factories_only() {
    let fleet = Fleet::warm(quick()).await;
    assert!(matches!(pool_token(&fleet, None).await, Err(Error::NoSuchPool(_))));
    declare(&fleet, settings(1)).await;
    assert!(matches!(pool_token(&fleet, Some("mac")).await, Err(Error::Invalid { .. })));

    let token = pool_token(&fleet, None).await.unwrap();
    for name in ["linux-1", "linux-2"] {
        let own = enrol(&fleet, &token, name).await.unwrap();
        let grant = fleet.coordinator.authenticate(&own).unwrap().grant;
        assert!(matches!(grant, TokenScope::Factory { pool: Some(_), .. }), "{grant:?}");
    }
    assert!(matches!(enrol(&fleet, &token, "mac").await, Err(Error::Forbidden(_))));
    assert!(matches!(enrol(&fleet, &token, "linux-1").await, Err(Error::Forbidden(_))), "the name is taken");

    // One for a single factory is used up.
    let single = pool_token(&fleet, Some("linux-3")).await.unwrap();
    enrol(&fleet, &single, "linux-3").await.unwrap();
    assert!(matches!(enrol(&fleet, &single, "linux-3").await, Err(Error::JoinTokenUsed { .. })));
}

// [F9]
#[tokio::test]
async fn a_stolen_join_token_cannot_fill_the_fleet() {
    let fleet = Fleet::warm(quick()).await;
    declare(&fleet, settings(1)).await;
    let token = pool_token(&fleet, None).await.unwrap();

    let mut joined = 0;
    for number in 0..20 {
        let Ok(own) = enrol(&fleet, &token, &format!("linux-{number}")).await else { break };
        Machine::with_token(&fleet, &format!("linux-{number}"), own, Offers::default()).beat(&fleet).await;
        joined += 1;
    }

    assert_eq!(joined, 10);
}

// [F9]
#[tokio::test]
async fn a_factory_that_stops_returns_its_unaccepted_offers_at_once() {
    let fleet = Fleet::warm(lasting()).await;
    let mac = Machine::join(&fleet, "mac").await;
    let job = fleet.submit(PLAIN).await;
    fleet.dispatch().await;
    let other = Machine::join(&fleet, "other").await;

    goodbye(&fleet, &mac).await;
    fleet.dispatch().await;

    let view = fleet.job(job).await;
    assert_eq!(view.target_factory_id, Some(other.id.clone()));
    assert_eq!(fleet.count(job, EventKind::DispatchExpired).await, 1);
    let stopped = fleet.coordinator.factory_view(&fleet.admin, &mac.id).unwrap();
    assert_eq!(stopped.presence, Presence::Stopped, "a factory of no pool stays registered");
}

// [F9] [T3]
#[tokio::test]
async fn pools_are_declared_by_administrators_within_limits() {
    let fleet = Fleet::warm(quick()).await;
    let name = "linux".parse().unwrap();
    let put = async |settings| fleet.coordinator.put_pool(&fleet.admin, &name, settings).await;
    let refused = [
        settings(0),
        PoolSettings { warm: 4, ..settings(3) },
        PoolSettings { seats: Some(0), ..settings(3) },
        PoolSettings { cost: 101, ..settings(3) },
        PoolSettings { engines: BTreeSet::new(), ..settings(3) },
        PoolSettings { idle_after_ms: Some(0), ..settings(3) },
        PoolSettings { start_within_ms: Some(u64::MAX), ..settings(3) },
    ];
    for settings in refused {
        let refused = put(settings.clone()).await;
        assert!(matches!(refused, Err(Error::Invalid { .. })), "{settings:?}");
    }

    put(PoolSettings { products: ["shop".parse().unwrap()].into(), ..settings(3) }).await.unwrap();
    let of = |products: &[&str]| {
        let products = products.iter().map(|name| name.parse().unwrap()).collect();
        coordinator::Principal { grant: TokenScope::Viewer { products }, ..fleet.admin.clone() }
    };
    assert_eq!(fleet.coordinator.pools(&of(&["shop"])).unwrap().items.len(), 1);
    assert_eq!(fleet.coordinator.pools(&of(&["notes"])).unwrap().items.len(), 0);
    let viewer = of(&[]);
    assert!(matches!(fleet.coordinator.put_pool(&viewer, &name, settings(3)).await, Err(Error::Forbidden(_))));
    assert!(matches!(fleet.coordinator.delete_pool(&viewer, &name).await, Err(Error::Forbidden(_))));

    // It survives a restart.
    let fleet = fleet.restarted().await;
    assert_eq!(fleet.coordinator.pool(&fleet.admin, &name).unwrap().pool.max, 3);
}

// [F9] [I14]
#[tokio::test]
async fn pools_without_work_cost_no_store_operation() {
    let fleet = Fleet::warm(quick()).await;
    declare(&fleet, PoolSettings { warm: 1, ..settings(3) }).await;
    let member = Machine::join_pool(&fleet, "linux-1", Offers::default()).await;
    fleet.coordinator.tick().await;
    let before = fleet.operations();

    fleet.pass(IDLE_AFTER, &[&member]).await;
    for _ in 0..100 {
        scale(&fleet);
    }

    assert_eq!(fleet.operations(), before);
}
