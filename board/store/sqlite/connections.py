"""Opening the file: whose it is, its shape, and how each connection behaves."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

import apsw

from board.store import migrations
from board.store.contract import StoreUnavailable
from board.store.sqlite.faults import translated

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

APPLICATION_ID: Final = int.from_bytes(b"brd1")
"""What the header of a board's file says. Files of other programs say something else, mostly 0."""

BUSY_MS: Final = 5000
"""Milliseconds to wait for another process that is writing to the file."""

WAL_KEPT_BYTES: Final = 16 * 1_048_576
"""Bytes of the write-ahead log that stay on disk, to be written over, once it was checkpointed."""

_WRITER: Final = f"""
    PRAGMA synchronous = FULL;
    PRAGMA journal_size_limit = {WAL_KEPT_BYTES};
    PRAGMA cache_size = -8192;
    PRAGMA temp_store = MEMORY;
"""
_READER: Final = """
    PRAGMA query_only = 1;
    PRAGMA cache_size = -16384;
    PRAGMA temp_store = MEMORY;
"""
_OWNER: Final = "PRAGMA application_id"
_OWN: Final = f"PRAGMA application_id = {APPLICATION_ID}"
MARK_AS_COPY: Final = "PRAGMA user_version = 1"
"""Makes a file say that it is a copy (see `board.store.sqlite.copies`)."""

_MARK: Final = "PRAGMA user_version"
_UNMARK: Final = "PRAGMA user_version = 0"
_NEW_EPOCHS: Final = "UPDATE boards SET epoch = lower(hex(randomblob(8)))"
_MIGRATIONS_TABLE: Final = """
    CREATE TABLE IF NOT EXISTS migrations (
        number INTEGER PRIMARY KEY, name TEXT NOT NULL, checksum TEXT NOT NULL, applied_us INTEGER NOT NULL
    ) STRICT
"""
_APPLIED: Final = "SELECT number, checksum FROM migrations ORDER BY number"
_HAS_MIGRATIONS: Final = "SELECT 1 FROM sqlite_schema WHERE name = 'migrations'"
_ADD_APPLIED: Final = "INSERT INTO migrations VALUES (?, ?, ?, ?)"
_IS_EMPTY: Final = "SELECT count(*) = 0 FROM sqlite_schema"


class Connection(apsw.Connection):
    """A connection as the type checker sees it: apsw's own stubs name a type that Python 3.11 does not have."""

    if TYPE_CHECKING:

        def execute(  # pyright: ignore[reportIncompatibleMethodOverride]
            self, statements: str, bindings: Sequence[Any] | Mapping[str, Any] = ()
        ) -> Cursor:
            """Run one statement, or several without bindings."""
            ...


class Cursor(Protocol):
    """What comes out of a statement. Nothing here is kept beyond the call that asked."""

    @property
    def get(self) -> Any:  # noqa: ANN401 -- a column of any type
        """The one value of the one row, or None where there is none."""
        ...

    def fetchone(self) -> tuple[Any, ...] | None:
        """Give one row."""
        ...

    def fetchall(self) -> list[tuple[Any, ...]]:
        """Give all rows."""
        ...


def writer(path: str) -> Connection:
    """Open the connection that writes and checkpoints; nothing else does, and it does so only when it is told."""
    connection = _connect(path, apsw.SQLITE_OPEN_READWRITE)
    connection.execute(_WRITER).fetchall()  # a statement that gives a row stops those behind it until it is read
    connection.wal_autocheckpoint(0)
    return connection


def reader(path: str) -> Connection:
    """Open a connection that reads. The file is opened for writing, since a reader marks its place in the WAL."""
    connection = _connect(path, apsw.SQLITE_OPEN_READWRITE)
    connection.execute(_READER).fetchall()
    return connection


def prepare(path: str) -> None:
    """Bring the file to this version's shape; make it where there is none.

    Raises StoreNewer and StoreDamaged, and StoreUnavailable for a file of another program, all before it writes.
    """
    try:
        inspect(path)
        _migrate(path)
    except apsw.Error as error:
        raise translated(error) from error


def _connect(path: str, flags: int) -> Connection:
    connection = Connection(path, flags=flags)
    connection.set_busy_timeout(BUSY_MS)
    return connection


def inspect(path: str) -> None:
    """Look at a file without touching it. Raises StoreNewer, StoreDamaged, StoreUnavailable; none at all is fine."""
    file = Path(path)
    if not file.exists() or not file.stat().st_size:
        return
    connection = _connect(path, apsw.SQLITE_OPEN_READONLY)
    try:
        _check_owner(connection, path)
        migrations.plan(_applied(connection), migrations.known("sqlite"))
    finally:
        connection.close()


def _check_owner(connection: Connection, path: str) -> None:
    if connection.execute(_OWNER).get == APPLICATION_ID:
        return
    if not connection.execute(_IS_EMPTY).get:
        msg = f"{path} is a database of another program"
        raise StoreUnavailable(msg)


def _migrate(path: str) -> None:
    connection = _connect(path, apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE)
    try:
        if connection.execute(_OWNER).get != APPLICATION_ID:
            connection.execute(_OWN)
        connection.execute("PRAGMA journal_mode = WAL")
        _run_migrations(connection)
    finally:
        connection.close()


def _run_migrations(connection: Connection) -> None:
    connection.execute("BEGIN IMMEDIATE")
    # Planned again under the write lock: another process may have been faster.
    for one in migrations.plan(_applied(connection), migrations.known("sqlite")):
        connection.execute(_MIGRATIONS_TABLE)
        connection.execute(one.sql)
        connection.execute(_ADD_APPLIED, (one.number, one.name, one.checksum, time.time_ns() // 1000))
    if connection.execute(_MARK).get:
        connection.execute(_NEW_EPOCHS)
        connection.execute(_UNMARK)
    connection.execute("COMMIT")


def _applied(connection: Connection) -> list[migrations.Applied]:
    if not connection.execute(_HAS_MIGRATIONS).get:
        return []
    return [migrations.Applied(number, checksum) for number, checksum in connection.execute(_APPLIED).fetchall()]
