"""Connections to PostgreSQL: kept open, lent out, thrown away after an error. Each wait for one has an end."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final, Protocol, cast
from urllib.parse import parse_qsl, urlsplit

import asyncpg

from board.store.contract import StoreUnavailable
from board.store.postgres.faults import DRIVER, translated, translating

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

IDLE_S: Final = 300.0
"""Seconds after which a connection that nobody borrowed is closed."""


class Row(Protocol):
    """One row of an answer: its columns by place or name."""

    def __getitem__(self, key: int | str) -> Any: ...  # noqa: ANN401 -- a column of any type

    def __iter__(self) -> Any: ...  # noqa: ANN401 -- the columns


class Connection(Protocol):
    """A connection as the type checker sees it: asyncpg's own comes through a proxy that has no types."""

    async def execute(self, query: str, *args: object) -> str:
        """Run one statement, or several without arguments."""
        ...

    async def executemany(self, command: str, args: Sequence[Sequence[object]]) -> None:
        """Run one statement for each of the arguments, all or none."""
        ...

    async def fetch(self, query: str, *args: object) -> list[Row]:
        """Run one statement and give all rows."""
        ...

    async def fetchrow(self, query: str, *args: object) -> Row | None:
        """Run one statement and give its first row."""
        ...

    async def fetchval(self, query: str, *args: object) -> Any:  # noqa: ANN401 -- a column of any type
        """Run one statement and give the first column of its first row."""
        ...

    def is_in_transaction(self) -> bool:
        """Tell whether a transaction is open, or has failed and is not rolled back yet."""
        ...

    def terminate(self) -> None:
        """Drop the connection at once; the server undoes what it had not committed."""
        ...


def session_settings(dsn: str, wait_s: float) -> dict[str, str]:
    """Give what each connection asks of the server: that a commit is on disk, and an end to every wait.

    What the DSN says of itself wins, but for `synchronous_commit`: no write is acknowledged before it is durable.
    """
    wait_ms = str(round(wait_s * 1000))
    ours = {
        "application_name": "board",
        "lock_timeout": wait_ms,
        "statement_timeout": wait_ms,
        "idle_in_transaction_session_timeout": wait_ms,
        "tcp_user_timeout": wait_ms,
    }
    said = {name for name, _ in parse_qsl(urlsplit(dsn).query)}
    return {name: value for name, value in ours.items() if name not in said} | {"synchronous_commit": "on"}


class Connections:
    """At most `size` connections, made when they are first needed. Open it before use, and close it."""

    def __init__(self, dsn: str, *, size: int, wait_s: float) -> None:
        self._dsn = dsn
        self._size = size
        self.wait_s = wait_s
        self._pool: Any = None

    async def open(self) -> None:
        """Get ready to connect; nothing is connected yet."""
        with translating():
            self._pool = await asyncpg.create_pool(
                self._dsn,
                min_size=0,
                max_size=self._size,
                timeout=self.wait_s,
                command_timeout=self.wait_s,
                max_inactive_connection_lifetime=IDLE_S,
                reset=_keep,
                server_settings=session_settings(self._dsn, self.wait_s),
            )

    async def close(self) -> None:
        """Close all connections, those that are lent out as soon as they come back or `wait_s` is over."""
        pool, self._pool = self._pool, None
        if pool is None:
            return
        try:
            async with asyncio.timeout(self.wait_s):
                await pool.close()
        except DRIVER:
            pool.terminate()

    async def take(self) -> Connection:
        """Borrow a connection. Raises StoreUnavailable when there is none within `wait_s`."""
        if self._pool is None:
            msg = "the store is not open"
            raise StoreUnavailable(msg)
        with translating():
            return cast("Connection", await self._pool.acquire(timeout=self.wait_s))

    async def give_back(self, connection: Connection) -> None:
        """Give a connection back that is in no transaction, or that was terminated."""
        if self._pool is None:
            connection.terminate()
            return
        with translating():
            await self._pool.release(connection)

    @asynccontextmanager
    async def lent(self) -> AsyncIterator[Connection]:
        """Borrow a connection for a block. One that saw an error, or whose borrower was cancelled, is not used again."""
        connection = await self.take()
        try:
            yield connection
        except BaseException as error:
            connection.terminate()
            await self.give_back(connection)
            if isinstance(error, DRIVER):
                raise translated(error) from error
            raise
        await self.give_back(connection)


async def _keep(_connection: object) -> None:
    # asyncpg would reset what a borrower may have changed, at the price of a round trip. Nobody here changes anything.
    return None
