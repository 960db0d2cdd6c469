"""The other nodes that write to the same store: hearing them, telling them, and being as far as they are.

The log is the truth and the bus a bell. What is heard in order is folded as it is; whatever else may have happened
(a lost ring, a deaf bus, none at all) comes out when the heads are looked at, every `poll_s` seconds, and when a caller
that may have been on another node a moment ago asks for the state (`freshen`).
"""

from __future__ import annotations

import asyncio
import secrets
from typing import TYPE_CHECKING, Any, Final

import msgspec
import structlog

from board.core.history import Record
from board.service.rounds import Rounds
from board.store.contract import StoreUnavailable
from schema.codec import decode_event, us_of_text

if TYPE_CHECKING:
    from collections.abc import Coroutine, Sequence

    from board.bus.contract import Bus
    from board.service.access import Access
    from board.service.boards import Boards, OpenBoard
    from board.store.commons import Commons
    from board.store.contract import Store

log = structlog.get_logger()

REFILL_EVENTS: Final = 500
"""Events that are read at once of what other nodes wrote."""

FRESH_S: Final = 1.0
"""Seconds that a reader waits for the newest events; after that it is shown the state as it is."""

SILENT_US: Final = 15_000_000
"""Microseconds after which a node that says nothing counts as gone, and its sockets as closed."""


class Neighbours:
    """The other nodes, as one board of this node sees them (`board.service.writer.Neighbours`)."""

    def __init__(self, board: OpenBoard, store: Store, commons: Commons, bus: Bus, node: str) -> None:
        self._board = board
        self._store = store
        self._commons = commons
        self._bus = bus
        self._node = node
        self._refills = Rounds(self._refill)
        self._meetings = Rounds(self._exchange)

    def tell(self, records: Sequence[Record]) -> None:
        """Ring for what this node wrote."""
        row = self._board.row
        self._bus.ring(row.name, row.epoch, records[-1].seq, [record.body for record in records])

    async def meet(self) -> None:
        """Exchange who called and who has sockets where. A store that does not answer leaves it as it is."""
        await asyncio.wait((self._meetings.soon(),))

    async def _exchange(self) -> None:
        try:
            await self._board.flush()
            await self._report()
            rows = await self._store.workers(self._board.name)
            alive_us = self._board.clock.now_us() - SILENT_US
            elsewhere = await self._commons.sockets_elsewhere(self._board.name, self._node, alive_us=alive_us)
        except StoreUnavailable as error:
            log.warning("nodes.not_met", board=self._board.name, reason=str(error))
        else:
            self._board.presence.meet(rows, elsewhere)

    async def _report(self) -> None:
        rows = self._board.presence.take_sockets()
        now_us = self._board.clock.now_us()
        try:
            await self._commons.report_sockets(self._board.name, self._node, rows, now_us=now_us)
        except StoreUnavailable:
            self._board.presence.put_back_sockets(rows)
            raise

    def hear(self, epoch: str, head: int, bodies: Sequence[bytes]) -> None:
        """Take what another node rang for; read it in the log where it does not follow."""
        if epoch != self._board.row.epoch or head <= self._board.state.seq:
            return
        try:
            records = [_record_of(body) for body in bodies]
        except msgspec.DecodeError as error:
            log.warning("nodes.heard_wrong", board=self._board.name, reason=str(error))
            records = []
        writer = self._board.writer
        if not (records and writer.hear(records)) and not writer.catching_up:
            self._refills.soon()

    async def freshen(self) -> None:
        """Return when the state holds all that any node had acknowledged before the call.

        Where the store does not answer within `FRESH_S`, or at all, the state is left as it is.
        """
        await asyncio.wait((self._refills.soon(),), timeout=FRESH_S)

    async def _refill(self) -> None:
        try:
            more = True
            while more:
                more = await self._refill_page()
        except StoreUnavailable as error:
            log.warning("nodes.not_fresh", board=self._board.name, reason=str(error))

    async def _refill_page(self) -> bool:
        """Read on by a page; tell whether there is more to read and to fold.

        Where it cannot be folded, this node is writing: what others wrote before that, it has seen. Where the log has
        lost what comes next, because this node was away for long, it goes on from what is kept.
        """
        after = self._board.state.seq
        rows, more = await self._store.page(self._board.name, after=after, limit=REFILL_EVENTS)
        if rows and rows[0].seq > after + 1:
            await self._board.restart()
            return False
        return self._board.writer.hear([_record_of(row.body) for row in rows]) and more


def _record_of(body: bytes) -> Record:
    event = decode_event(body)
    return Record(event, us_of_text(event.at), body)


class Nodes:
    """All boards' neighbours, the bus between them, and the look at the heads (`board.bus.contract.Listener`)."""

    def __init__(self, store: Store, commons: Commons, bus: Bus, *, poll_s: float) -> None:
        self.commons = commons
        self.bus = bus
        self._store = store
        self._poll_s = poll_s
        self._node = secrets.token_hex(8)
        self._look = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._boards: Boards
        self._access: Access

    def of(self, board: OpenBoard) -> Neighbours:
        """Give the neighbours of a board."""
        return Neighbours(board, self._store, self.commons, self.bus, self._node)

    def start(self, boards: Boards, access: Access) -> None:
        """Begin to listen and to look."""
        self._boards = boards
        self._access = access
        self._own(self._keep_looking())
        self.bus.start(self)

    async def close(self) -> None:
        """Stop. What was rung is sent, if that is possible at once."""
        await self.bus.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def heard(self, board: str, epoch: str, head: int, bodies: Sequence[bytes]) -> None:
        """Pass on a ring to the board that it is for, where that is served here."""
        opened = self._boards.find(board)
        if opened is not None and opened.neighbours is not None:
            opened.neighbours.hear(epoch, head, bodies)

    def heard_of_tokens(self) -> None:
        """Read the tokens again."""
        self._own(self._refresh_tokens())

    def may_have_missed(self) -> None:
        """Look at the heads, and at the tokens, now."""
        self._look.set()
        self.heard_of_tokens()

    async def _refresh_tokens(self) -> None:
        try:
            await self._access.refresh()
        except StoreUnavailable as error:
            log.warning("tokens.refresh_failed", reason=str(error))

    def _own(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _keep_looking(self) -> None:
        failing = False
        while True:
            self._look.clear()
            try:
                await self._look_at_heads()
                failing = False
            except StoreUnavailable as error:
                if not failing:
                    log.warning("nodes.not_looked", reason=str(error))
                failing = True
            await self._pause()

    async def _pause(self) -> None:
        try:
            async with asyncio.timeout(self._poll_s):
                await self._look.wait()
        except TimeoutError:
            return

    async def _look_at_heads(self) -> None:
        for row in await self._store.boards():
            opened = self._boards.find(row.name)
            if opened is None or opened.neighbours is None:
                continue
            opened.hear_of_oldest(row.oldest)
            if row.head > opened.state.seq:
                await opened.neighbours.freshen()
