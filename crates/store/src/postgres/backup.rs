//! Online backup: one SQLite file of one snapshot, taken while the writer continues.

use std::path::Path;

use async_trait::async_trait;
use domain::{Backup, BackupSummary, StoreError, Timestamp};
use tokio::sync::mpsc;
use tokio_postgres::Row;

use super::PostgresStore;
use super::connection::Session;
use super::errors::{ServerError, closed};
use crate::sql_value::SqlValue;
use crate::sqlite::{BackupBuilder, BackupError, RowValues};

/// Each table: the query that reads it here, and the statement that writes it to SQLite.
const TABLES: [(&str, &str); 9] = [
    (
        "SELECT j.n, j.id, j.rev, j.product, j.stage, j.open, j.shape, j.priority, b.repo, j.created, j.latest, j.state
         FROM fleet_jobs j JOIN fleet_bodies b ON b.n = j.n",
        "INSERT INTO fleet_jobs (n, id, rev, product, stage, open, shape, priority, repo, created, latest, state)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
    ),
    (
        "SELECT n, submission, body_md FROM fleet_bodies",
        "INSERT INTO fleet_bodies (n, submission, body_md) VALUES (?1, ?2, ?3)",
    ),
    (
        "SELECT pos, job, seq, before, product, doc FROM fleet_events ORDER BY pos",
        "INSERT INTO fleet_events (pos, job, seq, before, product, doc) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
    ),
    (
        "SELECT product, last, first FROM fleet_event_spans",
        "INSERT INTO fleet_event_spans (product, last, first) VALUES (?1, ?2, ?3)",
    ),
    ("SELECT job, n, doc FROM fleet_runs", "INSERT INTO fleet_runs (job, n, doc) VALUES (?1, ?2, ?3)"),
    ("SELECT dep, job FROM fleet_deps", "INSERT INTO fleet_deps (dep, job) VALUES (?1, ?2)"),
    (
        "SELECT parent, job, root FROM fleet_children",
        "INSERT INTO fleet_children (parent, job, root) VALUES (?1, ?2, ?3)",
    ),
    ("SELECT product, stage, n FROM fleet_counts", "INSERT INTO fleet_counts (product, stage, n) VALUES (?1, ?2, ?3)"),
    (
        "SELECT collection, key, rev, doc FROM fleet_documents",
        "INSERT INTO fleet_documents (collection, key, rev, doc) VALUES (?1, ?2, ?3, ?4)",
    ),
];

/// All reads after this see one snapshot. There is no statement timeout, because whole tables are read.
const BEGIN: &str = "\
    BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY;
    SET LOCAL statement_timeout = 0; SET LOCAL idle_in_transaction_session_timeout = 0;
    SET LOCAL enable_seqscan = on; SET LOCAL enable_hashjoin = on; SET LOCAL enable_mergejoin = on";

/// Maximum number of pages that wait for the disk.
const WAITING_MAX: usize = 4;

#[async_trait]
impl Backup for PostgresStore {
    async fn back_up(&self, path: &Path, now: Timestamp) -> Result<BackupSummary, StoreError> {
        let session = self.connector.connect_patiently().await.map_err(|trouble| trouble.to_store_error())?;
        let (pages, arriving) = mpsc::channel(WAITING_MAX);
        let to = path.to_owned();
        let filling = tokio::task::spawn_blocking(move || fill(&to, arriving, now));
        let read = read(&session, pages).await;
        let filled = filling.await.map_err(|_| closed())?;
        // If the reader failed, its error explains the incomplete file.
        read.map_err(|trouble| trouble.to_store_error())?;
        filled?.ok_or_else(closed)
    }
}

/// A message to the thread that writes the file.
enum Page {
    Rows(&'static str, Vec<RowValues>),
    /// All rows were sent.
    End,
}

/// `None` if the rows are incomplete.
fn fill(path: &Path, mut pages: mpsc::Receiver<Page>, now: Timestamp) -> Result<Option<BackupSummary>, BackupError> {
    let mut filling = BackupBuilder::begin(path)?;
    while let Some(page) = pages.blocking_recv() {
        match page {
            Page::Rows(insert, rows) => filling.add(insert, &rows)?,
            Page::End => return filling.finish(now).map(Some),
        }
    }
    Ok(None)
}

async fn read(session: &Session, pages: mpsc::Sender<Page>) -> Result<(), ServerError> {
    session.run(BEGIN).await?;
    for (select, insert) in TABLES {
        session.run(&format!("DECLARE copied NO SCROLL CURSOR FOR {select}")).await?;
        loop {
            let rows = session.client.query("FETCH 1000 FROM copied", &[]).await?;
            if rows.is_empty() {
                break;
            }
            let rows = rows.iter().map(cells).collect::<Result<_, _>>()?;
            // The receiver is gone if the file could not be written; its own error gives the reason.
            if pages.send(Page::Rows(insert, rows)).await.is_err() {
                return Ok(());
            }
        }
        session.run("CLOSE copied").await?;
    }
    session.run("COMMIT").await?;
    let _ = pages.send(Page::End).await;
    Ok(())
}

fn cells(row: &Row) -> Result<RowValues, ServerError> {
    (0..row.len()).map(|column| Ok(row.try_get::<_, SqlValue>(column)?)).collect()
}
