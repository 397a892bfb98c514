//! Jobs that wait for other jobs [J4].

use std::collections::HashMap;
use std::time::Duration;

use coordinator::Error;
use domain::{EventKind, FailureReason, JobId, StageName};
use protocol::{Action, AlertCode, SubmitRequest};

use super::{lasting, quick, share_of};
use crate::fleet::{Fleet, IN_REPO, PLAIN, submit};
use crate::machine::{Grip, Machine, Offers, drain};

const DIAMONDS_AT_ONCE: usize = 50;

/// The number of diamonds.
fn diamonds() -> usize {
    share_of(1_000)
}

fn waiting_for(keys: &[&str], more: &str) -> String {
    let deps: Vec<String> = keys.iter().map(|key| format!("\"key:{key}\"")).collect();
    format!("---\ntitle: Later\ndeps: [{}]\n{more}---\nAfter the others.\n", deps.join(", "))
}

/// `a` before `b` and `c`, both before `d`.
fn diamond(n: usize) -> Vec<SubmitRequest> {
    let key = |letter: &str| format!("{letter}-{n}");
    let after = |letters: &[&str]| {
        let keys: Vec<String> = letters.iter().map(|letter| key(letter)).collect();
        waiting_for(&keys.iter().map(String::as_str).collect::<Vec<_>>(), "")
    };
    vec![
        submit(PLAIN, Some(&key("a"))),
        submit(&after(&["a"]), Some(&key("b"))),
        submit(&after(&["a"]), Some(&key("c"))),
        submit(&after(&["b", "c"]), Some(&key("d"))),
    ]
}

pub(super) async fn batch(fleet: &Fleet, jobs: Vec<SubmitRequest>) -> Vec<Result<JobId, Error>> {
    let outcomes = fleet.coordinator.submit_batch(&fleet.admin, jobs).await.unwrap();
    outcomes.into_iter().map(|outcome| outcome.map(|(view, _)| view.id)).collect()
}

// [J4]
#[tokio::test]
async fn row_19_diamonds_unblock_across_crashes_and_lost_reactions() {
    let mut fleet = Fleet::warm(quick()).await;
    fleet.ship_everything().await;
    let mac = Machine::join_with(&fleet, "mac", Offers { seats: 400, ..Offers::default() }).await;

    for first in (0..diamonds()).step_by(DIAMONDS_AT_ONCE) {
        let mut jobs: Vec<SubmitRequest> = (first..first + DIAMONDS_AT_ONCE).flat_map(diamond).collect();
        fleet.shuffle(&mut jobs);
        for outcome in batch(&fleet, jobs).await {
            outcome.unwrap();
        }
        fleet = work_off(fleet, &mac, DIAMONDS_AT_ONCE * 4).await;
    }

    let stories = fleet.stories().await;
    assert_eq!(stories.len(), diamonds() * 4);
    for n in 0..diamonds() {
        check_diamond(&stories, n);
    }
    if fleet.builder.has_one_order() {
        check_order(&fleet).await;
    }
}

/// Runs jobs in random order until `left` of them have ended; half-way the coordinator is killed.
pub(super) async fn work_off(mut fleet: Fleet, mac: &Machine, mut left: usize) -> Fleet {
    let half = left / 2;
    let mut inbox = mac.open_inbox(&fleet, 1_000).await;
    let mut offered = Vec::new();
    let mut idle = 0;
    while left > 0 {
        fleet.dispatch().await;
        offered.extend(drain(&mut inbox).await.0);
        if offered.is_empty() {
            // A reaction was lost: the sweep repeats it.
            fleet.coordinator.sweep().await;
            idle += 1;
            assert!(idle < 1_000, "{left} jobs are stuck");
            continue;
        }
        let message = offered.swap_remove(fleet.any(offered.len()));
        run(&fleet, mac, &message).await;
        left -= 1;
        if left == half {
            drop(inbox);
            fleet = fleet.restarted().await;
            fleet.warm_up();
            mac.beat(&fleet).await;
            inbox = mac.open_inbox(&fleet, 1_000).await;
            offered.clear();
        }
    }
    fleet
}

async fn run(fleet: &Fleet, mac: &Machine, message: &domain::Message) {
    let claim = mac.claim(fleet, message.job_id, message.dispatch_seq);
    let accepted = mac.accept(fleet, &claim).await.unwrap();
    let grip = Grip { job: message.job_id, epoch: accepted.lease_epoch };
    mac.start(fleet, grip).await.unwrap();
    if fleet.any(5) == 0 {
        // The completion is written; its reactions are not.
        let dag = fleet.coordinator.dag(&fleet.admin, message.job_id).await.unwrap();
        let others = dag.nodes.into_iter().map(|node| node.id).filter(|id| *id != message.job_id);
        fleet.store().set(|faults| faults.unwritable = others.collect());
    }
    mac.complete(fleet, grip, None).await.unwrap();
    fleet.store().heal();
}

fn check_diamond(stories: &HashMap<JobId, Vec<EventKind>>, n: usize) {
    use EventKind as K;
    let scenario = |letter: &str| {
        let id = JobId::derived(&domain::ProductId::default_product(), &format!("{letter}-{n}"));
        stories[&id].clone()
    };
    let run = [K::Dispatched, K::Granted, K::Started, K::Completed, K::Shipped];
    assert_eq!(scenario("a"), [&[K::Submitted][..], &run].concat());
    for letter in ["b", "c", "d"] {
        assert_eq!(scenario(letter), [&[K::Submitted, K::Unblocked][..], &run].concat(), "{letter}-{n}");
    }
}

/// No job was granted before all of its dependencies had shipped.
async fn check_order(fleet: &Fleet) {
    let product = domain::ProductId::default_product();
    let mut shipped: HashMap<JobId, usize> = HashMap::new();
    let mut granted: HashMap<JobId, usize> = HashMap::new();
    for (at, (job, kind)) in fleet.log().await.into_iter().enumerate() {
        match kind {
            EventKind::Shipped => drop(shipped.insert(job, at)),
            EventKind::Granted => drop(granted.insert(job, at)),
            _ => {}
        }
    }
    for n in 0..diamonds() {
        let id = |letter: &str| JobId::derived(&product, &format!("{letter}-{n}"));
        for (before, after) in [("a", "b"), ("a", "c"), ("b", "d"), ("c", "d")] {
            assert!(shipped[&id(before)] < granted[&id(after)], "{after}-{n} ran before {before}-{n} had shipped");
        }
    }
}

// [J4]
#[tokio::test]
async fn a_job_that_needs_any_starts_with_the_first_that_ships() {
    let fleet = Fleet::warm(lasting()).await;
    fleet.ship_everything().await;
    let mac = Machine::join(&fleet, "mac").await;
    let first = fleet.submit_as("first", PLAIN).await;
    let second = fleet.submit_as("second", PLAIN).await;
    let child = fleet.submit(&waiting_for(&["first", "second"], "depsMode: any\n")).await;
    assert_eq!(fleet.stage(child).await, StageName::Blocked);

    fleet.act(first, Action::Cancel).await.unwrap();
    let after_a_failure = fleet.stage(child).await;
    mac.run(&fleet, second).await;

    assert_eq!(after_a_failure, StageName::Blocked);
    assert_eq!(fleet.stage(child).await, StageName::Queued);
}

// [J4]
#[tokio::test]
async fn the_manifest_decides_the_effect_of_a_failed_dependency() {
    let fleet = Fleet::warm(lasting()).await;
    let dep = fleet.submit_as("dep", PLAIN).await;
    let blocks = fleet.submit_as("blocks", &waiting_for(&["dep"], "onDepFailure: block\n")).await;
    let fails = fleet.submit_as("fails", &waiting_for(&["dep"], "onDepFailure: fail\n")).await;
    let follows = fleet.submit_as("follows", &waiting_for(&["fails"], "onDepFailure: fail\n")).await;
    let ignores = fleet.submit_as("ignores", &waiting_for(&["dep"], "onDepFailure: ignore\n")).await;

    fleet.act(dep, Action::Cancel).await.unwrap();

    let blocked = fleet.coordinator.job(&fleet.admin, blocks).await.unwrap();
    assert_eq!((blocked.job.stage, blocked.waits_for), (StageName::Blocked, vec![dep]));
    for job in [fails, follows] {
        let view = fleet.job(job).await;
        assert_eq!((view.stage, view.reason), (StageName::Failed, Some(FailureReason::DepFailed)));
    }
    assert_eq!(fleet.stage(ignores).await, StageName::Queued);
}

#[tokio::test]
async fn requeueing_a_failed_dependency_unblocks_the_job() {
    let fleet = Fleet::warm(quick()).await;
    fleet.ship_everything().await;
    let mac = Machine::join(&fleet, "mac").await;
    let dep = fleet.submit_as("dep", PLAIN).await;
    let child = fleet.submit(&waiting_for(&["dep"], "")).await;
    fleet.act(dep, Action::Cancel).await.unwrap();

    fleet.act(dep, Action::Requeue).await.unwrap();
    mac.run(&fleet, dep).await;

    mac.run(&fleet, child).await;
    assert_eq!(fleet.stage(child).await, StageName::Shipped);
}

#[tokio::test]
async fn a_job_that_needs_any_fails_when_all_have_failed() {
    let fleet = Fleet::warm(quick()).await;
    let first = fleet.submit_as("first", PLAIN).await;
    let second = fleet.submit_as("second", PLAIN).await;
    let child = fleet.submit(&waiting_for(&["first", "second"], "depsMode: any\nonDepFailure: fail\n")).await;

    fleet.act(first, Action::Cancel).await.unwrap();
    let after_one = fleet.stage(child).await;
    fleet.act(second, Action::Cancel).await.unwrap();

    assert_eq!((after_one, fleet.stage(child).await), (StageName::Blocked, StageName::Failed));
}

// [J4] [attack: DAG bombs]
#[tokio::test]
async fn a_cycle_and_its_dependents_are_rejected_from_a_batch() {
    let fleet = Fleet::warm(lasting()).await;
    let jobs = vec![
        submit(&waiting_for(&["b"], ""), Some("a")),
        submit(&waiting_for(&["a"], ""), Some("b")),
        submit(&waiting_for(&["a"], ""), Some("c")),
        submit(&waiting_for(&["c"], ""), Some("d")),
        submit(PLAIN, Some("e")),
        submit(&waiting_for(&["e"], ""), Some("f")),
        submit(&waiting_for(&["g"], ""), Some("g")),
    ];

    let outcomes = batch(&fleet, jobs).await;

    let told: Vec<&str> = outcomes
        .iter()
        .map(|outcome| match outcome {
            Ok(_) => "taken",
            Err(Error::DependencyCycle(_)) => "cycle",
            Err(Error::NoSuchDep(_)) => "no such dependency",
            Err(_) => "something else",
        })
        .collect();
    assert_eq!(told, vec!["cycle", "cycle", "no such dependency", "no such dependency", "taken", "taken", "cycle"]);
    let page = fleet.coordinator.jobs(&fleet.admin, domain::JobFilter::default(), None, 100).await.unwrap();
    assert_eq!(page.items.len(), 2);
}

#[tokio::test]
async fn a_dependent_of_a_rejected_job_in_a_batch_is_rejected() {
    let fleet = Fleet::warm(quick()).await;
    let jobs =
        vec![submit("---\nrepo: [1]\n---\n", Some("broken")), submit(&waiting_for(&["broken"], ""), Some("child"))];

    let outcomes = batch(&fleet, jobs).await;

    assert!(matches!(outcomes[0], Err(Error::Manifest(_))));
    assert!(matches!(&outcomes[1], Err(Error::NoSuchDep(dep)) if dep == "key:broken"));
}

#[tokio::test]
async fn a_batch_job_with_a_shipped_dependency_is_queued_at_once() {
    let fleet = Fleet::warm(quick()).await;
    fleet.ship_everything().await;
    let mac = Machine::join(&fleet, "mac").await;
    let done = fleet.submit_as("done", PLAIN).await;
    mac.run(&fleet, done).await;

    let jobs = vec![submit(PLAIN, Some("done")), submit(&waiting_for(&["done"], ""), Some("next"))];
    let outcomes = batch(&fleet, jobs).await;

    let next = *outcomes[1].as_ref().unwrap();
    assert_eq!(fleet.stage(next).await, StageName::Queued);
}

#[tokio::test]
async fn a_dependency_that_ships_during_the_submit_is_noticed() {
    let fleet = Fleet::warm(quick()).await;
    fleet.ship_everything().await;
    let mac = Machine::join(&fleet, "mac").await;
    fleet.store().set(|faults| faults.yields_max = 3);

    for n in 0..300 {
        let dep = fleet.submit_as(&format!("dep-{n}"), PLAIN).await;
        let grip = mac.build(&fleet, dep).await;
        let body = waiting_for(&[&format!("dep-{n}")], "");
        let (child, _) = tokio::join!(fleet.submit(&body), async { mac.complete(&fleet, grip, None).await.unwrap() });

        assert_eq!(fleet.stage(child).await, StageName::Queued, "in round {n}");
        fleet.act(child, Action::Cancel).await.unwrap();
    }
}

#[tokio::test]
async fn a_waiting_job_names_its_dependencies_and_their_stages() {
    let fleet = Fleet::warm(quick()).await;
    let mac = Machine::join(&fleet, "mac").await;
    let walls = fleet.submit_as("walls", IN_REPO).await;
    let roof = fleet.submit(&waiting_for(&["walls"], "")).await;

    let before = fleet.coordinator.explain(&fleet.admin, roof).await.unwrap().summary;
    let grip = mac.build(&fleet, walls).await;
    mac.complete(&fleet, grip, None).await.unwrap();
    let after = fleet.coordinator.explain(&fleet.admin, roof).await.unwrap().summary;

    let (label, short) = (walls.titled("Mend the gate"), walls.short());
    assert_eq!(before, format!("waiting for {label} (queued)"));
    assert_eq!(after, format!("waiting for {label} (in testing: verified, ready to ship with `giga ship {short}`)"));
}

#[tokio::test]
async fn a_missing_dependency_is_rejected() {
    let fleet = Fleet::warm(quick()).await;

    let refused = fleet.try_submit(&waiting_for(&["unknown"], ""), None).await.unwrap_err();

    assert!(matches!(&refused, Error::NoSuchDep(dep) if dep == "key:unknown"), "{refused}");
}

// [row 19]
#[tokio::test]
async fn one_sweep_repeats_a_lost_reaction() {
    let fleet = Fleet::warm(lasting()).await;
    fleet.ship_everything().await;
    let mac = Machine::join(&fleet, "mac").await;
    let dep = fleet.submit_as("dep", PLAIN).await;
    let child = fleet.submit(&waiting_for(&["dep"], "")).await;
    fleet.store().set(|faults| {
        faults.unwritable.insert(child);
    });
    mac.run(&fleet, dep).await;
    fleet.store().heal();
    assert_eq!(fleet.stage(child).await, StageName::Blocked);

    fleet.pass(Duration::from_secs(1), &[&mac]).await;
    fleet.coordinator.sweep().await;

    assert_eq!(fleet.stage(child).await, StageName::Queued);
}

// [J4] [row 19] [attack: DAG bombs]
#[tokio::test]
async fn a_failure_propagates_down_a_chain_of_thousands() {
    let fleet = Fleet::warm(quick()).await;
    let root = fleet.submit_as("link-0", PLAIN).await;
    let mut last = root;
    for first in [1, 1_001, 2_001] {
        let link = |n: usize| {
            let body = waiting_for(&[&format!("link-{}", n - 1)], "onDepFailure: fail\n");
            submit(&body, Some(&format!("link-{n}")))
        };
        let outcomes = batch(&fleet, (first..first + 1_000).map(link).collect()).await;
        last = outcomes.into_iter().map(Result::unwrap).last().unwrap();
    }

    fleet.act(root, Action::Cancel).await.unwrap();

    let view = fleet.job(last).await;
    assert_eq!((view.stage, view.reason), (StageName::Failed, Some(FailureReason::DepFailed)));
}

// [attack: DAG bombs]
#[tokio::test]
async fn a_batch_with_too_many_dependencies_is_rejected() {
    let fleet = Fleet::warm(quick()).await;
    let keys: Vec<String> = (0..11).map(|n| format!("root-{n}")).collect();
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    let jobs = (0..1_000).map(|n| submit(&waiting_for(&keys, ""), Some(&format!("job-{n}")))).collect();

    let refused = fleet.coordinator.submit_batch(&fleet.admin, jobs).await.unwrap_err();

    assert!(matches!(refused, Error::Invalid { what: "deps", .. }), "{refused}");
}

// [§10]
#[tokio::test]
async fn a_graph_shows_all_jobs_around_one() {
    let fleet = Fleet::warm(quick()).await;
    let jobs: Vec<SubmitRequest> = [diamond(1), diamond(2)].concat();
    let ids: Vec<JobId> = batch(&fleet, jobs).await.into_iter().map(Result::unwrap).collect();
    let [a, b, c, d] = ids[..4] else { panic!("{ids:?}") };

    let dag = fleet.coordinator.dag(&fleet.admin, b).await.unwrap();

    let mut edges: Vec<_> = dag.nodes.iter().map(|node| (node.id, node.deps.clone())).collect();
    let mut expected = vec![(a, vec![]), (b, vec![a]), (c, vec![a]), (d, vec![b, c])];
    edges.sort();
    expected.sort();
    assert_eq!(edges, expected);
    assert!(dag.nodes.iter().all(|node| !node.title.is_empty()));
    assert_eq!((dag.truncated, dag.limit), (false, 2_000));
}

// [§10]
#[tokio::test]
async fn a_truncated_graph_is_flagged_and_keeps_the_nearest_jobs() {
    let fleet = Fleet::warm(quick()).await;
    let mut ids =
        batch(&fleet, vec![submit(PLAIN, Some("root")), submit(&waiting_for(&["root"], ""), Some("0"))]).await;
    for first in [1, 1_001] {
        let chain: Vec<SubmitRequest> = (first..first + 1_000_u32)
            .map(|n| submit(&waiting_for(&[&(n - 1).to_string()], ""), Some(&n.to_string())))
            .collect();
        ids.extend(batch(&fleet, chain).await);
    }
    let ids: Vec<JobId> = ids.into_iter().map(Result::unwrap).collect();

    let dag = fleet.coordinator.dag(&fleet.admin, ids[0]).await.unwrap();

    assert_eq!((dag.nodes.len(), dag.truncated, dag.limit), (2_000, true, 2_000));
    let shown: std::collections::BTreeSet<JobId> = dag.nodes.iter().map(|node| node.id).collect();
    assert!(ids[..2_000].iter().all(|id| shown.contains(id)), "those nearest to the job are there");
}

/// [I9]: a chain whose first job failed shows it at every link, until the job is requeued.
// [D4] [alert: dependency_failed]
#[tokio::test]
async fn a_failed_dependency_is_shown_until_it_is_requeued() {
    let fleet = Fleet::warm(lasting()).await;
    let mac = Machine::join(&fleet, "mac").await;
    let first = fleet.submit_as("first", PLAIN).await;
    let second = fleet.submit_as("second", &waiting_for(&["first"], "")).await;
    let third = fleet.submit_as("third", &waiting_for(&["second"], "")).await;
    let grip = mac.build(&fleet, first).await;
    mac.fail(&fleet, grip, FailureReason::BudgetExceeded).await.unwrap();

    let blocked = async || [fleet.job(second).await, fleet.job(third).await].map(|job| job.failed_dependency);
    let alerts = async || {
        let items = fleet.coordinator.alerts(&fleet.admin).await.unwrap().items;
        items.into_iter().filter(|alert| alert.code == AlertCode::DependencyFailed).collect::<Vec<_>>()
    };
    let found = alerts().await;
    let summary = fleet.coordinator.explain(&fleet.admin, second).await.unwrap().summary;

    assert_eq!(blocked().await, [Some(first), Some(first)]);
    assert_eq!(fleet.count(second, EventKind::DependencyFailed).await, 1);
    let mut about: Vec<_> = found.iter().filter_map(|alert| alert.job_id).collect();
    about.sort();
    let mut expected = vec![second, third];
    expected.sort();
    assert_eq!(about, expected);
    let why = format!("its dependency {} \"Mend the gate\" failed (budget_exceeded)", first.short());
    assert!(summary.starts_with(&why), "{summary}");
    assert!(found[0].message.contains(&why), "{}", found[0].message);

    fleet.act(first, Action::Requeue).await.unwrap();

    assert_eq!((blocked().await, alerts().await.len()), ([None, None], 0));
}

#[tokio::test]
async fn a_submit_shows_an_already_failed_dependency() {
    let fleet = Fleet::warm(lasting()).await;
    let first = fleet.submit_as("first", PLAIN).await;
    fleet.act(first, Action::Cancel).await.unwrap();

    let blocked = fleet.submit(&waiting_for(&["first"], "")).await;
    let hopeful = fleet.submit(&waiting_for(&["first"], "onDepFailure: ignore\n")).await;

    assert_eq!(fleet.job(blocked).await.failed_dependency, Some(first));
    assert_eq!(fleet.stage(hopeful).await, StageName::Queued);
}

#[tokio::test]
async fn a_submit_names_the_dependencies_that_the_job_waits_for() {
    let fleet = Fleet::warm(quick()).await;
    let first = fleet.submit_as("first", "# Paint the gate\n").await;

    let submitted = fleet.coordinator.submit(&fleet.admin, submit(&waiting_for(&["first"], ""), None)).await.unwrap();

    let waiting = submitted.job.waiting.unwrap();
    let expected = format!("waiting for {} \"Paint the gate\" (queued)", first.short());
    assert_eq!((waiting.code.as_str(), waiting.text), ("dependencies", expected));
}
