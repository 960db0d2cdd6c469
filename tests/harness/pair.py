"""Two nodes that share a store, and the load that goes to both."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from itertools import count
from typing import TYPE_CHECKING, Any, Final, Self

from schema.codes import ProblemError
from schema.events import Note
from schema.notes import Observed
from tests.harness.node import Node
from tests.harness.team import until
from workers.client import Backoff, BoardClient

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

    from schema.events import AnyEvent

ONCE: Final = Backoff(tries=1)
"""A client that tells of every failure."""

_names: Final = count(1)


class Pair:
    """Nodes `a` and `b` on one store and one bus. Use as `async with`, or `start` and `close`."""

    def __init__(self, folder: Path, dsn: str, bus: str = "local", *, environ: dict[str, str] | None = None) -> None:
        self.a, self.b = (
            Node(folder, name=name, store=dsn, flags=("--bus", bus), environ=environ) for name in ("a", "b")
        )

    async def __aenter__(self) -> Self:
        try:
            await self.start()
        except BaseException:
            self.close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def start(self) -> None:
        """Start both, and wait until each hears the other."""
        await asyncio.gather(self.a.start(), self.b.start())
        await asyncio.gather(*(node.wait_logged("bus.listening") for node in self.nodes))

    def close(self) -> None:
        """Kill both."""
        self.a.close()
        self.b.close()

    @property
    def nodes(self) -> tuple[Node, Node]:
        """Both."""
        return self.a, self.b

    async def agree(self, board: str = "main") -> tuple[int, str]:
        """Give head and state hash, which must be the same on both nodes."""
        async with self.a.client("onlooker", board=board) as a, self.b.client("onlooker", board=board) as b:
            found = [((await one.board()).head, (await one.board()).state_hash) for one in (a, b)]
        assert found[0] == found[1]
        return found[0]

    async def log(self, board: str = "main") -> list[AnyEvent]:
        """Give the whole log, which must be the same on both nodes, and without a hole."""
        async with self.a.client("onlooker", board=board) as a, self.b.client("onlooker", board=board) as b:
            first, second = [[event async for event in one.each_event()] for one in (a, b)]
        assert first == second
        assert [event.seq for event in first] == list(range(1, len(first) + 1))
        return first


class Load:
    """Workers who post to the nodes in turn, note after note, and remember what was acknowledged.

    Use as `async with`: it posts for as long as the block lasts. A post that fails is not tried again, since nobody
    knows whether it was stored.
    """

    def __init__(self, *nodes: Node, workers: int = 8, board: str = "main") -> None:
        self.acknowledged: dict[str, int] = {}
        self.refused: list[ProblemError] = []
        self._clients = [BoardClient(node.url, board, worker="poster", backoff=ONCE) for node in nodes]
        self._workers = workers
        self._name = next(_names)
        self._numbers = count()
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        self._tasks = [asyncio.create_task(self._post(worker)) for worker in range(self._workers)]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for client in self._clients:
            await client.close()

    async def more(self, notes: int = 50) -> None:
        """Wait until so many more notes were acknowledged."""
        goal = len(self.acknowledged) + notes

        async def reached() -> bool:
            return len(self.acknowledged) >= goal

        await until(reached)

    async def _post(self, worker: int) -> None:
        while True:
            number = next(self._numbers)
            client, text = self._clients[(number + worker) % len(self._clients)], f"note {number} of load {self._name}"
            try:
                self.acknowledged[text] = (await client.post(Observed(text=text))).seq
            except ProblemError as error:
                self.refused.append(error)
                await asyncio.sleep(0.02)

    def check(self, log: list[AnyEvent]) -> None:
        """Compare with the log: what was acknowledged is there under its seq, and no note is there twice."""
        stored = [(event.text, event.seq) for event in log if isinstance(event, Note)]
        assert len(dict(stored)) == len(stored)
        assert self.acknowledged.items() <= set(stored)
        assert self.acknowledged


class Follower:
    """A subscriber that remembers the seqs it was given. Use as `async with`; it reconnects by itself."""

    def __init__(self, client: BoardClient, after: int = 0) -> None:
        self.seqs: list[int] = []
        self.changes: list[Any] = []
        self._client = client
        self._after = after

    async def __aenter__(self) -> Self:
        self._subscription = self._client.subscribe(after=self._after, on_change=self.changes.append)
        await self._subscription.__aenter__()
        self._task = asyncio.create_task(self._follow())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task
        await self._subscription.__aexit__(kind, error, trace)

    async def _follow(self) -> None:
        async for event in self._subscription:
            self.seqs.append(event.seq)

    async def has(self, seq: int) -> None:
        """Wait until it was given this seq; what it was given must have no hole and no double."""

        async def reached() -> bool:
            if self._task.done():
                self._task.result()
            return bool(self.seqs) and self.seqs[-1] >= seq

        await until(reached)
        assert self.seqs == list(range(self._after + 1, self._after + 1 + len(self.seqs)))
