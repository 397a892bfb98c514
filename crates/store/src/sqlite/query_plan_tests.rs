//! Every statement finds its rows through an index.

use rusqlite::Connection;

use super::{documents, history, jobs, list, schema, search_index, unit, writer, writer_cache};

const STATEMENTS: &[(&str, &str)] = &[
    ("job", jobs::JOB),
    ("open", jobs::OPEN),
    ("dependents", jobs::DEPENDENTS),
    ("body", history::BODY),
    ("events", history::EVENTS),
    ("spans", history::SPANS),
    ("events of a span", history::EVENTS_OF_SPAN),
    ("latest", history::LATEST),
    ("event", history::EVENT),
    ("runs", history::RUNS),
    ("number", list::NUMBER),
    ("newest", list::NEWEST),
    ("newest of a repository", list::NEWEST_OF_REPO),
    ("newest in a stage", list::NEWEST_IN_STAGE),
    ("newest with a term", list::NEWEST_WITH_TERM),
    ("not below", list::NOT_BELOW),
    ("last number", list::LAST),
    ("summary", list::SUMMARY),
    ("index state", search_index::STATE),
    ("changed since the index", search_index::CHANGED),
    ("advance the index", search_index::ADVANCE),
    ("add a term", search_index::ADD),
    ("remove a term", search_index::REMOVE),
    ("document", documents::DOCUMENT),
    ("documents", documents::DOCUMENTS),
    ("create", unit::CREATE),
    ("create body", unit::CREATE_BODY),
    ("create dep", unit::CREATE_DEP),
    ("current", unit::CURRENT),
    ("replace", unit::REPLACE),
    ("replace in stage", unit::REPLACE_IN_STAGE),
    ("replace in place", unit::REPLACE_IN_PLACE),
    ("append event", unit::APPEND_EVENT),
    ("append run", unit::APPEND_RUN),
    ("count", writer_cache::COUNT),
    ("append span", writer_cache::APPEND_SPAN),
    ("create document", unit::CREATE_DOCUMENT),
    ("replace document", unit::REPLACE_DOCUMENT),
    ("remove document", unit::REMOVE_DOCUMENT),
    ("document is there", unit::DOCUMENT_IS_THERE),
];

/// Statements that read a whole small table: one row per product and stage.
const SMALL: &[(&str, &str)] = &[("census", history::CENSUS), ("products", list::PRODUCTS)];

fn fleet() -> Connection {
    let mut connection = Connection::open_in_memory().unwrap();
    schema::migrate(&mut connection, schema::MIGRATIONS).unwrap();
    connection
}

fn plan(connection: &Connection, sql: &str) -> Vec<String> {
    let mut statement = connection.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
    let nothing = vec![rusqlite::types::Null; statement.parameter_count()];
    statement
        .query_map(rusqlite::params_from_iter(nothing), |row| row.get(3))
        .unwrap()
        .collect::<rusqlite::Result<_>>()
        .unwrap()
}

fn scans(connection: &Connection, sql: &str) -> Vec<String> {
    plan(connection, sql).into_iter().filter(|step| step.starts_with("SCAN ") && step != "SCAN CONSTANT ROW").collect()
}

// [S8]
#[test]
fn no_statement_reads_a_whole_table() {
    let connection = fleet();

    for (name, sql) in STATEMENTS {
        assert_eq!(scans(&connection, sql), Vec::<String>::new(), "{name}");
    }
}

// [S8]
#[test]
fn no_page_needs_a_sort() {
    let connection = fleet();

    for (name, sql) in STATEMENTS.iter().filter(|(name, _)| *name != "dependents") {
        let sorts: Vec<_> = plan(&connection, sql).into_iter().filter(|step| step.contains("TEMP B-TREE")).collect();

        assert_eq!(sorts, Vec::<String>::new(), "{name}");
    }
}

#[test]
fn full_scans_read_only_the_counts_table() {
    let connection = fleet();

    for (name, sql) in SMALL {
        assert!(plan(&connection, sql).iter().all(|step| step.starts_with("SCAN fleet_counts")), "{name}");
    }
}

// [S8]
#[test]
fn the_ends_of_log_and_jobs_are_index_lookups() {
    assert_eq!(scans(&fleet(), writer::LAST), Vec::<String>::new());
}
