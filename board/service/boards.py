"""The boards that this process serves: each opened once, with its writer, its fan-out and its workers."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import msgspec
import structlog

from board.core.fold import BrokenLog, replay
from board.core.history import Record
from board.core.retention import Keep
from board.core.spelling import spell
from board.core.state import State, thaw
from board.hub import Channel
from board.service.presence import Presence
from board.service.rounds import Rounds
from board.service.trimming import Trimming
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

LIVE_PAGE: Final = 200
"""Events that are folded at once while the board is served: about 2 ms."""

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
        self._flushes = Rounds(self._flush)

    @property
    def name(self) -> str:
        """The board's name."""
        return self.row.name

    @property
    def state(self) -> State:
        """The durable state."""
        return self.writer.settled

    @property
    def oldest(self) -> int:
        """The oldest seq that is kept, as far as this process knows: never later than it is."""
        return self.row.oldest

    async def learn_oldest(self) -> int:
        """Ask the store for the oldest seq that is kept."""
        row = await self._store.board(self.name)
        assert row is not None, "boards stay"
        self.hear_of_oldest(row.oldest)
        return self.oldest

    def hear_of_oldest(self, oldest: int) -> None:
        """Take that the log begins with `oldest` now."""
        if oldest > self.oldest:
            self.row = msgspec.structs.replace(self.row, oldest=oldest)

    async def oldest_now(self) -> int:
        """Give the oldest seq that is kept: from there on, what was read before this call has no hole.

        What is no longer kept is taken away only after the store, and the process that trims, say so; another node has
        to ask the store. Raises StoreUnavailable.
        """
        return self.oldest if self.neighbours is None else await self.learn_oldest()

    async def check_kept(self, after: int) -> None:
        """Return where what was read before this call, of what follows `after`, has no hole.

        Raises ProblemError `position_gone`, StoreUnavailable.
        """
        oldest = await self.oldest_now()
        if after < oldest - 1:
            raise position_gone(after, oldest)

    async def folded(self, upto: int) -> State:
        """Fold the log up to a seq that is kept. Raises StoreDamaged."""
        return await load_state(self._store, self.row, upto)

    async def restart(self) -> None:
        """Go on from what the store keeps, because the log begins after what was folded here.

        Readers that stand before it are told so; where the writer is in the middle of something, nothing is done.
        """
        row = await self._store.board(self.name)
        assert row is not None, "boards stay"
        state = await load_state(self._store, row)
        if self._go_on_from(state, row.oldest):
            log.warning("board.restarted", board=self.name, head=state.seq, oldest=self.oldest)

    def _go_on_from(self, state: State, oldest: int) -> bool:
        if not self.writer.restart(state):
            return False
        self.hear_of_oldest(oldest)
        self.channel.restart(state.seq)
        return True

    async def begin_at(self, state: State) -> None:
        """Let the log of this board, which is empty, begin after a state. Raises HeadMoved where it is not."""
        async with self._store.begin(self.name, 0) as transaction:
            await transaction.begin_at(state.seq, state.freeze())
            moved = self._go_on_from(state, state.seq + 1)
            assert moved, "the writer decides nothing without the right to write"

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
        """Write down when workers last called, once for all who ask at a time: a new team calls all at once.

        Raises StoreUnavailable; then it is written with the next ones.
        """
        await asyncio.shield(self._flushes.soon())

    async def _flush(self) -> None:
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
        self._trimming = Trimming(store, clock, Keep(settings.keep_days, settings.keep_events))
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Begin the upkeep: checkpoints, when workers last called, and what is no longer to be kept."""
        self._tasks = [
            asyncio.create_task(self._keep_up(), name="upkeep of the boards"),
            asyncio.create_task(self._keep_trimming(), name="trimming of the boards"),
        ]

    async def close(self) -> None:
        """Close every board."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
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

    async def _keep_trimming(self) -> None:
        while True:
            await asyncio.sleep(self._settings.trim_s)
            for board in self.opened():
                try:
                    await self._trimming.trim(board)
                except StoreUnavailable as error:
                    log.warning("board.trim_failed", board=board.name, reason=str(error))


def position_gone(position: int, oldest: int) -> ProblemError:
    """Refuse a position that the log does not reach back to."""
    sentence = f"The oldest event that is kept is {oldest}."
    return ProblemError(problem("position_gone", sentence, value=position, oldest=oldest))


def kept_after(oldest: int, after: int | None, before: int | None = None) -> int:
    """Give the position that a read begins after: the one that was asked for, or that before the oldest event.

    Raises ProblemError `position_gone` where what was asked for reaches, or lies, before what is kept.
    """
    if after is not None and after < oldest - 1:
        raise position_gone(after, oldest)
    if before is not None and 1 < oldest >= before:
        raise position_gone(before, oldest)
    return oldest - 1 if after is None else after


async def load_state(store: Store, row: BoardRow, upto: int | None = None) -> State:
    """Fold the log to its head, or to a seq that is kept: the newest checkpoint or base, then what came after it.

    A checkpoint of another shape, left by another version, is passed over: base and log alone are the truth. Raises
    StoreDamaged where they do not fold.
    """
    try:
        state = await _kept_state(store, row, upto)
        await _fold_rest(store, row.name, state, upto)
    except (BrokenLog, msgspec.DecodeError) as error:
        now = await store.board(row.name)
        if now is not None and now.oldest > row.oldest:
            return await load_state(store, now, upto)  # another node trimmed the log meanwhile
        msg = f"the log of {row.name} is damaged ({error}): run `board verify`, and put a backup back with `board restore`"
        raise StoreDamaged(msg) from error
    return state


async def _kept_state(store: Store, row: BoardRow, upto: int | None) -> State:
    kept, base = await store.checkpoint(row.name), await store.base(row.name)
    if kept is not None and (base is None or kept[0] > base[0]) and (upto is None or kept[0] <= upto):
        try:
            return thaw(kept[1], row.settings)
        except msgspec.DecodeError as error:
            log.warning("board.checkpoint_unreadable", board=row.name, seq=kept[0], reason=str(error))
    return State(row.settings) if base is None else thaw(base[1], row.settings)


async def _fold_rest(store: Store, board: str, state: State, upto: int | None) -> None:
    before, limit = (None, REPLAY_PAGE) if upto is None else (upto + 1, LIVE_PAGE)
    more = True
    while more:
        rows, more = await store.page(board, after=state.seq, before=before, limit=limit)
        replay(state, records_of(rows))
        await asyncio.sleep(0)


def records_of(rows: Sequence[Row]) -> list[Record]:
    """Decode rows of the log."""
    records: list[Record] = []
    for row in rows:
        event = decode_event(row.body)
        records.append(Record(event, us_of_text(event.at), row.body))
    return records
