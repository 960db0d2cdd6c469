-- Indexes over the log that are built after the commit, in the order of the log, so that nobody who writes waits for
-- them while it holds a board's row. All three tables may be emptied together at any time: they are rebuilt from the
-- log, from `indexed` on.

-- How far each board is indexed. No row stands for 0. Whoever indexes holds the lock of this row.
CREATE TABLE indexed (
    board integer PRIMARY KEY,
    seq bigint NOT NULL
);

-- A note is filed under labels: its places and its recipients (board/store/places.py). A label is kept as 64 bits of a
-- hash of it and of its board. Two labels that share a hash are told apart when the note is read.
CREATE TABLE filings (
    label bigint NOT NULL,
    seq bigint NOT NULL,
    PRIMARY KEY (label, seq)
);

-- The words of board/core/words.py, each as 32 bits of a hash of it and of its board, which no language, accent or
-- length of a word can trouble. What is found is then compared word by word, so a shared hash costs time and no more.
CREATE TABLE words (
    board integer NOT NULL,
    seq bigint NOT NULL,
    hashes integer[] NOT NULL,
    PRIMARY KEY (board, seq)
);

CREATE INDEX words_by_hash ON words USING gin (hashes);
