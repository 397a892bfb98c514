//! Lists: newest first, in pages, filtered.

use std::collections::BTreeSet;

use domain::{
    Actor, Cursor, DepsState, IndexProgress, Job, JobFilter, JobId, JobSearch, Priority, Revision, Spec, StageName,
    StoreError,
};

use super::sample::{cancelled, create, dispatched, failed, granted, id, job, replace, seconds, submission};
use super::writes::{stored, written};
use super::{Harness, Stores};

// [§9]
/// A page never repeats or skips a job that existed when the first page was read.
pub async fn a_list_is_stable_while_jobs_are_added(bench: &mut dyn Harness) {
    let stores = bench.open().await;
    written(stores.jobs.commit((0..40).map(|n| create(job(n))).collect()).await);
    let (mut listed, mut after) = (Vec::new(), None);

    for round in 0.. {
        let page = stores.history.jobs(&JobFilter::default(), after, 7).await.unwrap();
        listed.extend(page.items.iter().map(|item| item.job.id()));
        written(stores.jobs.commit(vec![create(job(100 + round))]).await);
        after = page.next;
        if after.is_none() {
            break;
        }
    }

    assert_eq!(listed, (0..40).rev().map(id).collect::<Vec<_>>());
}

// [§9]
/// Compares every combination of products, stages, priority and repository with a reference filter.
pub async fn a_filter_returns_exactly_the_matching_jobs(bench: &mut dyn Harness) {
    let stores = bench.open().await;
    let all = varied(&stores).await;
    let products = [vec![], vec!["notes"], vec!["notes", "tracker", "notes"], vec!["unknown"]];
    let stages = [vec![], vec![StageName::Queued], vec![StageName::Failed, StageName::Assigned, StageName::Failed]];

    for products in &products {
        for stages in &stages {
            for priority in [None, Some(Priority::High)] {
                for repo in [None, Some("acme/notes")] {
                    let filter = JobFilter {
                        products: products.iter().map(|product| product.parse().unwrap()).collect(),
                        stages: stages.clone(),
                        priority,
                        repo: repo.map(|repo| repo.parse().unwrap()),
                        ..JobFilter::default()
                    };
                    let expected: Vec<_> = all.iter().filter(|job| fits(job, &filter)).map(Job::id).collect();

                    assert_eq!(pages(&stores, &filter, 3).await, expected, "{filter:?}");
                }
            }
        }
    }
}

// [§9]
/// Compares searches by factory, tags and text, alone and with other filters, with a reference filter: before the index
/// has the jobs, while it is behind, and afterwards.
pub async fn a_search_returns_exactly_the_matching_jobs(bench: &mut dyn Harness) {
    let stores = bench.open().await;
    let mut all = varied(&stores).await;
    check_searches(&stores, &all).await;

    index_all(&stores).await;
    check_searches(&stores, &all).await;

    for job in all.iter_mut().step_by(4) {
        let [.., a, b, c, d] = *job.id().as_bytes();
        let n = u32::from_be_bytes([a, b, c, d]);
        let now = stores.jobs.job(job.id()).await.unwrap().unwrap();
        let changed = match job.stage().name() {
            StageName::Queued if job.dispatch().is_none() => dispatched(now.value, seconds(99)),
            _ => now.value.with_priority(Priority::Low, seconds(99), Actor::Coordinator),
        };
        written(stores.jobs.commit(vec![replace(changed, now.revision)]).await);
        *job = stored(&stores, n).await;
    }
    check_searches(&stores, &all).await;

    index_all(&stores).await;
    check_searches(&stores, &all).await;
}

// [§9]
/// Failures leave the list when an operator attends to them, and return when they fail again.
pub async fn a_list_has_only_the_failures_that_nobody_attended_to(bench: &mut dyn Harness) {
    let stores = bench.open().await;
    let search = JobSearch { is_unattended_failure: true, ..JobSearch::default() };
    let unattended = JobFilter { search, ..JobFilter::default() };
    for n in 0..6 {
        written(stores.jobs.commit(vec![create(job(n))]).await);
        let failed = failed(stored(&stores, n).await);
        written(stores.jobs.commit(vec![replace(failed, Revision(1))]).await);
    }
    index_all(&stores).await;
    assert_eq!(pages(&stores, &unattended, 4).await, (0..6).rev().map(id).collect::<Vec<_>>());

    for n in [1, 4] {
        let dismissed = stored(&stores, n).await.dismiss(None, seconds(9), Actor::Coordinator).unwrap();
        written(stores.jobs.commit(vec![replace(dismissed, Revision(2))]).await);
    }

    for _ in 0..2 {
        assert_eq!(pages(&stores, &unattended, 4).await, [5, 3, 2, 0].map(id));
        index_all(&stores).await;
    }
}

/// Indexes until there is nothing left; a store whose writes keep the index has nothing to do.
async fn index_all(stores: &Stores) {
    while stores.history.index_jobs().await.unwrap() == IndexProgress::Behind {}
}

async fn check_searches(stores: &Stores, all: &[Job]) {
    let last = all[0].id().to_string();
    let texts =
        [None, Some("sample"), Some("SAMPLE 17"), Some("samp"), Some(&last[last.len() - 7..]), Some(&last[..30])];

    let mut matches = 0;
    for factory in [None, Some("forge"), Some("nobody")] {
        for tags in [vec![], vec!["odd"], vec!["odd", "third"], vec!["none"]] {
            for text in texts {
                for stages in [vec![], vec![StageName::Failed]] {
                    let search = JobSearch {
                        factory: factory.map(|factory| factory.parse().unwrap()),
                        tags: tags.iter().map(|tag| tag.parse().unwrap()).collect(),
                        text: text.map(str::to_owned),
                        ..JobSearch::default()
                    };
                    let filter = JobFilter { stages, search, ..JobFilter::default() };
                    let expected: Vec<_> = all.iter().filter(|job| fits(job, &filter)).map(Job::id).collect();
                    matches += expected.len();

                    assert_eq!(pages(stores, &filter, 3).await, expected, "{filter:?}");
                }
            }
        }
    }
    assert!(matches > 300, "{matches}");
}

// [§9]
/// A cursor is valid only for the list that issued it.
pub async fn a_foreign_cursor_is_rejected(bench: &mut dyn Harness) {
    let stores = bench.open().await;

    for cursor in ["", "7", "not a cursor", "é", &"z".repeat(48)] {
        let page = stores.history.jobs(&JobFilter::default(), Some(Cursor(cursor.to_owned())), 5).await;

        assert!(matches!(page, Err(StoreError::BadCursor)), "{cursor:?}: {page:?}");
    }
}

/// Sixty jobs that differ in every filtered attribute, newest first. Several share a timestamp.
async fn varied(stores: &Stores) -> Vec<Job> {
    let mut all = Vec::new();
    for n in 0..60 {
        let mut sample = submission(n);
        sample.at = seconds(u64::from(n / 4));
        sample.product = ["notes", "tracker", "wiki"][n as usize % 3].parse().unwrap();
        sample.spec = Spec {
            repo: (n % 5 < 2).then(|| "acme/notes".parse().unwrap()),
            priority: if n % 4 == 0 { Priority::High } else { Priority::Normal },
            tags: [(2, "odd"), (3, "third")]
                .iter()
                .filter(|(by, _)| n % by != 0)
                .map(|(_, tag)| tag.parse().unwrap())
                .collect(),
            ..sample.spec
        };
        written(stores.jobs.commit(vec![create(Job::submit(sample, DepsState::Met))]).await);
        let queued = stored(stores, n).await;
        let moved = match n % 7 {
            0 | 1 => cancelled(queued),
            2 => granted(dispatched(queued, seconds(9))),
            3 => queued.with_priority(Priority::High, seconds(9), Actor::Coordinator),
            _ => dispatched(queued, seconds(9)),
        };
        written(stores.jobs.commit(vec![replace(moved, Revision(1))]).await);
        all.push(stored(stores, n).await);
    }
    all.sort_by_key(|job| std::cmp::Reverse((job.created_at(), job.id())));
    all
}

fn fits(job: &Job, filter: &JobFilter) -> bool {
    let products: BTreeSet<_> = filter.products.iter().collect();
    let stages: BTreeSet<_> = filter.stages.iter().collect();
    (products.is_empty() || products.contains(job.product()))
        && (stages.is_empty() || stages.contains(&job.stage().name()))
        && (filter.priority.is_none() || filter.priority == Some(job.priority()))
        && (filter.repo.is_none() || filter.repo == job.submission().spec.repo)
        && found(job, &filter.search)
}

/// The reference of a search.
fn found(job: &Job, search: &JobSearch) -> bool {
    let at = job.lease().map(|lease| &lease.factory).or(job.dispatch().map(|offer| &offer.target));
    let (title, id) = (job.spec().title.to_lowercase(), job.id().to_string());
    let is_titled = |text: &str| text.split(' ').all(|word| title.split(' ').any(|known| known == word));
    let has = |text: &String| {
        let text = text.to_lowercase();
        is_titled(&text) || id.starts_with(&text) || id.ends_with(&text)
    };
    search.factory.as_ref().is_none_or(|factory| at == Some(factory))
        && search.tags.iter().all(|tag| job.spec().tags.contains(tag))
        && search.text.as_ref().is_none_or(has)
}

/// Everything that a filter returns, page by page.
pub(super) async fn pages(stores: &Stores, filter: &JobFilter, limit: u16) -> Vec<JobId> {
    let (mut listed, mut after) = (Vec::new(), None);
    loop {
        let page = stores.history.jobs(filter, after, limit).await.unwrap();
        assert!(page.items.len() <= usize::from(limit));
        listed.extend(page.items.iter().map(|item| item.job.id()));
        let Some(next) = page.next else { return listed };
        after = Some(next);
    }
}
