//! Claim: a factory requests work and gets the jobs that push would have given it, once.

use std::collections::BTreeMap;
use std::time::Duration;

use coordinator::Error;
use domain::{EventKind, FailureReason, JobId, Mode, ProductId, Refusal, StageName, TokenScope};
use protocol::{Action, DrainRequest, NotGranted, ProductSettings};

use super::{lasting, quick, retold};
use crate::fleet::{Fleet, IN_REPO, PLAIN, TestFleetBuilder, submit};
use crate::machine::{Machine, Offers};

const LEASE_TTL: Duration = Duration::from_secs(90);

async fn polling(builder: TestFleetBuilder) -> Fleet {
    let fleet = Fleet::warm(builder).await;
    fleet.switch(Mode::Poll).await;
    fleet
}

/// Submits a job after all that were submitted before.
async fn submit_next(fleet: &Fleet, manifest: &str) -> JobId {
    fleet.builder.clock.advance(Duration::from_millis(1));
    fleet.submit(manifest).await
}

// [D1] [§9]
#[tokio::test]
async fn a_claimed_job_has_the_same_events_as_a_pushed_one() {
    let fleet = polling(lasting()).await;
    let mac = Machine::join(&fleet, "mac").await;
    let job = fleet.submit(PLAIN).await;

    let claimed = fleet.coordinator.claim(&mac.who, &mac.request(&fleet, 1)).await.unwrap();

    let granted = &claimed.granted[0];
    assert_eq!((granted.accepted.assignment.job_id, granted.accepted.assignment.body_md.as_str()), (job, PLAIN));
    assert_eq!((granted.dispatch_seq.0, granted.accepted.lease_epoch.0, claimed.waiting), (1, 1, 0));
    let view = fleet.job(job).await;
    assert_eq!((view.stage, view.holder_factory_id), (StageName::Assigned, Some(mac.id.clone())));
    assert_eq!(fleet.kinds(job).await, [EventKind::Submitted, EventKind::Dispatched, EventKind::Granted]);
    assert!(fleet.coordinator.explain(&fleet.admin, job).await.unwrap().then.is_some(), "the decision is recorded");
}

// [I6]
#[tokio::test]
async fn row_05_a_nonce_gets_the_same_jobs_across_crashes() {
    let fleet = polling(lasting()).await;
    let mac = Machine::join(&fleet, "mac").await;
    for _ in 0..5 {
        fleet.submit(PLAIN).await;
    }
    let request = mac.request(&fleet, 3);

    let first = mac.ask(&fleet, &request).await.unwrap();
    let again = mac.ask(&fleet, &request).await.unwrap();
    let fleet = fleet.restarted().await;
    let after_a_restart = mac.ask(&fleet, &request).await.unwrap();

    assert_eq!(first.len(), 3);
    assert_eq!((&again, &after_a_restart), (&first, &first));
}

#[tokio::test]
async fn row_05_a_repeated_claim_answer_extends_the_lease() {
    let fleet = polling(quick()).await;
    let mac = Machine::join(&fleet, "mac").await;
    let job = fleet.submit(PLAIN).await;
    let request = mac.request(&fleet, 1);
    mac.ask(&fleet, &request).await.unwrap();

    fleet.builder.clock.advance(Duration::from_secs(40));
    mac.ask(&fleet, &request).await.unwrap();

    let expires_at = fleet.coordinator.lease(&fleet.admin, job).await.unwrap().expires_at;
    assert_eq!(expires_at, Some(fleet.coordinator.clock().now().after(LEASE_TTL)));
}

// [I6]
#[tokio::test]
async fn row_05_a_nonce_that_has_won_wins_no_other_job() {
    let fleet = polling(quick()).await;
    let mac = Machine::join(&fleet, "mac").await;
    fleet.submit(PLAIN).await;
    let request = mac.request(&fleet, 1);
    let grips = mac.ask(&fleet, &request).await.unwrap();
    mac.start(&fleet, grips[0]).await.unwrap();
    mac.complete(&fleet, grips[0], None).await.unwrap();
    let next = fleet.submit(PLAIN).await;

    let late = mac.ask(&fleet, &request).await.unwrap_err();

    assert!(matches!(late, Error::Refused(Refusal::AlreadyGranted)), "{late}");
    assert_eq!(fleet.stage(next).await, StageName::Queued);
}

// [I6]
#[tokio::test]
async fn row_05_a_claim_sent_twice_concurrently_wins_once() {
    let fleet = polling(quick()).await;
    let mac = Machine::join(&fleet, "mac").await;
    fleet.store().set(|faults| faults.yields_max = 3);
    for _ in 0..4 {
        fleet.submit(PLAIN).await;
    }
    let request = mac.request(&fleet, 2);

    let (first, second) = tokio::join!(mac.ask(&fleet, &request), mac.ask(&fleet, &request));

    assert_eq!(first.unwrap(), second.unwrap());
    assert_eq!(mac.held().len(), 2);
}

#[tokio::test]
async fn row_32_a_claim_with_an_unknown_outcome_is_granted_once() {
    for seed in 0..retold(30) {
        let fleet = polling(quick()).await;
        let mac = Machine::join(&fleet, "mac").await;
        let job = fleet.submit(PLAIN).await;
        fleet.store().set(|faults| if seed % 2 == 0 { faults.answers_lost = 0.5 } else { faults.commits_lost = 0.5 });
        let request = mac.request(&fleet, 1);

        let mut grips = Vec::new();
        for _ in 0..20 {
            if let Ok(granted) = mac.ask(&fleet, &request).await {
                grips.extend(granted);
            }
            if !grips.is_empty() {
                break;
            }
        }
        fleet.store().heal();

        assert_eq!(grips.iter().map(|grip| (grip.job, grip.epoch.0)).collect::<Vec<_>>(), [(job, 1)]);
        assert_eq!(fleet.count(job, EventKind::Granted).await, 1);
    }
}

#[tokio::test]
async fn a_claim_is_limited_by_its_request_and_free_seats() {
    let fleet = polling(quick()).await;
    let mac = Machine::join_with(&fleet, "mac", Offers { seats: 3, ..Offers::default() }).await;
    let mut jobs = Vec::new();
    for _ in 0..5 {
        jobs.push(submit_next(&fleet, PLAIN).await);
    }

    let two = mac.ask_for(&fleet, 2).await;
    let one = mac.ask_for(&fleet, 10).await;
    let none = mac.ask_for(&fleet, 10).await;

    assert_eq!((two.as_slice(), one.as_slice(), none.as_slice()), (&jobs[..2], &jobs[2..3], &jobs[..0]));
}

// [S6]
#[tokio::test]
async fn concurrent_claims_exceed_no_seat_limit() {
    let fleet = polling(quick()).await;
    let repo_seats = Some([("notes".parse().unwrap(), 2)].into());
    fleet.set_product(ProductSettings { repo_seats, ..ProductSettings::default() }).await;
    let mut machines = Vec::new();
    for n in 0..6 {
        let mut offers = Offers { seats: 3, ..Offers::default() };
        offers.capabilities.extend(["engine:claude".parse().unwrap(), "engine:codex".parse().unwrap()]);
        offers.engine_seats = [("claude".parse().unwrap(), 1)].into();
        machines.push(Machine::join_with(&fleet, &format!("factory-{n}"), offers).await);
    }
    let by_claude = "---\ntitle: By claude\nengine: claude\n---\n";
    let mut wanted = BTreeMap::new();
    for _ in 0..12 {
        for manifest in [IN_REPO, by_claude, PLAIN] {
            wanted.insert(fleet.submit(manifest).await, manifest);
        }
    }
    fleet.store().set(|faults| faults.yields_max = 4);

    for round in 0..10 {
        let asking = machines.iter().flat_map(|machine| [machine.ask_for(&fleet, 2), machine.ask_for(&fleet, 1)]);
        let (_, sent) = tokio::join!(futures_util::future::join_all(asking), fleet.dispatch());

        let mut in_repo = 0;
        for view in fleet.coordinator.factories(&fleet.admin).unwrap().items {
            let of =
                |manifest: &str| view.seats.iter().filter(|seat| wanted[&seat.job_id.unwrap()] == manifest).count();
            assert!(view.seats.len() <= 3, "round {round}: {} has {:?}", view.id, view.seats);
            assert!(of(by_claude) <= 1, "round {round}: {} runs claude twice", view.id);
            in_repo += of(IN_REPO);
        }
        assert_eq!((in_repo, sent), (2, 0), "round {round}");
        for machine in &machines {
            for held in machine.held().into_iter().take(1) {
                let grip = crate::machine::Grip { job: held.job_id, epoch: held.lease_epoch };
                machine.release(&fleet, grip).await.unwrap();
            }
        }
        for machine in &machines {
            machine.ask_for(&fleet, 3).await;
        }
    }
}

// [S6]
#[tokio::test]
async fn claims_and_the_dispatcher_share_no_repository_seat() {
    for round in 0..retold(50) {
        let fleet = Fleet::warm(quick()).await;
        let repo_seats = Some([("notes".parse().unwrap(), 1)].into());
        fleet.set_product(ProductSettings { repo_seats, ..ProductSettings::default() }).await;
        let mut offers = Offers::default();
        offers.capabilities.insert("has:xcode".parse().unwrap());
        let (_mac, linux) = (Machine::join_with(&fleet, "mac", offers).await, Machine::join(&fleet, "linux").await);
        // The dispatcher begins with the jobs that only one factory can do, a claim of the other with the next ones.
        submit_next(&fleet, "---\ntitle: Build\nrepo: notes\ncapabilities: [\"has:xcode\"]\n---\n").await;
        submit_next(&fleet, IN_REPO).await;
        fleet.store().set(|faults| faults.yields_max = 5);

        let (sent, claimed) = if round % 2 == 0 {
            tokio::join!(fleet.coordinator.dispatch_round(), linux.ask_for(&fleet, 4))
        } else {
            let (claimed, sent) = tokio::join!(linux.ask_for(&fleet, 4), fleet.coordinator.dispatch_round());
            (sent, claimed)
        };

        assert_eq!(sent + claimed.len(), 1);
    }
}

#[tokio::test]
async fn row_20_a_claim_skips_a_job_with_a_reopened_dependency() {
    let fleet = polling(lasting()).await;
    let mac = Machine::join_with(&fleet, "mac", Offers { seats: 1, ..Offers::default() }).await;
    let dep = fleet.submit("---\ntitle: First\ncapabilities: [\"has:xcode\"]\n---\n").await;
    let child = fleet.submit(&format!("---\ntitle: Then\ndeps: [\"{dep}\"]\nonDepFailure: ignore\n---\n")).await;
    fleet.act(dep, Action::Cancel).await.unwrap();
    assert_eq!(fleet.stage(child).await, StageName::Queued);
    fleet.act(dep, Action::Requeue).await.unwrap();
    let other = fleet.submit(PLAIN).await;

    let claimed = mac.ask_for(&fleet, 1).await;
    let dry = fleet.coordinator.claim_dry_run(&mac.who, &mac.request(&fleet, 1)).await.unwrap();

    assert_eq!(claimed, [other]);
    assert_eq!(fleet.stage(child).await, StageName::Queued);
    assert_eq!(dry.would_grant, []);
    fleet.act(dep, Action::Cancel).await.unwrap();
    fleet.act(other, Action::Cancel).await.unwrap();
    assert_eq!(mac.ask_for(&fleet, 1).await, [child]);
}

#[tokio::test]
async fn row_20_claims_skip_many_jobs_with_a_reopened_dependency() {
    let fleet = polling(quick()).await;
    let mac = Machine::join_with(&fleet, "mac", Offers { seats: 1, ..Offers::default() }).await;
    let dep = fleet.submit("---\ntitle: First\ncapabilities: [\"has:xcode\"]\n---\n").await;
    let mut children = Vec::new();
    for _ in 0..40 {
        let child = format!("---\ntitle: Then\ndeps: [\"{dep}\"]\nonDepFailure: ignore\n---\n");
        children.push(submit_next(&fleet, &child).await);
    }
    fleet.act(dep, Action::Cancel).await.unwrap();
    fleet.act(dep, Action::Requeue).await.unwrap();
    let other = submit_next(&fleet, PLAIN).await;

    let first = mac.ask_for(&fleet, 1).await;
    // Time alone does not move any of them in front of the others.
    fleet.pass(Duration::from_secs(600), &[&mac]).await;
    let second = mac.ask_for(&fleet, 1).await;

    assert_eq!((first, second), (vec![], vec![other]));
    fleet.act(other, Action::Cancel).await.unwrap();
    fleet.act(dep, Action::Cancel).await.unwrap();
    let back = mac.ask_for(&fleet, 1).await;
    assert!(children.contains(&back[0]), "{back:?}");
}

#[tokio::test]
async fn a_failed_claim_moves_the_version_and_a_dry_run_does_not() {
    let fleet = polling(quick()).await;
    let mac = Machine::join(&fleet, "mac").await;
    let job = fleet.submit(PLAIN).await;
    let version = || fleet.coordinator.queue_state(&fleet.admin, Vec::new()).unwrap()[0].version;
    let before = version();

    fleet.coordinator.claim_dry_run(&mac.who, &mac.request(&fleet, 1)).await.unwrap();
    let after_a_dry_run = version();
    fleet.store().set(|faults| {
        faults.unwritable.insert(job);
    });
    let failed = mac.ask(&fleet, &mac.request(&fleet, 1)).await;

    assert_eq!(after_a_dry_run, before);
    assert!(matches!(failed, Err(Error::Store(_))), "{failed:?}");
    assert!(version() > before, "a client that asked meanwhile would not learn that it is back");
}

#[tokio::test]
async fn a_claim_gets_jobs_of_its_requested_products_only() {
    let fleet = polling(quick()).await;
    let mac = Machine::join(&fleet, "mac").await;
    let notes: ProductId = "notes".parse().unwrap();
    fleet.coordinator.put_product(&fleet.admin, &notes, ProductSettings::default()).await.unwrap();
    let default = fleet.submit(PLAIN).await;
    let mut submit = submit(PLAIN, None);
    submit.product_id = Some(notes.clone());
    let of_notes = fleet.coordinator.submit(&fleet.admin, submit).await.unwrap().job.id;
    let mut only = mac.request(&fleet, 9);
    only.products = Some(vec![notes.clone()]);
    let mut except = mac.request(&fleet, 9);
    except.except_products = vec![notes];

    let dry = fleet.coordinator.claim_dry_run(&mac.who, &only).await.unwrap();
    let jobs = |grips: Vec<crate::machine::Grip>| grips.iter().map(|grip| grip.job).collect::<Vec<_>>();
    let others = jobs(mac.ask(&fleet, &except).await.unwrap());
    let own = jobs(mac.ask(&fleet, &only).await.unwrap());

    assert_eq!(dry.would_grant.iter().map(|would| would.job_id).collect::<Vec<_>>(), [of_notes]);
    assert_eq!((others, own), (vec![default], vec![of_notes]));
}

// [I10] [row 17]
#[tokio::test]
async fn row_16_a_cancelled_or_paused_job_is_not_claimed() {
    let fleet = polling(lasting()).await;
    let mac = Machine::join(&fleet, "mac").await;
    let (cancelled, paused) = (fleet.submit(PLAIN).await, fleet.submit(PLAIN).await);
    let pause = |paused| ProductSettings { paused: Some(paused), ..ProductSettings::default() };

    fleet.act(cancelled, Action::Cancel).await.unwrap();
    fleet.set_product(pause(true)).await;
    let while_paused = mac.ask_for(&fleet, 4).await;
    fleet.set_product(pause(false)).await;

    assert_eq!(while_paused, []);
    assert_eq!(mac.ask_for(&fleet, 4).await, [paused]);
}

// [D1]
#[tokio::test]
async fn a_dispatched_job_is_not_claimed_nor_a_claimed_one_dispatched() {
    let fleet = Fleet::warm(lasting()).await;
    let mac = Machine::join_with(&fleet, "mac", Offers { seats: 1, ..Offers::default() }).await;
    let offered = fleet.submit(PLAIN).await;
    fleet.dispatch().await;
    let linux = Machine::join(&fleet, "linux").await;

    let claimed = linux.ask_for(&fleet, 4).await;
    let waiting = fleet.submit("---\ntitle: For linux\n---\n").await;
    let second = linux.ask_for(&fleet, 4).await;

    assert_eq!((claimed, second), (vec![], vec![waiting]));
    assert_eq!(fleet.dispatch().await, 0);
    mac.try_take(&fleet, offered).await.unwrap();
}

#[tokio::test]
async fn row_06_only_the_newest_process_of_a_factory_may_claim() {
    let fleet = polling(quick()).await;
    let old = Machine::join(&fleet, "mac").await;
    let new = Machine::clone_of(&fleet, &old, Duration::ZERO);
    new.beat(&fleet).await;
    let job = fleet.submit(PLAIN).await;

    let refused = old.ask(&fleet, &old.request(&fleet, 1)).await.unwrap_err();

    assert!(matches!(refused, Error::Refused(Refusal::NotHolder { .. })), "{refused}");
    assert_eq!(new.ask_for(&fleet, 1).await, [job]);
}

// [T3] [attack: stolen factory token]
#[tokio::test]
async fn a_claim_gets_no_job_outside_its_token_scope() {
    let fleet = polling(quick()).await;
    let mut mac = Machine::join(&fleet, "mac").await;
    let job = fleet.submit(PLAIN).await;

    let products = ["another".parse().unwrap()].into();
    mac.who.grant =
        TokenScope::Factory { factory: mac.id.clone(), products, capabilities: Default::default(), pool: None };
    let claimed = fleet.coordinator.claim(&mac.who, &mac.request(&fleet, 1)).await.unwrap();
    let mut borrowed = mac.request(&fleet, 1);
    borrowed.factory_id = Some("linux".parse().unwrap());
    let borrowed = mac.ask(&fleet, &borrowed).await.unwrap_err();
    let by_a_person = fleet.coordinator.claim(&fleet.admin, &mac.request(&fleet, 1)).await.unwrap_err();

    assert_eq!((claimed.granted.len(), claimed.waiting), (0, 0));
    assert!(matches!(borrowed, Error::Forbidden(_)), "{borrowed}");
    assert!(matches!(by_a_person, Error::Forbidden(_)), "{by_a_person}");
    assert_eq!(fleet.stage(job).await, StageName::Queued);
}

#[tokio::test]
async fn a_draining_factory_claims_nothing() {
    let fleet = polling(quick()).await;
    let mac = Machine::join(&fleet, "mac").await;
    fleet.submit(PLAIN).await;

    fleet.coordinator.drain(&fleet.admin, &mac.id, &DrainRequest { draining: true }).await.unwrap();
    let refused = mac.ask(&fleet, &mac.request(&fleet, 1)).await.unwrap_err();
    let dry = fleet.coordinator.claim_dry_run(&mac.who, &mac.request(&fleet, 1)).await.unwrap();

    assert!(matches!(refused, Error::NotReady(_)), "{refused}");
    assert_eq!(dry.passed_over[0].job_id, None);
    assert!(dry.passed_over[0].why.contains("draining"), "{dry:?}");
}

// [§10]
#[tokio::test]
async fn a_dry_run_explains_the_claim_and_changes_nothing() {
    let fleet = polling(lasting()).await;
    let mac = Machine::join_with(&fleet, "mac", Offers { seats: 2, ..Offers::default() }).await;
    let unfit = fleet.submit("---\ntitle: Build the app\ncapabilities: [\"has:xcode\"]\n---\n").await;
    let jobs = [submit_next(&fleet, PLAIN).await, submit_next(&fleet, PLAIN).await];
    let before = fleet.log().await;

    let dry = fleet.coordinator.claim_dry_run(&mac.who, &mac.request(&fleet, 9)).await.unwrap();

    assert_eq!(fleet.log().await, before);
    assert_eq!(dry.would_grant.iter().map(|would| would.job_id).collect::<Vec<_>>(), jobs);
    let why = "the factory lacks `has:xcode`, has all 2 seats in use".to_owned();
    assert_eq!(dry.passed_over, [NotGranted { job_id: Some(unfit), why }]);
    assert_eq!((dry.granted.len(), dry.waiting), (0, 3));
    // A store that fails a write leaves its job to the next claim.
    let mut granted = mac.ask_for(&fleet, 9).await;
    granted.extend(mac.ask_for(&fleet, 9).await);
    granted.sort_unstable();
    assert_eq!(granted, jobs);
}

// [S3]
#[tokio::test]
async fn push_and_claim_place_jobs_on_the_same_factories() {
    let mut placed = 0;
    for seed in 0..retold(20) {
        let (pushing, claiming) = (arranged(seed).await, arranged(seed).await);

        pushing.fleet.dispatch().await;

        let log = pushing.fleet.log().await;
        for (job, _) in log.iter().filter(|(_, kind)| *kind == EventKind::Dispatched) {
            let nth = pushing.jobs.iter().position(|known| known == job).unwrap();
            let target = pushing.fleet.job(*job).await.target_factory_id.unwrap();
            let machine = claiming.machines.iter().find(|machine| machine.id == target).unwrap();
            assert_eq!(machine.ask_for(&claiming.fleet, 1).await, [claiming.jobs[nth]], "seed {seed}");
            placed += 1;
        }
    }
    assert!(placed > retold(40), "only {placed} jobs could be placed: the test proves little");
}

struct ClaimScenario {
    fleet: Fleet,
    machines: Vec<Machine>,
    jobs: Vec<JobId>,
}

/// A fleet that is the same for the same seed.
async fn arranged(seed: usize) -> ClaimScenario {
    let fleet = Fleet::warm(quick()).await;
    let tokens = ["os:linux", "has:docker", "gpu:l4"];
    let mut machines = Vec::new();
    for n in 0..3 + seed % 3 {
        let mut offers = Offers { seats: 1, ..Offers::default() };
        offers.capabilities.insert(tokens[(seed + n) % tokens.len()].parse().unwrap());
        machines.push(Machine::join_with(&fleet, &format!("factory-{n}"), offers).await);
    }
    let mut jobs = Vec::new();
    for n in 0..6 {
        let token = tokens[(seed * 7 + n * 3) % tokens.len()];
        let priority = ["low", "normal", "high"][(seed + n) % 3];
        let manifest = format!("---\ntitle: One\ncapabilities: [\"{token}\"]\npriority: {priority}\n---\n");
        jobs.push(submit_next(&fleet, &manifest).await);
    }
    ClaimScenario { fleet, machines, jobs }
}

// [D1]
#[tokio::test]
async fn a_failed_job_is_claimed_after_its_backoff_with_a_new_version() {
    let fleet = polling(quick()).await;
    let mac = Machine::join(&fleet, "mac").await;
    let job = fleet.submit(PLAIN).await;
    let grips = mac.ask(&fleet, &mac.request(&fleet, 1)).await.unwrap();
    mac.fail(&fleet, grips[0], FailureReason::Crash).await.unwrap();
    let version = || fleet.coordinator.queue_state(&fleet.admin, Vec::new()).unwrap()[0].version;
    let before = version();

    let too_early = mac.ask_for(&fleet, 1).await;
    let unmoved = version();
    fleet.pass(Duration::from_secs(60), &[&mac]).await;

    assert_eq!((too_early, unmoved), (vec![], before));
    assert!(version() > before, "a client that waits for the version would not learn of it");
    assert_eq!(mac.ask_for(&fleet, 1).await, [job]);
}
