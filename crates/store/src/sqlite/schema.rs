//! The schema, as an ordered list of migrations.

use rusqlite::{Connection, TransactionBehavior};

/// The application id of the database files: "GIGA".
pub(super) const APPLICATION_ID: i32 = 0x4749_4741;

/// Each migration leads from the schema version of its index to the next. A released migration never changes.
pub(super) const MIGRATIONS: &[&str] = &[
    include_str!("migrations/0001_fleet.sql"),
    include_str!("migrations/0002_one_append_per_event.sql"),
    include_str!("migrations/0003_deadlines_in_memory.sql"),
    include_str!("migrations/0004_search_index.sql"),
];

pub(super) fn newest() -> u32 {
    number(MIGRATIONS)
}

/// Migrates the database in one transaction: afterwards it has the newest schema, or the old one.
pub(super) fn migrate(connection: &mut Connection, migrations: &[&str]) -> rusqlite::Result<()> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let found: u32 = transaction.pragma_query_value(None, "user_version", |row| row.get(0))?;
    if found == number(migrations) {
        return Ok(());
    }
    for step in migrations.iter().skip(usize::try_from(found).unwrap_or(usize::MAX)) {
        transaction.execute_batch(step)?;
    }
    transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
    transaction.pragma_update(None, "user_version", number(migrations))?;
    transaction.commit()
}

fn number(migrations: &[&str]) -> u32 {
    u32::try_from(migrations.len()).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: &str = "CREATE TABLE a (x INTEGER); INSERT INTO a VALUES (1);";
    const SECOND: &str = "CREATE TABLE b (y INTEGER); INSERT INTO b SELECT x + 1 FROM a;";

    fn version(connection: &Connection) -> u32 {
        connection.pragma_query_value(None, "user_version", |row| row.get(0)).unwrap()
    }

    // [§9]
    #[test]
    fn an_older_schema_runs_only_the_missing_migrations() {
        let mut connection = Connection::open_in_memory().unwrap();
        migrate(&mut connection, &[FIRST]).unwrap();

        migrate(&mut connection, &[FIRST, SECOND]).unwrap();
        migrate(&mut connection, &[FIRST, SECOND]).unwrap();

        let carried: i64 = connection.query_row("SELECT y FROM b", [], |row| row.get(0)).unwrap();
        assert_eq!((carried, version(&connection)), (2, 2));
    }

    #[test]
    fn an_indexed_log_is_migrated_to_a_chained_one() {
        const OLD: &str = "\
            INSERT INTO fleet_jobs VALUES
                (1, zeroblob(16), 2, 'notes', 'queued', 1, 0, 'normal', NULL, 0, NULL, '{}'),
                (2, randomblob(16), 1, 'tracker', 'queued', 1, 0, 'normal', NULL, 0, NULL, '{}'),
                (3, randomblob(16), 1, 'tracker', 'queued', 1, 0, 'normal', NULL, 0, NULL, '{}');
            INSERT INTO fleet_events VALUES (1, 1, 1, 'notes', 'a'), (2, 2, 1, 'tracker', 'b'), (3, 1, 2, 'notes', 'c');
            INSERT INTO fleet_runs VALUES (1, 1, 'r');";
        let mut connection = Connection::open_in_memory().unwrap();
        migrate(&mut connection, &MIGRATIONS[..1]).unwrap();
        connection.execute_batch(OLD).unwrap();

        migrate(&mut connection, MIGRATIONS).unwrap();

        let all = |sql: &str| -> Vec<String> {
            let mut statement = connection.prepare(sql).unwrap();
            statement.query_map([], |row| row.get(0)).unwrap().collect::<rusqlite::Result<_>>().unwrap()
        };
        assert_eq!(
            all("SELECT pos || ' after ' || before || doc FROM fleet_events"),
            ["1 after 0a", "2 after 0b", "3 after 1c"]
        );
        assert_eq!(
            all("SELECT n || ' ends at ' || latest FROM fleet_jobs"),
            ["1 ends at 3", "2 ends at 2", "3 ends at 0"]
        );
        assert_eq!(all("SELECT product || first || last FROM fleet_event_spans"), ["notes13", "tracker22"]);
        assert_eq!(all("SELECT job || n || doc FROM fleet_runs"), ["11r"]);
    }

    #[test]
    fn a_failed_migration_rolls_back_the_earlier_ones() {
        let mut connection = Connection::open_in_memory().unwrap();
        migrate(&mut connection, &[FIRST]).unwrap();

        let outcome = migrate(&mut connection, &[FIRST, SECOND, "CREATE TABLE a (x INTEGER)"]);

        assert!(outcome.is_err());
        assert_eq!(version(&connection), 1);
        assert!(connection.prepare("SELECT y FROM b").is_err());
    }
}
