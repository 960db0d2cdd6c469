"""The right to write to one board: the lock of its row, on a connection of its own.

What must not be cut short by a cancelled caller (the commit, and the way out) runs in tasks that the store owns.
"""
# ruff: noqa: D102 -- the contract describes what these methods do

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import TYPE_CHECKING, Final, Self

from board.store.contract import Found, HeadMoved, LogTrimmed, OutcomeUnknown, StoreUnavailable
from board.store.postgres import log, pages, trimming
from board.store.postgres.faults import DRIVER, ConnectionLost, translated, translating

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

    from board.store.contract import Record, Wanted
    from board.store.postgres.connections import Connection, Connections
    from board.store.postgres.store import PostgresStore

ROUND: Final = 500
"""Events that one statement gives of what was missed."""

LOCKED_EVENTS: Final = 2000
"""A writer that is further behind lets go of the lock while it reads on."""

_LOOK_AGAIN_S: Final = 0.1

# Take the board's row, and tell the last seq that was given out, and the oldest that is kept. The row is read after the
# lock was granted.
_LOCK: Final = "SELECT head, oldest FROM boards WHERE id = $1 FOR NO KEY UPDATE"


class PostgresTransaction:
    """One writer's turn: within this process first, so that those who wait their turn need no connection."""

    commits_apart = False
    missed: Sequence[Record] = ()

    def __init__(self, store: PostgresStore, connections: Connections, board: str, after: int) -> None:
        self._store = store
        self._connections = connections
        self._board = board
        self._after = after
        self._oldest = 1
        self._connection: Connection | None = None
        self._commits: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._number, _ = await self._store.known(self._board)
        await self._store.turn(self._board).acquire()
        try:
            await self._begin()
        except BaseException:
            await self._leave()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.shield(self._store.own(self._leave()))

    async def _leave(self) -> None:
        try:
            if self._commits is not None:
                await asyncio.wait((self._commits,))
            await self._let_go()
        finally:
            self._store.turn(self._board).release()

    async def _begin(self) -> None:
        try:
            self.missed = await self._lock_and_read()
        except ConnectionLost:
            # Nothing was written yet, and a connection that was kept may have died since: a new one may do.
            await self._let_go()
            self.missed = await self._lock_and_read()

    async def _lock_and_read(self) -> list[Record]:
        missed: list[Record] = []
        head = await self._lock()
        self._check_kept(missed)
        while head - self._seen(missed) > LOCKED_EVENTS:
            await self._let_go()
            missed += await self._read_unlocked(self._seen(missed))
            head = await self._lock()
            self._check_kept(missed)
        while self._seen(missed) < head:
            missed += await self._read(self._seen(missed))
        return missed

    def _check_kept(self, missed: Sequence[Record]) -> None:
        """Refuse to go on where the log was trimmed beyond what was seen of it; while the row is locked, it is not."""
        if self._seen(missed) < self._oldest - 1:
            msg = f"the oldest event that is kept is {self._oldest}"
            raise LogTrimmed(msg)

    def _seen(self, missed: Sequence[Record]) -> int:
        return missed[-1].seq if missed else self._after

    async def _lock(self) -> int:
        connection = self._connection = await self._connections.take()
        with translating():
            await connection.execute("BEGIN")
            row = await connection.fetchrow(_LOCK, self._number)
        assert row is not None
        head, self._oldest = row
        return head

    async def _read(self, after: int) -> list[Record]:
        assert self._connection is not None
        with translating():
            return await pages.missed(self._connection, self._number, after=after, limit=ROUND)

    async def _read_unlocked(self, after: int) -> list[Record]:
        async with self._connections.lent() as connection:
            return await pages.missed(connection, self._number, after=after, limit=LOCKED_EVENTS)

    async def _let_go(self) -> None:
        """Give the connection back, without what was not committed."""
        connection, self._connection = self._connection, None
        if connection is None:
            return
        try:
            if not connection.is_closed() and connection.is_in_transaction():
                await connection.execute("ROLLBACK")
        except DRIVER:
            connection.terminate()
        finally:
            self._connections.give_back(connection)

    async def lookup(self, wanted: Wanted) -> Found:
        if not wanted:
            return Found()
        if self._connection is None:
            await self._lock()
        assert self._connection is not None
        with translating():
            return await pages.lookup(self._connection, self._number, wanted, self._oldest)

    async def commit(self, records: Sequence[Record]) -> None:
        if not records:
            return
        if any(later.seq != earlier.seq + 1 for earlier, later in pairwise(records)):
            msg = "the records do not follow each other"
            raise HeadMoved(msg)
        self._commits = self._store.own(self._commit(records))
        await asyncio.shield(self._commits)

    async def _commit(self, records: Sequence[Record]) -> None:
        if self._connection is None:
            await self._lock()
        assert self._connection is not None
        try:
            await log.append(self._connection, self._number, records)
        except DRIVER as error:
            await self._let_go()
            raise translated(error) from error
        await self._make_durable(records)

    async def begin_at(self, seq: int, state: bytes) -> None:
        self._commits = self._store.own(self._begin_at(seq, state))
        await asyncio.shield(self._commits)

    async def _begin_at(self, seq: int, state: bytes) -> None:
        head = await self._lock() if self._connection is None else self._seen(self.missed)
        if head:
            msg = f"the head of {self._board} is {head}"
            raise HeadMoved(msg)
        assert self._connection is not None
        with translating():
            await trimming.begin_at(self._connection, self._number, seq, state)
            await self._connection.execute("COMMIT")
        await self._let_go()

    async def _make_durable(self, records: Sequence[Record]) -> None:
        assert self._connection is not None
        try:
            await self._connection.execute("COMMIT")
        except DRIVER as error:
            self._connection.terminate()
            await self._let_go()
            failure = translated(error)
            if not isinstance(failure, ConnectionLost):
                raise failure from error
            await self._settle_doubt(records, failure)
            return
        self._store.grown(self._board)
        await self._let_go()

    async def _settle_doubt(self, records: Sequence[Record], failure: ConnectionLost) -> None:
        """Find out whether a commit that was not answered was carried out. Returns when it was.

        The lock is free when the other transaction is over, however it ended; nothing of it can come later then.
        """
        try:
            stored = await self._is_stored(records)
        except StoreUnavailable as error:
            msg = f"the connection broke during the commit, and PostgreSQL stays away: {error}"
            raise OutcomeUnknown(msg) from failure
        if not stored:
            raise failure

    async def _is_stored(self, records: Sequence[Record]) -> bool:
        await self._patiently_lock()
        last = records[-1]
        found = await self._read(last.seq - 1)
        await self._let_go()
        return bool(found) and found[0].body == last.body

    async def _patiently_lock(self) -> None:
        deadline = asyncio.get_running_loop().time() + self._connections.wait_s
        while True:
            try:
                await self._lock()
            except StoreUnavailable:
                await self._let_go()
                if asyncio.get_running_loop().time() > deadline:
                    raise
                await asyncio.sleep(_LOOK_AGAIN_S)
            else:
                return
