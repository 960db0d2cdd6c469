"""Who is here: when each worker of a board last called, its open sockets, and the root it registered.

Activity is kept in memory and written to the store now and then; a worker that was never seen before is written at
once, because notes may be addressed to it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from board.store.contract import WorkerRow

if TYPE_CHECKING:
    from collections.abc import Iterable, KeysView
    from collections.abc import Set as AbstractSet


class Worker(msgspec.Struct):
    """One worker as this process knows it."""

    name: str
    root: str = ""
    first_seen_us: int = 0
    last_seen_us: int = 0
    sockets: int = 0


class Presence:
    """The workers of one board."""

    def __init__(self, rows: Iterable[WorkerRow]) -> None:
        self._workers = {row.name: Worker(row.name, row.root, row.first_seen_us, row.last_seen_us) for row in rows}
        self._unsaved: set[str] = set()
        self._gone: set[str] = set()

    def seen(self, name: str, now_us: int) -> bool:
        """Note that a worker called; tell whether it is new to the board."""
        worker = self._workers.get(name)
        fresh = worker is None
        if worker is None:
            worker = self._workers[name] = Worker(name, first_seen_us=now_us)
        worker.last_seen_us = max(worker.last_seen_us, now_us)
        self._gone.discard(name)
        self._unsaved.add(name)
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
        self._gone.discard(name)

    def disconnected(self, name: str) -> bool:
        """Count a closed socket; tell whether it was the worker's last."""
        worker = self._workers[name]
        worker.sockets -= 1
        if worker.sockets == 0:
            self._gone.add(name)
        return worker.sockets == 0

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
