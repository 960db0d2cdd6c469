"""What a reader's thread reads from the file, one function for each read of the contract.

Each runs inside one short read transaction. Rows come out joined in one value, by the character 0x1E that no JSON
holds: one step of a statement for a whole page (the package's docstring has the measurement).
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final, TypeVar

import msgspec

from board.store.contract import (
    BoardRow,
    Found,
    FullRow,
    Head,
    KeyUse,
    LogTrimmed,
    Record,
    Row,
    StoreDamaged,
    TokenRow,
    WorkerRow,
)
from board.store.sqlite.log import SEQ_BITS
from schema.codec import decode_event, encode
from schema.events import ClaimTransferred
from schema.limits import Settings

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from board.store.contract import Wanted
    from board.store.sqlite.connections import Connection

T = TypeVar("T")

FULL_ROUND: Final = 64
"""Rows that one statement gives with their details, of which each may have 64 KiB."""

SEQS: Final = (1 << SEQ_BITS) - 1

_BOARDS: Final = "SELECT name, epoch, head, settings, oldest FROM boards ORDER BY name"
_BOARD: Final = "SELECT name, epoch, head, settings, oldest FROM boards WHERE name = ?"
_KNOWN: Final = "SELECT id, settings FROM boards WHERE name = ?"
JOINED: Final = "SELECT CAST(group_concat(body, char(30)) AS BLOB) FROM ({})"
_BY_IDS: Final = JOINED.format("SELECT body FROM events WHERE id IN (SELECT value FROM json_each(?))")
_ABOUT: Final = JOINED.format("""
    SELECT body FROM events WHERE id IN (
        SELECT id FROM events WHERE about IN (SELECT value FROM json_each(:ids))
        UNION SELECT id FROM events WHERE about2 IN (SELECT value FROM json_each(:ids))
    ) ORDER BY id
""")
_DETAIL: Final = "SELECT text FROM details WHERE id = ?"
_FULL: Final = """
    SELECT CAST(group_concat(body, char(30)) AS BLOB),
        json_group_array(json_array(at_us, text, key, hex(digest)))
    FROM (
        SELECT at_us, body, text, key, digest FROM events LEFT JOIN details USING (id)
        WHERE id > ? AND id <= ? ORDER BY id LIMIT ?
    )
"""
_OLDEST: Final = "SELECT oldest FROM boards WHERE id = ?"
_CHECKPOINT: Final = "SELECT seq, state FROM checkpoints WHERE board = ?"
_WORKERS: Final = """
    SELECT json_group_array(json_array(name, root, first_seen_us, last_seen_us))
    FROM (SELECT * FROM workers WHERE board = ? ORDER BY name)
"""
_TOKENS: Final = """
    SELECT id, digest, role, worker, board, created_us, expires_us, revoked_us FROM tokens ORDER BY created_us, number
"""
_HEADS: Final = """
    SELECT json_group_array(json_array(
        id, type, author,
        EXISTS (SELECT 1 FROM retracted WHERE retracted.id = events.id),
        (SELECT kind FROM events AS later WHERE later.about = events.id
            AND later.kind IN ('patch.superseded', 'patch.invalidated') ORDER BY later.id DESC LIMIT 1),
        (SELECT CAST(body AS TEXT) FROM events AS later WHERE later.about = events.id
            AND later.kind = 'claim.transferred' ORDER BY later.id DESC LIMIT 1)
    ))
    FROM events WHERE id IN (SELECT value FROM json_each(?)) AND type IS NOT NULL
"""
_KEYS: Final = """
    SELECT json_group_array(json_array(author, events.key, events.id, hex(digest)))
    FROM json_each(?2) CROSS JOIN events ON events.id >> 40 = ?1 AND author = value ->> 0 AND events.key = value ->> 1
"""
_WORKS: Final = """
    SELECT json_group_array(json_array(value ->> 0, value ->> 1, (
        SELECT id FROM events
        WHERE author = value ->> 0 AND work = value ->> 1 AND type = 'PATCH_SUMMARY' AND id > ?1 AND id <= ?2
            AND NOT EXISTS (SELECT 1 FROM retracted WHERE retracted.id = events.id)
        ORDER BY id DESC LIMIT 1
    ))) FROM json_each(?3)
"""


class _Shown(msgspec.Struct):
    seq: int
    kind: str
    author: str
    type: str = ""


_shown: Final = msgspec.json.Decoder(_Shown).decode
_full: Final = msgspec.json.Decoder(list[tuple[int, str | None, str | None, str]]).decode
_workers: Final = msgspec.json.Decoder(list[tuple[str, str, int, int]]).decode
_settings: Final = msgspec.json.Decoder(Settings).decode
_keys: Final = msgspec.json.Decoder(list[tuple[str, str, int, str]]).decode
_works: Final = msgspec.json.Decoder(list[tuple[str, str, int | None]]).decode
_heads: Final = msgspec.json.Decoder(list[tuple[int, str, str, int, str | None, str | None]]).decode

_STATES: Final = {None: "", "patch.superseded": "superseded", "patch.invalidated": "invalidated"}


def split(joined: bytes | None) -> list[bytes]:
    """Take apart what `JOINED` gave."""
    return joined.split(b"\x1e") if joined else []


def rows_of(joined: bytes | None, *, descending: bool = False) -> list[Row]:
    """Make the rows of what `JOINED` gave, in order; SQL promises none for what an aggregate takes in."""
    rows = [_row(body) for body in split(joined)]
    rows.sort(key=_seq, reverse=descending)
    return rows


def _row(body: bytes) -> Row:
    shown = decoded(_shown, body)
    return Row(shown.seq, shown.kind, shown.type, shown.author, body)


def _seq(row: Row) -> int:
    return row.seq


def decoded(decode: Callable[[bytes | str], T], data: bytes | str) -> T:
    """Decode what the log holds. Raises StoreDamaged."""
    try:
        return decode(data)
    except msgspec.DecodeError as error:
        msg = f"the log holds what cannot be decoded: {error}"
        raise StoreDamaged(msg) from error


def ids_text(number: int, seqs: Collection[int]) -> str:
    """Give the ids of seqs as SQL takes them: a JSON array. What can be no seq is left out."""
    base = number << SEQ_BITS
    return encode([base | seq for seq in seqs if 0 < seq <= SEQS]).decode()


def boards(connection: Connection) -> list[BoardRow]:
    """List all boards, by name."""
    return [_board_row(*row) for row in connection.execute(_BOARDS).fetchall()]


def board(connection: Connection, name: str) -> BoardRow | None:
    """Give one board."""
    row = connection.execute(_BOARD, (name,)).fetchone()
    return None if row is None else _board_row(*row)


def known(connection: Connection, name: str) -> tuple[int, Settings]:
    """Give the number and settings of a board, which never change. Raises KeyError where there is none."""
    row = connection.execute(_KNOWN, (name,)).fetchone()
    if row is None:
        raise KeyError(name)
    return row[0], decoded(_settings, row[1])


def settings_of(text: str) -> Settings:
    """Decode a board's settings. Raises StoreDamaged."""
    return decoded(_settings, text)


def _board_row(name: str, epoch: str, head: int, settings: str, oldest: int) -> BoardRow:
    return BoardRow(name, epoch, head, decoded(_settings, settings), oldest)


def rows(connection: Connection, number: int, seqs: Collection[int]) -> dict[int, Row]:
    """Give the rows with these seqs."""
    found = connection.execute(_BY_IDS, (ids_text(number, seqs),)).get
    return {row.seq: row for row in rows_of(found)}


def about(connection: Connection, number: int, seqs: Collection[int]) -> list[Row]:
    """Give the events about these seqs."""
    return rows_of(connection.execute(_ABOUT, {"ids": ids_text(number, seqs)}).get)


def detail(connection: Connection, number: int, seq: int) -> str | None:
    """Give the long text of a note."""
    return connection.execute(_DETAIL, (number << SEQ_BITS | seq,)).get if 0 < seq <= SEQS else None


def records(connection: Connection, number: int, after: int, limit: int) -> list[FullRow]:
    """Give rows with all that is kept beside them."""
    return [row for _, row in islice(_full_rows(connection, number, after), limit)]


def missed(connection: Connection, number: int, after: int) -> list[Record]:
    """Give everything after a seq, as it was committed. Raises LogTrimmed."""
    oldest: int = connection.execute(_OLDEST, (number,)).get
    if after < oldest - 1:
        msg = f"the oldest event that is kept is {oldest}"
        raise LogTrimmed(msg)
    return [
        Record(decoded(decode_event, row.body), at_us, row.body, row.detail, row.key, row.digest)
        for at_us, row in _full_rows(connection, number, after)
    ]


def _full_rows(connection: Connection, number: int, after: int) -> Iterator[tuple[int, FullRow]]:
    base, read = number << SEQ_BITS, FULL_ROUND
    after = max(after, 0)
    while read == FULL_ROUND:
        joined, beside = connection.execute(_FULL, (base | after, base | SEQS, FULL_ROUND)).fetchall()[0]
        bodies = split(joined)
        read = len(bodies)
        for body, (at_us, text, key, digest) in zip(bodies, _full(beside), strict=True):
            after = decoded(_shown, body).seq
            yield at_us, FullRow(after, body, text or "", key or "", bytes.fromhex(digest))


def lookup(connection: Connection, number: int, wanted: Wanted) -> Found:
    """Give what the log says to a decision."""
    oldest: int = connection.execute(_OLDEST, (number,)).get
    kept = [seq for seq in wanted.seqs if seq >= oldest]
    return Found(
        heads=_lookup_heads(connection, number, kept) if kept else {},
        keys=_lookup_keys(connection, number, wanted.keys) if wanted.keys else {},
        works=_lookup_works(connection, number, wanted.works, oldest) if wanted.works else {},
        oldest=oldest,
    )


def _lookup_heads(connection: Connection, number: int, seqs: Collection[int]) -> dict[int, Head]:
    found = _heads(connection.execute(_HEADS, (ids_text(number, seqs),)).get)
    return {note[0] & SEQS: _head(*note) for note in found}


def _lookup_keys(
    connection: Connection, number: int, keys: Collection[tuple[str, str]]
) -> dict[tuple[str, str], KeyUse]:
    found = _keys(connection.execute(_KEYS, (number, encode(list(keys)).decode())).get)
    return {(author, key): KeyUse(event & SEQS, bytes.fromhex(digest)) for author, key, event, digest in found}


def _lookup_works(
    connection: Connection, number: int, works: Collection[tuple[str, str]], oldest: int
) -> dict[tuple[str, str], int]:
    base = number << SEQ_BITS
    span = (base | (oldest - 1), base | SEQS)
    found = _works(connection.execute(_WORKS, (*span, encode(list(works)).decode())).get)
    return {(author, work): newest & SEQS for author, work, newest in found if newest is not None}


def _head(event: int, kind: str, author: str, retracted: int, patch: str | None, transfer: str | None) -> Head:
    holder = author if kind == "CLAIM" else ""
    if transfer is not None:
        transferred = decoded(decode_event, transfer)
        assert isinstance(transferred, ClaimTransferred)
        holder = transferred.holder
    return Head(event & SEQS, kind, author, "retracted" if retracted else _STATES[patch], holder)


def checkpoint(connection: Connection, number: int) -> tuple[int, bytes] | None:
    """Give the newest checkpoint."""
    return connection.execute(_CHECKPOINT, (number,)).fetchone()


def workers(connection: Connection, number: int) -> list[WorkerRow]:
    """List all workers of a board."""
    return [WorkerRow(*row) for row in _workers(connection.execute(_WORKERS, (number,)).get)]


def tokens(connection: Connection) -> list[TokenRow]:
    """List all tokens."""
    return [TokenRow(*row) for row in connection.execute(_TOKENS).fetchall()]
