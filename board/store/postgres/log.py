"""What is written, one function for each write of the contract. Each is one statement, or runs in a transaction."""

from __future__ import annotations

import secrets
import time
from typing import TYPE_CHECKING, Any, Final

import msgspec

from board.store.contract import Acks, BoardExists, BoardRow, TokenRow
from schema.codec import encode
from schema.events import AboutConflict, AnyEvent, Note, about

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from board.store.contract import Record, WorkerRow
    from board.store.postgres.connections import Connection
    from schema.limits import Settings

# Make a board, unless there is one of this name.
_ADD_BOARD: Final = """
    INSERT INTO boards (name, epoch, settings, created_us) VALUES ($1, $2, $3, $4)
    ON CONFLICT (name) DO NOTHING RETURNING id
"""
# Add consecutive events; the table's own trigger moves the head, and refuses those that do not follow it.
_ADD_EVENTS: Final = """
    INSERT INTO events (board, seq, at_us, kind, type, author, task, work, about, about2, key, digest, body)
    SELECT $1, * FROM unnest(
        $2::bigint[], $3::bigint[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[],
        $9::bigint[], $10::bigint[], $11::text[], $12::bytea[], $13::bytea[]
    )
"""
# Add the long texts of events.
_ADD_DETAILS: Final = "INSERT INTO details (board, seq, text) SELECT $1, * FROM unnest($2::bigint[], $3::bytea[])"
# Keep a checkpoint, if it is newer than the one that is kept.
_SAVE_CHECKPOINT: Final = """
    INSERT INTO checkpoints (board, seq, state) VALUES ($1, $2, $3)
    ON CONFLICT (board) DO UPDATE SET seq = excluded.seq, state = excluded.state WHERE excluded.seq > checkpoints.seq
"""
# Add or update workers. In the order of names, so that two nodes which save the same ones wait and do not deadlock.
_SAVE_WORKERS: Final = """
    INSERT INTO workers (board, name, root, first_seen_us, last_seen_us)
    SELECT $1, * FROM unnest($2::text[], $3::text[], $4::bigint[], $5::bigint[])
    ON CONFLICT (board, name) DO UPDATE
    SET root = excluded.root, last_seen_us = greatest(workers.last_seen_us, excluded.last_seen_us)
"""
# Raise what a worker acknowledged as a whole.
_RAISE_THROUGH: Final = """
    INSERT INTO acks (board, worker, through) VALUES ($1, $2, $3)
    ON CONFLICT (board, worker) DO UPDATE SET through = greatest(acks.through, excluded.through)
"""
# Forget single seqs that are covered by it.
_DROP_COVERED: Final = "DELETE FROM acked WHERE board = $1 AND worker = $2 AND seq <= $3"
# Acknowledge single seqs, in order for the same reason as above.
_ADD_ACKED: Final = """
    INSERT INTO acked (board, worker, seq) SELECT $1, $2, seq FROM unnest($3::bigint[]) AS seq
    WHERE seq > coalesce((SELECT through FROM acks WHERE board = $1 AND worker = $2), 0)
    ON CONFLICT DO NOTHING
"""
# Read what a worker acknowledged.
_ACKS: Final = """
    SELECT coalesce((SELECT through FROM acks WHERE board = $1 AND worker = $2), 0),
        ARRAY(SELECT seq FROM acked WHERE board = $1 AND worker = $2)
"""
# Read what every worker acknowledged; whoever acknowledged anything has a row in `acks`.
_ALL_ACKS: Final = """
    SELECT worker, through, ARRAY(SELECT seq FROM acked WHERE acked.board = acks.board AND acked.worker = acks.worker)
    FROM acks WHERE board = $1
"""
# Keep a token.
_ADD_TOKEN: Final = """
    INSERT INTO tokens (id, digest, role, worker, board, created_us, expires_us, revoked_us)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
"""  # noqa: S105 -- a statement
# Revoke the tokens that are named and were not revoked before.
_REVOKE: Final = """
    WITH revoked AS (
        UPDATE tokens SET revoked_us = $3
        WHERE revoked_us = 0 AND (($1 <> '' AND id = $1) OR ($2 <> '' AND worker = $2))
        RETURNING *
    )
    SELECT id, digest, role, worker, board, created_us, expires_us, revoked_us FROM revoked ORDER BY created_us, number
"""
# Write one row that means nothing.
_PROBE: Final = "UPDATE probes SET times = times + 1"

_KIND_OF: Final[dict[type, str]] = {kind: str(kind.__struct_config__.tag) for kind in AnyEvent.__args__}


async def create_board(connection: Connection, name: str, settings: Settings) -> BoardRow:
    """Make a board. Raises BoardExists."""
    epoch = secrets.token_hex(8)
    settings_text = encode(settings).decode()
    if await connection.fetchval(_ADD_BOARD, name, epoch, settings_text, time.time_ns() // 1000) is None:
        raise BoardExists(name)
    return BoardRow(name, epoch, 0, settings)


async def append(connection: Connection, number: int, records: Sequence[Record]) -> None:
    """Add consecutive records at the head of a board."""
    columns = zip(*map(_event_values, records), strict=True)
    await connection.execute(_ADD_EVENTS, number, *map(list, columns))
    details = [(record.seq, record.detail.encode()) for record in records if record.detail]
    if details:
        await connection.execute(_ADD_DETAILS, number, *map(list, zip(*details, strict=True)))


def _event_values(record: Record) -> tuple[Any, ...]:
    event = record.event
    if isinstance(event, Note):
        kind, what = "note", (event.type, event.author, event.task or None, event.work or None, None, None)
    else:
        kind, what = _KIND_OF[type(event)], (None, event.author, None, None, *_subjects(event))
    return (event.seq, record.at_us, kind, *what, record.key or None, record.digest or None, record.body)


def _subjects(event: AnyEvent) -> tuple[int | None, int | None]:
    return event.claims if isinstance(event, AboutConflict) else (about(event), None)


async def save_checkpoint(connection: Connection, number: int, seq: int, state: bytes) -> None:
    """Keep a checkpoint if it is newer."""
    await connection.execute(_SAVE_CHECKPOINT, number, seq, state)


async def save_workers(connection: Connection, number: int, rows: Sequence[WorkerRow]) -> None:
    """Add or update workers, each named once."""
    values = [msgspec.structs.astuple(row) for row in sorted(rows, key=lambda row: row.name)]
    if values:
        await connection.execute(_SAVE_WORKERS, number, *map(list, zip(*values, strict=True)))


async def ack(connection: Connection, number: int, worker: str, *, through: int | None, seqs: Collection[int]) -> Acks:
    """Acknowledge, and give what is acknowledged now."""
    await connection.execute("BEGIN")
    # The row of `through` is written even where it does not move: its lock makes calls of one worker take turns.
    await connection.execute(_RAISE_THROUGH, number, worker, through or 0)
    if through is not None:
        await connection.execute(_DROP_COVERED, number, worker, through)
    if seqs:
        await connection.execute(_ADD_ACKED, number, worker, sorted(seqs))
    acknowledged = await acks(connection, number, worker)
    await connection.execute("COMMIT")
    return acknowledged


async def acks(connection: Connection, number: int, worker: str) -> Acks:
    """Give what a worker acknowledged."""
    row = await connection.fetchrow(_ACKS, number, worker)
    assert row is not None
    return Acks(row[0], frozenset(row[1]))


async def all_acks(connection: Connection, number: int) -> dict[str, Acks]:
    """Give what every worker acknowledged."""
    rows = await connection.fetch(_ALL_ACKS, number)
    return {worker: Acks(through, frozenset(seqs)) for worker, through, seqs in rows}


async def add_token(connection: Connection, row: TokenRow) -> None:
    """Keep a token."""
    await connection.execute(_ADD_TOKEN, *msgspec.structs.astuple(row))


async def revoke_tokens(connection: Connection, token_id: str, worker: str, at_us: int) -> list[TokenRow]:
    """Revoke tokens that were not revoked before, and give them, oldest first."""
    return [TokenRow(*row) for row in await connection.fetch(_REVOKE, token_id, worker, at_us)]


async def probe(connection: Connection) -> None:
    """Write one row that means nothing."""
    await connection.execute(_PROBE)
