"""1,024 readers come back at once, each 200 notes behind, while notes arrive.

`caught_up` is from the first connect() until the last reader has been told that what follows is live, so it has all that
it missed. The posts of that time are set beside those of a quiet time before; the clock of a post is from before its
request to its answer. At the end every reader must have every note once.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

import msgspec
import uvloop

from loadtest.calls import Calls
from loadtest.lanes import Lanes
from loadtest.notes import batch, mark
from loadtest.posting import BoardPublisher, Pace
from loadtest.processes import HOST, Board, serving
from loadtest.quantiles import Quantiles, quantiles_of
from loadtest.readers import Readers, subscribing_to_board
from loadtest.report import MIB, Figures
from loadtest.vitals import vitals_of

if TYPE_CHECKING:
    from pathlib import Path

    from loadtest.readers import Ready

_LANES = 64
_PHASE = 1
_QUIET_S = 2.0
_PATIENCE_S = 10.0


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """How many readers, how far behind, and what arrives meanwhile."""

    readers: int
    behind: int
    rate_per_s: float
    seconds: float


class CaughtUp(msgspec.Struct, frozen=True, kw_only=True):
    """How it went. `each` is the time of one reader until it was live, `quiet` and `meanwhile` are posts."""

    plan: Plan
    caught_up_ms: float
    each: Quantiles
    quiet: Quantiles
    meanwhile: Quantiles
    failed: int
    holes: int
    doubles: int
    cpu_s: float
    rss_bytes: int


class Head(msgspec.Struct):
    """The head of a board's log."""

    head: int


async def head_of(calls: Calls) -> int:
    """Tell the seq of the newest event."""
    return (await calls.get("")).read(Head).head


class Return:
    """The readers leave, miss notes, and come back."""

    def __init__(self, board: Board, plan: Plan, readers: Readers, lanes: Lanes) -> None:
        self._board = board
        self._plan = plan
        self._readers = readers
        self._calls = Calls(lanes, "main")
        self._publisher = BoardPublisher(lanes)

    async def run(self) -> CaughtUp:
        """Measure."""
        plan = self._plan
        await self._readers.connect()
        await self._readers.close()
        await self._readers.begin(_PHASE, plan.behind + int(plan.rate_per_s * (plan.seconds + _QUIET_S)) + 2)
        position = await head_of(self._calls)
        await self._miss()
        quiet_ns = time.monotonic_ns()
        pace = Pace(self._publisher, _PHASE, plan.rate_per_s, first=plan.behind)
        posting = asyncio.create_task(pace.run(_QUIET_S + plan.seconds))
        await asyncio.sleep(_QUIET_S)
        back_ns, cpu_s = time.monotonic_ns(), vitals_of(self._board.pid).cpu_s
        ready = await self._readers.connect(f"?after={position}")
        live_ns, cpu_s = time.monotonic_ns(), vitals_of(self._board.pid).cpu_s - cpu_s
        await posting
        await self._readers.wait_received(pace.sent, _PATIENCE_S)
        times = (quiet_ns, back_ns, live_ns)
        return await self._summed_up(ready, pace.sent, times, cpu_s)

    async def _miss(self) -> None:
        marks = [mark(_PHASE, index, time.monotonic_ns()) for index in range(self._plan.behind)]
        for first in range(0, len(marks), 1000):
            body = msgspec.Raw(batch(marks[first : first + 1000]))
            answer = await self._calls.post("/notes/batch", body, worker="poster")
            if answer.status != 201:
                raise RuntimeError(f"the notes to miss were refused: {answer.status} {answer.code}")

    async def _summed_up(self, ready: Ready, sent: int, times: tuple[int, int, int], cpu_s: float) -> CaughtUp:
        received = await self._readers.report(sent)
        quiet_ns, back_ns, live_ns = times
        return CaughtUp(
            plan=self._plan,
            caught_up_ms=ready.took_ms,
            each=ready.each,
            quiet=quantiles_of(self._publisher.taken_ns(quiet_ns, back_ns)),
            meanwhile=quantiles_of(self._publisher.taken_ns(back_ns, live_ns)),
            failed=ready.failed,
            holes=received.holes + received.seq_gaps,
            doubles=received.doubles + received.seq_repeats,
            cpu_s=cpu_s,
            rss_bytes=vitals_of(self._board.pid).rss_bytes,
        )


async def measure(board: Board, plan: Plan) -> CaughtUp:
    """Measure on a server that runs."""
    async with (
        Readers(subscribing_to_board(board.port), plan.readers) as readers,
        Lanes(HOST, board.port, _LANES) as lanes,
    ):
        return await Return(board, plan, readers, lanes).run()


def run(folder: Path, plan: Plan) -> CaughtUp:
    """Measure on a server of its own."""
    with serving(folder) as board:
        return uvloop.run(measure(board, plan))


def figures(result: CaughtUp) -> Figures:
    """Make the table."""
    plan = result.plan
    columns = (
        "readers",
        "caught up ms",
        "each p50 ms",
        "p99",
        "posts quiet p50 ms",
        "p99",
        "posts meanwhile p50 ms",
        "p99",
    )
    columns += ("failed", "holes", "doubles", "CPU s", "RSS MiB")
    return Figures(
        title=f"Coming back at once, {plan.behind} notes behind, at {plan.rate_per_s:g} notes/s",
        columns=columns,
        rows=(
            (
                f"{plan.readers:,}",
                result.caught_up_ms,
                result.each.p50,
                result.each.p99,
                result.quiet.p50,
                result.quiet.p99,
                result.meanwhile.p50,
                result.meanwhile.p99,
                result.failed,
                result.holes,
                result.doubles,
                result.cpu_s,
                result.rss_bytes / MIB,
            ),
        ),
    )
