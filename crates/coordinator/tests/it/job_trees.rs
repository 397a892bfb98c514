//! Trees of jobs: composites that follow their children, and tasks that run after them [J4].

use std::collections::HashMap;
use std::time::Duration;

use coordinator::Error;
use domain::{Dep, EventKind, FailureReason, JobId, Priority, ProductId, RunInsights, StageName};
use protocol::{Action, ActionRequest, CompletionReport, Directive, SubmitRequest};

use super::dependencies::{batch, work_off};
use super::{lasting, quick, share_of};
use crate::fleet::{Fleet, PLAIN, submit};
use crate::machine::{Machine, Offers, drain};

const TREES_AT_ONCE: usize = 40;

/// Runs of one tree: a, c, d and e.
const RUNS: usize = 4;

fn composite(more: &str) -> String {
    format!("---\ntitle: Mend all gates\nkind: composite\n{more}---\nAll of them.\n")
}

fn child(body: &str, key: &str, parent: &str) -> SubmitRequest {
    SubmitRequest { parent: Some(Dep::Key(parent.to_owned())), ..submit(body, Some(key)) }
}

/// `r` has the children `a`, `b` and `d`. `b` is a composite with the child `c`; `d` is a task that runs after `e`.
fn tree(n: usize) -> Vec<SubmitRequest> {
    let key = |letter: &str| format!("{letter}-{n}");
    let below = |body: &str, letter: &str, parent: &str| child(body, &key(letter), &key(parent));
    vec![
        submit(&composite(""), Some(&key("r"))),
        below(PLAIN, "a", "r"),
        below(&composite(""), "b", "r"),
        below(PLAIN, "c", "b"),
        below(PLAIN, "d", "r"),
        below(PLAIN, "e", "d"),
    ]
}

fn id(key: &str) -> JobId {
    JobId::derived(&ProductId::default_product(), key)
}

async fn add(fleet: &Fleet, parent: JobId, jobs: Vec<SubmitRequest>) -> Vec<Result<JobId, Error>> {
    let outcomes = fleet.coordinator.add_children(&fleet.admin, parent, jobs).await.unwrap();
    outcomes.into_iter().map(|outcome| outcome.map(|(view, _)| view.id)).collect()
}

async fn explained(fleet: &Fleet, id: JobId) -> String {
    fleet.coordinator.explain(&fleet.admin, id).await.unwrap().summary
}

fn rejection(outcome: &Result<JobId, Error>) -> String {
    outcome.as_ref().unwrap_err().to_string()
}

// [J4] [row 19]
#[tokio::test]
async fn row_19_trees_ship_in_any_order_across_crashes() {
    let mut fleet = Fleet::warm(quick()).await;
    fleet.ship_everything().await;
    let mac = Machine::join_with(&fleet, "mac", Offers { seats: 400, ..Offers::default() }).await;
    let trees = share_of(1_000);

    for first in (0..trees).step_by(TREES_AT_ONCE) {
        let mut whole = Vec::new();
        for n in first..(first + TREES_AT_ONCE).min(trees) {
            let mut jobs = tree(n);
            if n % 2 == 0 {
                whole.extend(jobs);
            } else {
                let root = fleet.submit_as(&format!("r-{n}"), &composite("")).await;
                jobs.remove(0);
                fleet.shuffle(&mut jobs);
                for outcome in add(&fleet, root, jobs).await {
                    outcome.unwrap();
                }
            }
        }
        fleet.shuffle(&mut whole);
        for outcome in batch(&fleet, whole).await {
            outcome.unwrap();
        }
        let count = (first + TREES_AT_ONCE).min(trees) - first;
        fleet = work_off(fleet, &mac, count * RUNS).await;
        fleet.coordinator.sweep().await;
    }

    let stories = fleet.stories().await;
    assert_eq!(stories.len(), trees * 6);
    for n in 0..trees {
        check_tree(&stories, n);
    }
}

fn check_tree(stories: &HashMap<JobId, Vec<EventKind>>, n: usize) {
    use EventKind as K;
    let story = |letter: &str| stories[&id(&format!("{letter}-{n}"))].clone();
    let run = [K::Dispatched, K::Granted, K::Started, K::Completed, K::Shipped];
    for letter in ["a", "c", "e"] {
        assert_eq!(story(letter), [&[K::Submitted][..], &run].concat(), "{letter}-{n}");
    }
    assert_eq!(story("d"), [&[K::Submitted, K::Unblocked][..], &run].concat(), "d-{n}");
    assert_eq!(story("b"), [K::Submitted, K::Shipped], "b-{n}");
    let added: &[K] = if n.is_multiple_of(2) { &[] } else { &[K::ChildrenAdded] };
    assert_eq!(story("r"), [&[K::Submitted][..], added, &[K::Shipped]].concat(), "r-{n}");
}

// [J4] [J5]
#[tokio::test]
async fn a_composite_is_blocked_until_its_children_have_shipped() {
    let fleet = Fleet::warm(quick()).await;
    fleet.ship_everything().await;
    let mac = Machine::join(&fleet, "mac").await;
    let root = fleet.submit_as("root", &composite("")).await;
    let empty = explained(&fleet, root).await;
    let children = add(&fleet, root, vec![submit(PLAIN, Some("one")), submit(PLAIN, Some("two"))]).await;
    let [one, two] = children.into_iter().map(Result::unwrap).collect::<Vec<_>>()[..] else { panic!() };

    let before = fleet.coordinator.job(&fleet.admin, root).await.unwrap();
    let waiting = before.job.waiting.unwrap();
    mac.run(&fleet, one).await;
    let halfway = fleet.coordinator.job(&fleet.admin, root).await.unwrap();
    mac.run(&fleet, two).await;

    assert!(empty.starts_with("a composite without children"), "{empty}");
    assert_eq!((waiting.code.as_str(), before.job.stage), ("children", StageName::Blocked));
    assert!(waiting.text.starts_with("waiting for its children: "), "{}", waiting.text);
    let summary = halfway.tree.unwrap();
    assert_eq!((halfway.job.stage, halfway.waits_for), (StageName::Blocked, vec![two]));
    assert_eq!((summary.jobs, summary.shipped, summary.failed, summary.children.len()), (2, 1, 0, 2));
    assert_eq!(fleet.stage(root).await, StageName::Shipped);
    assert_eq!(explained(&fleet, root).await, "its children have shipped");
}

// [J4]
#[tokio::test]
async fn the_manifest_decides_the_effect_of_a_failed_child() {
    let fleet = Fleet::warm(lasting()).await;
    fleet.ship_everything().await;
    let mac = Machine::join(&fleet, "mac").await;
    let mut roots = Vec::new();
    let policies = ["onDepFailure: block\n", "onDepFailure: fail\n", "onDepFailure: ignore\n", "depsMode: any\n"];
    for (n, policy) in policies.iter().enumerate() {
        let root = format!("root-{n}");
        let jobs = vec![
            submit(&composite(policy), Some(&root)),
            child(PLAIN, &format!("bad-{n}"), &root),
            child(PLAIN, &format!("good-{n}"), &root),
        ];
        for outcome in batch(&fleet, jobs).await {
            outcome.unwrap();
        }
        fleet.act(id(&format!("bad-{n}")), Action::Cancel).await.unwrap();
        roots.push(id(&root));
    }

    let after_a_failure = [0, 1, 2, 3].map(|n| roots[n]);
    let mut stages = Vec::new();
    for root in after_a_failure {
        stages.push(fleet.stage(root).await);
    }
    let blocked = fleet.job(roots[0]).await;
    let why = explained(&fleet, roots[0]).await;
    let failed = fleet.job(roots[1]).await;
    for n in [0, 2, 3] {
        mac.run(&fleet, id(&format!("good-{n}"))).await;
    }

    use StageName::{Blocked, Failed, Shipped};
    assert_eq!(stages, [Blocked, Failed, Blocked, Blocked]);
    assert_eq!(blocked.failed_dependency, Some(id("bad-0")));
    assert!(why.starts_with("its child "), "{why}");
    assert_eq!(failed.reason, Some(FailureReason::DepFailed));
    let mut stages = Vec::new();
    for root in after_a_failure {
        stages.push(fleet.stage(root).await);
    }
    assert_eq!(stages, [Blocked, Failed, Shipped, Shipped]);

    fleet.act(id("bad-0"), Action::Requeue).await.unwrap();
    fleet.act(roots[1], Action::Requeue).await.unwrap();
    fleet.act(id("bad-1"), Action::Requeue).await.unwrap();
    let again = fleet.job(roots[1]).await;
    for key in ["bad-0", "bad-1", "good-1"] {
        mac.run(&fleet, id(key)).await;
    }
    assert!(matches!(again.stage, Blocked | Failed), "a composite never has a run: {}", again.stage);
    assert_eq!(fleet.stage(roots[0]).await, Shipped);
}

// [J4]
#[tokio::test]
async fn a_task_runs_after_the_children_that_are_added_to_it() {
    let fleet = Fleet::warm(quick()).await;
    fleet.ship_everything().await;
    let mac = Machine::join(&fleet, "mac").await;
    let parent = fleet.submit_as("parent", PLAIN).await;
    fleet.dispatch().await;

    let one = add(&fleet, parent, vec![submit("# Before\n", Some("one"))]).await.pop().unwrap().unwrap();
    let blocked = fleet.job(parent).await;
    let late = mac.try_take(&fleet, parent).await;
    mac.run(&fleet, one).await;
    let unblocked = fleet.stage(parent).await;
    let grip = mac.build(&fleet, parent).await;
    let refused = add(&fleet, parent, vec![submit("# Too late\n", Some("late"))]).await;

    assert_eq!((blocked.stage, blocked.has_children), (StageName::Blocked, true));
    assert!(late.is_err(), "an offer from before the children is void");
    assert_eq!(unblocked, StageName::Queued);
    assert!(rejection(&refused[0]).contains("is `building`"), "{}", rejection(&refused[0]));
    mac.complete(&fleet, grip, None).await.unwrap();
    assert_eq!(fleet.stage(parent).await, StageName::Shipped);
}

// [row 19]
#[tokio::test]
async fn a_parent_goes_on_if_its_children_were_never_written() {
    let fleet = Fleet::warm(lasting()).await;
    let parent = fleet.submit_as("parent", PLAIN).await;
    fleet.store().set(|faults| {
        faults.unwritable.insert(id("child"));
    });

    let lost = add(&fleet, parent, vec![submit(PLAIN, Some("child"))]).await;
    let fleet = fleet.restarted().await;
    fleet.store().heal();
    let afterwards = fleet.stage(parent).await;
    let again = add(&fleet, parent, vec![submit(PLAIN, Some("child"))]).await;

    assert!(lost[0].is_err());
    assert_eq!(afterwards, StageName::Queued);
    assert_eq!(again.into_iter().map(Result::unwrap).collect::<Vec<_>>(), [id("child")]);
    assert_eq!(fleet.stage(parent).await, StageName::Blocked);
}

// [J4] [row 19]
#[tokio::test]
async fn a_cancellation_goes_down_the_tree_and_is_repeated() {
    let fleet = Fleet::warm(lasting()).await;
    let mac = Machine::join(&fleet, "mac").await;
    for outcome in batch(&fleet, tree(1)).await {
        outcome.unwrap();
    }
    mac.build(&fleet, id("c-1")).await;
    let mut inbox = mac.open_inbox(&fleet, 0).await;
    fleet.store().set(|faults| {
        faults.unwritable.insert(id("e-1"));
    });

    fleet.act(id("r-1"), Action::Cancel).await.unwrap();
    let (_, directives) = drain(&mut inbox).await;
    fleet.store().heal();
    let missed = fleet.stage(id("e-1")).await;
    drop(inbox);
    let fleet = fleet.restarted().await;

    let stopped = |one: &Directive| matches!(one, Directive::Cancel { job_id, .. } if *job_id == id("c-1"));
    assert!(directives.iter().any(stopped), "{directives:?}");
    assert_ne!(missed, StageName::Failed);
    for letter in ["a", "b", "c", "d", "e"] {
        let job = fleet.job(id(&format!("{letter}-1"))).await;
        assert_eq!((job.stage, job.reason), (StageName::Failed, Some(FailureReason::Cancelled)), "{letter}");
    }
    let refused = fleet.act(id("a-1"), Action::Requeue).await.unwrap_err().to_string();
    assert!(refused.contains("above it was cancelled"), "{refused}");
    fleet.act(id("r-1"), Action::Requeue).await.unwrap();
    fleet.act(id("a-1"), Action::Requeue).await.unwrap();
    fleet.coordinator.sweep().await;
    assert_eq!(fleet.stage(id("r-1")).await, StageName::Blocked);
    assert_ne!(fleet.stage(id("a-1")).await, StageName::Failed);
}

// [J4] [row 19]
#[tokio::test]
async fn a_priority_goes_down_the_tree_and_is_repeated() {
    let fleet = Fleet::warm(lasting()).await;
    for outcome in batch(&fleet, tree(1)).await {
        outcome.unwrap();
    }
    fleet.store().set(|faults| {
        faults.unwritable.insert(id("e-1"));
    });

    let request = ActionRequest { priority: Some(Priority::High), ..ActionRequest::default() };
    fleet.coordinator.act(&fleet.admin, id("r-1"), Action::Priority, request).await.unwrap();
    fleet.store().heal();
    let missed = fleet.job(id("e-1")).await.priority;
    let fleet = fleet.restarted().await;

    assert_eq!(missed, Priority::Normal);
    for letter in ["r", "a", "b", "c", "d", "e"] {
        assert_eq!(fleet.job(id(&format!("{letter}-1"))).await.priority, Priority::High, "{letter}");
    }
    let changes = fleet.count(id("a-1"), EventKind::PriorityChanged).await;
    fleet.coordinator.sweep().await;
    assert_eq!((changes, fleet.count(id("a-1"), EventKind::PriorityChanged).await), (1, 1));
}

// [J4] [attack: DAG bombs]
#[tokio::test]
async fn a_tree_has_a_limit_of_levels_and_of_jobs() {
    let fleet = Fleet::warm(quick()).await;
    let level = |n: usize| match n {
        0 => submit(&composite(""), Some("level-0")),
        n => child(&composite(""), &format!("level-{n}"), &format!("level-{}", n - 1)),
    };

    let too_deep = batch(&fleet, (0..17).map(level).collect()).await;
    let deep = batch(&fleet, (0..16).map(level).collect()).await;
    let deeper = add(&fleet, id("level-15"), vec![submit(PLAIN, Some("level-16"))]).await;

    assert!(too_deep.iter().all(Result::is_err), "a tree is accepted as a whole");
    assert!(rejection(&too_deep[16]).contains("16 levels at most"), "{}", rejection(&too_deep[16]));
    assert!(deep.iter().all(Result::is_ok));
    assert!(rejection(&deeper[0]).contains("16 levels at most"), "{}", rejection(&deeper[0]));

    let root = fleet.submit_as("wide", &composite("")).await;
    let leaf = |n: usize| submit(PLAIN, Some(&format!("leaf-{n}")));
    let wide = add(&fleet, root, (0..999).map(leaf).collect()).await;
    let wider = add(&fleet, root, vec![leaf(999)]).await;
    let again = add(&fleet, root, vec![leaf(7)]).await;
    assert!(wide.iter().all(Result::is_ok));
    assert!(rejection(&wider[0]).contains("1001 jobs, 1000 at most"), "{}", rejection(&wider[0]));
    assert!(again[0].is_ok(), "a job that is there is no new one");
}

// [J4] [attack: DAG bombs]
#[tokio::test]
async fn a_cycle_through_a_parent_is_rejected() {
    let fleet = Fleet::warm(quick()).await;
    let after = |key: &str| format!("---\ntitle: Later\ndeps: [\"key:{key}\"]\n---\nAfter it.\n");
    let circle = batch(&fleet, vec![child(PLAIN, "x", "y"), child(PLAIN, "y", "x")]).await;
    let inner = vec![submit(&composite(""), Some("p")), child(&after("p"), "q", "p")];
    let inner = batch(&fleet, inner).await;
    assert!(
        circle.iter().chain(&inner).all(|one| matches!(one, Err(Error::DependencyCycle(_)))),
        "{circle:?} {inner:?}"
    );

    let root = fleet.submit_as("root", &composite("")).await;
    let middle = add(&fleet, root, vec![submit(&composite(""), Some("middle"))]).await.pop().unwrap().unwrap();
    fleet.submit_as("waiter", &after("root")).await;
    let direct = add(&fleet, root, vec![submit(&after("root"), Some("direct"))]).await;
    let indirect = add(&fleet, middle, vec![submit(&after("waiter"), Some("indirect"))]).await;
    let through = add(&fleet, root, vec![submit(&after("middle"), Some("fine"))]).await;

    for refused in [&direct[0], &indirect[0]] {
        assert!(rejection(refused).contains("depends on a job that waits for it"), "{}", rejection(refused));
    }
    assert!(through[0].is_ok(), "a child may wait for another one");
}

// [J3] [J4]
#[tokio::test]
async fn children_are_added_once_and_to_one_parent() {
    let fleet = Fleet::warm(quick()).await;
    let (one, two) = (fleet.submit_as("one", &composite("")).await, fleet.submit_as("two", &composite("")).await);
    let twins = || vec![submit(PLAIN, None), submit(PLAIN, None), submit(PLAIN, Some("named"))];

    let first = add(&fleet, one, twins()).await.into_iter().map(Result::unwrap).collect::<Vec<_>>();
    let again = add(&fleet, one, twins()).await.into_iter().map(Result::unwrap).collect::<Vec<_>>();
    let elsewhere = add(&fleet, two, vec![submit(PLAIN, Some("named"))]).await;

    assert_eq!(first, again);
    assert_ne!(first[0], first[1]);
    assert!(rejection(&elsewhere[0]).contains("with another parent"), "{}", rejection(&elsewhere[0]));
    assert_eq!(fleet.count(one, EventKind::ChildrenAdded).await, 1);
    let view = fleet.job(first[0]).await;
    assert_eq!((view.parent_id, view.root_id), (Some(one), Some(one)));
}

// [J4]
#[tokio::test]
async fn a_tree_with_a_bad_manifest_is_rejected_as_a_whole() {
    let fleet = Fleet::warm(quick()).await;
    let mut jobs = tree(1);
    jobs[3].body_md = "---\nrepo: [1]\n---\n".to_owned();
    jobs.push(submit("---\ntitle: Later\ndeps: [\"key:a-1\"]\n---\nx\n", Some("later")));
    jobs.push(submit(PLAIN, Some("alone")));

    let outcomes = batch(&fleet, jobs).await;

    assert!(outcomes[..7].iter().all(Result::is_err), "{outcomes:?}");
    assert!(matches!(outcomes[3], Err(Error::Manifest(_))));
    assert!(outcomes[7].is_ok());
}

#[tokio::test]
async fn a_composite_with_keys_of_a_run_is_rejected() {
    let fleet = Fleet::warm(quick()).await;

    let refused = fleet.try_submit(&composite("verify: [make test]\n"), None).await.unwrap_err().to_string();

    assert!(refused.contains("move `verify` to its children"), "{refused}");
}

// [B8]
#[tokio::test]
async fn the_cost_of_children_rolls_up() {
    let fleet = Fleet::warm(quick()).await;
    fleet.ship_everything().await;
    let mac = Machine::join(&fleet, "mac").await;
    for outcome in batch(&fleet, tree(1)).await {
        outcome.unwrap();
    }
    for (key, cost) in [("c-1", 0.25), ("e-1", 0.5), ("d-1", 1.0)] {
        let grip = mac.build(&fleet, id(key)).await;
        let insights = RunInsights { cost_usd: Some(cost), ..RunInsights::default() };
        let report = CompletionReport { lease_epoch: grip.epoch, insights, ..CompletionReport::default() };
        fleet.coordinator.complete(&mac.who, grip.job, &report).await.unwrap();
        mac.let_go(grip);
    }

    let tree = fleet.coordinator.job(&fleet.admin, id("r-1")).await.unwrap().tree.unwrap();

    assert_eq!((tree.jobs, tree.shipped, tree.spent.cost_usd), (5, 4, Some(1.75)));
    let of = |key: &str| tree.children.iter().find(|child| child.id == id(key)).unwrap();
    assert_eq!((of("d-1").spent.cost_usd, of("d-1").jobs), (Some(1.5), 1));
    assert_eq!((of("b-1").spent.cost_usd, of("a-1").spent.cost_usd), (Some(0.25), None));
    let dag = fleet.coordinator.dag(&fleet.admin, id("c-1")).await.unwrap();
    assert_eq!(dag.nodes.len(), 6);
    let root = dag.nodes.iter().find(|node| node.id == id("r-1")).unwrap();
    assert!(root.has_children && root.waiting.as_ref().is_some_and(|waiting| waiting.code == "children"));
}

// [row 19]
#[tokio::test]
async fn a_sweep_repeats_the_lost_end_of_a_child() {
    let fleet = Fleet::warm(lasting()).await;
    fleet.ship_everything().await;
    let mac = Machine::join(&fleet, "mac").await;
    for outcome in batch(&fleet, tree(1)).await {
        outcome.unwrap();
    }
    fleet.store().set(|faults| {
        faults.unwritable.insert(id("b-1"));
    });
    mac.run(&fleet, id("c-1")).await;
    fleet.store().heal();
    let missed = fleet.stage(id("b-1")).await;

    fleet.pass(Duration::from_secs(1), &[&mac]).await;
    fleet.coordinator.sweep().await;

    assert_eq!((missed, fleet.stage(id("b-1")).await), (StageName::Blocked, StageName::Shipped));
}
