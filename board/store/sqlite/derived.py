"""The indexes that are built after the commit: words, places, recipients. What the writer's thread does to them.

A piece is at most `CHUNK` rows, so that a commit that comes in meanwhile waits for no more than that (about 10 ms); after
a flood of notes it is `BULK_CHUNK` (about 30 ms) until the index is near again.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final

import msgspec

from board.core.words import searched_text, words_of
from board.store.places import labels_of
from board.store.sqlite.log import SEQ_BITS
from board.store.sqlite.pages import JOINED, SEQS, decoded, split
from schema.codec import encode
from schema.events import Note
from schema.limits import Settings

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from board.store.sqlite.connections import Connection

CHUNK: Final = 256
"""Events that one piece of indexing covers."""

SMALL_CHUNK: Final = 32
"""Events of a piece that writes have to wait for: some milliseconds."""

BULK_CHUNK: Final = 1024
"""Events of a piece where more than `BULK` wait: half the cost of each, since FTS5 merges fewer segments."""

BULK: Final = 8192

CHUNK_BYTES: Final = 2_097_152
"""Bytes of events that one piece covers, or one event: 256 notes of 100 KB took 75 MB to index at once."""

_WORD_CHARS: Final = 256

_STATE: Final = """
    SELECT head, coalesce(seq, 0), settings FROM boards LEFT JOIN indexed ON indexed.board = boards.id WHERE id = ?
"""
_LAGGING: Final = """
    SELECT id FROM boards LEFT JOIN indexed ON indexed.board = boards.id WHERE head > coalesce(seq, 0) LIMIT 1
"""
_WITHIN: Final = """
    SELECT coalesce(max(id) FILTER (WHERE bytes <= :bytes), min(id)) FROM (
        SELECT id, sum(length(body)) OVER (ORDER BY id) AS bytes FROM events WHERE id > :low AND id <= :high
    )
"""
_NOTES: Final = JOINED.format("SELECT body FROM events WHERE id > ? AND id <= ? AND type IS NOT NULL")
_ADD_WORDS: Final = "INSERT INTO words (rowid, text) SELECT value ->> 0, value ->> 1 FROM json_each(?)"
_ADD_LABELS: Final = """
    INSERT INTO labels (board, name) SELECT ?, value FROM json_each(?) WHERE true ON CONFLICT DO NOTHING
"""
_ADD_FILINGS: Final = """
    INSERT INTO filings (label, event)
    SELECT labels.id, value ->> 1 FROM json_each(?2) CROSS JOIN labels ON board = ?1 AND name = value ->> 0
"""
_SET_INDEXED: Final = "INSERT INTO indexed VALUES (?, ?) ON CONFLICT DO UPDATE SET seq = excluded.seq"

_note: Final = msgspec.json.Decoder(Note).decode
_settings: Final = msgspec.json.Decoder(Settings).decode


def tokens_of(words: Iterable[str]) -> str:
    """Join words as the index holds them. A very long one is kept by its hash: FTS5 cuts words at 32 KiB."""
    return " ".join(word if len(word) <= _WORD_CHARS else _hashed(word) for word in words)


def _hashed(word: str) -> str:
    return hashlib.sha256(word.encode()).hexdigest()


def progress(connection: Connection, number: int) -> tuple[int, int]:
    """Tell the head of a board, and up to where it is indexed."""
    head, indexed, _ = connection.execute(_STATE, (number,)).get
    return head, indexed


def catch_up_somewhere(connection: Connection, *, idle: bool) -> bool:
    """Index one piece of any board that lags, a small one unless nobody waits; tell whether there may be more to do."""
    number = connection.execute(_LAGGING).get
    if number is not None:
        catch_up(connection, number, small=not idle)
    return number is not None


def catch_up(connection: Connection, number: int, *, small: bool = False) -> int:
    """Index one piece of a board; give the seq up to which it is indexed now."""
    head, indexed, settings = connection.execute(_STATE, (number,)).get
    upto = min(head, indexed + (SMALL_CHUNK if small else CHUNK if head - indexed <= BULK else BULK_CHUNK))
    if upto > indexed:
        base = number << SEQ_BITS
        said = {"low": base | indexed, "high": base | upto, "bytes": CHUNK_BYTES}
        within = connection.execute(_WITHIN, said).get  # None where rows were deleted by hand
        upto = upto if within is None else within & SEQS
        joined = connection.execute(_NOTES, (base | indexed, base | upto)).get
        _index(connection, number, [decoded(_note, body) for body in split(joined)], decoded(_settings, settings))
        connection.execute(_SET_INDEXED, (number, upto))
    return upto


def skip_to(connection: Connection, number: int, seq: int) -> None:
    """Say that there is nothing to index up to a seq, because the log begins after it."""
    connection.execute(_SET_INDEXED, (number, seq))


def _index(connection: Connection, number: int, notes: Sequence[Note], settings: Settings) -> None:
    base = number << SEQ_BITS
    words = [(base | note.seq, tokens_of(words_of(searched_text(note)))) for note in notes]
    filings = sorted((label, base | note.seq) for note in notes for label in labels_of(note, settings))
    connection.execute(_ADD_WORDS, (encode(words).decode(),))
    connection.execute(_ADD_LABELS, (number, encode(sorted({label for label, _ in filings})).decode()))
    connection.execute(_ADD_FILINGS, (number, encode(filings).decode()))
