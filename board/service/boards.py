"""The boards that this process serves: each opened once, with its writer, its fan-out and its workers."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import msgspec
import structlog

from board.core.fold import BrokenLog, replay
from board.core.history import Record
from board.core.spelling import spell
from board.core.state import State, thaw
from board.hub import Channel
from board.service.presence import Presence
from board.service.writer import Writer
from board.store.contract import StoreDamaged, StoreUnavailable
from schema.codec import decode_event, us_of_text
from schema.codes import ProblemError, problem

if TYPE_CHECKING:
    from collections.abc import Sequence

    from board.core.scope import Target
    from board.service.clock import Clock
    from board.service.neighbours import Nodes
    from board.settings import ServerSettings
    from board.store.contract import BoardRow, Row, Store

log = structlog.get_logger()

CHECKPOINT_EVENTS: Final = 20_000
"""Events between two checkpoints: the most that a start has to fold again."""

REPLAY_PAGE: Final = 2000

FLUSH_S: Final = 5.0
"""Seconds between two writes of when the workers last called."""

MEET_S: Final = 1.0
"""The same where other nodes want to know, who tell what they know in turn."""


class OpenBoard:
    """One board that is being served."""

    def __init__(
        self,
        row: BoardRow,
        state: State,
        presence: Presence,
        store: Store,
        clock: Clock,
        settings: ServerSettings,
        nodes: Nodes | None = None,
    ) -> None:
        self.row = row
        self.presence = presence
        self.clock = clock
        self._store = store
        self.channel = Channel(state.seq, self.spell, tail_bytes=settings.tail_bytes)
        self.neighbours = nodes.of(self) if nodes is not None else None
        """The other nodes that write to the same store; None where there can be none."""
        self.writer = Writer(
            row.name,
            store,
            state,
            presence,
            clock,
            queue_notes=settings.queue_notes,
            on_commit=self.channel.publish,
            neighbours=self.neighbours,
        )
        self._checkpointed = state.seq

    @property
    def name(self) -> str:
        """The board's name."""
        return self.row.name

    @property
    def state(self) -> State:
        """The durable state."""
        return self.writer.settled

    def spell(self, text: str) -> Target:
        """Parse a target that was spelt before."""
        settings = self.row.settings
        return spell(text, case_insensitive=settings.case_insensitive, max_chars=settings.target_chars)

    async def checkpoint(self, *, every: int = CHECKPOINT_EVENTS) -> None:
        """Keep the state, if it has moved far enough since the last time."""
        if self.state.seq - self._checkpointed >= every:
            seq, frozen = self.state.seq, self.state.freeze()
            await self._store.save_checkpoint(self.name, seq, frozen)
            self._checkpointed = seq

    async def flush(self) -> None:
        """Write down when workers last called."""
        rows = self.presence.take_unsaved()
        try:
            if rows:
                await self._store.save_workers(self.name, rows)
        except StoreUnavailable:
            self.presence.put_back(rows)
            raise

    async def let_time_pass(self) -> None:
        """Log the leases that have ended by now, so that no caller meets one that has, nor revives its own.

        The writer does so by itself, but wakes late where the process was stopped or the clock jumped. A store that
        takes no writes leaves it to later: reads go on.
        """
        due_us = self.state.next_due_us()
        if due_us is None or due_us > self.clock.now_us():
            return
        with suppress(ProblemError):
            await self.writer.pass_time()

    async def knows_more(self) -> bool:
        """Ask the other nodes for workers; tell whether there were any that this one had not heard of."""
        if self.neighbours is None:
            return False
        known = len(self.presence.names)
        await self.neighbours.meet()
        return len(self.presence.names) > known

    async def close(self) -> None:
        """End the writer, then keep state and workers."""
        await self.writer.stop()
        if self.neighbours is not None:
            await self.neighbours.meet()
        try:
            await self.flush()
            await self.checkpoint(every=1)
        except StoreUnavailable as error:
            log.warning("board.close_failed", board=self.name, reason=str(error))


class Boards:
    """Opens boards when they are first asked for, and keeps them open."""

    def __init__(self, store: Store, clock: Clock, settings: ServerSettings, nodes: Nodes | None = None) -> None:
        self._store = store
        self._clock = clock
        self._settings = settings
        self._nodes = nodes
        self._open: dict[str, OpenBoard] = {}
        self._opening: dict[str, asyncio.Task[OpenBoard]] = {}
        self._upkeep: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin the upkeep: checkpoints, and when workers last called."""
        self._upkeep = asyncio.create_task(self._keep_up(), name="upkeep of the boards")

    async def close(self) -> None:
        """Close every board."""
        if self._upkeep is not None:
            self._upkeep.cancel()
            await asyncio.gather(self._upkeep, return_exceptions=True)
        for board in self.opened():
            await board.close()

    def opened(self) -> list[OpenBoard]:
        """The boards that are open now."""
        return list(self._open.values())

    def find(self, name: str) -> OpenBoard | None:
        """Give a board that is open, or None."""
        return self._open.get(name)

    async def get(self, name: str) -> OpenBoard:
        """Give a board, opening it if need be. Raises ProblemError `board_not_found` or `store_unavailable`."""
        board = self._open.get(name)
        if board is not None:
            return board
        task = self._opening.get(name)
        if task is None:
            task = self._opening[name] = asyncio.create_task(self._open_board(name), name=f"opening of {name}")
            task.add_done_callback(lambda _: self._opening.pop(name, None))
        return await asyncio.shield(task)

    async def _open_board(self, name: str) -> OpenBoard:
        row = await self._store.board(name)
        if row is None:
            raise ProblemError(problem("board_not_found", f"There is no board {name[:80]!r}.", value=name[:80]))
        state = await load_state(self._store, row)
        presence = Presence(await self._store.workers(name))
        board = OpenBoard(row, state, presence, self._store, self._clock, self._settings, self._nodes)
        board.writer.start()
        await board.let_time_pass()
        self._open[name] = board
        log.info("board.opened", board=name, head=state.seq, epoch=row.epoch)
        return board

    async def _keep_up(self) -> None:
        while True:
            await asyncio.sleep(FLUSH_S if self._nodes is None else MEET_S)
            for board in self.opened():
                try:
                    await (board.flush() if board.neighbours is None else board.neighbours.meet())
                    await board.checkpoint()
                except StoreUnavailable as error:
                    log.warning("board.upkeep_failed", board=board.name, reason=str(error))


async def load_state(store: Store, row: BoardRow) -> State:
    """Fold the log: the newest checkpoint, then what came after it. Raises StoreDamaged where it does not fold.

    A checkpoint of another shape, left by another version, is passed over: the log alone is the truth.
    """
    state = State(row.settings)
    kept = await store.checkpoint(row.name)
    if kept is not None:
        try:
            state = thaw(kept[1], row.settings)
        except msgspec.DecodeError as error:
            log.warning("board.checkpoint_unreadable", board=row.name, seq=kept[0], reason=str(error))
    try:
        await _fold_rest(store, row.name, state)
    except (BrokenLog, msgspec.DecodeError) as error:
        msg = f"the log of {row.name} is damaged ({error}): run `board verify`, and put a backup back with `board restore`"
        raise StoreDamaged(msg) from error
    return state


async def _fold_rest(store: Store, board: str, state: State) -> None:
    more = True
    while more:
        rows, more = await store.page(board, after=state.seq, limit=REPLAY_PAGE)
        replay(state, records_of(rows))
        await asyncio.sleep(0)


def records_of(rows: Sequence[Row]) -> list[Record]:
    """Decode rows of the log."""
    records: list[Record] = []
    for row in rows:
        event = decode_event(row.body)
        records.append(Record(event, us_of_text(event.at), row.body))
    return records
