"""Letting go of the beginning of a log: at once by name, and then piece by piece.

The base and the oldest seq move under the lock of the board's row, for as long as two small updates take. A piece of the
sweep is a short transaction under the lock of the board's row in `indexed`: nodes take turns, and no writer waits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from board.store.places import labels_of
from board.store.postgres import derived
from board.store.postgres.pages import decoded
from schema.events import Note

if TYPE_CHECKING:
    from collections.abc import Sequence

    from board.store.postgres.connections import Connection, Row
    from schema.limits import Settings

ACKED_ROWS: Final = 1024
"""Single seqs that one piece of a sweep forgets that they were acknowledged."""

# Take the board's row: no node writes until the transaction ends.
_LOCK: Final = "SELECT head, oldest FROM boards WHERE id = $1 FOR NO KEY UPDATE"
# Keep the state that the log begins with.
_SET_BASE: Final = """
    INSERT INTO bases (board, seq, state) VALUES ($1, $2, $3)
    ON CONFLICT (board) DO UPDATE SET seq = excluded.seq, state = excluded.state
"""
# Forget a checkpoint that the log does not reach back to any more.
_DROP_CHECKPOINT: Final = "DELETE FROM checkpoints WHERE board = $1 AND seq < $2"
# Let the log begin after a seq; the table's own trigger looks for the base.
_MOVE_OLDEST: Final = "UPDATE boards SET oldest = $2 + 1 WHERE id = $1"
# Let the log of an empty board begin after a seq.
_BEGIN: Final = "UPDATE boards SET oldest = $2 + 1, head = $2 WHERE id = $1"
# Say that there is nothing to index up to a seq.
_SKIP_INDEX: Final = """
    INSERT INTO indexed (board, seq) VALUES ($1, $2) ON CONFLICT (board) DO UPDATE SET seq = excluded.seq
"""
# What a log begins with.
_BASE: Final = "SELECT seq, state FROM bases WHERE board = $1"
# The oldest seq that is kept.
_OLDEST: Final = "SELECT oldest FROM boards WHERE id = $1"
# The next events that are not kept, with a NULL body for those that are no notes.
_NEXT: Final = """
    SELECT seq, CASE WHEN type IS NOT NULL THEN body END FROM events
    WHERE board = $1 AND seq < $2 ORDER BY seq LIMIT $3
"""
# Take notes out of the indexes, and events out of the log.
_FORGET_FILINGS: Final = """
    DELETE FROM filings USING unnest($1::bigint[], $2::bigint[]) AS gone (label, seq)
    WHERE filings.label = gone.label AND filings.seq = gone.seq
"""
_FORGET_WORDS: Final = "DELETE FROM words WHERE board = $1 AND seq <= $2"
_FORGET_DETAILS: Final = "DELETE FROM details WHERE board = $1 AND seq <= $2"
_FORGET_EVENTS: Final = "DELETE FROM events WHERE board = $1 AND seq <= $2"
# Forget that single events were acknowledged; of rows that a worker's own call holds, the next sweep will.
_FORGET_ACKED: Final = """
    DELETE FROM acked WHERE ctid = ANY(ARRAY(
        SELECT ctid FROM acked WHERE board = $1 AND seq < $2 LIMIT $3 FOR UPDATE SKIP LOCKED
    ))
"""

_note: Final = msgspec.json.Decoder(Note).decode


async def base(connection: Connection, number: int) -> tuple[int, bytes] | None:
    """Give what a log begins with."""
    row = await connection.fetchrow(_BASE, number)
    return None if row is None else (row[0], row[1])


async def trim(connection: Connection, number: int, seq: int, state: bytes) -> bool:
    """Let a log begin after a seq; tell whether it did not already."""
    await connection.execute("BEGIN")
    row = await connection.fetchrow(_LOCK, number)
    assert row is not None
    head, oldest = row
    assert seq <= head, "a trim past the head"
    if seq >= oldest:
        await _set_base(connection, number, seq, state)
        await connection.execute(_MOVE_OLDEST, number, seq)
    await connection.execute("COMMIT")
    return seq >= oldest


async def begin_at(connection: Connection, number: int, seq: int, state: bytes) -> None:
    """Let the log of an empty board, whose row is locked, begin after a seq; not committed yet."""
    await _set_base(connection, number, seq, state)
    await connection.execute(_BEGIN, number, seq)
    await connection.execute(_SKIP_INDEX, number, seq)


async def _set_base(connection: Connection, number: int, seq: int, state: bytes) -> None:
    await connection.execute(_SET_BASE, number, seq, state)
    await connection.execute(_DROP_CHECKPOINT, number, seq)


async def sweep(connection: Connection, number: int, settings: Settings) -> bool:
    """Take away a piece of what is no longer kept, as far as it is indexed; tell whether there may be more."""
    await connection.execute("BEGIN")
    indexed: int = await connection.fetchval(derived.TAKE, number)
    oldest: int = min(indexed + 1, await connection.fetchval(_OLDEST, number))
    rows = await connection.fetch(_NEXT, number, oldest, derived.CHUNK)
    more = bool(rows)
    if rows:
        await _forget(connection, number, rows, settings)
    else:
        forgotten = await connection.execute(_FORGET_ACKED, number, oldest, ACKED_ROWS)
        more = forgotten == f"DELETE {ACKED_ROWS}"
    await connection.execute("COMMIT")
    return more


async def _forget(connection: Connection, number: int, rows: Sequence[Row], settings: Settings) -> None:
    notes = [decoded(_note, row[1]) for row in rows if row[1] is not None]
    filings = [(derived.label_hash(number, label), note.seq) for note in notes for label in labels_of(note, settings)]
    if filings:
        await connection.execute(_FORGET_FILINGS, *map(list, zip(*filings, strict=True)))
    for statement in (_FORGET_WORDS, _FORGET_DETAILS, _FORGET_EVENTS):
        await connection.execute(statement, number, rows[-1][0])
