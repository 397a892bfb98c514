-- The terms by which jobs are found, as numbers, each list in the order of jobs. A job may have terms here that it no
-- longer has.
CREATE TABLE fleet_terms (
    term INTEGER NOT NULL,
    n    INTEGER NOT NULL,
    PRIMARY KEY (term, n)
) STRICT, WITHOUT ROWID;

-- The index is written after the jobs. It has the changes up to the position `pos` of the log; of older jobs, it has
-- those with numbers above `todo`: the coordinator adds the others in the background, the newest first.
CREATE TABLE fleet_index (
    id   INTEGER PRIMARY KEY CHECK (id = 1),
    pos  INTEGER NOT NULL,
    todo INTEGER NOT NULL
) STRICT;
INSERT INTO fleet_index
SELECT 1, (SELECT ifnull(max(pos), 0) FROM fleet_events), (SELECT ifnull(max(n), 0) FROM fleet_jobs);
