-- The log is append-only, and an index would be updated in its middle. Instead, each event stores the position of the
-- previous event of its job, and each transaction stores where its events of one product are.
CREATE TABLE events_next (
    pos     INTEGER PRIMARY KEY,
    job     INTEGER NOT NULL,
    seq     INTEGER NOT NULL,
    before  INTEGER NOT NULL,
    product TEXT    NOT NULL,
    doc     TEXT    NOT NULL
) STRICT;
INSERT INTO events_next
SELECT pos, job, seq, ifnull(lag(pos) OVER (PARTITION BY job ORDER BY seq), 0), product, doc FROM fleet_events;
DROP TABLE fleet_events;
ALTER TABLE events_next RENAME TO fleet_events;

CREATE TABLE fleet_event_spans (
    product TEXT    NOT NULL,
    last    INTEGER NOT NULL,
    first   INTEGER NOT NULL,
    PRIMARY KEY (product, last)
) STRICT, WITHOUT ROWID;
INSERT INTO fleet_event_spans SELECT product, max(pos), min(pos) FROM fleet_events GROUP BY product, pos / 256;

-- Where the job's latest event is in the log: the others are found through it.
ALTER TABLE fleet_jobs ADD COLUMN latest INTEGER NOT NULL DEFAULT 0;
UPDATE fleet_jobs SET latest = e.last FROM (SELECT job, max(pos) AS last FROM fleet_events GROUP BY job) AS e WHERE e.job = n;

-- Every index ends with `n`, which is the order of lists: none of them needs to say so.
DROP INDEX fleet_jobs_newest;
DROP INDEX fleet_jobs_newest_of_product;
DROP INDEX fleet_jobs_newest_of_repo;
DROP INDEX fleet_jobs_newest_in_stage;
CREATE INDEX fleet_jobs_in_stage ON fleet_jobs (product, stage);
CREATE INDEX fleet_jobs_of_repo ON fleet_jobs (repo) WHERE repo IS NOT NULL;

CREATE TABLE runs_next (
    job INTEGER NOT NULL REFERENCES fleet_jobs (n),
    n   INTEGER NOT NULL,
    doc TEXT    NOT NULL,
    PRIMARY KEY (job, n)
) STRICT, WITHOUT ROWID;
INSERT INTO runs_next SELECT job, n, doc FROM fleet_runs;
DROP TABLE fleet_runs;
ALTER TABLE runs_next RENAME TO fleet_runs;
