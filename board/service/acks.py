"""What workers acknowledged. The store holds it; where this node is alone with its store, memory knows it as well.

An acknowledgement only ever adds, so whatever is known is joined with what the store says: a look-up that began before an
acknowledgement and ends behind it takes nothing back.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final

from board.store.contract import Acks

if TYPE_CHECKING:
    from collections.abc import Collection

    from board.store.contract import Store

ACKS_KEPT: Final = 131_072
"""How many workers, and seqs that they acknowledged one by one, are known of all boards: about 10 MB."""


class AckBook:
    """The acknowledgements of all boards of one process. `alone` says that no other node writes to the store."""

    def __init__(self, store: Store, *, alone: bool) -> None:
        self._store = store
        self._alone = alone
        self._known: OrderedDict[tuple[str, str], Acks] = OrderedDict()
        self._weight = 0

    async def of(self, board: str, worker: str) -> Acks:
        """What a worker acknowledged, with all that was acknowledged before the call."""
        known = self._known.get((board, worker))
        if known is not None:
            self._known.move_to_end((board, worker))
            return known
        return self._joined(board, worker, await self._store.acks(board, worker))

    async def ack(self, board: str, worker: str, *, through: int | None, seqs: Collection[int]) -> Acks:
        """Acknowledge, durable on return; acknowledging twice changes nothing. Gives what is acknowledged now."""
        return self._joined(board, worker, await self._store.ack(board, worker, through=through, seqs=seqs))

    def _joined(self, board: str, worker: str, acks: Acks) -> Acks:
        if not self._alone:
            return acks
        before = self._known.pop((board, worker), None)
        if before is not None:
            self._weight -= 1 + len(before.seqs)
            acks = _join(before, acks)
        self._known[board, worker] = acks
        self._weight += 1 + len(acks.seqs)
        while self._weight > ACKS_KEPT:
            _, gone = self._known.popitem(last=False)
            self._weight -= 1 + len(gone.seqs)
        return acks


def _join(one: Acks, other: Acks) -> Acks:
    through = max(one.through, other.through)
    return Acks(through, frozenset(seq for seq in one.seqs | other.seqs if seq > through))
