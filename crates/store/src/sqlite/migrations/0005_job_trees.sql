-- Which jobs are the children of which, by id as in `fleet_deps`, and the root of their tree.
CREATE TABLE fleet_children (
    parent BLOB    NOT NULL,
    job    INTEGER NOT NULL REFERENCES fleet_jobs (n),
    root   BLOB    NOT NULL,
    PRIMARY KEY (parent, job)
) STRICT, WITHOUT ROWID;

CREATE INDEX fleet_children_of_root ON fleet_children (root);
