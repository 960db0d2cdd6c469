"""A crowd is let through one by one, a millisecond apart.

A thousand readers that come back at once are a thousand handshakes, and a thousand pages to be sent. The loop would carry
out all that are ready before it looks at its sockets again, so a post that comes meanwhile would wait for them all. Each
costs about half a millisecond: at this pace the other half is for everybody else, on the server and on the machine. One
after the other without a pause, 1,024 readers were back in 0.6 s and not in 1.5, but posts then took up to 190 ms, not 20.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable


PACE_S: Final = 0.001
"""Seconds between two of a crowd."""


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
            self._moving = True
            asyncio.get_running_loop().call_soon(self._let_through)

    async def turn(self) -> None:
        """Return when the turn of this task comes. One that is cancelled meanwhile takes no place from the others."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.enter(lambda: None if turn.done() else turn.set_result(None))
        await turn

    def _let_through(self) -> None:
        act = self._waiting.popleft()
        self._moving = bool(self._waiting)
        if self._moving:
            asyncio.get_running_loop().call_later(PACE_S, self._let_through)
        act()
