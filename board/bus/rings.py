"""Rings as bytes, and those that wait to be sent. Pure: no I/O, no clock."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from collections.abc import Sequence

RING_BYTES: Final = 1_048_576
"""Bodies of more bytes are not sent: what is so long is read in the log."""

WAITING_BYTES: Final = 8 * RING_BYTES
"""Bytes of bodies that wait to be sent. Over it, rings wait without theirs."""

_SEPARATOR: Final = b"\x1e"


class Ring(msgspec.Struct, frozen=True, omit_defaults=True, array_like=True):
    """Who rings for what: `board` is empty where a node only rings for itself, `head` is 0 where it is for tokens."""

    node: str
    board: str = ""
    epoch: str = ""
    head: int = 0
    tokens: bool = False


_decode: Final = msgspec.json.Decoder(Ring).decode


def encoded(ring: Ring, bodies: Sequence[bytes] = ()) -> bytes:
    """Write a ring, its bodies behind it; 0x1E stands between them, which no JSON holds."""
    return _SEPARATOR.join((msgspec.json.encode(ring), *bodies))


def decoded(data: bytes) -> tuple[Ring, bytes] | None:
    """Read a ring and give it with what is behind it, or None for what is no ring: anybody may publish on a channel."""
    first, _, rest = data.partition(_SEPARATOR)
    try:
        return _decode(first), rest
    except msgspec.DecodeError:
        return None


def bodies_in(rest: bytes) -> list[bytes]:
    """Take apart what is behind a ring."""
    return rest.split(_SEPARATOR) if rest else []


class Waiting:
    """The rings that wait to be sent, in order.

    Heads of one board that wait without bodies are one ring, so that what waits is bounded by the number of boards.
    """

    def __init__(self) -> None:
        self._rings: deque[tuple[Ring, Sequence[bytes]]] = deque()
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._rings)

    def add(self, ring: Ring, bodies: Sequence[bytes] = ()) -> None:
        """Add a ring; it loses its bodies where they are too many."""
        size = sum(map(len, bodies))
        if not bodies or size > RING_BYTES or self._bytes + size > WAITING_BYTES:
            self._add_bare(ring)
            return
        self._rings.append((ring, bodies))
        self._bytes += size

    def _add_bare(self, ring: Ring) -> None:
        same = (ring.node, ring.board, ring.epoch, ring.tokens)
        for waiting in self._rings:
            if not waiting[1] and (waiting[0].node, waiting[0].board, waiting[0].epoch, waiting[0].tokens) == same:
                self._rings.remove(waiting)
                break
        self._rings.append((ring, ()))

    def take(self) -> list[tuple[Ring, Sequence[bytes]]]:
        """Take all of them."""
        taken = list(self._rings)
        self.clear()
        return taken

    def clear(self) -> None:
        """Drop all of them."""
        self._rings.clear()
        self._bytes = 0
