"""Work that many ask for, and that is done once for all of them."""

from __future__ import annotations

import asyncio

import pytest

from board.service.access import Identity
from board.service.clock import SystemClock
from board.service.rounds import Rounds
from board.service.service import Service
from board.settings import ServerSettings
from board.store.contract import StoreUnavailable, WorkerRow
from board.store.memory import MemoryStore

pytestmark = pytest.mark.anyio


class Work:
    """Work that goes on until it is let: `begun` and `done` count it."""

    def __init__(self) -> None:
        self.begun = 0
        self.done = 0
        self.may_end = asyncio.Event()

    async def __call__(self) -> None:
        """Do it."""
        self.begun += 1
        await self.may_end.wait()
        self.done += 1


async def test_who_asks_while_it_runs_shares_the_next() -> None:
    """However many ask, the work is done once for those before it began, and once more for those who came later."""
    work = Work()
    rounds = Rounds(work)
    first = [rounds.soon() for _ in range(5)]
    while not work.begun:
        await asyncio.sleep(0)
    second = [rounds.soon() for _ in range(5)]
    assert len({*first, *second}) == 2
    work.may_end.set()
    await asyncio.gather(*first)
    assert work.done == 1
    await asyncio.gather(*second)
    assert work.done == 2


async def test_a_failure_is_of_its_round_alone() -> None:
    """Whoever asked for work that failed is told; the next round is another attempt."""
    outcomes = [StoreUnavailable("no"), None]

    async def work() -> None:
        if error := outcomes.pop(0):
            raise error

    rounds = Rounds(work)
    with pytest.raises(StoreUnavailable):
        await rounds.soon()
    await rounds.soon()


class CountingStore(MemoryStore):
    """A store that remembers how many workers it was given at a time."""

    def __init__(self) -> None:
        super().__init__()
        self.saved: list[int] = []

    async def save_workers(self, board: str, rows: list[WorkerRow]) -> None:  # type: ignore[override] -- any sequence
        """Keep them, and take a moment for it."""
        self.saved.append(len(rows))
        await asyncio.sleep(0.01)
        await super().save_workers(board, rows)


async def test_a_team_that_calls_at_once_is_written_at_once() -> None:
    """The first calls of 300 workers are durable when they are answered, and cost the store two writes."""
    store = CountingStore()
    service = Service(store, SystemClock(), ServerSettings(store="memory:"))
    await service.start()
    store.saved.clear()

    async def first_call(number: int) -> None:
        await service.enter(Identity(f"w{number}", "worker"), "main")
        assert f"w{number}" in {row.name for row in await store.workers("main")}

    await asyncio.gather(*map(first_call, range(300)))
    await service.close()
    assert sum(store.saved) == 300
    assert len(store.saved) <= 2
