"""What nodes keep in a store that they share, beside the log: tickets, and who has sockets where.

A store for one process needs none of it: there, the process knows by itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

import msgspec

if TYPE_CHECKING:
    from collections.abc import Sequence


class Sockets(msgspec.Struct, frozen=True):
    """How many sockets a worker has open, and when the last one closed: 0 for never, or when it has called since."""

    worker: str
    open: int
    left_us: int


@runtime_checkable
class Commons(Protocol):
    """The shared part of a store. Errors are `StoreUnavailable`, as on every method of a store."""

    async def keep_ticket(self, digest: bytes, identity: bytes, *, end_us: int, now_us: int, limit: int) -> bool:
        """Keep a ticket by its hash, durable on return; those that ended before `now_us` are forgotten.

        Tells whether it was kept: not where `limit` tickets, or a few more, have not ended.
        """
        ...

    async def take_ticket(self, digest: bytes, *, now_us: int) -> bytes | None:
        """Give the identity behind a ticket that has not ended, once on any number of nodes; None ever after."""
        ...

    async def report_sockets(self, board: str, node: str, rows: Sequence[Sockets], *, now_us: int) -> None:
        """Say what changed on a node, and that the node is there. Each worker is named once."""
        ...

    async def sockets_elsewhere(self, board: str, node: str, *, alive_us: int) -> list[Sockets]:
        """Add up what the other nodes said, by worker.

        The sockets of a node that was not heard of since `alive_us` count as closed when it was heard of last.
        """
        ...
