"""Trimming: finding out how far a log may go, and letting it go in three steps that a crash may part.

First the base and the oldest seq are durable; then this process says that the rest is not kept; then it is taken away.
So whoever has read a page can tell whether it may have a hole, by asking for the oldest seq afterwards.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog

from board.core.retention import settled_us, trimmable
from schema.codec import decode_event, us_of_text

if TYPE_CHECKING:
    from board.core.retention import Keep
    from board.service.boards import OpenBoard
    from board.service.clock import Clock
    from board.store.contract import Store

log = structlog.get_logger()


class Trimming:
    """Lets go of what need not be kept. Several nodes may do it at once: the store lets one of them."""

    def __init__(self, store: Store, clock: Clock, keep: Keep) -> None:
        self._store = store
        self._clock = clock
        self._keep = keep
        self._swept: dict[str, int] = {}

    async def trim(self, board: OpenBoard) -> None:
        """Trim one board as far as may be, and take away what is no longer kept. Raises StoreUnavailable."""
        if self._keep:
            upto = trimmable(board.state, await self._unwanted(board))
            if upto >= board.oldest:
                await self._let_go(board, upto)
        if self._swept.get(board.name, 1) < board.oldest:
            await self._sweep(board)

    async def _let_go(self, board: OpenBoard, upto: int) -> None:
        state = await board.folded(upto)
        if await self._store.trim(board.name, upto, state.freeze()):
            log.info("board.trimmed", board=board.name, oldest=upto + 1)
        await board.learn_oldest()

    async def _sweep(self, board: OpenBoard) -> None:
        oldest = board.oldest
        while await self._store.sweep(board.name):
            pass
        self._swept[board.name] = oldest

    async def _unwanted(self, board: OpenBoard) -> int:
        """The last seq that no setting keeps, and that is not of the last ten minutes of the log."""
        state = board.state
        by_count = state.seq - self._keep.events if self._keep.events else 0
        horizon_us = self._keep.horizon_us(self._clock.now_us())
        by_age = await self._last_before(board, horizon_us) if horizon_us else 0
        upto = max(by_count, by_age)
        return min(upto, await self._last_before(board, settled_us(state))) if upto >= board.oldest else 0

    async def _last_before(self, board: OpenBoard, at_us: int) -> int:
        """The last seq that is kept and older than a time; the one before the oldest where there is none.

        Times never go back within a log, so it is found by halving: a log of a million events takes 20 reads of one.
        """
        older, newer = board.oldest - 1, board.state.seq + 1
        while newer - older > 1:
            middle = (older + newer) // 2
            rows, _ = await self._store.page(board.name, after=middle - 1, before=middle + 1, limit=1)
            if not rows:
                return board.oldest - 1  # another node trimmed the log meanwhile
            if us_of_text(decode_event(rows[0].body).at) < at_us:
                older = middle
            else:
                newer = middle
        return older
