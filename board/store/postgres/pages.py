"""What is read by seq or by name, one function for each such read of the contract; each is one statement."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from board.store.contract import (
    BoardRow,
    Found,
    FullRow,
    Head,
    KeyUse,
    Record,
    Row,
    StoreDamaged,
    TokenRow,
    WorkerRow,
)
from schema.codec import decode_event
from schema.events import ClaimTransferred
from schema.limits import Settings

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from board.store.contract import Wanted
    from board.store.postgres.connections import Connection
    from board.store.postgres.connections import Row as Columns

T = TypeVar("T")

LARGEST: Final = 2**62
"""Seqs beyond this are none, and do not fit into a column."""

# All boards.
_BOARDS: Final = "SELECT name, epoch, head, settings, oldest FROM boards ORDER BY name"
# One board.
_BOARD: Final = "SELECT name, epoch, head, settings, oldest FROM boards WHERE name = $1"
# What never changes of a board.
_KNOWN: Final = "SELECT id, settings FROM boards WHERE name = $1"
# Events by seq.
_BY_SEQS: Final = "SELECT seq, kind, type, author, body FROM events WHERE board = $1 AND seq = ANY($2::bigint[])"
# Events about any of these seqs, each once.
_ABOUT: Final = """
    SELECT seq, kind, type, author, body FROM events WHERE board = $1 AND seq IN (
        SELECT seq FROM events WHERE board = $1 AND about = ANY($2::bigint[])
        UNION SELECT seq FROM events WHERE board = $1 AND about2 = ANY($2::bigint[])
    ) ORDER BY seq
"""
# The long text of a note.
_DETAIL: Final = "SELECT text FROM details WHERE board = $1 AND seq = $2"
# Events with all that is kept beside them.
_FULL: Final = """
    SELECT seq, at_us, body, text, key, digest FROM events LEFT JOIN details USING (board, seq)
    WHERE board = $1 AND seq > $2 ORDER BY seq LIMIT $3
"""
# The checkpoint of a board.
_CHECKPOINT: Final = "SELECT seq, state FROM checkpoints WHERE board = $1"
# All workers of a board.
_WORKERS: Final = "SELECT name, root, first_seen_us, last_seen_us FROM workers WHERE board = $1 ORDER BY name"
# All tokens, oldest first.
_TOKENS: Final = """
    SELECT id, digest, role, worker, board, created_us, expires_us, revoked_us FROM tokens ORDER BY created_us, number
"""
# What a decision needs to know of notes: retracted or not, the last word on a patch, the last transfer of a claim.
_HEADS: Final = """
    SELECT seq, type, author,
        EXISTS (
            SELECT 1 FROM events AS later
            WHERE later.board = $1 AND later.about = events.seq AND later.kind = 'note.retracted'
        ),
        (
            SELECT kind FROM events AS later WHERE later.board = $1 AND later.about = events.seq
            AND later.kind IN ('patch.superseded', 'patch.invalidated') ORDER BY later.seq DESC LIMIT 1
        ),
        (
            SELECT body FROM events AS later WHERE later.board = $1 AND later.about = events.seq
            AND later.kind = 'claim.transferred' ORDER BY later.seq DESC LIMIT 1
        )
    FROM events WHERE board = $1 AND seq = ANY($2::bigint[]) AND type IS NOT NULL
"""
# The notes that used these keys of these authors.
_KEYS: Final = """
    SELECT events.author, events.key, seq, digest
    FROM unnest($2::text[], $3::text[]) AS asked (author, key)
    JOIN events ON board = $1 AND events.author = asked.author AND events.key = asked.key
"""
# The newest patches of these authors and works that are not retracted.
_WORKS: Final = """
    SELECT asked.author, asked.work, (
        SELECT seq FROM events
        WHERE board = $1 AND author = asked.author AND work = asked.work AND type = 'PATCH_SUMMARY' AND seq >= $4
        AND NOT EXISTS (
            SELECT 1 FROM events AS later
            WHERE later.board = $1 AND later.about = events.seq AND later.kind = 'note.retracted'
        )
        ORDER BY seq DESC LIMIT 1
    ) FROM unnest($2::text[], $3::text[]) AS asked (author, work)
"""

_STATES: Final = {None: "", "patch.superseded": "superseded", "patch.invalidated": "invalidated"}

_settings: Final = msgspec.json.Decoder(Settings).decode


def row_of(columns: Columns) -> Row:
    """Make a row of seq, kind, type, author and body."""
    seq, kind, type_, author, body = columns
    return Row(seq, kind, type_ or "", author, body)


def decoded(decode: Callable[[bytes], T], data: bytes) -> T:
    """Decode what the log holds. Raises StoreDamaged."""
    try:
        return decode(data)
    except msgspec.DecodeError as error:
        msg = f"the log holds what cannot be decoded: {error}"
        raise StoreDamaged(msg) from error


def storable(seqs: Collection[int]) -> list[int]:
    """Leave out what can be no seq."""
    return [seq for seq in seqs if 0 < seq < LARGEST]


async def boards(connection: Connection) -> list[BoardRow]:
    """List all boards, by name."""
    return [_board_row(*row) for row in await connection.fetch(_BOARDS)]


async def board(connection: Connection, name: str) -> BoardRow | None:
    """Give one board."""
    row = await connection.fetchrow(_BOARD, name)
    return None if row is None else _board_row(*row)


def _board_row(name: str, epoch: str, head: int, settings: str, oldest: int) -> BoardRow:
    return BoardRow(name, epoch, head, decoded(_settings, settings.encode()), oldest)


async def known(connection: Connection, name: str) -> tuple[int, Settings]:
    """Give the number and settings of a board, which never change. Raises KeyError where there is none."""
    row = await connection.fetchrow(_KNOWN, name)
    if row is None:
        raise KeyError(name)
    return row[0], decoded(_settings, row[1].encode())


async def rows(connection: Connection, number: int, seqs: Collection[int]) -> dict[int, Row]:
    """Give the rows with these seqs."""
    return {row[0]: row_of(row) for row in await connection.fetch(_BY_SEQS, number, storable(seqs))}


async def about(connection: Connection, number: int, seqs: Collection[int]) -> list[Row]:
    """Give the events about these seqs."""
    return [row_of(row) for row in await connection.fetch(_ABOUT, number, storable(seqs))]


async def detail(connection: Connection, number: int, seq: int) -> str | None:
    """Give the long text of a note."""
    text = await connection.fetchval(_DETAIL, number, seq) if storable((seq,)) else None
    return None if text is None else text.decode()


async def records(connection: Connection, number: int, *, after: int, limit: int) -> list[FullRow]:
    """Give rows with all that is kept beside them."""
    found = await connection.fetch(_FULL, number, min(after, LARGEST), limit)
    return [FullRow(seq, body, _text(text), key or "", digest or b"") for seq, _, body, text, key, digest in found]


async def missed(connection: Connection, number: int, *, after: int, limit: int) -> list[Record]:
    """Give events as they were committed."""
    found = await connection.fetch(_FULL, number, after, limit)
    return [
        Record(decoded(decode_event, body), at_us, body, _text(text), key or "", digest or b"")
        for _, at_us, body, text, key, digest in found
    ]


def _text(text: bytes | None) -> str:
    return "" if text is None else text.decode()


async def lookup(connection: Connection, number: int, wanted: Wanted, oldest: int) -> Found:
    """Give what the log, which begins with `oldest`, says to a decision."""
    found = Found(oldest=oldest)
    if wanted.seqs:
        kept = [seq for seq in storable(wanted.seqs) if seq >= oldest]
        heads = await connection.fetch(_HEADS, number, kept)
        found.heads = {row[0]: _head(*row) for row in heads}
    if wanted.keys:
        keys = await connection.fetch(_KEYS, number, *_columns(wanted.keys))
        found.keys = {(author, key): KeyUse(seq, digest or b"") for author, key, seq, digest in keys}
    if wanted.works:
        works = await connection.fetch(_WORKS, number, *_columns(wanted.works), oldest)
        found.works = {(author, work): newest for author, work, newest in works if newest is not None}
    return found


def _columns(pairs: Collection[tuple[str, str]]) -> Sequence[list[str]]:
    return [first for first, _ in pairs], [second for _, second in pairs]


def _head(seq: int, type_: str, author: str, retracted: bool, patch: str | None, transfer: bytes | None) -> Head:  # noqa: FBT001 -- a column
    holder = author if type_ == "CLAIM" else ""
    if transfer is not None:
        transferred = decoded(decode_event, transfer)
        assert isinstance(transferred, ClaimTransferred)
        holder = transferred.holder
    return Head(seq, type_, author, "retracted" if retracted else _STATES[patch], holder)


async def checkpoint(connection: Connection, number: int) -> tuple[int, bytes] | None:
    """Give the newest checkpoint."""
    row: Any = await connection.fetchrow(_CHECKPOINT, number)
    return None if row is None else (row[0], row[1])


async def workers(connection: Connection, number: int) -> list[WorkerRow]:
    """List all workers of a board."""
    return [WorkerRow(*row) for row in await connection.fetch(_WORKERS, number)]


async def tokens(connection: Connection) -> list[TokenRow]:
    """List all tokens."""
    return [TokenRow(*row) for row in await connection.fetch(_TOKENS)]
