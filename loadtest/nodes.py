"""What a second node costs and buys: one board on one node and on two, with the cost of PostgreSQL and Redis beside it.

All of it runs on one machine, so that two nodes, PostgreSQL, Redis and the load share its processors: the figures show
what a note costs in all, and not what two machines would do. PostgreSQL waits for the disk at every commit. The load is
that of `loadtest.write`, in halves where there are two nodes; CPU is user and system time of all processes of a program.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec
import uvloop

from loadtest.lanes import Lanes
from loadtest.processes import HOST, serving
from loadtest.quantiles import Quantiles, quantiles_of
from loadtest.report import Figures
from loadtest.vitals import vitals_of
from loadtest.write import WAYS, Way, Writing

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from loadtest.processes import Board
    from tests.harness.postgres import Postgres
    from tests.harness.redis import Redis


class Setup(msgspec.Struct, frozen=True, kw_only=True):
    """How many nodes there are, and what is between them. Without PostgreSQL the one node has SQLite."""

    name: str
    nodes: int
    postgres: bool = True
    redis: bool = False


SETUPS: Final = (
    Setup(name="1 node, SQLite", nodes=1, postgres=False),
    Setup(name="1 node, PostgreSQL", nodes=1),
    Setup(name="1 node, PostgreSQL and Redis", nodes=1, redis=True),
    Setup(name="2 nodes, PostgreSQL", nodes=2),
    Setup(name="2 nodes, PostgreSQL and Redis", nodes=2, redis=True),
)


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """What one way to write came to with one setup. `request` is the latency of whole requests."""

    setup: Setup
    way: Way
    notes: int
    notes_per_s: float
    request: Quantiles
    refused: int
    nodes_cpu_us: float
    postgres_cpu_us: float
    redis_cpu_us: float


class Servers:
    """The servers that nodes share, and what they have used of the processors so far."""

    def __init__(self, postgres: Postgres, redis: Redis) -> None:
        self.postgres = postgres
        self.redis = redis

    def cpu_s(self, nodes: Sequence[Board]) -> tuple[float, float, float]:
        """Give the seconds of the nodes together, of PostgreSQL, and of Redis."""
        of_nodes = sum(vitals_of(node.pid).cpu_s for node in nodes)
        return of_nodes, vitals_of(self.postgres.pid).cpu_s, vitals_of(self.redis.pid).cpu_s


@contextmanager
def servers() -> Generator[Servers]:
    """Run a PostgreSQL and a Redis; both come from pip, with the tests' requirements."""
    from tests.harness.postgres import Postgres  # noqa: PLC0415 -- an installed package has no tests, and can do the rest
    from tests.harness.redis import Redis  # noqa: PLC0415 -- the same

    with ExitStack() as stack:
        # PostgreSQL refuses to run as root, so its folder must be open to another user.
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="loadtest-servers-")))
        folder.chmod(0o755)
        postgres = stack.enter_context(Postgres(folder / "postgres", durable=True))
        yield Servers(postgres, stack.enter_context(Redis(folder / "redis")))


@contextmanager
def nodes(folder: Path, setup: Setup, shared: Servers) -> Generator[list[Board]]:
    """Run the nodes of a setup on an empty board."""
    store = asyncio.run(shared.postgres.new_place()) if setup.postgres else None
    environ = {"BOARD_BUS": shared.redis.url()} if setup.redis else {}
    with ExitStack() as stack:
        yield [
            stack.enter_context(serving(folder / f"node-{number}", environ=environ, store=store))
            for number in range(setup.nodes)
        ]


async def load(boards: Sequence[Board], way: Way, seconds: float, phase: int) -> list[Writing]:
    """Write to all nodes at once, to each with its share of the connections."""
    share = msgspec.structs.replace(way, connections=way.connections // len(boards))

    async def write(number: int, board: Board) -> Writing:
        async with Lanes(HOST, board.port, share.connections) as lanes:
            writing = Writing(lanes, share, phase + number)
            await writing.run(seconds)
            return writing

    return await asyncio.gather(*(write(number, board) for number, board in enumerate(boards)))


async def measure(
    boards: Sequence[Board], setup: Setup, way: Way, shared: Servers, *, warm_s: float, seconds: float
) -> Measured:
    """Write in one way, warm-up first."""
    await load(boards, way, warm_s, 1)
    before, begun_s = shared.cpu_s(boards), time.monotonic()
    writings = await load(boards, way, seconds, 1 + setup.nodes)
    took_s = time.monotonic() - begun_s
    taken = [one for writing in writings for one in writing.taken_ns]
    refused = sum(writing.refused for writing in writings)
    notes = (len(taken) - refused) * way.notes
    cpu_us = [(now - then) / max(notes, 1) * 1e6 for now, then in zip(shared.cpu_s(boards), before, strict=True)]
    return Measured(
        setup=setup,
        way=way,
        notes=notes,
        notes_per_s=notes / took_s,
        request=quantiles_of(taken),
        refused=refused,
        nodes_cpu_us=cpu_us[0],
        postgres_cpu_us=cpu_us[1],
        redis_cpu_us=cpu_us[2],
    )


def run(
    folder: Path,
    *,
    warm_s: float,
    seconds: float,
    setups: Sequence[Setup] = SETUPS,
    ways: Sequence[Way] = tuple(WAYS.values()),
) -> list[Measured]:
    """Measure each way with each setup, on a board of its own."""
    results: list[Measured] = []
    with servers() as shared:
        for index, (way, setup) in enumerate((way, setup) for way in ways for setup in setups):
            with nodes(folder / f"nodes-{index}", setup, shared) as boards:
                measuring = measure(boards, setup, way, shared, warm_s=warm_s, seconds=seconds)
                results.append(uvloop.run(measuring))
    return results


def figures(results: Sequence[Measured]) -> Figures:
    """Put the results side by side."""
    cpu = ("nodes µs/note", "PostgreSQL µs/note", "Redis µs/note")
    return Figures(
        title="Writing to one board through one node and through two, each note durable before its answer",
        columns=("setup", "way", "notes/s", "p50 ms", "p99 ms", "refused", *cpu),
        rows=tuple(
            (
                result.setup.name,
                result.way.name,
                result.notes_per_s,
                result.request.p50,
                result.request.p99,
                result.refused,
                result.nodes_cpu_us,
                result.postgres_cpu_us if result.setup.postgres else None,
                result.redis_cpu_us if result.setup.redis else None,
            )
            for result in results
        ),
    )
