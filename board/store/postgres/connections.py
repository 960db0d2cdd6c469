"""Connections to PostgreSQL: kept open, lent out, thrown away after an error. Each wait for one has an end."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, Final, Protocol
from urllib.parse import parse_qsl, urlsplit

import asyncpg

from board.store.contract import StoreUnavailable
from board.store.postgres.faults import translating

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

IDLE_S: Final = 300.0
"""Seconds after which a connection that nobody borrowed is closed."""


class Row(Protocol):
    """One row of an answer: its columns by place or name."""

    def __getitem__(self, key: int | str) -> Any: ...  # noqa: ANN401 -- a column of any type

    def __iter__(self) -> Any: ...  # noqa: ANN401 -- the columns


class Connection(Protocol):
    """A connection as the type checker sees it: asyncpg says nothing of what comes out of its own."""

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

    def is_closed(self) -> bool:
        """Tell whether the connection is known to be over."""
        ...

    def terminate(self) -> None:
        """Drop the connection at once; the server undoes what it had not committed."""
        ...


_connect: Final[Any] = asyncpg.connect  # its own types ask for whole seconds


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
    """At most `size` connections, made when they are needed. Open it before use, and close it.

    It is no `asyncpg.Pool`: that one asks the server to reset every connection that comes back, a round trip each, and
    takes one that died away from whoever holds it.
    """

    def __init__(self, dsn: str, *, size: int, wait_s: float) -> None:
        self.wait_s = wait_s
        self._dsn = dsn
        self._size = size
        self._free = asyncio.Semaphore(size)
        self._idle: deque[tuple[Connection, float]] = deque()
        self._is_open = False

    def open(self) -> None:
        """Let connections be taken; none is made yet."""
        self._is_open = True

    async def close(self) -> None:
        """Wait for those that are lent out, `wait_s` at the most, and close all. Closing twice is a no-op."""
        if not self._is_open:
            return
        self._is_open = False
        with suppress(TimeoutError):
            async with asyncio.timeout(self.wait_s):
                for _ in range(self._size):
                    await self._free.acquire()
        while self._idle:
            self._idle.pop()[0].terminate()

    async def take(self) -> Connection:
        """Borrow a connection. Raises StoreUnavailable when there is none within `wait_s`, or twice that for a new one."""
        if not self._is_open:
            msg = "the store is not open"
            raise StoreUnavailable(msg)
        with translating():
            async with asyncio.timeout(self.wait_s):
                await self._free.acquire()
            try:
                return self._kept() or await self._connect()
            except BaseException:
                self._free.release()
                raise

    def _kept(self) -> Connection | None:
        while self._idle:
            connection, since_s = self._idle.pop()
            if not connection.is_closed() and time.monotonic() - since_s < IDLE_S:
                return connection
            connection.terminate()
        return None

    async def _connect(self) -> Connection:
        return await _connect(
            self._dsn,
            timeout=self.wait_s,
            command_timeout=self.wait_s,
            server_settings=session_settings(self._dsn, self.wait_s),
        )

    def give_back(self, connection: Connection) -> None:
        """Give a connection back. One that is in a transaction still is dropped, and the transaction with it."""
        if not self._is_open or connection.is_closed() or connection.is_in_transaction():
            connection.terminate()
        else:
            self._idle.append((connection, time.monotonic()))
        self._free.release()

    @asynccontextmanager
    async def lent(self) -> AsyncGenerator[Connection]:
        """Borrow a connection for a block. One that saw an error, or whose borrower was cancelled, is not used again."""
        connection = await self.take()
        try:
            with translating():
                yield connection
        except BaseException:
            connection.terminate()
            raise
        finally:
            self.give_back(connection)
