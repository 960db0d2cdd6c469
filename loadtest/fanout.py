"""What it costs to tell 1,024 subscribers, and how late they hear of it.

A poster sends notes at a rate, whether or not the answers to earlier ones are in. The clock of a note starts before its
POST and stops when a subscriber has read it: `each` is over all deliveries, `last` over the last subscriber of each note.
Each rate is warmed up, then held; the hold ends when every subscriber has every note, and the server's CPU (user and
system, all of its processes) is read before its first note and after that. The subscribers are one lean process.
"""

from __future__ import annotations

import asyncio
import math
import time
from typing import TYPE_CHECKING, Final

import msgspec
import uvloop

from loadtest.posting import Pace
from loadtest.quantiles import Quantiles, quantiles_of
from loadtest.readers import Readers, Received
from loadtest.report import MIB, Figures
from loadtest.targets import KINDS, Target
from loadtest.vitals import vitals_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from loadtest.posting import Publisher

RATES: Final = (10.0, 100.0, 400.0, 1000.0)
SUBSCRIBERS: Final = 1024

_PATIENCE_S: Final = 5.0
_OVERRUN_S: Final = 20.0
"""How long after its time a phase may go on; a server that is further behind is cut off, and asked for no higher rate."""


class Held(msgspec.Struct, frozen=True, kw_only=True):
    """One rate, held on one server.

    `through_per_s` counts notes that all have, from the first note's time to the last delivery. `cut_off` says that the
    server was too far behind to be waited for. `reader_cores` is what the subscribers' process used, and `lag` how late
    the poster began its notes: signs of a machine that is too busy.
    """

    server: str
    subscribers: int
    rate_per_s: float
    sent: int
    through_per_s: float
    cut_off: bool
    cpu_us_per_delivery: float
    received: Received
    lag: Quantiles
    reader_cores: float
    rss_bytes: int
    rss_bytes_per_subscriber: float


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What is done to each server."""

    subscribers: int
    rates: tuple[float, ...]
    warm_s: float
    hold_s: float


class Fanout:
    """One server under the plan."""

    def __init__(self, target: Target, plan: Plan, readers: Readers, publisher: Publisher) -> None:
        self._target = target
        self._plan = plan
        self._readers = readers
        self._publisher = publisher
        self._rss_empty_bytes = vitals_of(target.pid).rss_bytes
        self._rss_joined_bytes = 0

    async def run(self) -> list[Held]:
        """Let all subscribers in, then hold each rate."""
        ready = await self._readers.connect()
        if ready.failed:
            raise RuntimeError(f"{ready.failed} of {self._plan.subscribers} subscribers were not let in")
        self._rss_joined_bytes = vitals_of(self._target.pid).rss_bytes
        results: list[Held] = []
        for rate in self._plan.rates:
            results.append(await self._hold(rate))
            if results[-1].cut_off:
                break
        return results

    async def _hold(self, rate: float) -> Held:
        warmed = await self._phase(1, rate, self._plan.warm_s) if self._plan.warm_s else None
        return warmed if warmed is not None and warmed.cut_off else await self._phase(2, rate, self._plan.hold_s)

    async def _phase(self, phase: int, rate: float, seconds: float) -> Held:
        await self._readers.begin(phase, int(rate * seconds) + 1)
        pace = Pace(self._publisher, phase, rate)
        reader_s = (await self._readers.report(0)).cpu_s
        cpu_s, begun_s = vitals_of(self._target.pid).cpu_s, time.monotonic()
        cut_off = not await self._deliver(pace, seconds)
        took_s, after = time.monotonic() - begun_s, vitals_of(self._target.pid)
        received = await self._readers.report(pace.sent)
        joined_bytes = self._rss_joined_bytes - self._rss_empty_bytes
        return Held(
            server=self._target.name,
            subscribers=self._plan.subscribers,
            rate_per_s=rate,
            sent=pace.sent,
            through_per_s=received.received / self._plan.subscribers / took_s,
            cut_off=cut_off,
            cpu_us_per_delivery=(after.cpu_s - cpu_s) / max(received.received, 1) * 1e6,
            received=received,
            lag=quantiles_of(pace.lag_ns),
            reader_cores=(received.cpu_s - reader_s) / took_s,
            rss_bytes=after.rss_bytes,
            rss_bytes_per_subscriber=joined_bytes / self._plan.subscribers,
        )

    async def _deliver(self, pace: Pace, seconds: float) -> bool:
        try:
            async with asyncio.timeout(seconds + _OVERRUN_S):
                await pace.run(seconds)
                await self._readers.wait_received(pace.sent, _PATIENCE_S)
        except TimeoutError:
            return False
        return True


async def measure(target: Target, plan: Plan) -> list[Held]:
    """Hold every rate on a server that runs."""
    async with Readers(target.subscribing, plan.subscribers) as readers, target.publishing() as publisher:
        return await Fanout(target, plan, readers, publisher).run()


def run(folder: Path, plan: Plan, servers: Sequence[str]) -> list[Held]:
    """Measure the servers, one after the other, each with nothing else running."""
    results: list[Held] = []
    for name in servers:
        with KINDS[name](folder / name) as target:
            results += uvloop.run(measure(target, plan))
    return results


def figures(results: Sequence[Held]) -> Figures:
    """Put the results side by side."""
    columns = ("server", "notes/s", "through/s", "CPU µs", "each p50", "p95", "p99", "max", "last p50", "p99", "max")
    columns += ("holes", "doubles", "RSS MiB", "KiB/sub.", "reader")
    return Figures(
        title=f"Fan-out to {results[0].subscribers} subscribers: CPU a delivery, ms to each and to the last of them",
        columns=columns,
        rows=tuple(
            (
                held.server,
                held.rate_per_s,
                held.through_per_s,
                held.cpu_us_per_delivery,
                held.received.each.p50,
                held.received.each.p95,
                held.received.each.p99,
                held.received.each.max,
                held.received.last.p50,
                held.received.last.p99,
                held.received.last.max,
                "cut off" if held.cut_off else held.received.holes + held.received.seq_gaps,
                held.received.doubles + held.received.seq_repeats,
                held.rss_bytes / MIB,
                held.rss_bytes_per_subscriber / 1024,
                held.reader_cores,
            )
            for held in results
        ),
    )


def ratios(results: Sequence[Held]) -> Figures:
    """Divide each peer's figures by the board's at the same rate: above 1, the board is better."""
    boards = {held.rate_per_s: held for held in results if held.server == "board"}
    return Figures(
        title="Peers, each divided by the board at the same rate (above 1: the board is better)",
        columns=("server", "notes/s", "CPU", "last p50", "last p99", "board's share of notes got through"),
        rows=tuple(
            (
                held.server,
                held.rate_per_s,
                _over(held.cpu_us_per_delivery, board.cpu_us_per_delivery),
                _over(held.received.last.p50, board.received.last.p50),
                _over(held.received.last.p99, board.received.last.p99),
                _over(board.through_per_s, held.through_per_s),
            )
            for held in results
            if held.server != "board" and (board := boards.get(held.rate_per_s)) is not None
        ),
    )


def _over(value: float, divisor: float) -> float:
    return value / divisor if divisor else math.nan
