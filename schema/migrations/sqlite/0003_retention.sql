-- What a log begins with where its beginning is no longer kept.

-- The state that everything up to `seq` folds to; `boards.oldest` is the seq after it. It is no checkpoint: those move
-- on, and the log that is kept must fold from here to each of them.
CREATE TABLE bases (
    board INTEGER PRIMARY KEY,
    seq INTEGER NOT NULL,
    state BLOB NOT NULL
) STRICT;
