"""The writer: one thread, one connection, one queue.

While one transaction syncs, the jobs that come in wait; together they are the next one. Each job of several has a
savepoint, so that one which fails does not take the others with it; where the disk fails, all of them fail. Answers go
back to the event loop after the commit, all in one call.

When nothing waits, the writer does its chores in small pieces (indexing what was committed, see `derived`) and
checkpoints the WAL. Both also happen under steady load, so that neither grows without a bound: a piece of the chores now
and then, a checkpoint whenever the WAL has grown by so much, however fast that was.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from contextlib import suppress
from functools import partial
from itertools import groupby
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, Protocol, TypeAlias, TypeVar

import apsw

from board.store.contract import StoreUnavailable
from board.store.sqlite import connections
from board.store.sqlite.faults import translated

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from board.store.sqlite.connections import Connection

T = TypeVar("T")
Work: TypeAlias = "Callable[[Connection], T]"


class Chore(Protocol):
    """What can be done later."""

    def __call__(self, connection: Connection, *, idle: bool) -> bool:
        """Do one piece; tell whether more is left."""
        ...


GROUP_JOBS: Final = 256
"""The most jobs of one transaction. It bounds how long the first of them waits for the last."""

IDLE_S: Final = 0.05
"""Seconds without a job after which the writer turns to its chores: longer than a busy server takes from group to group,
since both need the interpreter's lock."""

CHORE_EVERY_S: Final = 0.05
"""Seconds after which a small piece of the chores is done even where jobs keep coming: they wait for it."""

CHORE_REST: Final = 20
"""How many times as long as the last piece took jobs then have the writer to themselves: a flood is slowed by a twentieth,
and at a few hundred notes a second the index keeps up."""

PASSIVE_PAGES: Final = 1000
"""Pages that the WAL grows by before it is checkpointed; SQLite's own default. It takes about 15 ms, and jobs wait for it."""

LARGE_PAGES: Final = 8 * PASSIVE_PAGES
"""Pages (32 MB) at which the writer waits for readers to leave the WAL, and cuts it back to nothing."""

TRUNCATE_WAIT_MS: Final = 2000
"""Milliseconds that it waits for them. Readers stay for one statement or a few, which takes this long only where they
starve for the processor; those that come while the writer waits read past the WAL, so that it waits for each just once."""

Sync = Literal["FULL", "NORMAL"]
"""Whether a commit is on the disk when it returns, or only in the order of all commits."""

_log: Final = logging.getLogger(__name__)


class Job(Generic[T]):
    """One write, and where its outcome goes.

    A `derived` job only writes what could be built again: it is not synced, and shares no transaction.
    """

    __slots__ = ("answer", "derived", "loop", "work")

    def __init__(self, work: Callable[[Connection], T], *, derived: bool) -> None:
        self.work = work
        self.derived = derived
        self.loop = asyncio.get_running_loop()
        self.answer: asyncio.Future[T] = self.loop.create_future()


class Failed:
    """The outcome of a job that raised."""

    __slots__ = ("error",)

    def __init__(self, error: Exception) -> None:
        self.error = error


class Writer:
    """The thread. It does its `chore` piece by piece, when nothing else is to be done and now and then under load."""

    def __init__(self, path: str, chore: Chore) -> None:
        self._path = path
        self._chore = chore
        self._queue: SimpleQueue[Job[Any] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="board-writer", daemon=True)
        self._connection: Connection | None = None
        self._wal = Wal()
        self._patience_s: float | None = 0.0
        self._tidied_s = 0.0
        self._rest_s = CHORE_EVERY_S

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def submit(self, work: Callable[[Connection], T], *, derived: bool = False) -> asyncio.Future[T]:
        """Hand over a job. It is carried out even where nobody waits for its answer."""
        job = Job(work, derived=derived)
        self._queue.put(job)
        return job.answer

    def stop(self) -> None:
        """Carry out what was handed over, and end the thread. Blocks."""
        self._queue.put(None)
        self._thread.join()

    def _run(self) -> None:
        jobs: list[Job[Any] | None] = []
        while None not in jobs:
            jobs = self._take()
            for derived, run in groupby(filter(None, jobs), lambda job: job.derived):
                self._carry_out(list(run), "NORMAL" if derived else "FULL")
            if not jobs or time.monotonic() - self._tidied_s > self._rest_s:
                self._tidy(idle=not jobs)
            self._checkpoint()
        self._disconnect()

    def _take(self) -> list[Job[Any] | None]:
        jobs: list[Job[Any] | None] = []
        with suppress(Empty):
            jobs.append(self._queue.get(timeout=self._patience_s))
            while len(jobs) < GROUP_JOBS:
                jobs.append(self._queue.get_nowait())
        return jobs

    def _carry_out(self, jobs: Sequence[Job[Any]], sync: Sync) -> None:
        self._patience_s = IDLE_S
        try:
            outcomes = self._transact([job.work for job in jobs], sync)
        except Exception as error:  # noqa: BLE001 -- whatever it is, it is for those who wait
            outcomes = [Failed(error)] * len(jobs)
        # All jobs of a store come from one loop. Where that is closed by now, nobody waits for an answer.
        with suppress(RuntimeError):
            jobs[0].loop.call_soon_threadsafe(_answer, jobs, outcomes)

    def _transact(self, works: Sequence[Work[Any]], sync: Sync) -> list[Any]:
        connection = self._connected()
        try:
            if sync == "NORMAL":
                connection.execute("PRAGMA synchronous = NORMAL")
            connection.execute("BEGIN IMMEDIATE")
            outcomes = [_attempt(connection, work, alone=len(works) == 1) for work in works]
            if connection.in_transaction:
                connection.execute("COMMIT")
            if sync == "NORMAL":
                connection.execute("PRAGMA synchronous = FULL")
        except Exception as error:
            # Closing rolls back, and the next transaction starts from a connection that is known to sync.
            system_errno = connection.system_errno
            self._disconnect()
            raise (translated(error, system_errno) if isinstance(error, apsw.Error) else error) from error
        return outcomes

    def _tidy(self, *, idle: bool) -> None:
        begun_s = time.monotonic()
        try:
            (more,) = self._transact([partial(self._chore, idle=idle)], "NORMAL")
        except StoreUnavailable as error:
            _log.warning("indexing put off: %s", error)
            more = False
        self._tidied_s = time.monotonic()
        self._rest_s = max(CHORE_EVERY_S, CHORE_REST * (self._tidied_s - begun_s))
        # A busy writer that found a moment goes back to waiting for jobs; an idle one goes on with its chores.
        self._patience_s = (0.0 if idle else IDLE_S) if more is True else None

    def _checkpoint(self) -> None:
        if self._connection is None:
            return
        try:
            self._wal.checkpoint(self._connection)
        except apsw.Error as error:
            _log.warning("checkpoint put off: %s", error)

    def _connected(self) -> Connection:
        if self._connection is None:
            try:
                self._connection = connections.writer(self._path)
            except apsw.Error as error:
                raise translated(error) from error
            self._wal.watch(self._connection)
        return self._connection

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            # A close that fails has nothing left to save: what was committed is in the file.
            with suppress(apsw.Error):
                connection.close()


class Wal:
    """How long the WAL is, and when it is checkpointed."""

    def __init__(self) -> None:
        self._pages = 0
        self._done_pages = 0

    def watch(self, connection: Connection) -> None:
        """Follow the commits of this connection."""
        connection.set_wal_hook(self._grown)

    def _grown(self, _connection: apsw.Connection, _database: str, pages: int) -> int:
        if pages < self._pages:
            self._done_pages = 0
        self._pages = pages
        return apsw.SQLITE_OK

    def checkpoint(self, connection: Connection) -> None:
        """Checkpoint where it is time to. One that fails is tried again when the WAL has grown by as much again."""
        if self._pages - self._done_pages < PASSIVE_PAGES:
            return
        self._done_pages = self._pages
        if self._pages < LARGE_PAGES:
            connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
        else:
            self._truncate(connection)

    def _truncate(self, connection: Connection) -> None:
        connection.set_busy_timeout(TRUNCATE_WAIT_MS)
        try:
            connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        finally:
            connection.set_busy_timeout(connections.BUSY_MS)


def _attempt(connection: Connection, work: Work[T], *, alone: bool) -> T | Failed:
    if not alone:
        connection.execute("SAVEPOINT job")
    try:
        outcome: T | Failed = work(connection)
    except Exception as error:
        if not connection.in_transaction:
            raise
        outcome = Failed(translated(error) if isinstance(error, apsw.Error) else error)
        connection.execute("ROLLBACK" if alone else "ROLLBACK TO job")
    if not alone:
        connection.execute("RELEASE job")
    return outcome


def _answer(jobs: Sequence[Job[Any]], outcomes: Sequence[Any]) -> None:
    for job, outcome in zip(jobs, outcomes, strict=True):
        if job.answer.done():
            continue
        if isinstance(outcome, Failed):
            job.answer.set_exception(outcome.error)
        else:
            job.answer.set_result(outcome)
