"""Work that many ask for at once, and that is done once for all of them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine


class Rounds:
    """All who ask while a round runs share the next one, which begins after they asked. One round runs at a time."""

    def __init__(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._work = work
        self._running: asyncio.Task[None] | None = None
        self._next: asyncio.Task[None] | None = None

    def soon(self) -> asyncio.Task[None]:
        """Give the round that begins after this call. Whoever awaits it must not cancel it: it is not theirs alone."""
        if self._next is None:
            self._next = asyncio.get_running_loop().create_task(self._take(self._running))
        return self._next

    async def _take(self, before: asyncio.Task[None] | None) -> None:
        if before is not None:
            await asyncio.wait((before,))
        self._running, self._next = self._next, None
        await self._work()
