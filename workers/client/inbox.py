"""Events that have come and wait for their reader: bounded, in order, and nothing lost when it is full.

When there is no room for more, what comes after is not kept and the inbox is `broken_off`: its reader empties it, and
then reads on from its position over a new connection. Memory is bounded, and the log is what keeps the rest.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

import msgspec

from workers.client.answers import EventHead

if TYPE_CHECKING:
    from collections.abc import Sequence

    from workers.client.position import Position

_head_decoder: Final = msgspec.json.Decoder(EventHead)


class Arrived(msgspec.Struct, frozen=True):
    """One event as it came, still encoded."""

    seq: int
    body: bytes


class Inbox:
    """At most `bound` events wait, beside those of the one frame that went over it."""

    def __init__(self, position: Position, bound: int) -> None:
        self.broken_off = False
        self._position = position
        self._bound = bound
        self._waiting: deque[Arrived] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def full(self) -> bool:
        """Whether there is no room for another frame."""
        return len(self._waiting) >= self._bound

    def put(self, events: Sequence[msgspec.Raw]) -> None:
        """Events came: keep those that are new, or break off when there is no room. Raises StreamHole."""
        if self.full:
            self.broken_off = True
        if self.broken_off:
            return
        for raw in events:
            seq = _head_decoder.decode(raw).seq
            if self._position.take(seq):
                self._waiting.append(Arrived(seq, bytes(raw)))

    def live(self, seq: int) -> None:
        """All up to `seq` has come, unless something of it was not kept. Raises StreamHole."""
        if not self.broken_off:
            self._position.live(seq)

    def get(self) -> Arrived | None:
        """Give the next event, None when none waits."""
        return self._waiting.popleft() if self._waiting else None

    def reconnected(self) -> None:
        """A new connection begins where the last kept event left off."""
        self.broken_off = False
