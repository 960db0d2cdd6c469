"""Who is here: when each worker of a board last called, its open sockets, and the root it registered.

Activity is kept in memory and written to the store now and then; a worker that was never seen before is written at
once, because notes may be addressed to it. Where other nodes write to the same store, what they know is taken in with
`meet`: a worker has sockets where any node says so, and is gone only when it is gone from all of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from board.store.commons import Sockets
from board.store.contract import WorkerRow

if TYPE_CHECKING:
    from collections.abc import Iterable, KeysView
    from collections.abc import Set as AbstractSet


class Worker(msgspec.Struct):
    """One worker as this process knows it. `left_us` is when its last socket here closed, 0 once it has called since."""

    name: str
    root: str = ""
    first_seen_us: int = 0
    last_seen_us: int = 0
    sockets: int = 0
    left_us: int = 0


class Presence:
    """The workers of one board."""

    def __init__(self, rows: Iterable[WorkerRow]) -> None:
        self._workers = {row.name: Worker(row.name, row.root, row.first_seen_us, row.last_seen_us) for row in rows}
        self._unsaved: set[str] = set()
        self._gone: set[str] = set()
        self._elsewhere: dict[str, Sockets] = {}
        self._sockets_unsaved: set[str] = set()
        self.refused = 0
        """How many calls were refused because they would have made one worker too many."""

    def has_room(self, name: str, limit: int) -> bool:
        """Whether a worker is known, or may become so where `limit` are remembered."""
        return name in self._workers or len(self._workers) < limit

    def seen(self, name: str, now_us: int) -> bool:
        """Note that a worker called; tell whether it is new to the board."""
        worker = self._workers.get(name)
        fresh = worker is None
        if worker is None:
            worker = self._workers[name] = Worker(name, first_seen_us=now_us)
        worker.last_seen_us = max(worker.last_seen_us, now_us)
        self._unsaved.add(name)
        if worker.left_us:
            self._stay(worker)
        self._gone.discard(name)
        return fresh

    def merge(self, rows: Iterable[WorkerRow]) -> None:
        """Take in what other processes wrote to the store."""
        for row in rows:
            worker = self._workers.setdefault(row.name, Worker(row.name, row.root, row.first_seen_us))
            worker.last_seen_us = max(worker.last_seen_us, row.last_seen_us)
            if row.name not in self._unsaved:
                worker.root = row.root

    def register_root(self, name: str, root: str, now_us: int) -> None:
        """Keep the root that a worker's absolute paths start with."""
        self.seen(name, now_us)
        self._workers[name].root = root

    def root_of(self, name: str) -> str | None:
        """The root that a worker registered, or None."""
        worker = self._workers.get(name)
        return worker.root or None if worker else None

    def connected(self, name: str) -> None:
        """Count an open socket."""
        worker = self._workers[name]
        worker.sockets += 1
        self._stay(worker)
        self._gone.discard(name)

    def _stay(self, worker: Worker) -> None:
        worker.left_us = 0
        self._sockets_unsaved.add(worker.name)

    def disconnected(self, name: str, now_us: int) -> bool:
        """Count a closed socket; tell whether it was the worker's last."""
        worker = self._workers[name]
        worker.sockets -= 1
        self._sockets_unsaved.add(name)
        if worker.sockets == 0:
            worker.left_us = now_us
            self._judge(worker)
        return worker.sockets == 0

    def meet(self, rows: Iterable[WorkerRow], elsewhere: Iterable[Sockets]) -> None:
        """Take in what the other nodes say of workers and of their sockets there."""
        self.merge(rows)
        self._elsewhere = {one.worker: one for one in elsewhere}
        for name in self._elsewhere:
            if (worker := self._workers.get(name)) is not None:
                self._judge(worker)

    def _judge(self, worker: Worker) -> None:
        there = self._elsewhere.get(worker.name, _NOWHERE)
        left_us = max(worker.left_us, there.left_us)
        if left_us and left_us >= worker.last_seen_us and not worker.sockets and not there.open:
            self._gone.add(worker.name)
        else:
            self._gone.discard(worker.name)

    def sockets_of(self, name: str) -> int:
        """How many sockets a worker has open, on all nodes."""
        return self._workers[name].sockets + self._elsewhere.get(name, _NOWHERE).open

    def take_sockets(self) -> list[Sockets]:
        """Give what changed of the sockets here since the last call, to be told to the other nodes."""
        changed = [self._workers[name] for name in sorted(self._sockets_unsaved)]
        self._sockets_unsaved.clear()
        return [Sockets(worker.name, worker.sockets, worker.left_us) for worker in changed]

    def put_back_sockets(self, rows: Iterable[Sockets]) -> None:
        """Take back what could not be told, for the next time."""
        self._sockets_unsaved.update(row.worker for row in rows)

    @property
    def gone(self) -> AbstractSet[str]:
        """Workers whose last socket closed, and who have not called since."""
        return self._gone

    @property
    def names(self) -> KeysView[str]:
        """All workers ever seen."""
        return self._workers.keys()

    def last_seen_us(self, name: str) -> int:
        """When a worker last called; 0 for never."""
        worker = self._workers.get(name)
        return worker.last_seen_us if worker else 0

    def workers(self) -> list[Worker]:
        """All workers, by name."""
        return [self._workers[name] for name in sorted(self._workers)]

    def take_unsaved(self) -> list[WorkerRow]:
        """Give the rows that changed since the last call, to be written to the store."""
        rows = [self._row(self._workers[name]) for name in sorted(self._unsaved)]
        self._unsaved.clear()
        return rows

    def put_back(self, rows: Iterable[WorkerRow]) -> None:
        """Take back rows that could not be written, for the next time."""
        self._unsaved.update(row.name for row in rows)

    @staticmethod
    def _row(worker: Worker) -> WorkerRow:
        return WorkerRow(worker.name, worker.root, worker.first_seen_us, worker.last_seen_us)


_NOWHERE: Final = Sockets("", 0, 0)
