"""Bringing the database to this version's shape, one node at a time."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from board.store import migrations

if TYPE_CHECKING:
    from board.store.postgres.connections import Connection

MIGRATION_WAIT_S: Final = 60
"""Seconds that a node waits for another one that is migrating, and for each of its own migrations."""

_LOCK_KEY: Final = int.from_bytes(b"board")

# One node at a time: the lock is of this database, and ends with the transaction however that ends.
_LOCK: Final = "SELECT pg_advisory_xact_lock($1)"
_PATIENCE: Final = (
    f"SET LOCAL lock_timeout = '{MIGRATION_WAIT_S}s'; SET LOCAL statement_timeout = '{MIGRATION_WAIT_S}s'"
)
_MIGRATIONS_TABLE: Final = """
    CREATE TABLE IF NOT EXISTS migrations (
        number integer PRIMARY KEY, name text NOT NULL, checksum text NOT NULL, applied_us bigint NOT NULL
    )
"""
# Whether this schema was migrated before. Asked of the catalogue and not with `to_regclass`, which remembers for the
# rest of a transaction that there was no such table, though another node has made it meanwhile.
_HAS_MIGRATIONS: Final = """
    SELECT EXISTS (SELECT 1 FROM pg_tables WHERE schemaname = current_schema() AND tablename = 'migrations')
"""
_APPLIED: Final = "SELECT number, checksum FROM migrations ORDER BY number"
_ADD_APPLIED: Final = "INSERT INTO migrations (number, name, checksum, applied_us) VALUES ($1, $2, $3, $4)"


async def prepare(connection: Connection) -> None:
    """Run what is still to be run, all or none. Raises StoreNewer and StoreDamaged before it changes anything."""
    migrations.plan(await _applied(connection), migrations.known("postgresql"))
    await connection.execute("BEGIN")
    await connection.execute(_PATIENCE)
    await connection.execute(_LOCK, _LOCK_KEY)
    # Planned again under the lock: another node may have been faster.
    for one in migrations.plan(await _applied(connection), migrations.known("postgresql")):
        await connection.execute(_MIGRATIONS_TABLE)
        await connection.execute(one.sql)
        await connection.execute(_ADD_APPLIED, one.number, one.name, one.checksum, time.time_ns() // 1000)
    await connection.execute("COMMIT")


async def _applied(connection: Connection) -> list[migrations.Applied]:
    if not await connection.fetchval(_HAS_MIGRATIONS):
        return []
    return [migrations.Applied(number, checksum) for number, checksum in await connection.fetch(_APPLIED)]
