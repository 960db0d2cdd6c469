"""1,024 MCP clients that listen (`subscriptions/listen`): what each costs while it waits, and each time it is told.

Notes are posted one by one, each after every listener was told of the one before and the pause between two tellings is
over, so that each is a telling of its own. What posting a note costs is measured before, without listeners.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Final, cast

import msgspec
import uvloop

from loadtest.calls import Calls
from loadtest.lanes import Lanes
from loadtest.mcp import encode_call
from loadtest.processes import HOST, Board, serving
from loadtest.quantiles import Quantiles, quantiles_of
from loadtest.report import Figures
from loadtest.vitals import vitals_of

if TYPE_CHECKING:
    from pathlib import Path

PAUSE_S: Final = 1.1
"""A little more than the server's pause between two tellings."""

PATIENCE_S: Final = 30.0

_ACKNOWLEDGED: Final = b"notifications/subscriptions/acknowledged"
_UPDATED: Final = b"notifications/resources/updated"


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """How many listen, and how often they are told."""

    listeners: int
    tellings: int


class Listened(msgspec.Struct, frozen=True, kw_only=True):
    """What it cost the server. `each` is from before a note was posted until a listener was told."""

    plan: Plan
    cpu_us_per_telling: float
    rss_bytes_per_listener: float
    each: Quantiles
    missed: int


class Listener(asyncio.Protocol):
    """One client. `told` counts how often it was."""

    def __init__(self, crowd: Crowd, number: int) -> None:
        self.told = 0
        self._crowd = crowd
        self._number = number
        self._ready = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Ask."""
        self.transport = cast("asyncio.Transport", transport)
        asked = {"notifications": {"resourceSubscriptions": ["board://main/snapshot"]}}
        self.transport.write(encode_call(f"w{self._number}", "subscriptions/listen", asked))

    def data_received(self, data: bytes) -> None:
        """Take what came; a frame comes in one piece, since it is small."""
        if not self._ready and _ACKNOWLEDGED in data:
            self._ready = True
            self._crowd.let_in()
        count = data.count(_UPDATED)
        self.told += count
        for _ in range(count):
            self._crowd.told()


class Crowd:
    """All listeners of one server."""

    def __init__(self, port: int, count: int) -> None:
        self.taken_ns: list[int] = []
        self._port = port
        self._count = count
        self._listeners: list[Listener] = []
        self._posted_ns = 0
        self._wanted = 0
        self._came = asyncio.Event()

    async def come(self) -> None:
        """Let all listen; return when each has been let in. Raises TimeoutError."""
        loop = asyncio.get_running_loop()
        self._expect()
        for number in range(self._count):
            _, listener = await loop.create_connection(lambda number=number: Listener(self, number), HOST, self._port)
            self._listeners.append(listener)
        await self._all_came()

    async def told_of(self, calls: Calls, number: int) -> None:
        """Post a note and return when all were told of it. Raises TimeoutError."""
        self._expect()
        self._posted_ns = time.monotonic_ns()
        await calls.post("/notes", {"type": "OBSERVED", "text": f"news {number}"}, worker="poster")
        await self._all_came()

    def let_in(self) -> None:
        """Take that a listener was let in."""
        self._count_one()

    def told(self) -> None:
        """Take that a listener was told."""
        self.taken_ns.append(time.monotonic_ns() - self._posted_ns)
        self._count_one()

    def _expect(self) -> None:
        self._wanted = self._count
        self._came.clear()

    def _count_one(self) -> None:
        self._wanted -= 1
        if not self._wanted:
            self._came.set()

    async def _all_came(self) -> None:
        async with asyncio.timeout(PATIENCE_S):
            await self._came.wait()

    def missed(self, tellings: int) -> int:
        """How many tellings did not come, or came too often."""
        return sum(abs(listener.told - tellings) for listener in self._listeners)

    def leave(self) -> None:
        """Drop all."""
        for listener in self._listeners:
            listener.transport.abort()


async def _notes_cpu_s(board: Board, calls: Calls, count: int) -> float:
    """What as many notes cost without a listener."""
    begun_s = vitals_of(board.pid).cpu_s
    for number in range(count):
        await calls.post("/notes", {"type": "OBSERVED", "text": f"quiet {number}"}, worker="poster")
        await asyncio.sleep(PAUSE_S)
    return vitals_of(board.pid).cpu_s - begun_s


async def measure(board: Board, plan: Plan) -> Listened:
    """Measure on a server that runs."""
    async with Lanes(HOST, board.port, 1) as lanes:
        calls, crowd = Calls(lanes, "main"), Crowd(board.port, plan.listeners)
        quiet_s = await _notes_cpu_s(board, calls, plan.tellings)
        empty_bytes = vitals_of(board.pid).rss_bytes
        await crowd.come()
        joined_bytes = vitals_of(board.pid).rss_bytes - empty_bytes
        await asyncio.sleep(PAUSE_S)
        begun_s = vitals_of(board.pid).cpu_s
        for number in range(plan.tellings):
            await crowd.told_of(calls, number)
            await asyncio.sleep(PAUSE_S)
        cpu_s = vitals_of(board.pid).cpu_s - begun_s - quiet_s
        crowd.leave()
    return Listened(
        plan=plan,
        cpu_us_per_telling=cpu_s / (plan.tellings * plan.listeners) * 1e6,
        rss_bytes_per_listener=joined_bytes / plan.listeners,
        each=quantiles_of(crowd.taken_ns),
        missed=crowd.missed(plan.tellings),
    )


def run(folder: Path, plan: Plan) -> Listened:
    """Measure on a server of its own."""
    with serving(folder) as board:
        return uvloop.run(measure(board, plan))


def figures(result: Listened) -> Figures:
    """Make the table."""
    return Figures(
        title=f"{result.plan.listeners:,} listeners of MCP, told {result.plan.tellings} times",
        columns=("listeners", "CPU µs a telling", "KiB a listener", "told p50 ms", "p99", "max", "missed"),
        rows=(
            (
                f"{result.plan.listeners:,}",
                result.cpu_us_per_telling,
                result.rss_bytes_per_listener / 1024,
                result.each.p50,
                result.each.p99,
                result.each.max,
                result.missed,
            ),
        ),
    )
