"""The workers of one board of a running server, and what tests ask of them."""

from __future__ import annotations

import asyncio
from itertools import count
from typing import TYPE_CHECKING, Any, Final, Self

from schema.codes import Problem, ProblemError
from workers.client import Backoff, BoardClient

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from types import TracebackType

    from schema.events import AnyEvent
    from schema.limits import SettingsDraft
    from tests.harness.node import Node

CONNECTIONS: Final = 128
WAIT_S: Final = 30.0

_LOOK_AGAIN_S: Final = 0.01
_numbers: Final = count(1)


class Team:
    """A new board on a server, and its workers. Use as `async with`; `team("w1")` calls as that worker."""

    def __init__(self, node: Node, settings: SettingsDraft | None = None) -> None:
        self.node = node
        self.board = f"team-{next(_numbers)}"
        self._settings = settings
        self._client = BoardClient(
            node.url, self.board, worker="onlooker", connections=CONNECTIONS, backoff=Backoff(tries=1)
        )

    async def __aenter__(self) -> Self:
        await self._client.create_board(self.board, self._settings)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._client.close()

    def __call__(self, worker: str) -> BoardClient:
        """Give a worker's client."""
        return self._client.acting_as(worker)

    async def log(self, after: int = 0) -> list[AnyEvent]:
        """Every event after a seq."""
        return [event async for event in self._client.each_event(after=after)]

    async def logged(self, kind: type[AnyEvent]) -> list[Any]:
        """Wait until the log holds an event of this kind, and give all of them."""
        return await until(lambda: self._of_kind(kind))

    async def _of_kind(self, kind: type[AnyEvent]) -> list[AnyEvent]:
        return [event for event in await self.log() if isinstance(event, kind)]

    async def live(self, *scope: str) -> list[tuple[int, str]]:
        """The live claims, as claim and holder."""
        page = await self._client.claims(scope=scope)
        return [(one.claim, one.holder) for one in page.claims]

    async def sockets(self, worker: str) -> int:
        """How many streams a worker has open."""
        return {one.worker: one.sockets for one in (await self._client.workers()).workers}.get(worker, 0)


async def until(condition: Callable[[], Awaitable[Any]]) -> Any:
    """Ask until the answer is true, and give it."""
    async with asyncio.timeout(WAIT_S):
        while not (found := await condition()):
            await asyncio.sleep(_LOOK_AGAIN_S)
    return found


async def refusal(call: Awaitable[object]) -> Problem:
    """Give the refusal that a call must end in."""
    try:
        answer = await call
    except ProblemError as error:
        return error.problem
    msg = f"it was not refused: {answer}"
    raise AssertionError(msg)


async def outcome(call: Awaitable[Any]) -> Any:
    """Give what a call ends in: its answer, or the refusal."""
    try:
        return await call
    except ProblemError as error:
        return error.problem
