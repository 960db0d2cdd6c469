"""20 readers of 200 stop to read: what the others notice, and what the server holds for them.

The same rate is held twice: once while everybody reads, once while the 20 do not. Their sockets have a small receive
window, so that the server meets the stall and not the kernel's buffers. Latency is from before the POST to each of the
readers that go on. Afterwards the 20 read on, are told why they were closed, come back with `after`, and must have
missed nothing.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

import msgspec
import uvloop

from loadtest.calls import Calls
from loadtest.catchup import head_of
from loadtest.lanes import Lanes
from loadtest.posting import BoardPublisher, Pace
from loadtest.processes import HOST, Board, serving
from loadtest.quantiles import Quantiles
from loadtest.readers import Readers, Received, subscribing_to_board
from loadtest.report import MIB, Cell, Figures
from loadtest.vitals import vitals_of

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from pathlib import Path

_LANES: Final = 64
_WINDOW_BYTES: Final = 4096
_PATIENCE_S: Final = 10.0
_LOOK_S: Final = 0.25
_DRAIN_S: Final = 1.0


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """How many read, how many of them stop, what arrives and for how long."""

    readers: int
    stalled: int
    rate_per_s: float
    seconds: float


class Stalled(msgspec.Struct, frozen=True, kw_only=True):
    """How it went: what the others got with everybody reading and without, the server's memory, and the stalled ones' end.

    `rss_peak_bytes` is the most that was seen while some stalled; `closed` counts their sockets by close code.
    """

    plan: Plan
    everybody: Received
    without: Received
    rss_before_bytes: int
    rss_peak_bytes: int
    closed: dict[str, int]
    back: Received


class Peak(msgspec.Struct):
    """The most memory that was seen."""

    rss_bytes: int = 0


class Stall:
    """Two crowds on one server: those that go on, and those that stop."""

    def __init__(self, board: Board, plan: Plan, others: Readers, stalling: Readers, lanes: Lanes) -> None:
        self._board = board
        self._plan = plan
        self._others = others
        self._stalling = stalling
        self._calls = Calls(lanes, "main")
        self._publisher = BoardPublisher(lanes)

    async def run(self) -> Stalled:
        """Measure."""
        await self._stalling.limit_window(_WINDOW_BYTES)
        await self._others.connect()
        await self._stalling.connect()
        everybody, _ = await self._hold(1)
        before = vitals_of(self._board.pid).rss_bytes
        position = await head_of(self._calls)
        self._stalling.stall()
        async with _watching(self._board.pid) as peak:
            without, sent = await self._hold(2)
        self._stalling.resume()
        await asyncio.sleep(_DRAIN_S)
        closed = (await self._stalling.report(0)).closed
        return Stalled(
            plan=self._plan,
            everybody=everybody,
            without=without,
            rss_before_bytes=before,
            rss_peak_bytes=peak.rss_bytes,
            closed=closed,
            back=await self._come_back(position, sent),
        )

    async def _hold(self, phase: int) -> tuple[Received, int]:
        await self._others.begin(phase, int(self._plan.rate_per_s * self._plan.seconds) + 1)
        pace = Pace(self._publisher, phase, self._plan.rate_per_s)
        await pace.run(self._plan.seconds)
        await self._others.wait_received(pace.sent, _PATIENCE_S)
        return await self._others.report(pace.sent), pace.sent

    async def _come_back(self, position: int, sent: int) -> Received:
        await self._stalling.close()
        await self._stalling.begin(2, sent)
        await self._stalling.connect(f"?after={position}")
        await self._stalling.wait_received(sent, _PATIENCE_S)
        return await self._stalling.report(sent)


@asynccontextmanager
async def _watching(pid: int) -> AsyncGenerator[Peak]:
    """Look at a process's memory again and again, for as long as the block runs."""
    peak = Peak()

    async def look() -> None:
        while True:
            peak.rss_bytes = max(peak.rss_bytes, vitals_of(pid).rss_bytes)
            await asyncio.sleep(_LOOK_S)

    looking = asyncio.create_task(look())
    try:
        yield peak
    finally:
        looking.cancel()
        await asyncio.gather(looking, return_exceptions=True)


async def measure(board: Board, plan: Plan) -> Stalled:
    """Measure on a server that runs."""
    subscribing = subscribing_to_board(board.port)
    async with (
        Readers(subscribing, plan.readers - plan.stalled) as others,
        Readers(subscribing, plan.stalled) as stalling,
        Lanes(HOST, board.port, _LANES) as lanes,
    ):
        return await Stall(board, plan, others, stalling, lanes).run()


def run(folder: Path, plan: Plan) -> Stalled:
    """Measure on a server of its own."""
    with serving(folder) as board:
        return uvloop.run(measure(board, plan))


def figures(result: Stalled) -> Figures:
    """Make the table."""
    plan = result.plan
    closed = ", ".join(f"{count} with {code}" for code, count in result.closed.items()) or "none"
    columns = ("who", "received", "each p50 ms", "p95", "p99", "max", "holes", "doubles", "RSS MiB", "stalled closed")
    return Figures(
        title=f"{plan.stalled} of {plan.readers} readers stall, at {plan.rate_per_s:g} notes/s",
        columns=columns,
        rows=(
            (*_row("others, everybody reads", result.everybody), result.rss_before_bytes / MIB, None),
            (*_row(f"others, {plan.stalled} stall", result.without), result.rss_peak_bytes / MIB, closed),
            (*_row("the stalled, come back", result.back, latency=False), None, None),
        ),
    )


def _row(who: str, received: Received, *, latency: bool = True) -> tuple[Cell, ...]:
    # Who comes back reads old notes, whose age is no latency.
    each = received.each if latency else Quantiles()
    holes, doubles = received.holes + received.seq_gaps, received.doubles + received.seq_repeats
    return (who, received.received, each.p50, each.p95, each.p99, each.max, holes, doubles)
