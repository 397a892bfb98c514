//! Replaces the content of a database with a backup, in one transaction: a crash at any step leaves the old or the
//! new.
//!
//! The backup is loaded into tables of a separate schema; then the old tables are moved aside and the new ones take
//! their place. A process that uses the old tables has an outdated term afterwards and can no longer write.

use std::path::Path;

use domain::{Collection, Generation, StoreGeneration, Timestamp};
use futures_util::pin_mut;
use tokio::sync::mpsc;
use tokio_postgres::binary_copy::BinaryCopyInWriter;
use tokio_postgres::types::{ToSql, Type};
use tracing::{info, warn};

use super::connection::{Connector, Session};
use super::errors::{ErrorSource, ServerError, closed};
use super::{PostgresStore, documents, schema};
use crate::sql_value::SqlValue;
use crate::sqlite::{BackupError, LABEL_KEY, RestoreOutcome, RowValues, inspect_backup, read_out};

/// A table: its name, the query that reads it from a backup, its columns here, and their types.
struct Table {
    name: &'static str,
    select: &'static str,
    columns: &'static str,
    kinds: &'static [Type],
}

const TABLES: [Table; 8] = [
    Table {
        name: "fleet_jobs",
        select: "SELECT id, n, rev, product, stage, open, shape, priority, created, latest, state FROM fleet_jobs",
        columns: "id, n, rev, product, stage, open, shape, priority, created, latest, state",
        kinds: &[
            Type::UUID,
            Type::INT8,
            Type::INT8,
            Type::TEXT,
            Type::TEXT,
            Type::BOOL,
            Type::INT8,
            Type::TEXT,
            Type::INT8,
            Type::INT8,
            Type::BYTEA,
        ],
    },
    Table {
        name: "fleet_bodies",
        select: "SELECT b.n, j.id, j.repo, b.submission, b.body_md FROM fleet_bodies b JOIN fleet_jobs j ON j.n = b.n",
        columns: "n, id, repo, submission, body_md",
        kinds: &[Type::INT8, Type::UUID, Type::TEXT, Type::BYTEA, Type::BYTEA],
    },
    Table {
        name: "fleet_events",
        select: "SELECT pos, job, seq, before, product, doc FROM fleet_events",
        columns: "pos, job, seq, before, product, doc",
        kinds: &[Type::INT8, Type::INT8, Type::INT8, Type::INT8, Type::TEXT, Type::BYTEA],
    },
    Table {
        name: "fleet_event_spans",
        select: "SELECT product, last, first FROM fleet_event_spans",
        columns: "product, last, first",
        kinds: &[Type::TEXT, Type::INT8, Type::INT8],
    },
    Table {
        name: "fleet_runs",
        select: "SELECT job, n, doc FROM fleet_runs",
        columns: "job, n, doc",
        kinds: &[Type::INT8, Type::INT4, Type::BYTEA],
    },
    Table {
        name: "fleet_deps",
        select: "SELECT dep, job FROM fleet_deps",
        columns: "dep, job",
        kinds: &[Type::UUID, Type::INT8],
    },
    Table {
        name: "fleet_counts",
        select: "SELECT product, stage, n FROM fleet_counts",
        columns: "product, stage, n",
        kinds: &[Type::TEXT, Type::TEXT, Type::INT8],
    },
    Table {
        name: "fleet_documents",
        // Evidence is stored beside the logs, not in the database.
        select: "SELECT collection, key, rev, doc FROM fleet_documents WHERE collection <> 'fleet_evidence'",
        columns: "collection, key, rev, doc",
        kinds: &[Type::TEXT, Type::TEXT, Type::INT8, Type::BYTEA],
    },
];

/// The schema of the new tables until they replace the old ones.
const INCOMING: &str = "fleet_incoming";

/// Loading has no time limit.
const BEGIN: &str = "BEGIN; SET LOCAL statement_timeout = 0; SET LOCAL idle_in_transaction_session_timeout = 0";
/// The same lock as for migrations.
const LOCK: &str = "SELECT pg_advisory_xact_lock(1195984705)";
const HOME: &str = "\
    SELECT quote_ident(n.nspname) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE c.oid = 'fleet_log'::regclass";
const WRITE_LINEAGE: &str = "\
    INSERT INTO fleet_documents (collection, key, rev, doc) VALUES ($1, $2, 1, $3)
    ON CONFLICT (collection, key) DO UPDATE SET rev = fleet_documents.rev + 1, doc = excluded.doc";
const REMOVE: &str = "DELETE FROM fleet_documents WHERE collection = $1 AND key = $2";
const ENDS: &str = "\
    UPDATE fleet_log SET pos = (SELECT coalesce(max(pos), 0) FROM fleet_events),
                         jobs = (SELECT coalesce(max(n), 0) FROM fleet_bodies)";
/// A backup has no search index: it is built afterwards.
const INDEX_LATER: &str = "UPDATE fleet_index SET pos = l.pos, todo = l.jobs FROM fleet_log l";

impl PostgresStore {
    /// Replaces the content of the database with a backup. The old content is kept in a schema of its own, whose name
    /// is returned. Afterwards this store can no longer write: it has to be opened again.
    pub async fn restore(&self, from: &Path, now: Timestamp) -> Result<RestoreOutcome, BackupError> {
        let path = from.to_owned();
        let inspected = tokio::task::spawn_blocking(move || inspect_backup(&path)).await;
        let backup = inspected.map_err(|_| BackupError::Server(closed()))??;
        let away = |trouble: ServerError| BackupError::Server(trouble.to_store_error());
        let session = self.connector.connect_patiently().await.map_err(away)?;
        let replaced = generation(&session).await.map_err(away)?;
        let generation = Generation::restored(backup.generation, Some(replaced), now);
        let lineage = StoreGeneration { generation, restored_at: Some(now), as_of: backup.taken_at };
        // The server rolls an uncommitted transaction back when its connection closes.
        let kept = swap(&self.connector, &session, from, &lineage).await?;
        info!(
            store.generation = %generation,
            "Restored a backup with generation {generation}; the replaced tables are in schema {kept}"
        );
        Ok(RestoreOutcome { backup, generation, kept: Some(kept.into()) })
    }
}

/// The database's generation.
async fn generation(session: &Session) -> Result<Generation, ServerError> {
    let rows = session.rows(documents::DOCUMENT, &[&Collection::Meta.name(), &StoreGeneration::KEY]).await?;
    let Some(row) = rows.first() else { return Ok(Generation::default()) };
    let lineage = serde_json::from_slice::<StoreGeneration>(row.try_get(1)?);
    Ok(lineage.map_err(|error| ServerError::Unreachable(error.to_string()))?.generation)
}

/// Loads the backup, swaps the tables and commits. Returns the schema that holds the old ones.
async fn swap(
    connector: &Connector,
    session: &Session,
    from: &Path,
    lineage: &StoreGeneration,
) -> Result<String, BackupError> {
    let away = |trouble: ServerError| BackupError::Server(trouble.to_store_error());
    let name = transaction_name(lineage.generation);
    session.run(&format!("{BEGIN}; SET LOCAL application_name = '{name}'; {LOCK}")).await.map_err(away)?;
    let home = session.texts(HOME).await.map_err(away)?.concat();
    let kept = unused_name(session, lineage.generation).await.map_err(away)?;
    let begin = format!("CREATE SCHEMA {INCOMING}; CREATE SCHEMA {kept}; SET LOCAL search_path = {INCOMING}");
    session.run(&begin).await.map_err(away)?;
    for step in schema::MIGRATIONS {
        session.run(step).await.map_err(away)?;
    }
    for table in &TABLES {
        load(session, from, table).await?;
    }
    settle(session, lineage).await.map_err(away)?;
    let tables = TABLES.iter().map(|table| table.name).chain(["fleet_log", "fleet_terms", "fleet_index"]);
    let moves: String = tables
        .map(|name| {
            format!("ALTER TABLE {home}.{name} SET SCHEMA {kept}; ALTER TABLE {INCOMING}.{name} SET SCHEMA {home};")
        })
        .collect();
    let end = format!(
        "{moves} UPDATE {home}.fleet_log SET term = (SELECT term + 1 FROM {kept}.fleet_log); DROP SCHEMA {INCOMING}; COMMIT"
    );
    match session.run(&end).await {
        Ok(()) => Ok(kept),
        Err(trouble) if trouble.blame() == ErrorSource::Connection => {
            session.mark_broken();
            warn!("The connection to the database was lost during a restore: {trouble}");
            let stands = has_come_to_stand(connector, lineage.generation).await;
            let stands = stands.map_err(|trouble| BackupError::Unknown(trouble.to_string()))?;
            if stands { Ok(kept) } else { Err(away(trouble)) }
        }
        Err(trouble) => Err(away(trouble)),
    }
}

/// The `application_name` of a connection during the transaction of a restore.
fn transaction_name(generation: Generation) -> String {
    format!("gigafactory restore {generation}")
}

/// Reports whether a swap was committed whose response was lost. Waits until its transaction has ended.
async fn has_come_to_stand(connector: &Connector, wanted: Generation) -> Result<bool, ServerError> {
    let session = connector.connect_patiently().await?;
    // The server may not have noticed the lost connection: without this, the transaction would keep its locks.
    let name = transaction_name(wanted);
    let end = format!("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = '{name}'");
    session.run(&end).await?;
    session.run(LOCK).await?;
    Ok(generation(&session).await? == wanted)
}

/// An unused schema name for the old tables.
async fn unused_name(session: &Session, generation: Generation) -> Result<String, ServerError> {
    let first = format!("fleet_before_generation_{generation}");
    let mut name = first.clone();
    for n in 2_u32.. {
        if session.texts(&format!("SELECT to_regnamespace('{name}') IS NULL")).await? == ["t"] {
            break;
        }
        name = format!("{first}_{n}");
    }
    Ok(name)
}

/// Copies one table of the backup, some rows at a time.
async fn load(session: &Session, from: &Path, table: &Table) -> Result<(), BackupError> {
    let (path, select) = (from.to_owned(), table.select);
    let (pages, mut arriving) = mpsc::channel::<Vec<RowValues>>(2);
    let reading =
        tokio::task::spawn_blocking(move || read_out(&path, select, |page| pages.blocking_send(page).is_ok()));
    let copying = async {
        let copy = format!("COPY {} ({}) FROM STDIN BINARY", table.name, table.columns);
        let sink = session.client.copy_in(&copy).await?;
        let writer = BinaryCopyInWriter::new(sink, table.kinds);
        pin_mut!(writer);
        while let Some(page) = arriving.recv().await {
            for row in &page {
                let row: Vec<&(dyn ToSql + Sync)> = row.iter().map(parameter).collect();
                writer.as_mut().write(&row).await?;
            }
        }
        writer.finish().await?;
        Ok::<_, ServerError>(())
    };
    let copied = copying.await;
    reading.await.map_err(|_| BackupError::Server(closed()))??;
    copied.map_err(|trouble| BackupError::Server(trouble.to_store_error()))
}

fn parameter(cell: &SqlValue) -> &(dyn ToSql + Sync) {
    cell
}

/// Writes the store's generation history and the ends of the log and of the jobs.
async fn settle(session: &Session, lineage: &StoreGeneration) -> Result<(), ServerError> {
    let (meta, document) = (Collection::Meta.name(), serde_json::to_vec(lineage).unwrap_or_default());
    session.client.execute(WRITE_LINEAGE, &[&meta, &StoreGeneration::KEY, &document]).await?;
    session.client.execute(REMOVE, &[&meta, &LABEL_KEY]).await?;
    session.run(ENDS).await?;
    session.run(INDEX_LATER).await?;
    session.run("ANALYZE fleet_jobs; ANALYZE fleet_bodies; ANALYZE fleet_events").await
}
