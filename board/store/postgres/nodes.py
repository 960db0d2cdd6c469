"""What nodes tell each other through the database (`board.store.commons`); each is one statement."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Final

import msgspec

from board.store.commons import Sockets

if TYPE_CHECKING:
    from collections.abc import Sequence

    from board.store.postgres.connections import Connection

FORGET_US: Final = 3_600_000_000
"""Microseconds after which a node that was not heard of is forgotten, with its sockets: an hour."""

# Keep a ticket, and forget those that are over.
_KEEP_TICKET: Final = """
    WITH over AS (DELETE FROM tickets WHERE end_us <= $4)
    INSERT INTO tickets (digest, identity, end_us)
    SELECT $1, $2, $3 WHERE (SELECT count(*) FROM tickets WHERE end_us > $4) < $5 RETURNING true
"""
# Take a ticket: of two that ask at once, one deletes the row.
_TAKE_TICKET: Final = "DELETE FROM tickets WHERE digest = $1 RETURNING CASE WHEN end_us > $2 THEN identity END"
# Say that a node is there, and forget those that were not heard of for long.
_HEAR: Final = """
    WITH over AS (DELETE FROM nodes WHERE heard_us < $3 AND node <> $1 RETURNING node),
        with_them AS (DELETE FROM sockets USING over WHERE sockets.node = over.node)
    INSERT INTO nodes (node, heard_us) VALUES ($1, $2)
    ON CONFLICT (node) DO UPDATE SET heard_us = greatest(nodes.heard_us, excluded.heard_us)
"""
# Say how many sockets workers have on a node.
_REPORT: Final = """
    INSERT INTO sockets (board, node, worker, open, left_us)
    SELECT $1, $2, * FROM unnest($3::text[], $4::integer[], $5::bigint[])
    ON CONFLICT (board, node, worker) DO UPDATE SET open = excluded.open, left_us = excluded.left_us
"""
# Add up what the other nodes said; a node that is gone took its sockets with it.
_ELSEWHERE: Final = """
    SELECT worker,
        sum(CASE WHEN heard_us >= $3 THEN open ELSE 0 END),
        max(CASE WHEN heard_us < $3 AND open > 0 THEN heard_us ELSE left_us END)
    FROM sockets JOIN nodes USING (node) WHERE board = $1 AND node <> $2 GROUP BY worker ORDER BY worker
"""

# Keep the key of the tokens, unless a node has kept one.
_MAKE_TOKEN_KEY: Final = "INSERT INTO token_key (id, key) VALUES (1, $1) ON CONFLICT DO NOTHING"  # noqa: S105 -- SQL
_TOKEN_KEY: Final = "SELECT key FROM token_key"  # noqa: S105 -- SQL


async def make_token_key(connection: Connection) -> None:
    """Make the key of the tokens, once."""
    await connection.execute(_MAKE_TOKEN_KEY, secrets.token_bytes(32))


async def token_key(connection: Connection) -> bytes | None:
    """Give the key of the tokens."""
    return await connection.fetchval(_TOKEN_KEY)


async def keep_ticket(
    connection: Connection, digest: bytes, identity: bytes, *, end_us: int, now_us: int, limit: int
) -> bool:
    """Keep a ticket; tell whether there was room for it."""
    return bool(await connection.fetchval(_KEEP_TICKET, digest, identity, end_us, now_us, limit))


async def take_ticket(connection: Connection, digest: bytes, now_us: int) -> bytes | None:
    """Take a ticket, once."""
    return await connection.fetchval(_TAKE_TICKET, digest, now_us)


async def report_sockets(connection: Connection, number: int, node: str, rows: Sequence[Sockets], now_us: int) -> None:
    """Say what changed on a node."""
    await connection.execute(_HEAR, node, now_us, now_us - FORGET_US)
    if rows:
        columns = zip(*map(msgspec.structs.astuple, rows), strict=True)
        await connection.execute(_REPORT, number, node, *map(list, columns))


async def sockets_elsewhere(connection: Connection, number: int, node: str, alive_us: int) -> list[Sockets]:
    """Add up what the other nodes said."""
    return [Sockets(*row) for row in await connection.fetch(_ELSEWHERE, number, node, alive_us)]
