"""A crowd is let through one by one, one each turn of the event loop.

A thousand readers that come back at once are a thousand handshakes, and a thousand pages to be sent. The loop would carry
out all that are ready before it looks at its sockets again, so a post that comes meanwhile would wait for them all; behind
a turnstile it waits for one. Each costs about half a millisecond, a turn of the loop a tenth of that.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class Turnstile:
    """First come, first served; who comes alone passes in the next turn of the loop."""

    def __init__(self) -> None:
        self._waiting: deque[Callable[[], None]] = deque()
        self._moving = False

    def __len__(self) -> int:
        """How many wait."""
        return len(self._waiting)

    def enter(self, act: Callable[[], None]) -> None:
        """Carry out an act when its turn comes."""
        self._waiting.append(act)
        if not self._moving:
            self._move()

    async def turn(self) -> None:
        """Return when the turn of this task comes. One that is cancelled meanwhile takes no place from the others."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.enter(lambda: None if turn.done() else turn.set_result(None))
        await turn

    def _move(self) -> None:
        self._moving = True
        asyncio.get_running_loop().call_soon(self._let_through)

    def _let_through(self) -> None:
        act = self._waiting.popleft()
        self._moving = False
        if self._waiting:
            self._move()
        act()
