-- What never changes about a job is apart from what does, so that a change writes few indexes again. Documents are
-- bytes that the server never looks into: text could not hold every manifest. There are no foreign keys, because each
-- would be looked up once more for every row; the writer puts the rows of a job into one transaction.
CREATE TABLE fleet_jobs (
    id       uuid   PRIMARY KEY,
    rev      bigint NOT NULL,
    product  text   COLLATE "C" NOT NULL,
    stage    text   COLLATE "C" NOT NULL,
    open     boolean NOT NULL,
    shape    bigint NOT NULL,
    priority text   COLLATE "C" NOT NULL,
    created  bigint NOT NULL,
    due      bigint,
    state    bytea  NOT NULL
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05);

CREATE INDEX fleet_jobs_open ON fleet_jobs (id) WHERE open;
CREATE INDEX fleet_jobs_due ON fleet_jobs (due, id) WHERE due IS NOT NULL;
CREATE INDEX fleet_jobs_newest_in_stage ON fleet_jobs (product, stage, created, id);

CREATE TABLE fleet_bodies (
    id         uuid   PRIMARY KEY,
    product    text   COLLATE "C" NOT NULL,
    repo       text   COLLATE "C",
    created    bigint NOT NULL,
    submission bytea  NOT NULL,
    body_md    bytea
);

CREATE INDEX fleet_bodies_newest ON fleet_bodies (created, id);
CREATE INDEX fleet_bodies_newest_of_product ON fleet_bodies (product, created, id);
CREATE INDEX fleet_bodies_newest_of_repo ON fleet_bodies (repo, created, id) WHERE repo IS NOT NULL;

CREATE TABLE fleet_events (
    pos     bigint PRIMARY KEY,
    job     uuid   NOT NULL,
    seq     bigint NOT NULL,
    product text   COLLATE "C" NOT NULL,
    doc     bytea  NOT NULL,
    UNIQUE (job, seq)
);

CREATE INDEX fleet_events_of_product ON fleet_events (product, pos);

-- Where the log ends. Whoever adds events locks this row last and keeps it until the commit, so that positions have no
-- gaps and grow in the order of commits.
CREATE TABLE fleet_log (pos bigint NOT NULL) WITH (fillfactor = 10);
INSERT INTO fleet_log (pos) VALUES (0);

CREATE TABLE fleet_runs (
    job uuid    NOT NULL,
    n   integer NOT NULL,
    doc bytea   NOT NULL,
    PRIMARY KEY (job, n)
);

-- `dep` may be the id of a job that is not there yet.
CREATE TABLE fleet_deps (
    dep uuid NOT NULL,
    job uuid NOT NULL,
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
