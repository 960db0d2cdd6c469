"""Letting go of the beginning of a log: at once by name, and then piece by piece from the file.

The base and the oldest seq move in one small commit. What comes before them is taken away afterwards, as it was put in:
a contentless FTS5 table can only forget words that it is told once more, so each note is decoded again. Pages that
become free are used for new events; the file does not shrink.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from board.core.words import searched_text, words_of
from board.store.contract import HeadMoved
from board.store.places import labels_of
from board.store.sqlite import derived
from board.store.sqlite.log import SEQ_BITS, board_id
from board.store.sqlite.pages import JOINED, decoded, settings_of, split
from schema.codec import encode
from schema.events import Note

if TYPE_CHECKING:
    from collections.abc import Sequence

    from board.store.sqlite.connections import Connection
    from schema.limits import Settings

ACKED_ROWS: Final = 1024
"""Single seqs that one piece of a sweep forgets that they were acknowledged."""

_MOVE_OLDEST: Final = "UPDATE boards SET oldest = ?1 + 1 WHERE id = ?2 AND oldest <= ?1"
_HEAD: Final = "SELECT head FROM boards WHERE id = ?"
_BEGIN: Final = "UPDATE boards SET oldest = ?1 + 1, head = ?1 WHERE id = ?2 AND head = 0"
_SET_BASE: Final = """
    INSERT INTO bases VALUES (?, ?, ?) ON CONFLICT (board) DO UPDATE SET seq = excluded.seq, state = excluded.state
"""
_DROP_CHECKPOINT: Final = "DELETE FROM checkpoints WHERE board = ? AND seq < ?"
_BASE: Final = "SELECT seq, state FROM bases WHERE board = ?"
_OLDEST: Final = "SELECT oldest, settings FROM boards WHERE id = ?"
_PIECE: Final = """
    SELECT max(id) FROM (
        SELECT id, sum(length(body)) OVER (ORDER BY id) AS bytes, row_number() OVER (ORDER BY id) AS number
        FROM (SELECT id, body FROM events WHERE id > :low AND id < :oldest ORDER BY id LIMIT :rows)
    ) WHERE bytes <= :bytes OR number = 1
"""
_NOTES: Final = JOINED.format("SELECT body FROM events WHERE id > ? AND id <= ? AND type IS NOT NULL")
_FORGET_WORDS: Final = """
    INSERT INTO words (words, rowid, text) SELECT 'delete', value ->> 0, value ->> 1 FROM json_each(?)
"""
_FORGET_FILINGS: Final = """
    DELETE FROM filings WHERE (label, event) IN (
        SELECT labels.id, value ->> 1 FROM json_each(?2) CROSS JOIN labels ON board = ?1 AND name = value ->> 0
    )
"""
_FORGET_LABELS: Final = """
    DELETE FROM labels WHERE board = ? AND name IN (SELECT value FROM json_each(?))
    AND NOT EXISTS (SELECT 1 FROM filings WHERE label = labels.id)
"""
_FORGET_DETAILS: Final = "DELETE FROM details WHERE id > ? AND id <= ?"
_FORGET_EVENTS: Final = "DELETE FROM events WHERE id > ? AND id <= ?"
_FORGET_ACKED: Final = """
    DELETE FROM acked WHERE (board, worker, seq) IN (
        SELECT board, worker, seq FROM acked WHERE board = ? AND seq < ? LIMIT ?
    )
"""

_note: Final = msgspec.json.Decoder(Note).decode


def base(connection: Connection, number: int) -> tuple[int, bytes] | None:
    """Give what a log begins with."""
    return connection.execute(_BASE, (number,)).fetchone()


def trim(connection: Connection, board: str, seq: int, state: bytes) -> bool:
    """Let a log begin after a seq; tell whether it did not already."""
    number = board_id(connection, board)
    assert seq <= connection.execute(_HEAD, (number,)).get, "a trim past the head"
    connection.execute(_MOVE_OLDEST, (seq, number))
    if not connection.changes():
        return False
    _set_base(connection, number, seq, state)
    return True


def begin_at(connection: Connection, board: str, seq: int, state: bytes) -> None:
    """Let the log of an empty board begin after a seq. Raises HeadMoved."""
    number = board_id(connection, board)
    connection.execute(_BEGIN, (seq, number))
    if not connection.changes():
        msg = f"the board {board} is not empty"
        raise HeadMoved(msg)
    _set_base(connection, number, seq, state)
    derived.skip_to(connection, number, seq)


def _set_base(connection: Connection, number: int, seq: int, state: bytes) -> None:
    connection.execute(_SET_BASE, (number, seq, state))
    connection.execute(_DROP_CHECKPOINT, (number, seq))


def sweep(connection: Connection, board: str) -> bool:
    """Take away a piece of what is no longer kept; tell whether there may be more.

    What is not in the indexes yet is indexed first: then it is known what has to be taken out of them.
    """
    number = board_id(connection, board)
    oldest, settings = connection.execute(_OLDEST, (number,)).get
    if derived.progress(connection, number)[1] < oldest - 1:
        derived.catch_up(connection, number)
        return True
    low = number << SEQ_BITS
    said = {"low": low, "oldest": low | oldest, "rows": derived.CHUNK, "bytes": derived.CHUNK_BYTES}
    high = connection.execute(_PIECE, said).get
    if high is None:
        connection.execute(_FORGET_ACKED, (number, oldest, ACKED_ROWS))
        return connection.changes() == ACKED_ROWS
    joined = connection.execute(_NOTES, (low, high)).get
    _forget(connection, number, [decoded(_note, body) for body in split(joined)], settings_of(settings))
    connection.execute(_FORGET_DETAILS, (low, high))
    connection.execute(_FORGET_EVENTS, (low, high))
    return True


def _forget(connection: Connection, number: int, notes: Sequence[Note], settings: Settings) -> None:
    first = number << SEQ_BITS
    words = [(first | note.seq, derived.tokens_of(words_of(searched_text(note)))) for note in notes]
    filings = [(label, first | note.seq) for note in notes for label in labels_of(note, settings)]
    connection.execute(_FORGET_WORDS, (encode(words).decode(),))
    connection.execute(_FORGET_FILINGS, (number, encode(filings).decode()))
    connection.execute(_FORGET_LABELS, (number, encode(sorted({label for label, _ in filings})).decode()))
