//! Reads return what was written, and queries return exactly what matches.

use domain::{
    Body, DepsState, Expected, Job, JobId, Position, Priority, Revision, Scope, StageName, Submission, TreePlace,
    Versioned,
};

use super::Harness;
use super::sample::{cancelled, create, dispatched, granted, id, job, released, replace, seconds, started, submission};
use super::writes::{stored, written};

/// An unknown id is an outcome, not an error.
pub async fn an_unknown_id_is_absent(bench: &mut dyn Harness) {
    let stores = bench.open().await;

    assert_eq!(stores.jobs.job(id(1)).await.unwrap(), None);
    assert_eq!(stores.history.body(id(1)).await.unwrap(), None);
    assert_eq!(stores.history.runs(id(1), 0, 1_000).await.unwrap(), []);
    assert_eq!(stores.history.events(&Scope::Job(id(1)), Position(0), 10).await.unwrap(), []);
    assert_eq!(stores.jobs.dependents(id(1)).await.unwrap(), []);
    assert_eq!(stores.jobs.open(None, 10).await.unwrap(), []);
    assert_eq!(stores.history.census().await.unwrap(), []);
}

/// Through every stage that a lease holder sees.
pub async fn a_job_is_read_as_it_was_written(bench: &mut dyn Harness) {
    let stores = bench.open().await;
    let mut unit = create(job(1));

    for (revision, next) in
        (1..).zip([|job| dispatched(job, seconds(9)), granted, started, released, cancelled] as [fn(Job) -> Job; 5])
    {
        let expected = Versioned { value: unit.job.clone(), revision: Revision(revision) };
        written(stores.jobs.commit(vec![unit]).await);
        assert_eq!(stores.jobs.job(id(1)).await.unwrap(), Some(expected.clone()));
        unit = replace(next(expected.value), Revision(revision));
    }
}

// [J1]
/// Line endings, unusual characters, an empty manifest: all are kept verbatim.
pub async fn a_body_is_returned_byte_for_byte(bench: &mut dyn Harness) {
    let stores = bench.open().await;
    let long = "ß\r\n".repeat(100_000);
    let bodies =
        ["", "# a\r\n\r\nb\r", "\u{feff}---\n---\n", "\u{202e}\u{1}\t\u{10ffff}e\u{301}", " trailing \n\n", &long];

    for (n, body) in (1..).zip(bodies) {
        written(stores.jobs.commit(vec![job(n).commit_at(Expected::Absent, Some(Body(body.into())))]).await);
    }

    for (n, body) in (1..).zip(bodies) {
        assert_eq!(stores.history.body(id(n)).await.unwrap(), Some(Body(body.into())));
    }
}

// [J6]
/// A run is stored once it has ended.
pub async fn runs_are_listed_in_order(bench: &mut dyn Harness) {
    let stores = bench.open().await;
    written(stores.jobs.commit(vec![create(job(1))]).await);
    let mut ended = Vec::new();

    for round in 0..3 {
        let held = replace(granted(dispatched(stored(&stores, 1).await, seconds(9))), Revision(2 * round + 1));
        written(stores.jobs.commit(vec![held]).await);
        assert_eq!(stores.history.runs(id(1), 0, 1_000).await.unwrap(), ended);
        let over = replace(released(stored(&stores, 1).await), Revision(2 * round + 2));
        ended.extend(over.runs.clone());
        written(stores.jobs.commit(vec![over]).await);
    }

    assert_eq!(ended.iter().map(|run| run.n).collect::<Vec<_>>(), [1, 2, 3]);
    assert_eq!(stores.history.runs(id(1), 0, 2).await.unwrap(), ended[..2]);
    assert_eq!(stores.history.runs(id(1), 2, 2).await.unwrap(), ended[2..]);
    assert_eq!(stores.history.runs(id(1), u32::MAX, 2).await.unwrap(), []);
    assert_eq!(stores.history.runs(id(1), 0, 1_000).await.unwrap(), ended);
}

/// In order of id, a page at a time, whatever else is stored.
pub async fn open_lists_exactly_the_jobs_that_have_not_ended(bench: &mut dyn Harness) {
    let stores = bench.open().await;
    let mut expected = Vec::new();
    for n in 0..40 {
        written(stores.jobs.commit(vec![create(job(n))]).await);
        let unit = match n % 4 {
            0 => replace(cancelled(stored(&stores, n).await), Revision(1)),
            _ => replace(dispatched(stored(&stores, n).await, seconds(9)), Revision(1)),
        };
        if n % 4 != 0 {
            expected.push(Versioned { value: unit.job.clone(), revision: Revision(2) });
        }
        written(stores.jobs.commit(vec![unit]).await);
    }

    let mut listed: Vec<Versioned<Job>> = Vec::new();
    loop {
        let page = stores.jobs.open(listed.last().map(|job| job.value.id()), 7).await.unwrap();
        assert!(page.len() <= 7);
        if page.is_empty() {
            break;
        }
        listed.extend(page);
    }

    assert_eq!(listed, expected);
}

/// Also for a dependency that does not exist yet.
pub async fn dependents_are_found_by_their_dependency(bench: &mut dyn Harness) {
    let stores = bench.open().await;
    let waiting =
        |n: u32, deps: Vec<JobId>| create(Job::submit(Submission { deps, ..submission(n) }, DepsState::Unmet));
    let units = vec![
        waiting(2, vec![id(1)]),
        waiting(3, vec![id(1), id(2)]),
        waiting(4, vec![id(9), id(1), id(1)]),
        create(job(1)),
    ];

    written(stores.jobs.commit(units).await);

    assert_eq!(stores.jobs.dependents(id(1)).await.unwrap(), [2, 3, 4].map(id));
    assert_eq!(stores.jobs.dependents(id(2)).await.unwrap(), [3].map(id));
    assert_eq!(stores.jobs.dependents(id(9)).await.unwrap(), [4].map(id));
    assert_eq!(stores.jobs.dependents(id(3)).await.unwrap(), []);
}

/// With their current stages; a tree includes the children of children.
pub async fn children_are_found_by_their_parent_and_by_their_root(bench: &mut dyn Harness) {
    let stores = bench.open().await;
    let place = |parent: u32, depth: u8| Some(TreePlace { parent_id: id(parent), root_id: id(1), depth });
    let child = |n: u32, tree: Option<TreePlace>| Job::submit(Submission { tree, ..submission(n) }, DepsState::Met);
    let children = [child(3, place(1, 1)), child(2, place(1, 1)), child(4, place(2, 2))];
    let units = children.into_iter().map(create).chain([create(job(1))]).collect();
    written(stores.jobs.commit(units).await);

    let second = cancelled(stored(&stores, 2).await);
    written(stores.jobs.commit(vec![replace(second, Revision(1))]).await);

    let children = stores.jobs.children(id(1)).await.unwrap();
    let tree = stores.jobs.tree(id(1)).await.unwrap();
    assert_eq!(children, [(id(2), StageName::Failed), (id(3), StageName::Queued)]);
    assert_eq!(tree.iter().map(|job| job.value.id()).collect::<Vec<_>>(), [2, 3, 4].map(id));
    assert_eq!(tree[2].value.tree().copied(), place(2, 2));
    assert_eq!(stores.jobs.children(id(2)).await.unwrap(), [(id(4), StageName::Queued)]);
    assert_eq!(stores.jobs.children(id(3)).await.unwrap(), []);
    assert!(stores.jobs.tree(id(2)).await.unwrap().is_empty());
}

/// Counts per product and stage, without empty stages.
pub async fn the_census_follows_every_stage_change(bench: &mut dyn Harness) {
    let stores = bench.open().await;
    let of = |product: &str, n: u32| {
        let submission = Submission { product: product.parse().unwrap(), ..submission(n) };
        create(Job::submit(submission, DepsState::Met))
    };
    written(stores.jobs.commit(vec![of("notes", 1), of("notes", 2), of("tracker", 3), of("notes", 4)]).await);

    let stopped = replace(cancelled(stored(&stores, 1).await), Revision(1));
    let last_of_its_product = replace(cancelled(stored(&stores, 3).await), Revision(1));
    let offered = replace(dispatched(stored(&stores, 2).await, seconds(9)), Revision(1));
    let held = replace(granted(offered.job.clone()), Revision(2));
    let lost = replace(cancelled(offered.job.clone()), Revision(2));
    let urgent = stored(&stores, 4).await.with_priority(Priority::High, seconds(1), domain::Actor::Coordinator);
    let units = vec![stopped, last_of_its_product, offered, held, lost, replace(urgent, Revision(1))];
    let refused = stores.jobs.commit(units).await.into_iter().filter(Result::is_err).count();

    assert_eq!(refused, 1);
    let count = |product: &str, stage, n| (product.parse().unwrap(), stage, n);
    assert_eq!(
        stores.history.census().await.unwrap(),
        [
            count("notes", StageName::Queued, 1),
            count("notes", StageName::Assigned, 1),
            count("notes", StageName::Failed, 1),
            count("tracker", StageName::Failed, 1),
        ]
    );
}
