//! Every statement finds its rows through an index, for any parameters, among a million jobs.

use std::sync::Arc;

use clock::SystemClock;
use pgserver::{Flushes, for_test};
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::connection::{ConnectWait, Connector, Session};
use super::url::Url;
use super::{documents, history, jobs, list, schema, search_index, statement, transaction};

const STATEMENTS: &[(&str, &str)] = &[
    ("job", jobs::JOB),
    ("open", jobs::OPEN),
    ("dependents", jobs::DEPENDENTS),
    ("children", jobs::CHILDREN),
    ("tree", jobs::TREE),
    ("body", history::BODY),
    ("events", history::EVENTS),
    ("events of products", history::EVENTS_OF_PRODUCTS),
    ("events of a job", history::EVENTS_OF_JOB),
    ("runs", history::RUNS),
    ("newest", list::NEWEST),
    ("newest of a repository", list::NEWEST_OF_REPO),
    ("number", list::NUMBER),
    ("last number", list::LAST),
    ("not below", list::NOT_BELOW),
    ("numbers of a repository", list::NUMBERS_OF_REPO),
    ("numbers in stages", list::NUMBERS_IN_STAGES),
    ("numbers with terms", list::NUMBERS_WITH_TERMS),
    ("jobs by number", list::JOBS_BY_NUMBER),
    ("index state", search_index::STATE),
    ("changed since the index", search_index::CHANGED),
    ("add terms", search_index::ADD),
    ("newest in stages", list::NEWEST_IN_STAGES),
    ("document", documents::DOCUMENT),
    ("documents", documents::DOCUMENTS),
    ("create document", documents::CREATE_DOCUMENT),
    ("replace document", documents::REPLACE_DOCUMENT),
    ("remove document", documents::REMOVE_DOCUMENT),
    ("current", transaction::CURRENT),
];

/// Statements that sort what belongs to one job or one tree.
const SORTED: [&str; 5] = ["dependents", "children", "tree", "events of a job", "runs"];

/// Tables with one row, or one per product and stage.
const SMALL: [&str; 3] = ["fleet_log", "fleet_counts", "fleet_index"];

/// A million ended jobs and a thousand open ones, with an event each.
const SEED: &str = "\
    SET synchronous_commit = off; SET statement_timeout = 0;
    INSERT INTO fleet_jobs (id, n, rev, product, stage, open, shape, priority, created, latest, state)
    SELECT lpad(to_hex(n), 32, '0')::uuid, n, 1, 'product-' || n % 7,
           CASE WHEN n % 1000 = 0 THEN 'queued' WHEN n % 50 = 0 THEN 'failed' ELSE 'shipped' END, n % 1000 = 0, n % 9,
           'normal', n, n, '{}'
    FROM generate_series(1, 1000000) n;
    INSERT INTO fleet_bodies (n, id, repo, submission)
    SELECT n, lpad(to_hex(n), 32, '0')::uuid, CASE WHEN n % 3 = 0 THEN 'acme/' || n % 11 END, '{}'
    FROM generate_series(1, 1000000) n;
    INSERT INTO fleet_events (pos, job, seq, before, product, doc)
    SELECT n, n, 1, 0, 'product-' || n % 7, '{}' FROM generate_series(1, 1000000) n;
    INSERT INTO fleet_event_spans (product, last, first)
    SELECT 'product-' || n % 7, n, n FROM generate_series(1, 1000000) n;
    INSERT INTO fleet_deps (dep, job)
    SELECT lpad(to_hex(n / 3), 32, '0')::uuid, n FROM generate_series(1, 100000) n;
    INSERT INTO fleet_children (parent, job, root)
    SELECT lpad(to_hex(n / 3), 32, '0')::uuid, n, lpad(to_hex(n / 9), 32, '0')::uuid FROM generate_series(1, 100000) n;
    INSERT INTO fleet_runs (job, n, doc)
    SELECT n, 1, '{}' FROM generate_series(1, 100000) n;
    INSERT INTO fleet_terms (term, n) SELECT n % 1000, n FROM generate_series(1, 1000000) n;
    INSERT INTO fleet_documents (collection, key, rev, doc)
    SELECT 'fleet_tokens', n::text, 1, '{}' FROM generate_series(1, 20000) n;
    UPDATE fleet_log SET pos = 1000000, jobs = 1000000;
    ANALYZE";

/// The generic plan of a prepared statement.
async fn plan(session: &Session, sql: &str) -> Value {
    let parameters = (1..).take_while(|n| sql.contains(&format!("${n}"))).map(|_| "NULL").collect::<Vec<_>>();
    let arguments = if parameters.is_empty() { String::new() } else { format!("({})", parameters.join(", ")) };
    session.run(&format!("PREPARE asked AS {sql}")).await.unwrap();
    let answer = session.texts(&format!("EXPLAIN (FORMAT JSON) EXECUTE asked{arguments}")).await.unwrap();
    session.run("DEALLOCATE asked").await.unwrap();
    serde_json::from_str::<Value>(&answer[0]).unwrap()[0]["Plan"].clone()
}

/// The nodes of a plan, each with its ancestors.
fn nodes<'p>(node: &'p Value, above: &[&'p str], found: &mut Vec<(Vec<&'p str>, &'p Value)>) {
    let mut here = above.to_vec();
    found.push((here.clone(), node));
    here.push(node["Node Type"].as_str().unwrap());
    for child in node["Plans"].as_array().into_iter().flatten() {
        nodes(child, &here, found);
    }
}

/// Reports whether rows are read for an unbounded sort: only a limit between the two bounds it. An incremental sort is
/// bounded: it sorts the events of one transaction at a time.
fn is_sorted_unbounded(above: &[&str]) -> bool {
    let sort = above.iter().rposition(|kind| *kind == "Sort");
    sort.is_some_and(|sort| !above[sort..].contains(&"Limit"))
}

// [S8]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_statement_scans_a_table_or_sorts_without_a_limit() {
    let Some(server) = for_test(Flushes::None).unwrap() else { return };
    let url = Url::parse(&format!("{}?fsync=off", server.url())).unwrap();
    let (tasks, closing) = (TaskTracker::new(), CancellationToken::new());
    let connector = Connector::new(url.clone(), Arc::new(SystemClock::new()), tasks, closing, Arc::default()).unwrap();
    let session = connector.first(ConnectWait::None).await.unwrap();
    schema::migrate(&session, &url, schema::MIGRATIONS, schema::LockHolder::Unknown(&clock::SystemClock::new()))
        .await
        .unwrap();
    session.client.batch_execute(SEED).await.unwrap();

    for (name, sql) in STATEMENTS.iter().chain(&[("write", statement::whole())]) {
        let plan = plan(&session, sql).await;

        let mut found = Vec::new();
        nodes(&plan, &[], &mut found);
        for (above, node) in found {
            let Some(table) = node["Relation Name"].as_str() else { continue };
            let kind = node["Node Type"].as_str().unwrap();
            assert!(kind != "Seq Scan" || SMALL.contains(&table), "{name} reads all of {table}: {plan:#}");
            // The partial index of open jobs has no other rows.
            let is_small = node["Index Name"] == "fleet_jobs_open";
            let bounded = is_small || !kind.starts_with("Index") || node["Index Cond"].is_string();
            assert!(bounded, "{name} walks through a whole index of {table}: {plan:#}");
            // These sort no more rows than there are open jobs, or than belong to one job.
            let sorts = is_sorted_unbounded(&above) && !SORTED.contains(name);
            assert!(!sorts || kind == "ModifyTable", "{name} sorts {table}: {plan:#}");
        }
    }
}
