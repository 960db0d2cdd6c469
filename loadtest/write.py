"""How many notes a second the board stores durably: one a request, and a thousand a request.

The server is a process of its own, with SQLite at synchronous=FULL. Every connection sends its next request as soon as
the answer to the last is in. The clock starts after the warm-up and stops when the last answer is in; what it covers is
from the bytes of a request to those of its answer. CPU is the server's own, user and system.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

import msgspec
import uvloop

from loadtest.lanes import Lanes, encode_request
from loadtest.notes import batch, draft, mark
from loadtest.processes import HOST, Board, serving
from loadtest.quantiles import Quantiles, quantiles_of
from loadtest.report import Figures, verdict
from loadtest.vitals import vitals_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

SINGLE_TARGET: Final = 3_000
BATCH_TARGET: Final = 50_000

_PATH: Final = "/v1/boards/main/notes"


class Way(msgspec.Struct, frozen=True, kw_only=True):
    """One way to write: so many notes a request over so many connections."""

    name: str
    connections: int
    notes: int
    target_per_s: float


WAYS: Final = {
    "single": Way(name="one a request", connections=64, notes=1, target_per_s=SINGLE_TARGET),
    "batch": Way(name="1,000 a request", connections=4, notes=1000, target_per_s=BATCH_TARGET),
}


class Written(msgspec.Struct, frozen=True, kw_only=True):
    """What one way to write came to. `request` is the latency of whole requests."""

    way: Way
    notes: int
    seconds: float
    notes_per_s: float
    cpu_us_per_note: float
    request: Quantiles
    refused: int


class Writing:
    """Keeps every connection busy, and counts."""

    def __init__(self, lanes: Lanes, way: Way, phase: int) -> None:
        self.taken_ns: list[int] = []
        self.refused = 0
        self._lanes = lanes
        self._way = way
        self._phase = phase
        self._sent = 0
        self._until_ns = 0

    async def run(self, seconds: float) -> None:
        """Send for so long; return when the last answer is in."""
        self._until_ns = time.monotonic_ns() + int(seconds * 1e9)
        for _ in range(self._way.connections):
            self._send()
        await self._lanes.drained()

    def _send(self) -> None:
        request, begun_ns = self._request(), time.monotonic_ns()

        def answered(status: int, _: bytes) -> None:
            now_ns = time.monotonic_ns()
            self.taken_ns.append(now_ns - begun_ns)
            self.refused += status != 201
            if now_ns < self._until_ns:
                self._send()

        self._lanes.submit(request, answered)

    def _request(self) -> bytes:
        first = self._sent
        self._sent += self._way.notes
        if self._way.notes == 1:
            return encode_request("POST", _PATH, draft(mark(self._phase, first, 0)))
        marks = [mark(self._phase, index, 0) for index in range(first, self._sent)]
        return encode_request("POST", f"{_PATH}/batch", batch(marks))


async def measure(board: Board, way: Way, *, warm_s: float, seconds: float, phase: int) -> Written:
    """Write in one way, warm-up first."""
    async with Lanes(HOST, board.port, way.connections) as lanes:
        await Writing(lanes, way, phase).run(warm_s)
        writing = Writing(lanes, way, phase + 1)
        cpu_s, begun_s = vitals_of(board.pid).cpu_s, time.monotonic()
        await writing.run(seconds)
        took_s, cpu_s = time.monotonic() - begun_s, vitals_of(board.pid).cpu_s - cpu_s
    notes = (len(writing.taken_ns) - writing.refused) * way.notes
    return Written(
        way=way,
        notes=notes,
        seconds=took_s,
        notes_per_s=notes / took_s,
        cpu_us_per_note=cpu_s / max(notes, 1) * 1e6,
        request=quantiles_of(writing.taken_ns),
        refused=writing.refused,
    )


def run(folder: Path, ways: Sequence[Way], *, warm_s: float, seconds: float) -> list[Written]:
    """Measure each way, on a board of its own."""
    results: list[Written] = []
    for index, way in enumerate(ways):
        with serving(folder / f"write-{index}") as board:
            results.append(uvloop.run(measure(board, way, warm_s=warm_s, seconds=seconds, phase=1)))
    return results


def figures(results: Sequence[Written]) -> Figures:
    """Put the results side by side."""
    return Figures(
        title="Writing, each note durable before its answer",
        columns=("way", "connections", "notes/s", "target", "p50 ms", "p99 ms", "max ms", "CPU µs/note", "refused"),
        rows=tuple(
            (
                result.way.name,
                result.way.connections,
                result.notes_per_s,
                verdict(result.notes_per_s, result.way.target_per_s, at_least=True),
                result.request.p50,
                result.request.p99,
                result.request.max,
                result.cpu_us_per_note,
                result.refused,
            )
            for result in results
        ),
    )
