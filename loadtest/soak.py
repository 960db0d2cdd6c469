"""Hours in small: a team's load for half an hour, and whether anything grows.

Notes are posted at a steady rate to subscribers that stay; a second crowd of subscribers comes and goes; a worker claims,
checks and releases; another pages and searches. All the while the server is looked at: resident memory, descriptors, the
write-ahead log, and its tasks, where `/metrics` tells them.

A slope is the least-squares line through the looks, without those of the first third: memory that serves a window of
time (notes of the last ten minutes are remembered so that none is stored twice) has to fill first.
"""

from __future__ import annotations

import asyncio
import math
import re
import time
from typing import TYPE_CHECKING, Final

import msgspec
import uvloop

from loadtest.calls import Calls
from loadtest.lanes import Lanes, encode_request
from loadtest.posting import BoardPublisher, Pace
from loadtest.processes import HOST, Board, serving
from loadtest.quantiles import Quantiles, quantiles_of
from loadtest.readers import Readers, subscribing_to_board
from loadtest.report import MIB, Cell, Figures
from loadtest.vitals import files_bytes, vitals_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_LANES: Final = 32
_CHURN_S: Final = 5.0
_CALL_GAP_S: Final = 0.2
_PATIENCE_S: Final = 10.0
_TASKS: Final = re.compile(rb"^\w+_tasks (\S+)$", re.MULTILINE)


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """How much goes on, and how often the server is looked at."""

    seconds: float
    subscribers: int = 200
    churning: int = 50
    rate_per_s: float = 50.0
    look_s: float = 2.0


class Look(msgspec.Struct, frozen=True, kw_only=True):
    """The server at one moment, `at_s` after the start. `tasks` is not-a-number where the server does not tell."""

    at_s: float
    rss_bytes: int
    descriptors: int
    wal_bytes: int
    tasks: float


class Soaked(msgspec.Struct, frozen=True, kw_only=True):
    """How it went. `errors` counts answers that no caller should get, `holes` and `doubles` are the steady crowd's."""

    plan: Plan
    looks: tuple[Look, ...]
    notes: int
    post: Quantiles
    holes: int
    doubles: int
    errors: int

    def slope_per_hour(self, figure: str) -> float:
        """Give how much a figure grows in an hour; not-a-number where there are fewer than two looks."""
        return _slope([(look.at_s, float(getattr(look, figure))) for look in self.settled]) * 3600

    @property
    def settled(self) -> tuple[Look, ...]:
        """The looks of the last two thirds."""
        return self.looks[len(self.looks) // 3 :]


class _Claimed(msgspec.Struct):
    seq: int


class Team:
    """What goes on beside the notes, each until it is cancelled."""

    def __init__(self, calls: Calls) -> None:
        self.errors = 0
        self._calls = calls

    async def claim_and_release(self) -> None:
        """Claim, check and release, again and again."""
        number = 0
        while True:
            number += 1
            scope = [f"src/part{number % 97}/file{number}.c"]
            note = {"type": "CLAIM", "text": f"round {number}", "scope": scope}
            claimed = await self._calls.post("/notes", note, worker="claimer")
            check = await self._calls.post("/claims/check", {"scope": scope}, worker="other")
            claim = claimed.read(_Claimed).seq if claimed.status == 201 else 0
            release = await self._calls.post(f"/claims/{claim}/release", {"outcome": "done"}, worker="claimer")
            self.errors += (claimed.status, check.status, release.status) != (201, 200, 200)
            await asyncio.sleep(_CALL_GAP_S)

    async def page_and_search(self) -> None:
        """Read pages from all over the log, and search."""
        number = 0
        while True:
            number += 1
            page = await self._calls.get(f"/notes?after={number * 7}&limit=100", worker="pager")
            search = await self._calls.get("/search?q=dashes%20%26%20reader&limit=20", worker="searcher")
            self.errors += (page.status, search.status) != (200, 200)
            await asyncio.sleep(_CALL_GAP_S)

    async def churn(self, readers: Readers) -> None:
        """Let a crowd come and go."""
        while True:
            self.errors += (await readers.connect("?tail=50")).failed
            await asyncio.sleep(_CHURN_S)
            await readers.close()


class Soak:
    """The server under the plan."""

    def __init__(self, board: Board, plan: Plan, readers: Readers, churning: Readers, lanes: Lanes) -> None:
        self._board = board
        self._plan = plan
        self._readers = readers
        self._churning = churning
        self._lanes = lanes
        self._publisher = BoardPublisher(lanes)
        self._looks: list[Look] = []

    async def run(self) -> Soaked:
        """Let it go on, and look."""
        plan = self._plan
        await self._readers.begin(1, int(plan.rate_per_s * plan.seconds) + 1)
        await self._readers.connect()
        team, pace = Team(Calls(self._lanes, "main")), Pace(self._publisher, 1, plan.rate_per_s)
        beside = [team.claim_and_release(), team.page_and_search(), team.churn(self._churning), self._look()]
        tasks = [asyncio.create_task(work) for work in beside]
        posting = asyncio.create_task(pace.run(plan.seconds))
        # Whatever ends before the notes do has failed, and ends all.
        await asyncio.wait([posting, *tasks], return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.cancel()
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        failed = [outcome for outcome in outcomes if not isinstance(outcome, asyncio.CancelledError)]
        if failed:
            posting.cancel()
            raise RuntimeError(f"a part of the load failed: {failed[0]!r}")
        await posting
        return await self._summed_up(pace.sent, team.errors + self._publisher.refused)

    async def _look(self) -> None:
        begun_s = time.monotonic()
        while True:
            _, metrics = await self._lanes.call(encode_request("GET", "/metrics"))
            tasks, vitals = _TASKS.search(metrics), vitals_of(self._board.pid)
            self._looks.append(
                Look(
                    at_s=time.monotonic() - begun_s,
                    rss_bytes=vitals.rss_bytes,
                    descriptors=vitals.descriptors,
                    wal_bytes=files_bytes([self._board.wal]),
                    tasks=float(tasks[1]) if tasks else math.nan,
                )
            )
            await asyncio.sleep(self._plan.look_s)

    async def _summed_up(self, sent: int, errors: int) -> Soaked:
        await self._readers.wait_received(sent, _PATIENCE_S)
        received = await self._readers.report(sent)
        return Soaked(
            plan=self._plan,
            looks=tuple(self._looks),
            notes=sent,
            post=quantiles_of([post.taken_ns for post in self._publisher.posts]),
            holes=received.holes + received.seq_gaps,
            doubles=received.doubles + received.seq_repeats,
            errors=errors,
        )


async def measure(board: Board, plan: Plan) -> Soaked:
    """Measure on a server that runs."""
    subscribing = subscribing_to_board(board.port)
    async with (
        Readers(subscribing, plan.subscribers) as readers,
        Readers(subscribing, plan.churning) as churning,
        Lanes(HOST, board.port, _LANES) as lanes,
    ):
        return await Soak(board, plan, readers, churning, lanes).run()


def run(folder: Path, plan: Plan) -> Soaked:
    """Measure on a server of its own."""
    with serving(folder) as board:
        return uvloop.run(measure(board, plan))


def figures(result: Soaked) -> Figures:
    """Make the table."""
    rows = (("RSS MiB", "rss_bytes", MIB), ("descriptors", "descriptors", 1), ("WAL MiB", "wal_bytes", MIB))
    minutes = result.plan.seconds / 60
    return Figures(
        title=f"{minutes:g} minutes, {result.notes:,} notes to {result.plan.subscribers} subscribers: post p50 "
        f"{result.post.p50:.1f} p99 {result.post.p99:.1f} ms, {result.holes} holes, {result.doubles} doubles, "
        f"{result.errors} errors",
        columns=("what", "first", "after a third", "last", "most", "slope an hour"),
        rows=tuple(_row(result, *row) for row in (*rows, ("tasks", "tasks", 1))),
    )


def _row(result: Soaked, name: str, figure: str, unit: int) -> tuple[Cell, ...]:
    values = [getattr(look, figure) / unit for look in result.looks]
    third = getattr(result.settled[0], figure) / unit
    return (name, values[0], third, values[-1], max(values), result.slope_per_hour(figure) / unit)


def _slope(points: Sequence[tuple[float, float]]) -> float:
    if len(points) < 2:
        return math.nan
    mean_x = sum(x for x, _ in points) / len(points)
    mean_y = sum(y for _, y in points) / len(points)
    spread = sum((x - mean_x) ** 2 for x, _ in points)
    return sum((x - mean_x) * (y - mean_y) for x, y in points) / spread
