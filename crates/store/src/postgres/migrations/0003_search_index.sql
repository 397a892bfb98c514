-- The terms by which jobs are found, as numbers, each list in the order of jobs. A job may have terms here that it no
-- longer has.
CREATE TABLE fleet_terms (
    term bigint NOT NULL,
    n    bigint NOT NULL,
    PRIMARY KEY (term, n)
);

-- The index is written after the jobs. It has the changes up to the position `pos` of the log; of older jobs, it has
-- those with numbers above `todo`: the coordinator adds the others in the background, the newest first.
CREATE TABLE fleet_index (
    pos  bigint NOT NULL,
    todo bigint NOT NULL
) WITH (fillfactor = 10);
INSERT INTO fleet_index (pos, todo) SELECT pos, jobs FROM fleet_log;
