-- What nodes tell each other that is no part of the log.

-- One-use tickets, by the hash of the ticket: whichever node it is shown to deletes the row.
CREATE TABLE tickets (
    digest bytea PRIMARY KEY,
    identity bytea NOT NULL,
    end_us bigint NOT NULL
);

-- How many sockets a worker has open on each node, and when the last one there closed (0: it called since, or has some
-- open). Rows of a node that is not heard of any more stand for sockets that closed when it was heard of last.
CREATE TABLE sockets (
    board integer NOT NULL,
    node text NOT NULL,
    worker text NOT NULL,
    open integer NOT NULL,
    left_us bigint NOT NULL,
    PRIMARY KEY (board, node, worker)
);

CREATE TABLE nodes (
    node text PRIMARY KEY,
    heard_us bigint NOT NULL
);
