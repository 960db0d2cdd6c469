"""The writer: one thread, one connection, one queue.

While one transaction syncs, the jobs that come in wait; together they are the next one. Each job of several has a
savepoint, so that one which fails does not take the others with it; where the disk fails, all of them fail. Answers go
back to the event loop after the commit, all in one call.

When nothing waits, the writer does its chores in small pieces (indexing what was committed, see `derived`) and
checkpoints the WAL. Both also happen under steady load, now and then, so that neither grows without a bound.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

import apsw

from board.store.contract import StoreUnavailable
from board.store.sqlite import connections
from board.store.sqlite.faults import translated

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

T = TypeVar("T")

GROUP_JOBS: Final = 256
"""The most jobs of one transaction. It bounds how long the first of them waits for the last."""

IDLE_S: Final = 0.005
"""Seconds without a job after which the writer turns to its chores."""

CHORE_EVERY_S: Final = 0.1
"""Seconds after which a piece of the chores is done even where jobs keep coming."""

PASSIVE_PAGES: Final = 1000
"""Pages that the WAL grows by before an idle writer checkpoints it; SQLite's own default."""

BUSY_PAGES: Final = 4 * PASSIVE_PAGES
"""Pages that the WAL grows by before a busy writer checkpoints it."""

LARGE_PAGES: Final = 16 * PASSIVE_PAGES
"""Pages (64 MB) at which the writer waits for readers to leave the WAL, and cuts it back to nothing."""

TRUNCATE_WAIT_MS: Final = 250
"""Milliseconds that it waits for them. Readers stay for one statement or a few."""

_log: Final = logging.getLogger(__name__)


class Job(Generic[T]):
    """One write, and where its outcome goes.

    A `derived` job only writes what could be built again: it is not synced, and shares no transaction.
    """

    __slots__ = ("answer", "derived", "loop", "work")

    def __init__(self, work: Callable[[apsw.Connection], T], *, derived: bool) -> None:
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
    """The thread. `chore` does one piece of what can be done later, and says whether more is left."""

    def __init__(self, path: str, chore: Callable[[apsw.Connection], bool]) -> None:
        self._path = path
        self._chore = chore
        self._queue: SimpleQueue[Job[Any] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="board-writer", daemon=True)
        self._connection: apsw.Connection | None = None
        self._wal = _Wal()
        self._chores_left = True
        self._chores_done_s = 0.0

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def submit(self, work: Callable[[apsw.Connection], T], *, derived: bool = False) -> asyncio.Future[T]:
        """Hand over a job. It is carried out even where nobody waits for its answer."""
        job = Job(work, derived=derived)
        self._queue.put(job)
        return job.answer

    def stop(self) -> None:
        """Carry out what was handed over, and end the thread. Blocks."""
        self._queue.put(None)
        self._thread.join()

    def _run(self) -> None:
        open_ = True
        while open_:
            jobs = self._take()
            open_ = None not in jobs
            for run in _runs([job for job in jobs if job is not None]):
                self._carry_out(run)
            if not self._queue.qsize() or time.monotonic() - self._chores_done_s > CHORE_EVERY_S:
                self._tidy(idle=not jobs)
        self._disconnect()

    def _take(self) -> list[Job[Any] | None]:
        jobs: list[Job[Any] | None] = []
        with suppress(Empty):
            jobs.append(self._queue.get(timeout=IDLE_S if self._chores_left else None))
            while len(jobs) < GROUP_JOBS:
                jobs.append(self._queue.get_nowait())
        return jobs

    def _carry_out(self, jobs: Sequence[Job[Any]]) -> None:
        try:
            outcomes = self._transact(jobs)
        except StoreUnavailable as error:
            outcomes = [Failed(error)] * len(jobs)
        self._chores_left = True
        # All jobs of a store come from one loop. Where that is closed by now, nobody waits for an answer.
        with suppress(RuntimeError):
            jobs[0].loop.call_soon_threadsafe(_answer, jobs, outcomes)

    def _transact(self, jobs: Sequence[Job[Any]]) -> list[Any]:
        attempt = _attempt if len(jobs) > 1 else _attempt_alone
        connection = self._connected()
        try:
            if jobs[0].derived:
                connection.execute("PRAGMA synchronous = NORMAL")
            connection.execute("BEGIN IMMEDIATE")
            outcomes = [attempt(connection, job) for job in jobs]
            if connection.in_transaction:
                connection.execute("COMMIT")
            if jobs[0].derived:
                connection.execute("PRAGMA synchronous = FULL")
        except apsw.Error as error:
            raise self._recovered(connection, error) from error
        return outcomes
