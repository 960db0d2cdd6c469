-- Indexes over the log that are built after the commit, in the order of the log.
--
-- They cost several times what the log itself costs, and nobody who writes needs them at once. All four tables may be
-- emptied together at any time: they are rebuilt from the log, from `indexed` on.

-- How far each board is indexed. No row stands for 0.
CREATE TABLE indexed (
    board INTEGER PRIMARY KEY,
    seq INTEGER NOT NULL
) STRICT;

-- A note is filed under labels: its places and its recipients (board/store/places.py). The names are kept once, since
-- a note is filed under every directory above its places: 12 bytes a filing instead of about 50.
CREATE TABLE labels (
    id INTEGER PRIMARY KEY,
    board INTEGER NOT NULL,
    name TEXT NOT NULL,
    UNIQUE (board, name)
) STRICT;

CREATE TABLE filings (
    label INTEGER NOT NULL,
    event INTEGER NOT NULL,
    PRIMARY KEY (label, event)
) STRICT, WITHOUT ROWID;

-- The words of board/core/words.py, joined by blanks; the rowid is the event's id. The tokenizer `ascii` takes every
-- other character as part of a word, so that it splits at those blanks and nowhere else: `unicode61` has its own
-- opinion of accents and of letters newer than itself, and would disagree with `words.matches`.
CREATE VIRTUAL TABLE words USING fts5 (text, content = '', columnsize = 0, tokenize = 'ascii');
