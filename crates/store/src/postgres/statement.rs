//! The statement that writes a transaction: every table's rows as arrays, and the log's row last.
//!
//! One statement is one message and one plan for the server. It has only the parts that the transaction needs; each
//! combination is prepared once per connection.

use std::sync::OnceLock;

/// One part per table, with new jobs apart from changed ones. Parameters are numbered when parts are combined.
pub(super) const PARTS: [&str; 9] = [
    "INSERT INTO fleet_jobs (id, n, rev, product, stage, open, shape, priority, created, latest, state)
     SELECT * FROM unnest(?::uuid[], ?::bigint[], ?::bigint[], ?::text[], ?::text[], ?::boolean[], ?::bigint[], ?::text[],
                          ?::bigint[], ?::bigint[], ?::bytea[])",
    // If a row has another revision than expected, the CASE yields NULL, which the table rejects.
    "UPDATE fleet_jobs j SET rev = CASE WHEN j.rev = u.before THEN u.rev END, stage = u.stage, open = u.open,
                             shape = u.shape, priority = u.priority, latest = u.latest, state = u.state
     FROM unnest(?::uuid[], ?::bigint[], ?::bigint[], ?::text[], ?::boolean[], ?::bigint[], ?::text[],
                 ?::bigint[], ?::bytea[])
          AS u (id, before, rev, stage, open, shape, priority, latest, state)
     WHERE j.id = u.id",
    "INSERT INTO fleet_bodies (n, id, repo, submission, body_md)
     SELECT * FROM unnest(?::bigint[], ?::uuid[], ?::text[], ?::bytea[], ?::bytea[])",
    "INSERT INTO fleet_deps (dep, job) SELECT * FROM unnest(?::uuid[], ?::bigint[]) ON CONFLICT DO NOTHING",
    "INSERT INTO fleet_runs (job, n, doc) SELECT * FROM unnest(?::bigint[], ?::integer[], ?::bytea[])",
    "INSERT INTO fleet_events (pos, job, seq, before, product, doc)
     SELECT * FROM unnest(?::bigint[], ?::bigint[], ?::bigint[], ?::bigint[], ?::text[], ?::bytea[])",
    "INSERT INTO fleet_event_spans (product, last, first) SELECT * FROM unnest(?::text[], ?::bigint[], ?::bigint[])",
    "INSERT INTO fleet_counts (product, stage, n) SELECT * FROM unnest(?::text[], ?::text[], ?::bigint[])
     ON CONFLICT (product, stage) DO UPDATE SET n = fleet_counts.n + excluded.n",
    "INSERT INTO fleet_children (parent, job, root) SELECT * FROM unnest(?::uuid[], ?::bigint[], ?::uuid[])
     ON CONFLICT DO NOTHING",
];

/// The server executes the last part of a statement first: it locks the log before it writes the rest.
const LOG: &str = "\
    UPDATE fleet_log SET jobs = ?, pos = CASE WHEN pos = ? AND jobs = ? AND term = coalesce(?, term) THEN ?::bigint END";

/// The statement with these parts: bit `n` stands for part `n`.
pub(super) fn sql(parts: usize) -> &'static str {
    static COMPOSED: [OnceLock<String>; 1 << PARTS.len()] = [const { OnceLock::new() }; 1 << PARTS.len()];
    COMPOSED[parts % COMPOSED.len()].get_or_init(|| compose(parts))
}

/// The statement with all parts.
#[cfg(test)]
pub(super) fn whole() -> &'static str {
    sql((1 << PARTS.len()) - 1)
}

fn compose(parts: usize) -> String {
    let named = PARTS.iter().enumerate().filter(|(n, _)| parts & (1 << n) != 0);
    let named: Vec<_> = named.map(|(n, part)| format!("part_{n} AS ({part})")).collect();
    let with = if named.is_empty() { String::new() } else { format!("WITH {} ", named.join(", ")) };
    let mut numbered = String::new();
    for (n, piece) in format!("{with}{LOG}").split('?').enumerate() {
        if n > 0 {
            numbered.push_str(&format!("${n}"));
        }
        numbered.push_str(piece);
    }
    numbered
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_has_its_parts_and_numbers_parameters() {
        let (nothing, runs) = (sql(0), sql(1 << 4));

        assert!(nothing.starts_with("UPDATE fleet_log") && nothing.ends_with("THEN $5::bigint END"), "{nothing}");
        assert!(runs.starts_with("WITH part_4 AS (INSERT INTO fleet_runs") && runs.contains("$8"), "{runs}");
        assert!(!runs.contains("fleet_jobs") && !runs.contains('?'), "{runs}");
    }
}
