"""The readers: a few threads, each with a connection of its own for as long as a read lasts.

A read is one short transaction, so that it sees one state of the log, and lets go of the WAL soon.
"""

from __future__ import annotations

import asyncio
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

import apsw

from board.store.sqlite import connections
from board.store.sqlite.faults import translated

if TYPE_CHECKING:
    from collections.abc import Callable

    from board.store.sqlite.connections import Connection

T = TypeVar("T")


class Readers:
    """The threads. More reads than threads wait their turn."""

    def __init__(self, path: str, threads: int) -> None:
        self._path = path
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="board-reader")
        self._idle: deque[Connection] = deque()

    async def read(self, work: Callable[[Connection], T]) -> T:
        """Carry out one read in a thread."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, self._carry_out, work)

    def stop(self) -> None:
        """Wait for the reads that were handed over, and close the connections. Blocks."""
        self._pool.shutdown()
        while self._idle:
            self._idle.pop().close()

    def _carry_out(self, work: Callable[[Connection], T]) -> T:
        connection = self._taken()
        try:
            answer = _within_transaction(connection, work)
        except apsw.Error as error:
            # Whatever is wrong may be wrong with the connection: the next read takes a new one.
            system_errno = connection.system_errno
            _close(connection)
            raise translated(error, system_errno) from error
        except Exception:
            self._idle.append(connection)
            raise
        self._idle.append(connection)
        return answer

    def _taken(self) -> Connection:
        with suppress(IndexError):
            return self._idle.pop()
        try:
            return connections.reader(self._path)
        except apsw.Error as error:
            raise translated(error) from error


def _within_transaction(connection: Connection, work: Callable[[Connection], T]) -> T:
    connection.execute("BEGIN")
    try:
        return work(connection)
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def _close(connection: Connection) -> None:
    # It only read: there is nothing to lose.
    with suppress(apsw.Error):
        connection.close()
