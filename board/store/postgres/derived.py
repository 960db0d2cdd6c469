"""The indexes that are built after the commit: words, places, recipients.

A piece is at most `CHUNK` events in one short transaction, whose lock is that of the board's row in `indexed`: nodes
take turns, and none of them stands in the way of a writer.
"""

from __future__ import annotations

import zlib
from hashlib import blake2b
from typing import TYPE_CHECKING, Final

import msgspec

from board.core.words import searched_text, words_of
from board.store.places import labels_of
from board.store.postgres.pages import decoded
from schema.events import Note

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from board.store.postgres.connections import Connection, Row
    from schema.limits import Settings

CHUNK: Final = 64
"""Events that one piece of indexing covers. It takes the event loop about 4 ms to find their words and places."""

# The head of a board, and up to where it is indexed.
_PROGRESS: Final = """
    SELECT head, coalesce(indexed.seq, 0) FROM boards LEFT JOIN indexed ON indexed.board = boards.id
    WHERE boards.id = $1
"""
TAKE: Final = """
    INSERT INTO indexed AS old (board, seq) VALUES ($1, 0) ON CONFLICT (board) DO UPDATE SET seq = old.seq RETURNING seq
"""
"""Takes the right to change the indexes of a board, and makes its row where there is none yet."""
# The next events, with a NULL body for those that are no notes.
_NEXT: Final = """
    SELECT seq, CASE WHEN type IS NOT NULL THEN body END FROM events
    WHERE board = $1 AND seq > $2 ORDER BY seq LIMIT $3
"""
# Add the words of notes: a row each, its hashes in one text, since an array of arrays cannot be ragged.
_ADD_WORDS: Final = """
    INSERT INTO words (board, seq, hashes)
    SELECT $1, seq, hashes::integer[] FROM unnest($2::bigint[], $3::text[]) AS added (seq, hashes)
"""
# File notes under labels.
_ADD_FILINGS: Final = """
    INSERT INTO filings (label, seq) SELECT * FROM unnest($1::bigint[], $2::bigint[]) ON CONFLICT DO NOTHING
"""
# Say how far it is done.
_SET_INDEXED: Final = "UPDATE indexed SET seq = $2 WHERE board = $1"

_note: Final = msgspec.json.Decoder(Note).decode


def word_hash(number: int, word: str) -> int:
    """Give what stands for a word of a board in the index: 32 bits, signed."""
    return int.from_bytes(zlib.crc32(word.encode(), number).to_bytes(4), signed=True)


def label_hash(number: int, label: str) -> int:
    """Give what stands for a label of a board in the index: 64 bits, signed."""
    digest = blake2b(label.encode(), digest_size=8, salt=number.to_bytes(8)).digest()
    return int.from_bytes(digest, signed=True)


async def progress(connection: Connection, number: int) -> tuple[int, int]:
    """Tell the head of a board, and up to where it is indexed."""
    row = await connection.fetchrow(_PROGRESS, number)
    assert row is not None
    return row[0], row[1]


async def index_piece(connection: Connection, number: int, settings: Settings) -> int:
    """Index one piece of a board; give the seq up to which it is indexed now."""
    await connection.execute("BEGIN")
    indexed: int = await connection.fetchval(TAKE, number)
    rows = await connection.fetch(_NEXT, number, indexed, CHUNK)
    if rows:
        indexed = rows[-1][0]
        await _index(connection, number, _notes(rows), settings)
        await connection.execute(_SET_INDEXED, number, indexed)
    await connection.execute("COMMIT")
    return indexed


def _notes(rows: Sequence[Row]) -> list[Note]:
    return [decoded(_note, row[1]) for row in rows if row[1] is not None]


async def _index(connection: Connection, number: int, notes: Sequence[Note], settings: Settings) -> None:
    hashes = [_array({word_hash(number, word) for word in words_of(searched_text(note))}) for note in notes]
    await connection.execute(_ADD_WORDS, number, [note.seq for note in notes], hashes)
    filings = [(label_hash(number, label), note.seq) for note in notes for label in labels_of(note, settings)]
    if filings:
        await connection.execute(_ADD_FILINGS, *map(list, zip(*sorted(filings), strict=True)))


def _array(hashes: Collection[int]) -> str:
    return "{" + ",".join(map(str, hashes)) + "}"
