-- The log and what is kept beside it, shared by any number of nodes.
--
-- A node is never trusted to number events well: the database itself refuses a hole, a reuse, a decision that was made
-- on an older log, a second end of a claim, and a second note under one key. A claim is granted by an event whose seq
-- follows the last one that its node had read; where somebody else was faster that seq is taken, and the grant with it.

CREATE TABLE boards (
    id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    -- By code point, whatever the database's language: lists of boards come in one order everywhere.
    name text COLLATE "C" NOT NULL UNIQUE,
    epoch text NOT NULL,
    -- The last seq that was given out. Whoever writes holds the lock of this row from before it reads until it commits:
    -- a sequence's numbers would become visible out of order.
    head bigint NOT NULL DEFAULT 0 CHECK (head >= 0),
    oldest bigint NOT NULL DEFAULT 1,
    settings text NOT NULL,
    created_us bigint NOT NULL
) WITH (fillfactor = 50);

CREATE TABLE events (
    board integer NOT NULL,
    seq bigint NOT NULL CHECK (seq > 0),
    at_us bigint NOT NULL,
    kind text NOT NULL,
    -- What only some events have is NULL in the others, so that the indexes below can leave those out.
    type text,
    author text NOT NULL,
    task text,
    work text,
    -- What the event is about; the second is a conflict's later claim.
    about bigint,
    about2 bigint,
    key text,
    digest bytea,
    -- The very bytes that readers get.
    body bytea NOT NULL,
    PRIMARY KEY (board, seq)
);

CREATE INDEX events_by_type ON events (board, coalesce(type, kind), seq);
CREATE INDEX events_by_author ON events (board, author, seq);
CREATE INDEX events_by_task ON events (board, task, seq) WHERE task IS NOT NULL;
CREATE INDEX events_by_work ON events (board, author, work, seq) WHERE work IS NOT NULL;
-- With the kind, so that "was it retracted?" is answered by the index alone, however often a claim was renewed.
CREATE INDEX events_by_about ON events (board, about, kind, seq) WHERE about IS NOT NULL;
CREATE INDEX events_by_about2 ON events (board, about2, seq) WHERE about2 IS NOT NULL;
-- A key names one note of its author for ever: the second of two retries that race fails here, if nowhere else.
CREATE UNIQUE INDEX events_by_key ON events (board, author, key) WHERE key IS NOT NULL;
-- A claim ends once and is granted once, whichever nodes saw its time come.
CREATE UNIQUE INDEX events_end_once ON events (board, about) WHERE kind IN ('claim.released', 'claim.expired');
CREATE UNIQUE INDEX events_granted_once ON events (board, about) WHERE kind = 'claim.granted';

-- The head moves with the events and by no other way: from the seq before the first of a statement to its last.
CREATE FUNCTION events_move_the_head() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    run record;
BEGIN
    FOR run IN SELECT board, min(seq) AS first, max(seq) AS last, count(*) AS rows FROM added GROUP BY board LOOP
        UPDATE boards SET head = run.last WHERE id = run.board AND head = run.first - 1;
        IF NOT FOUND OR run.rows <> run.last - run.first + 1 THEN
            RAISE EXCEPTION 'events % to % do not follow the head of board %', run.first, run.last, run.board
                USING ERRCODE = 'serialization_failure';
        END IF;
    END LOOP;
    RETURN NULL;
END
$$;

CREATE TRIGGER events_move_the_head AFTER INSERT ON events
    REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION events_move_the_head();

CREATE FUNCTION refuse_a_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% of %: the log only grows', tg_op, tg_table_name USING ERRCODE = 'integrity_constraint_violation';
END
$$;

CREATE TRIGGER events_never_change BEFORE UPDATE OR DELETE OR TRUNCATE ON events
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_a_change();

-- An update of the head that no insert caused runs at depth 1.
CREATE TRIGGER heads_follow_the_log BEFORE UPDATE OF head ON boards
    FOR EACH ROW WHEN (pg_trigger_depth() = 0) EXECUTE FUNCTION refuse_a_change();

-- Long texts, away from the rows that every page reads. Bytes, since PostgreSQL's text has no NUL.
CREATE TABLE details (
    board integer NOT NULL,
    seq bigint NOT NULL,
    text bytea NOT NULL,
    PRIMARY KEY (board, seq)
);

CREATE TABLE checkpoints (
    board integer PRIMARY KEY,
    seq bigint NOT NULL,
    state bytea NOT NULL
);

CREATE TABLE workers (
    board integer NOT NULL,
    name text COLLATE "C" NOT NULL,
    root text NOT NULL,
    first_seen_us bigint NOT NULL,
    last_seen_us bigint NOT NULL,
    PRIMARY KEY (board, name)
);

-- Everything up to `through` is acknowledged; rows of `acked` are the seqs beyond it.
CREATE TABLE acks (
    board integer NOT NULL,
    worker text NOT NULL,
    through bigint NOT NULL,
    PRIMARY KEY (board, worker)
);

CREATE TABLE acked (
    board integer NOT NULL,
    worker text NOT NULL,
    seq bigint NOT NULL,
    PRIMARY KEY (board, worker, seq)
);

CREATE TABLE tokens (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id text NOT NULL UNIQUE,
    digest bytea NOT NULL UNIQUE,
    role text NOT NULL,
    worker text NOT NULL,
    board text NOT NULL,
    created_us bigint NOT NULL,
    expires_us bigint NOT NULL,
    revoked_us bigint NOT NULL
);

-- One row that is written to find out whether writing is possible: only a commit proves that.
CREATE TABLE probes (
    id integer PRIMARY KEY CHECK (id = 1),
    times bigint NOT NULL
);

INSERT INTO probes VALUES (1, 0);
