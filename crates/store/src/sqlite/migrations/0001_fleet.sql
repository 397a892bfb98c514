-- A job's id is random or ordered by time; `n` is its number in order of submission. Rows of a job refer to it
-- by number: they stay small, and new ones are stored next to each other.
CREATE TABLE fleet_jobs (
    n        INTEGER PRIMARY KEY,
    id       BLOB    NOT NULL UNIQUE CHECK (length(id) = 16),
    rev      INTEGER NOT NULL,
    product  TEXT    NOT NULL,
    stage    TEXT    NOT NULL,
    open     INTEGER NOT NULL,
    shape    INTEGER NOT NULL,
    priority TEXT    NOT NULL,
    repo     TEXT,
    created  INTEGER NOT NULL,
    due      INTEGER,
    state    TEXT    NOT NULL
) STRICT;

CREATE INDEX fleet_jobs_open ON fleet_jobs (id) WHERE open = 1;
CREATE INDEX fleet_jobs_due ON fleet_jobs (due, id) WHERE due IS NOT NULL;
CREATE INDEX fleet_jobs_newest ON fleet_jobs (created, id);
CREATE INDEX fleet_jobs_newest_of_product ON fleet_jobs (product, created, id);
CREATE INDEX fleet_jobs_newest_of_repo ON fleet_jobs (repo, created, id) WHERE repo IS NOT NULL;
CREATE INDEX fleet_jobs_newest_in_stage ON fleet_jobs (product, stage, created, id);

CREATE TABLE fleet_bodies (
    n          INTEGER PRIMARY KEY REFERENCES fleet_jobs (n),
    submission TEXT NOT NULL,
    body_md    TEXT
) STRICT;

CREATE TABLE fleet_events (
    pos     INTEGER PRIMARY KEY,
    job     INTEGER NOT NULL REFERENCES fleet_jobs (n),
    seq     INTEGER NOT NULL,
    product TEXT    NOT NULL,
    doc     TEXT    NOT NULL,
    UNIQUE (job, seq)
) STRICT;

CREATE INDEX fleet_events_of_product ON fleet_events (product);

CREATE TABLE fleet_runs (
    job INTEGER NOT NULL REFERENCES fleet_jobs (n),
    n   INTEGER NOT NULL,
    doc TEXT    NOT NULL,
    PRIMARY KEY (job, n)
) STRICT;

-- `dep` is an id, not a number: a job may wait for one that is not there yet.
CREATE TABLE fleet_deps (
    dep BLOB    NOT NULL,
    job INTEGER NOT NULL REFERENCES fleet_jobs (n),
    PRIMARY KEY (dep, job)
) STRICT, WITHOUT ROWID;

-- How many jobs each product has in each stage, kept by the writer in the same transactions.
CREATE TABLE fleet_counts (
    product TEXT    NOT NULL,
    stage   TEXT    NOT NULL,
    n       INTEGER NOT NULL,
    PRIMARY KEY (product, stage)
) STRICT, WITHOUT ROWID;

CREATE TABLE fleet_documents (
    collection TEXT    NOT NULL,
    key        TEXT    NOT NULL,
    rev        INTEGER NOT NULL,
    doc        TEXT    NOT NULL,
    PRIMARY KEY (collection, key)
) STRICT;
