"""Long polls: a caller that asks for what comes next, and is answered when it comes.

A waiter is a reader of the hub: it joins the group of its filter, so that it costs nothing while it waits and wakes for
what it asked for alone.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

import msgspec

from board.core.selection import Filter, selects
from board.hub import bodies_of
from board.service.boards import position_gone
from schema.codec import decode_event
from schema.codes import ProblemError, problem
from schema.notes import NOTE_TYPES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from board.service.boards import OpenBoard
    from board.service.questions import WaitQuery
    from board.store.contract import Store

WAIT_EVENTS: Final = 1000
WAIT_BYTES: Final = 262_144
"""The most that one long poll answers with, unless a single event is larger."""


class Waiting:
    """The long polls of all boards of one process."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._waiters: set[_Waiter] = set()
        self._stopping = False

    def __len__(self) -> int:
        return len(self._waiters)

    def stop(self) -> None:
        """Let every long poll answer now, and every later one at once."""
        self._stopping = True
        for waiter in self._waiters:
            waiter.wake()

    async def wait(self, board: OpenBoard, where: Filter, query: WaitQuery) -> dict[str, Any]:
        """Answer with the first events after a position that the filter keeps, as soon as there are any.

        Raises ProblemError `position_from_future` or `position_gone`. Cancelling frees everything.
        """
        deadline_s = asyncio.get_running_loop().time() + query.timeout_s
        logged, position = await self._logged(board, where, _position(board, query.after), deadline_s)
        bodies, timed_out = [msgspec.Raw(body) for body in logged], False
        if not bodies:
            bodies, position, timed_out = await self._coming(board, where, position, deadline_s)
        return {
            "events": bodies,
            "next": position,
            "head": board.state.seq,
            "epoch": board.row.epoch,
            "timed_out": timed_out,
        }

    async def _coming(
        self, board: OpenBoard, where: Filter, position: int, deadline_s: float
    ) -> tuple[list[msgspec.Raw], int, bool]:
        """Wait for the hub, unless there is still something of the log to look at and no time left for it."""
        if position < board.channel.swept:
            return [], position, not self._stopping
        waiter = _Waiter(board, where, position)
        self._waiters.add(waiter)
        try:
            woken = self._stopping or await waiter.woken(deadline_s)
        finally:
            self._waiters.discard(waiter)
            waiter.leave()
        return waiter.bodies, waiter.position, not woken

    async def _logged(
        self, board: OpenBoard, where: Filter, position: int, deadline_s: float
    ) -> tuple[list[bytes], int]:
        """Give what is there already, or nothing and the position up to which there is nothing."""
        channel = board.channel
        # A store finds notes by its indexes; of the other kinds of events it is asked for all.
        indexed = where if where.types and set(where.types) <= set(NOTE_TYPES) else Filter()
        while position < channel.swept:
            if position >= channel.tail.reaches:
                bodies, position = channel.bodies_after(position, where, max_bytes=WAIT_BYTES, limit=WAIT_EVENTS)
            else:
                upto = channel.swept
                rows, more = await self._store.page(
                    board.name, after=position, limit=WAIT_EVENTS, where=indexed, max_bytes=WAIT_BYTES
                )
                await board.check_kept(position)
                bodies = [row.body for row in rows if selects(where, decode_event(row.body), board.spell)]
                position = rows[-1].seq if more or bodies else max(upto, position)
            if bodies or self._stopping or asyncio.get_running_loop().time() >= deadline_s:
                return bodies, position
            await asyncio.sleep(0)
        return [], position


class _Waiter:
    """One long poll, a reader of the hub from the turn in which it is made (see `board.hub.Reader`)."""

    def __init__(self, board: OpenBoard, where: Filter, position: int) -> None:
        self.position = position
        """Everything up to this seq was looked at."""
        self.bodies: list[msgspec.Raw] = []
        """What came, encoded."""
        self._channel = board.channel
        self._where = where
        self._wake = asyncio.Event()
        self._channel.join(self, where)

    def deliver(self, frames: Sequence[bytes], seq: int) -> None:
        """Take what a sweep brings; one frame of it is enough, and the first one ends the wait."""
        # It may have asked for what comes after events that were durable, but not swept yet.
        bodies = [body for body in bodies_of(frames[0]) if _seq_of(body) > self.position]
        if not bodies:
            return
        self.bodies = bodies
        self.position = seq if len(frames) == 1 else _seq_of(bodies[-1])
        self.leave()
        self.wake()

    def cut_off(self, seq: int) -> None:
        """End the wait: the next one, from there, looks in the log."""
        self.position = max(self.position, seq)
        self.leave()
        self.wake()

    def wake(self) -> None:
        """End the wait."""
        self._wake.set()

    async def woken(self, deadline_s: float) -> bool:
        """Return when the wait has ended; False where nothing ended it by the deadline, by the loop's clock."""
        try:
            async with asyncio.timeout_at(deadline_s):
                await self._wake.wait()
        except TimeoutError:
            pass
        if not self._wake.is_set():
            self.position = max(self.position, self._channel.swept)
        return self._wake.is_set()

    def leave(self) -> None:
        """Wait no more; idempotent."""
        self._channel.leave(self, self._where)


def _position(board: OpenBoard, after: int | None) -> int:
    head = board.state.seq
    if after is None:
        return head
    if after > head:
        sentence = f"{after} is past the head, {head}."
        raise ProblemError(problem("position_from_future", sentence, value=after, head=head))
    if after < board.oldest - 1:
        raise position_gone(after, board.oldest)
    return after


class _Seq(msgspec.Struct):
    seq: int


_seq_decoder: Final = msgspec.json.Decoder(_Seq)


def _seq_of(body: msgspec.Raw) -> int:
    return _seq_decoder.decode(body).seq
