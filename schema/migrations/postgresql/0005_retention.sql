-- What a log begins with where its beginning is no longer kept, and which events may go.

-- The state that everything up to `seq` folds to; `boards.oldest` is the seq after it. It is no checkpoint: those move
-- on, and the log that is kept must fold from here to each of them.
CREATE TABLE bases (
    board integer PRIMARY KEY,
    seq bigint NOT NULL,
    state bytea NOT NULL
);

DROP TRIGGER events_never_change ON events;

CREATE TRIGGER events_never_change BEFORE UPDATE OR TRUNCATE ON events
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_a_change();

-- Only what comes before the oldest seq of its board may go.
CREATE FUNCTION refuse_a_loss() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    kept record;
BEGIN
    SELECT lost.board, lost.seq INTO kept FROM lost LEFT JOIN boards ON boards.id = lost.board
        WHERE boards.id IS NULL OR lost.seq >= boards.oldest LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'event % of board % is kept: the log loses its beginning alone', kept.seq, kept.board
            USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    RETURN NULL;
END
$$;

CREATE TRIGGER events_kept_stay AFTER DELETE ON events
    REFERENCING OLD TABLE AS lost FOR EACH STATEMENT EXECUTE FUNCTION refuse_a_loss();

-- The oldest seq never goes back, and follows a base. A board without events may begin anywhere; of any other the head
-- still moves by inserts alone.
CREATE FUNCTION check_the_beginning() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF new.oldest < old.oldest OR new.oldest > new.head + 1
        OR NOT EXISTS (SELECT 1 FROM bases WHERE bases.board = new.id AND bases.seq = new.oldest - 1) THEN
        RAISE EXCEPTION 'board % cannot begin with event %', new.id, new.oldest
            USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    RETURN new;
END
$$;

CREATE TRIGGER oldest_follows_a_base BEFORE UPDATE OF oldest ON boards
    FOR EACH ROW EXECUTE FUNCTION check_the_beginning();

DROP TRIGGER heads_follow_the_log ON boards;

CREATE TRIGGER heads_follow_the_log BEFORE UPDATE OF head ON boards
    FOR EACH ROW WHEN (pg_trigger_depth() = 0 AND NOT (old.head = 0 AND new.oldest = new.head + 1))
    EXECUTE FUNCTION refuse_a_change();
