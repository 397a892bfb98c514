//! The schema, as an ordered list of migrations.

use domain::Clock;

use super::connection::Session;
use super::errors::ServerError;
use super::leadership;
use super::open_error::OpenError;
use super::url::Url;

/// Each migration leads from the schema version of its index to the next. A released migration never changes.
pub(super) const MIGRATIONS: &[&str] = &[
    include_str!("migrations/0001_fleet.sql"),
    include_str!("migrations/0002_deadlines_in_memory.sql"),
    include_str!("migrations/0003_search_index.sql"),
    include_str!("migrations/0004_job_trees.sql"),
];

/// A migrating process holds this lock; others wait and then find the schema migrated. The number is "GIGA".
const BEGIN: &str = "\
    BEGIN;
    SELECT pg_advisory_xact_lock(1195984705);
    CREATE TABLE IF NOT EXISTS fleet_schema (version integer NOT NULL);";
const VERSION: &str = "SELECT version FROM fleet_schema";
const RECORD: &str = "WITH old AS (DELETE FROM fleet_schema) INSERT INTO fleet_schema (version) VALUES ($1)";

/// Who has the leadership lock while the schema is migrated.
#[derive(Clone, Copy)]
pub(super) enum LockHolder<'a> {
    /// This process, on another connection.
    Us,
    /// Perhaps another coordinator: then nothing is migrated.
    Unknown(&'a dyn Clock),
}

/// Migrates the database in one transaction: afterwards it has the newest schema, or the old one. Never migrates a
/// database that a coordinator uses.
pub(super) async fn migrate(
    session: &Session,
    url: &Url,
    migrations: &[&str],
    holder: LockHolder<'_>,
) -> Result<(), OpenError> {
    let outcome = steps(session, url, migrations, holder).await;
    let end = if outcome.is_ok() { "COMMIT" } else { "ROLLBACK" };
    let ended = session.run(end).await.map_err(OpenError::server(url));
    outcome.and(ended)
}

/// Checks that the database has the newest schema. Changes nothing.
pub(super) async fn check(session: &Session, url: &Url) -> Result<(), OpenError> {
    let known = i32::try_from(MIGRATIONS.len()).unwrap_or(i32::MAX);
    let there = session.texts("SELECT to_regclass('fleet_schema') IS NOT NULL").await;
    let found = match there.map_err(OpenError::server(url))?.concat().as_str() {
        "t" => session.texts(VERSION).await.map_err(OpenError::server(url))?.concat().parse().unwrap_or(0),
        _ => 0,
    };
    match found {
        _ if found == known => Ok(()),
        _ if found > known => Err(OpenError::Newer { url: url.to_string(), found, known }),
        _ => Err(OpenError::Older { url: url.to_string(), found, known }),
    }
}

/// Describes the database for the operator.
pub(super) async fn describe(session: &Session) -> Result<String, ServerError> {
    let server = session.texts("SHOW server_version").await?.concat();
    let there = session.texts("SELECT to_regclass('fleet_schema') IS NOT NULL").await?;
    if there != ["t"] {
        return Ok(format!("PostgreSQL {server}, empty"));
    }
    let version = session.texts(VERSION).await?.concat();
    Ok(format!("PostgreSQL {server}, schema {version}"))
}

async fn steps(session: &Session, url: &Url, migrations: &[&str], holder: LockHolder<'_>) -> Result<(), OpenError> {
    let known = i32::try_from(migrations.len()).unwrap_or(i32::MAX);
    let found = read_version(session).await.map_err(OpenError::server(url))?;
    if found > known {
        return Err(OpenError::Newer { url: url.to_string(), found, known });
    }
    if found == known {
        return Ok(());
    }
    if let LockHolder::Unknown(clock) = holder
        && found > 0
    {
        leadership::vacant(session, url, clock).await?;
    }
    for step in migrations.iter().skip(usize::try_from(found).unwrap_or(0)) {
        session.run(step).await.map_err(OpenError::server(url))?;
    }
    session.execute(RECORD, &[&known]).await.map_err(OpenError::server(url))?;
    Ok(())
}

async fn read_version(session: &Session) -> Result<i32, ServerError> {
    session.run(BEGIN).await?;
    let rows = session.rows(VERSION, &[]).await?;
    Ok(rows.first().map_or(Ok(0), |row| row.try_get(0))?)
}
