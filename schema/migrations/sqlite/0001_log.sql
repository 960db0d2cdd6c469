-- The log and what is kept beside it.
--
-- An event's id is its board's number and its seq in one integer: board << 40 | seq. It is the rowid, so that a commit
-- appends to the end of one b-tree, every index ends in it (and therefore gives its rows in seq order, one board at a
-- time) without naming the board, and a table beside the log needs one column to point at an event. 2^40 seqs a board.

CREATE TABLE boards (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    epoch TEXT NOT NULL,
    -- The last seq that was given out. It is kept here and not read from the log as max(seq), so that no seq is given
    -- out twice even where somebody deleted rows by hand; a commit moves it from the seq before its first to its last,
    -- and fails where it stands anywhere else.
    head INTEGER NOT NULL DEFAULT 0 CHECK (head >= 0 AND head < 1 << 40),
    oldest INTEGER NOT NULL DEFAULT 1,
    settings TEXT NOT NULL,
    created_us INTEGER NOT NULL
) STRICT;

CREATE TABLE events (
    id INTEGER PRIMARY KEY,
    at_us INTEGER NOT NULL,
    kind TEXT NOT NULL,
    -- What only some events have is NULL in the others, so that the indexes below can leave those out.
    type TEXT,
    author TEXT NOT NULL,
    task TEXT,
    work TEXT,
    -- The ids (not the seqs) of what the event is about; the second is a conflict's later claim.
    about INTEGER,
    about2 INTEGER,
    key TEXT,
    digest BLOB,
    -- The very bytes that readers get: JSON, which never holds the character 0x1E that pages are joined with.
    body BLOB NOT NULL
) STRICT;

CREATE INDEX events_by_type ON events (coalesce(type, kind));
CREATE INDEX events_by_author ON events (author);
CREATE INDEX events_by_task ON events (task) WHERE task IS NOT NULL;
CREATE INDEX events_by_work ON events (author, work) WHERE work IS NOT NULL;
-- With the kind, so that "was it retracted?" is answered by the index alone, however often a claim was renewed.
CREATE INDEX events_by_about ON events (about, kind) WHERE about IS NOT NULL;
CREATE INDEX events_by_about2 ON events (about2) WHERE about2 IS NOT NULL;
-- A key names one note of its author for ever: the second of two retries that race fails here, if nowhere else.
CREATE UNIQUE INDEX events_by_key ON events (id >> 40, author, key) WHERE key IS NOT NULL;

-- The log is append-only, whoever opens the file.
CREATE TRIGGER events_never_change BEFORE UPDATE ON events
BEGIN
    SELECT RAISE(ABORT, 'events never change');
END;

-- Notes that live views leave out. Always asked by `id`, which the index by `about` answers alone.
CREATE VIEW retracted AS
SELECT about AS id FROM events WHERE kind = 'note.retracted' AND about IS NOT NULL;

-- Long texts, away from the rows that every page reads.
CREATE TABLE details (
    id INTEGER PRIMARY KEY,
    text TEXT NOT NULL
) STRICT;

CREATE TABLE checkpoints (
    board INTEGER PRIMARY KEY,
    seq INTEGER NOT NULL,
    state BLOB NOT NULL
) STRICT;

CREATE TABLE workers (
    board INTEGER NOT NULL,
    name TEXT NOT NULL,
    root TEXT NOT NULL,
    first_seen_us INTEGER NOT NULL,
    last_seen_us INTEGER NOT NULL,
    PRIMARY KEY (board, name)
) STRICT, WITHOUT ROWID;

-- Everything up to `through` is acknowledged; rows of `acked` are the seqs beyond it.
CREATE TABLE acks (
    board INTEGER NOT NULL,
    worker TEXT NOT NULL,
    through INTEGER NOT NULL,
    PRIMARY KEY (board, worker)
) STRICT, WITHOUT ROWID;

CREATE TABLE acked (
    board INTEGER NOT NULL,
    worker TEXT NOT NULL,
    seq INTEGER NOT NULL,
    PRIMARY KEY (board, worker, seq)
) STRICT, WITHOUT ROWID;

CREATE TABLE tokens (
    number INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    digest BLOB NOT NULL UNIQUE,
    role TEXT NOT NULL,
    worker TEXT NOT NULL,
    board TEXT NOT NULL,
    created_us INTEGER NOT NULL,
    expires_us INTEGER NOT NULL,
    revoked_us INTEGER NOT NULL
) STRICT;

-- One row that is written to find out whether writing is possible: only a commit proves that.
CREATE TABLE probes (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    times INTEGER NOT NULL
) STRICT;

INSERT INTO probes VALUES (1, 0);
