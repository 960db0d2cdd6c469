"""What a bus promises. Every bus keeps every promise; the suite in `tests/conformance` holds it to them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

PROBE_S: Final = 0.5
"""Seconds between two rings of a bus for itself."""

DEAF_S: Final = 1.5
"""Seconds without hearing itself after which a subscription counts as deaf, and is made anew."""

RETRY_S: Final = 0.5
"""Seconds between two attempts to reach the server of the bus."""


class Listener(Protocol):
    """Who hears. Called on the event loop; never blocks, never raises."""

    def heard(self, board: str, epoch: str, head: int, bodies: Sequence[bytes]) -> None:
        """Hear that another node wrote: the log of this epoch reached `head` at least.

        `bodies` are the encoded events up to `head`, in order and without a hole, or empty where the ring was too
        long to carry them.
        """
        ...

    def heard_of_tokens(self) -> None:
        """Hear that tokens were made or revoked on another node."""
        ...

    def may_have_missed(self) -> None:
        """Hear that rings may have been lost until now, because listening only begins, or begins anew."""
        ...


class Bus(Protocol):
    """The bell.

    Delivery: at most once. Order: rings of one node arrive in the order that they were rung, those of several nodes
    mixed. A node does not hear itself. Durability: none. A lost connection is made again for as long as the bus is
    open, and `may_have_missed` follows every time that it is.
    """

    def start(self, listener: Listener) -> None:
        """Begin to listen, in a task that the bus owns. Returns at once, whether the server is there or not."""
        ...

    async def close(self) -> None:
        """Send what was rung, if that is possible at once, and let go of everything. Closing twice is a no-op."""
        ...

    def ring(self, board: str, epoch: str, head: int, bodies: Sequence[bytes]) -> None:
        """Tell the other nodes what is durable now. Never blocks, never raises.

        What waits to be sent is bounded: over the bound a ring loses its bodies, and never its head.
        """
        ...

    def ring_for_tokens(self) -> None:
        """Tell the other nodes that tokens were made or revoked. Never blocks, never raises."""
        ...

    @property
    def hears(self) -> bool:
        """Whether the bus has heard itself lately."""
        ...
