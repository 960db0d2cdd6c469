"""What the writer's thread does to the file, one function for each write of the contract.

Each runs inside a transaction of `writer` and is stored or undone as a whole.
"""

from __future__ import annotations

import secrets
import time
from typing import TYPE_CHECKING, Any, Final

import msgspec

from board.store.contract import Acks, BoardExists, BoardRow, HeadMoved, TokenRow
from schema.codec import encode
from schema.events import AboutConflict, AnyEvent, Note, about

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from board.store.contract import Record, WorkerRow
    from board.store.sqlite.connections import Connection
    from schema.limits import Settings

SEQ_BITS: Final = 40
"""An event's id is `board << SEQ_BITS | seq`."""

_STEPS: Final = (500, 100, 25, 5, 1)
"""How many rows one statement takes: few sizes, so that all stay compiled, and few steps for any number of rows.

Between two steps the thread asks for the interpreter's lock, and a busy event loop keeps it for some milliseconds: a full
batch of 1,000 takes two. 500 rows are as long a text as apsw keeps compiled (16 KiB)."""

_BOARD_ID: Final = "SELECT id FROM boards WHERE name = ?"
_ADD_BOARD: Final = """
    INSERT INTO boards (name, epoch, settings, created_us) VALUES (?, ?, ?, ?) ON CONFLICT (name) DO NOTHING
"""
_MOVE_HEAD: Final = "UPDATE boards SET head = ? WHERE id = ? AND head = ?"
_ADD_EVENTS: Final = """
    INSERT INTO events (id, at_us, kind, type, author, task, work, about, about2, key, digest, body) VALUES
"""
_ADD_DETAILS: Final = "INSERT INTO details (id, text) VALUES "
_SAVE_CHECKPOINT: Final = """
    INSERT INTO checkpoints (board, seq, state) VALUES (?, ?, ?)
    ON CONFLICT (board) DO UPDATE SET seq = excluded.seq, state = excluded.state WHERE excluded.seq > seq
"""
_SAVE_WORKER: Final = """
    INSERT INTO workers (board, name, root, first_seen_us, last_seen_us) VALUES (?, ?, ?, ?, ?)
    ON CONFLICT (board, name) DO UPDATE
    SET root = excluded.root, last_seen_us = max(last_seen_us, excluded.last_seen_us)
"""
_RAISE_THROUGH: Final = """
    INSERT INTO acks (board, worker, through) VALUES (?, ?, ?)
    ON CONFLICT (board, worker) DO UPDATE SET through = max(through, excluded.through)
"""
_DROP_COVERED: Final = "DELETE FROM acked WHERE board = ? AND worker = ? AND seq <= ?"
_ADD_ACKED: Final = """
    INSERT INTO acked (board, worker, seq) SELECT ?1, ?2, value FROM json_each(?3)
    WHERE value > coalesce((SELECT through FROM acks WHERE board = ?1 AND worker = ?2), 0)
    ON CONFLICT DO NOTHING
"""
_ACKS: Final = """
    SELECT coalesce((SELECT through FROM acks WHERE board = ?1 AND worker = ?2), 0),
        (SELECT json_group_array(seq) FROM acked WHERE board = ?1 AND worker = ?2)
"""
_ALL_ACKS: Final = """
    SELECT json_group_array(json_array(worker, through, json(seqs))) FROM (
        SELECT worker, max(through) AS through, json_group_array(seq) FILTER (WHERE seq > 0) AS seqs FROM (
            SELECT worker, through, 0 AS seq FROM acks WHERE board = ?1
            UNION ALL SELECT worker, 0, seq FROM acked WHERE board = ?1
        ) GROUP BY worker
    )
"""
_ADD_TOKEN: Final = """
    INSERT INTO tokens (id, digest, role, worker, board, created_us, expires_us, revoked_us)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?)
"""  # noqa: S105 -- a statement
_REVOKE: Final = """
    UPDATE tokens SET revoked_us = :at_us
    WHERE revoked_us = 0 AND ((:id <> '' AND id = :id) OR (:worker <> '' AND worker = :worker))
    RETURNING number, id, digest, role, worker, board, created_us, expires_us, revoked_us
"""
_PROBE: Final = "UPDATE probes SET times = times + 1"

_KIND_OF: Final[dict[type, str]] = {kind: str(kind.__struct_config__.tag) for kind in AnyEvent.__args__}


def board_id(connection: Connection, name: str) -> int:
    """Give the number of a board. Raises KeyError where there is none."""
    number = connection.execute(_BOARD_ID, (name,)).get
    if number is None:
        raise KeyError(name)
    return number


def create_board(connection: Connection, name: str, settings: Settings) -> BoardRow:
    """Make a board. Raises BoardExists."""
    epoch = secrets.token_hex(8)
    connection.execute(_ADD_BOARD, (name, epoch, encode(settings).decode(), time.time_ns() // 1000))
    if not connection.changes():
        raise BoardExists(name)
    return BoardRow(name, epoch, 0, settings)


def append(connection: Connection, board: str, records: Sequence[Record]) -> None:
    """Store consecutive records at the head of a board. Raises HeadMoved."""
    number = board_id(connection, board)
    first, last = records[0].seq, records[-1].seq
    connection.execute(_MOVE_HEAD, (last, number, first - 1))
    if not connection.changes():
        msg = f"the head of {board} is not {first - 1} any more"
        raise HeadMoved(msg)
    base = number << SEQ_BITS
    _insert(connection, _ADD_EVENTS, [_event_values(base, record) for record in records])
    _insert(connection, _ADD_DETAILS, [(base | record.seq, record.detail) for record in records if record.detail])


def _event_values(base: int, record: Record) -> tuple[Any, ...]:
    event = record.event
    if isinstance(event, Note):
        kind, what = "note", (event.type, event.author, event.task or None, event.work or None, None, None)
    else:
        kind, what = _KIND_OF[type(event)], (None, event.author, None, None, *_about_ids(base, event))
    return (base | event.seq, record.at_us, kind, *what, record.key or None, record.digest or None, record.body)


def _about_ids(base: int, event: AnyEvent) -> tuple[int | None, int | None]:
    if isinstance(event, AboutConflict):
        earlier, later = event.claims
        return base | earlier, base | later
    subject = about(event)
    return (None if subject is None else base | subject), None


def _insert(connection: Connection, statement: str, rows: list[tuple[Any, ...]]) -> None:
    start = 0
    for size in _STEPS:
        while len(rows) - start >= size:
            chunk = rows[start : start + size]
            values = ",".join(["(" + ",".join("?" * len(chunk[0])) + ")"] * size)
            connection.execute(statement + values, [value for row in chunk for value in row])
            start += size


def save_checkpoint(connection: Connection, board: str, seq: int, state: bytes) -> None:
    """Keep a checkpoint if it is newer."""
    connection.execute(_SAVE_CHECKPOINT, (board_id(connection, board), seq, state))


def save_workers(connection: Connection, board: str, rows: Sequence[WorkerRow]) -> None:
    """Add or update workers."""
    number = board_id(connection, board)
    for row in rows:
        connection.execute(_SAVE_WORKER, (number, row.name, row.root, row.first_seen_us, row.last_seen_us))


def ack(connection: Connection, board: str, worker: str, through: int | None, seqs: Collection[int]) -> Acks:
    """Acknowledge, and give what is acknowledged now."""
    number = board_id(connection, board)
    if through is not None:
        connection.execute(_RAISE_THROUGH, (number, worker, through))
        connection.execute(_DROP_COVERED, (number, worker, through))
    if seqs:
        connection.execute(_ADD_ACKED, (number, worker, encode(sorted(seqs)).decode()))
    return acks(connection, number, worker)


def acks(connection: Connection, number: int, worker: str) -> Acks:
    """Give what a worker of the board of this number acknowledged."""
    through, seqs = connection.execute(_ACKS, (number, worker)).get
    return Acks(through, frozenset(msgspec.json.decode(seqs, type=list[int])))


def all_acks(connection: Connection, number: int) -> dict[str, Acks]:
    """Give what every worker of the board of this number acknowledged."""
    rows = msgspec.json.decode(connection.execute(_ALL_ACKS, (number,)).get, type=list[tuple[str, int, list[int]]])
    return {worker: Acks(through, frozenset(seqs)) for worker, through, seqs in rows}


def add_token(connection: Connection, row: TokenRow) -> None:
    """Keep a token."""
    connection.execute(_ADD_TOKEN, msgspec.structs.astuple(row))


def revoke_tokens(connection: Connection, token_id: str, worker: str, at_us: int) -> list[TokenRow]:
    """Revoke tokens that were not revoked before, and give them, oldest first."""
    said = {"id": token_id, "worker": worker, "at_us": at_us}
    return [TokenRow(*row[1:]) for row in sorted(connection.execute(_REVOKE, said).fetchall())]


def probe(connection: Connection) -> None:
    """Write one row that means nothing."""
    connection.execute(_PROBE)
