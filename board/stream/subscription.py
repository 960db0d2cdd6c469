"""One subscriber: where it stands in the log, and what it is sent next.

It is `live` (in a group of the hub, handed each sweep's frames) or `behind` (fed by its own task, page after page, from
the hub's tail or from the log, as fast as its socket drains). It goes from one to the other without a hole or a double
because both steps between them happen in one turn of the loop.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, Protocol

from board.core.selection import Filter
from board.hub import frame, frames_of
from board.service.boards import position_gone
from board.store.contract import StoreUnavailable
from schema.codec import encode
from schema.codes import ProblemError, problem
from schema.ops import Hello

if TYPE_CHECKING:
    from collections.abc import Sequence

    from board.service.boards import OpenBoard
    from board.service.questions import StreamQuery
    from board.store.contract import Store
    from board.turnstile import Turnstile

PAGE_EVENTS: Final = 500
PAGE_BYTES: Final = 262_144

LOOK_AGAIN_S: Final = 0.5
"""Seconds between two attempts to read a log that does not answer."""


class Wire(Protocol):
    """The socket under a subscription."""

    def write(self, frames: Sequence[bytes]) -> bool:
        """Send frames; tell whether the socket takes more now. Never blocks."""
        ...

    async def drained(self) -> None:
        """Return when the socket takes more. Raises ProblemError `too_slow` when it has not for too long."""
        ...

    def end(self, error: ProblemError) -> None:
        """Close the stream with the problem's close code."""
        ...


class Subscription:
    """One reader of one board."""

    def __init__(self, board: OpenBoard, store: Store, wire: Wire, where: Filter, turnstile: Turnstile) -> None:
        self.position = 0
        """Everything up to this seq that the filter keeps was sent."""
        self._board = board
        self._store = store
        self._wire = wire
        self._where = where
        self._turnstile = turnstile
        self._live = False
        self._announced = False
        self._feeding: asyncio.Task[None] | None = None

    async def start(self, query: StreamQuery) -> None:
        """Say hello, then feed. Raises ProblemError `wrong_epoch`, `position_from_future` or `position_gone`."""
        self.position = await self._first_position(query)
        row, head = self._board.row, self._board.channel.swept
        self._wire.write([frame(encode(Hello(board=row.name, epoch=row.epoch, head=head, after=self.position)))])
        self._feed()

    async def _first_position(self, query: StreamQuery) -> int:
        row, head = self._board.row, self._board.channel.swept
        if query.epoch and query.epoch != row.epoch:
            raise ProblemError(problem("wrong_epoch", f"The epoch is {row.epoch}.", value=query.epoch, epoch=row.epoch))
        if query.after is not None:
            return check_position(self._board, query.after)
        return head if query.tail is None else await self._tail_position(query.tail, head)

    async def _tail_position(self, count: int, head: int) -> int:
        if not self._where:
            return max(self._board.oldest - 1, head - count)
        return max(self._board.oldest - 1, await self._tail_of_filtered(count, head))

    async def _tail_of_filtered(self, count: int, head: int) -> int:
        position = head
        while count > 0:
            size = min(count, PAGE_EVENTS)
            rows, more = await self._store.page(
                self._board.name, before=position + 1, limit=size, descending=True, where=self._where
            )
            if rows:
                position = rows[-1].seq - 1
            if not more:
                return position
            count -= len(rows)
        return position

    @property
    def live(self) -> bool:
        """Whether it is handed what comes as it comes."""
        return self._live

    def deliver(self, frames: Sequence[bytes], seq: int) -> None:
        """Take a sweep's frames (see `board.hub.Reader`)."""
        self.position = seq
        if not self._wire.write(frames):
            self._fall_behind()

    def cut_off(self, seq: int) -> None:
        """Go on from the log, which says whether it can (see `board.hub.Reader`)."""
        self.position = seq
        self._fall_behind()

    def _fall_behind(self) -> None:
        self._leave()
        self._feed()

    def _leave(self) -> None:
        self._live = False
        self._board.channel.leave(self, self._where)

    def _feed(self) -> None:
        # One that has just ended has not told `_fed` yet, when a sweep in the same turn finds the socket full.
        if self._feeding is None or self._feeding.done():
            self._feeding = asyncio.get_running_loop().create_task(self._catch_up(), name="feed of a subscriber")
            self._feeding.add_done_callback(self._fed)

    def _fed(self, task: asyncio.Task[None]) -> None:
        if self._feeding is task:
            self._feeding = None
        if task.cancelled():
            return
        error = task.exception()
        if isinstance(error, ProblemError):
            self._wire.end(error)
        elif error is not None:
            self._wire.end(ProblemError(problem("internal_error", "The stream failed.")))
            raise error

    async def _catch_up(self) -> None:
        tail = self._board.channel.tail
        await self._turnstile.turn()
        while not self._live:
            await self._wire.drained()
            if self.position < tail.reaches:
                # The tail comes next without a turn: it may be so small that by then it would have moved on again.
                await self._send_page(tail.reaches)
            else:
                self._send_tail()
                if not self._live:
                    await self._turnstile.turn()

    def _send_tail(self) -> None:
        """Send a page of the tail; with its last page, join the group in the same turn of the loop."""
        channel = self._board.channel
        frames, self.position = channel.frames_after(
            self.position, self._where, max_bytes=PAGE_BYTES, limit=PAGE_EVENTS
        )
        writable = self._wire.write(frames)
        if self.position < channel.swept:
            return
        if not self._announced:
            self._announced = True
            writable = self._wire.write([frame(b'{"op":"live","seq":%d}' % self.position)])
        if writable:
            self._live = True
            channel.join(self, self._where)

    async def _send_page(self, upto: int) -> None:
        try:
            rows, more = await self._store.page(
                self._board.name,
                after=self.position,
                before=upto + 1,
                limit=PAGE_EVENTS,
                where=self._where,
                max_bytes=PAGE_BYTES,
            )
            await self._board.check_kept(self.position)
        except StoreUnavailable:
            # What the reader needs is in the log: it stays open, and goes on when that is back.
            await asyncio.sleep(LOOK_AGAIN_S)
            return
        if rows:
            self._wire.write(frames_of([row.body for row in rows]))
        self.position = rows[-1].seq if more else upto

    def filter(self, where: Filter) -> None:
        """Replace the filter, from the next event on."""
        if self._live:
            channel = self._board.channel
            channel.leave(self, self._where)
            channel.join(self, where)
        self._where = where

    def close(self) -> None:
        """Stop; idempotent."""
        self._leave()
        if self._feeding is not None:
            self._feeding.cancel()


def check_position(board: OpenBoard, after: int) -> int:
    """Give the position back, or refuse one that the log cannot continue from."""
    head = board.channel.swept
    if after > head:
        raise ProblemError(
            problem("position_from_future", f"{after} is past the head, {head}.", value=after, head=head)
        )
    if after < board.oldest - 1:
        raise position_gone(after, board.oldest)
    return after
