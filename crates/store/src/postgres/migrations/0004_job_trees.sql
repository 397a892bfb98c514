-- Which jobs are the children of which, by id as in `fleet_deps`, and the root of their tree.
CREATE TABLE fleet_children (
    parent uuid   NOT NULL,
    job    bigint NOT NULL,
    root   uuid   NOT NULL,
    PRIMARY KEY (parent, job)
);

CREATE INDEX fleet_children_of_root ON fleet_children (root);
