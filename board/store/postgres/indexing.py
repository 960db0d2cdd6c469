"""Keeps the indexes near the head of the boards that this node writes to, when nothing else is going on."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from board.store.contract import StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

PAUSE_S: Final = 0.25
"""Seconds between a commit and the indexing of it, and after a failure; a read that needs it does not wait for this."""

_log: Final = logging.getLogger(__name__)


class Indexing:
    """The task. `catch_up` brings the index of one board to its head."""

    def __init__(self, catch_up: Callable[[str], Awaitable[None]]) -> None:
        self._catch_up = catch_up
        self._lagging: set[str] = set()
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin."""
        self._task = asyncio.create_task(self._run(), name="indexing")

    async def stop(self) -> None:
        """End; what is not indexed yet is indexed when it is needed."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def want(self, board: str) -> None:
        """Say that a board has grown."""
        self._lagging.add(board)
        self._wake.set()

    async def _run(self) -> None:
        while True:
            await self._wake.wait()
            await asyncio.sleep(PAUSE_S)
            self._wake.clear()
            for board in list(self._lagging):
                await self._index(board)

    async def _index(self, board: str) -> None:
        self._lagging.discard(board)
        try:
            await self._catch_up(board)
        except StoreUnavailable as error:
            _log.warning("indexing of %s put off: %s", board, error)
            self.want(board)
