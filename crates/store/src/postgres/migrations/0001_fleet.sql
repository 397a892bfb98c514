-- A job's id is random or ordered by time; `n` is its number in order of submission. Rows of a job refer to it
-- by number: they stay small, and new ones are stored next to each other. Documents are bytes that the server does not
-- interpret: text could not hold every manifest. There are no foreign keys, because each costs one more lookup per
-- row; the writer puts the rows of a job into one transaction.
--
-- The columns of a job that change are in a table of their own: an update rewrites every index of its table, so this
-- table has only three.
CREATE TABLE fleet_jobs (
    id       uuid    PRIMARY KEY,
    n        bigint  NOT NULL,
    rev      bigint  NOT NULL,
    product  text    COLLATE "C" NOT NULL,
    stage    text    COLLATE "C" NOT NULL,
    open     boolean NOT NULL,
    shape    bigint  NOT NULL,
    priority text    COLLATE "C" NOT NULL,
    created  bigint  NOT NULL,
    due      bigint,
    -- Where the job's latest event is in the log: the others are found through it.
    latest   bigint  NOT NULL,
    state    bytea   NOT NULL
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.05);

CREATE INDEX fleet_jobs_open ON fleet_jobs (id) WHERE open;
CREATE INDEX fleet_jobs_in_stage ON fleet_jobs (product, stage, n);

CREATE TABLE fleet_bodies (
    n          bigint PRIMARY KEY,
    id         uuid   NOT NULL,
    repo       text   COLLATE "C",
    submission bytea  NOT NULL,
    body_md    bytea
);

CREATE INDEX fleet_bodies_of_repo ON fleet_bodies (repo, n) WHERE repo IS NOT NULL;

-- The log is append-only, and an index would be updated in its middle. Instead, each event stores the position of the
-- previous event of its job, and each transaction stores where its events of one product are.
CREATE TABLE fleet_events (
    pos     bigint PRIMARY KEY,
    job     bigint NOT NULL,
    seq     bigint NOT NULL,
    before  bigint NOT NULL,
    product text   COLLATE "C" NOT NULL,
    doc     bytea  NOT NULL
);

CREATE TABLE fleet_event_spans (
    product text   COLLATE "C" NOT NULL,
    last    bigint NOT NULL,
    first   bigint NOT NULL,
    PRIMARY KEY (product, last)
);

-- The ends of the log and of the jobs, and the leadership term. A writer compares this row with its cache and locks it
-- until the commit, so that positions have no gaps and grow in the order of commits. On a mismatch the new value is
-- NULL, which the row rejects.
CREATE TABLE fleet_log (
    pos  bigint NOT NULL,
    jobs bigint NOT NULL,
    term bigint NOT NULL
) WITH (fillfactor = 10);
INSERT INTO fleet_log (pos, jobs, term) VALUES (0, 0, 0);

CREATE TABLE fleet_runs (
    job bigint  NOT NULL,
    n   integer NOT NULL,
    doc bytea   NOT NULL,
    PRIMARY KEY (job, n)
);

-- `dep` is an id, not a number: a job may wait for one that is not there yet.
CREATE TABLE fleet_deps (
    dep uuid   NOT NULL,
    job bigint NOT NULL,
    PRIMARY KEY (dep, job)
);

-- How many jobs each product has in each stage, kept in the same transactions.
CREATE TABLE fleet_counts (
    product text   COLLATE "C" NOT NULL,
    stage   text   COLLATE "C" NOT NULL,
    n       bigint NOT NULL,
    PRIMARY KEY (product, stage)
) WITH (fillfactor = 10);

CREATE TABLE fleet_documents (
    collection text   COLLATE "C" NOT NULL,
    key        text   COLLATE "C" NOT NULL,
    rev        bigint NOT NULL,
    doc        bytea  NOT NULL,
    PRIMARY KEY (collection, key)
);
