"""The single writer of one board: commands in, durable events out.

Commands that arrive while one transaction syncs form the next one, so nothing waits when nothing goes on and a crowd
shares one sync. Deciding runs ahead on a state of its own (`_ahead`); the state that readers see (`settled`) moves
when the events are durable, so nobody can read what a crash would take back. When a commit fails, `_ahead` is made
anew from `settled`, everyone of that transaction is told, and the next one tries again.
"""

from __future__ import annotations

import asyncio
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final, Protocol

import msgspec
import structlog

from board.core.commands import Append, Command, Narrow, PassTime, PostBatch, Release, Transfer
from board.core.decide import Present, union_of, wanted
from board.core.fold import BrokenLog, apply, replay
from board.core.state import State, clone
from board.core.step import Step, step
from board.core.turns import Turns
from board.store.contract import Found, HeadMoved, OutcomeUnknown, Record, StoreFull, StoreUnavailable, Wanted
from schema.codes import ProblemError, problem

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

    from board.core.decide import Answer
    from board.core.step import StoredBatch
    from board.service.clock import Clock
    from board.service.presence import Presence
    from board.store.contract import Store, Transaction

log = structlog.get_logger()

PIECE_NOTES: Final = 500
"""Notes that are worth a commit of their own while more wait: to decide them takes longer than to sync them."""

PIECES: Final = 100
"""The pieces after which the right to write is given up once, however many wait: others may want it."""

GROUP_NOTES: Final = 2000
"""The most notes that one transaction holds: it bounds how long the first of them waits for the last."""

RETRIES: Final = 3
"""How often a group is tried again because another node wrote first."""

LONGEST_SLEEP_S: Final = 1.0
"""How long the writer sleeps at the most while leases run: the clock of the day may jump, the loop's does not."""


class Neighbours(Protocol):
    """The other nodes, as the writer of a board sees them."""

    def tell(self, records: Sequence[Record]) -> None:
        """Tell them what this node wrote. Never blocks, never raises."""
        ...

    async def meet(self) -> None:
        """Take in who called, and who is gone, on their side, if the store answers. Never raises."""
        ...


class _Job(msgspec.Struct):
    command: Command
    done: asyncio.Future[Answer | StoredBatch]

    @property
    def notes(self) -> int:
        return len(self.command.posts) if isinstance(self.command, PostBatch) else 1

    @property
    def whose(self) -> str:
        """The line that it waits in; time has one of its own."""
        return "" if isinstance(self.command, PassTime) else self.command.asker.worker


class Writer:
    """Decides and writes for one board on this node.

    `on_commit` is called with every event once it is durable, whoever wrote it, in order and without a hole.
    `neighbours` are the other nodes that write to the same store, None where there are none.
    """

    def __init__(
        self,
        board: str,
        store: Store,
        state: State,
        presence: Presence,
        clock: Clock,
        *,
        queue_notes: int,
        on_commit: Callable[[Sequence[Record]], None],
        neighbours: Neighbours | None = None,
    ) -> None:
        self.board = board
        self.settled = state
        self._ahead = clone(state)
        self._store = store
        self._presence = presence
        self._clock = clock
        self._on_commit = on_commit
        self._neighbours = neighbours
        self._deciding = False
        self._committing: asyncio.Task[None] | None = None
        self._in_flight: list[Record] = []
        """What was decided and handed to the store, and may not be durable yet."""
        self.catching_up = False
        """Whether what other nodes wrote until now is about to be read, because this one has asked for the right to write."""
        self._jobs: Turns[_Job] = Turns()
        self._queue_notes = queue_notes
        self.overflows = 0
        """How many commands were refused because the queue was full."""
        self.failures = 0
        """How many times the store did not take a group."""
        self._wake = asyncio.Event()
        self._stopping = False
        self._task: asyncio.Task[None] | None = None
        self._taking_over = False
        self._failing = False
        self._warned = False
        self.catch_up_wanted = False

    def start(self) -> None:
        """Begin to work. Call once, inside the running loop."""
        self._task = asyncio.create_task(self._run(), name=f"writer of {self.board}")

    async def stop(self) -> None:
        """Carry out what is queued, then end. New commands are refused from now on."""
        self._stopping = True
        self._wake.set()
        if self._task is not None:
            await self._task

    @property
    def queued_notes(self) -> int:
        """How many notes wait for their turn."""
        return self._jobs.weight

    async def submit(self, command: Command) -> Answer | StoredBatch:
        """Carry out a command; return when its events are durable.

        A refusal comes back as a Problem value. Raises ProblemError `store_unavailable` (also when the queue is
        full), `store_full` or `going_away`; then nothing of the command was stored. A caller that is cancelled does
        not take its command back.
        """
        return await asyncio.shield(self.enqueue(command))

    def enqueue(self, command: Command) -> asyncio.Future[Answer | StoredBatch]:
        """Queue a command and give the future of its answer."""
        if self._stopping:
            raise ProblemError(problem("going_away", "The server is stopping; nothing was stored."))
        if self._taking_over and not isinstance(command, Append):
            raise ProblemError(
                problem("store_unavailable", "A log is being imported; nothing else is stored meanwhile.")
            )
        job = _Job(command, asyncio.get_running_loop().create_future())
        self._check_room(job)
        self._jobs.add(job.whose, job, job.notes)
        self._wake.set()
        return job.done

    def _check_room(self, job: _Job) -> None:
        """Refuse what the queue cannot take: it is full, or one worker's share of it is."""
        share = self._queue_notes // 2
        for waiting, limit in ((self._jobs.weight, self._queue_notes), (self._jobs.weight_of(job.whose), share)):
            if waiting and waiting + job.notes > limit:
                self.overflows += 1
                sentence = f"{waiting} notes wait to be written; the limit is {limit}."
                raise ProblemError(problem("store_unavailable", sentence, limit=limit, unit="notes"))

    @contextmanager
    def taking_over(self) -> Generator[None]:
        """Take nothing but the pieces of another log while the block runs, and let time stand still.

        Its leases may have ended long ago by this server's clock, in the middle of a log that tells how they ended.
        Raises ProblemError `store_unavailable` while another one is being taken over.
        """
        if self._taking_over:
            raise ProblemError(problem("store_unavailable", "Another log is being imported into this board."))
        self._taking_over = True
        try:
            yield
        finally:
            self._taking_over = False
            self._wake.set()

    async def pass_time(self) -> None:
        """Log what time has brought since the last event: leases that ended while nobody served the board."""
        await self.submit(PassTime())

    def catch_up(self) -> None:
        """Fold what other nodes wrote, soon."""
        self.catch_up_wanted = True
        self._wake.set()

    def hear(self, records: Sequence[Record]) -> bool:
        """Fold events that another node wrote, if they follow; tell whether there is nothing left to read in the log.

        Events that were folded before are passed over. Between the decision and the commit of events of this node's
        own nothing is folded: that node holds the right to write, so there can be nothing that it has not seen.
        """
        fresh = [record for record in records if record.seq > self.settled.seq]
        if not fresh:
            return True
        if self._deciding or fresh[0].seq != self.settled.seq + 1:
            return False
        try:
            self._take_missed(fresh)
        except BrokenLog as error:
            self._ahead = clone(self.settled)
            log.warning("writer.heard_wrong", board=self.board, reason=str(error))
            return False
        return True

    def restart(self, state: State) -> bool:
        """Go on from a state of the log that is further on than what was folded here; tell whether that could be.

        Between the decision and the commit of events of this node's own it cannot.
        """
        if self._deciding or state.seq <= self.settled.seq:
            return False
        self.settled, self._ahead = state, clone(state)
        return True

    async def _run(self) -> None:
        while True:
            await self._sleep()
            jobs = self._take_group()
            if self._stopping and not jobs:
                return
            if jobs or (not self._taking_over and (self.catch_up_wanted or self._time_is_up())):
                self.catch_up_wanted = False
                if self._neighbours is not None and self._asks_for_presence(jobs):
                    await self._neighbours.meet()
                self._note(await self._write(jobs))

    async def _sleep(self) -> None:
        self._wake.clear()
        if self._jobs or self._stopping:
            return
        if self.catch_up_wanted and not (self._failing or self._taking_over):
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(self._patience_s()):
                await self._wake.wait()

    def _patience_s(self) -> float | None:
        """How long the writer may sleep unless it is woken; None for as long as it is not."""
        if self._taking_over:
            return None
        if self._failing:
            return LONGEST_SLEEP_S  # to try at once, and at once again, would take a whole processor
        due_us = self.settled.next_due_us()
        if due_us is None:
            return None
        return min(max(0.0, (due_us - self._clock.now_us()) / 1e6), LONGEST_SLEEP_S)

    def _note(self, failed: Exception | None) -> None:
        """Remember whether the store answers; say in the log that it does not, once until it has taken a write again."""
        self._failing = failed is not None
        self.catching_up = False
        self.failures += self._failing
        self.catch_up_wanted |= self._failing
        if failed is not None and not self._warned:
            self._warned = True
            log.warning("writer.refused", board=self.board, reason=str(failed))

    def _time_is_up(self) -> bool:
        due_us = self.settled.next_due_us()
        return due_us is not None and due_us <= self._clock.now_us()

    def _asks_for_presence(self, jobs: Sequence[_Job]) -> bool:
        """Whether it may matter to these jobs who called, or is gone, on other nodes: a lease ends, or one is freed."""
        if self._time_is_up():
            return True
        return bool(self.settled.waiting) and any(isinstance(job.command, _MAY_FREE) for job in jobs or (_NOBODY,))

    def _take_group(self) -> list[_Job]:
        return self._jobs.take(GROUP_NOTES)

    async def _write(self, jobs: list[_Job]) -> Exception | None:
        """Carry out a group of commands and answer each; give what the store failed with, if it did."""
        for attempt in range(RETRIES + 1):
            jobs = [job for job in jobs if not job.done.done()]
            try:
                await self._transact(jobs)
            except HeadMoved as error:
                self._ahead = clone(self.settled)
                if attempt == RETRIES:
                    self._fail(jobs, "store_unavailable", error)
                    return error
            except StoreUnavailable as error:
                self._ahead = clone(self.settled)
                self._fail(jobs, "store_full" if isinstance(error, StoreFull) else "store_unavailable", error)
                return error
            except Exception as error:
                self._ahead = clone(self.settled)
                self._fail(jobs, "internal_error", error)
                log.exception("writer.failed", board=self.board)
                return error
            else:
                return None
        return None

    @staticmethod
    def _fail(jobs: list[_Job], code: str, error: Exception) -> None:
        sentence = f"Nothing was stored: {error}" if code != "internal_error" else "Nothing was stored."
        sentence = str(error) if isinstance(error, OutcomeUnknown) else sentence
        for job in jobs:
            if not job.done.done():
                job.done.set_exception(ProblemError(problem(code, sentence)))
                job.done.exception()  # the caller may be gone; then nobody asks, and that is no fault

    async def _transact(self, jobs: list[_Job]) -> None:
        self.catching_up = True
        async with self._store.begin(self.board, self._ahead.seq) as transaction:
            self.catching_up = False
            # Some of what was missed when the right to write was asked for may have been heard since.
            if transaction.missed:
                self._take_missed([record for record in transaction.missed if record.seq > self._ahead.seq])
            self._deciding = True
            try:
                await self._carry_out(jobs, transaction)
            finally:
                self._deciding = False

    async def _carry_out(self, jobs: list[_Job], transaction: Transaction) -> None:
        """Decide and commit; where the store can, piece by piece, the next decided while the last one syncs.

        What has come meanwhile is then added to `jobs`, so that the store never waits for a decision.
        """
        try:
            pieces = _pieces(jobs) if transaction.commits_apart else [jobs]
            for count, piece in enumerate(pieces, 1):
                steps, records = await self._decide(piece, transaction)
                await self._committed()
                self._in_flight = records
                self._committing = asyncio.create_task(self._commit(piece, steps, records, transaction))
                await asyncio.sleep(0)  # the commit is handed over, and requests that came meanwhile are read
                if transaction.commits_apart and count == len(pieces) < PIECES and (more := self._take_group()):
                    jobs += more
                    pieces += _pieces(more)
            await self._committed()
        finally:
            if self._committing is not None:  # deciding failed: what was handed over before must not be torn off
                await asyncio.gather(self._committing, return_exceptions=True)
            self._committing, self._in_flight = None, []

    async def _committed(self) -> None:
        """Wait for the piece that is on its way, if there is one. Raises what its commit failed with."""
        if self._committing is not None:
            await self._committing
            self._committing, self._in_flight = None, []

    async def _commit(
        self, jobs: list[_Job], steps: list[Step], records: list[Record], transaction: Transaction
    ) -> None:
        if records:
            await transaction.commit(records)
            self._warned = False
            self._settle(records)
            if self._neighbours is not None:
                self._neighbours.tell(records)
        for job, outcome in zip(jobs, steps, strict=True):
            if not job.done.done():
                job.done.set_result(outcome.answer)

    def _take_missed(self, missed: Sequence[Record]) -> None:
        if missed:
            replay(self._ahead, missed)
            self._settle(missed)

    def _settle(self, records: Sequence[Record]) -> None:
        for record in records:
            apply(self.settled, record)
        if records:
            self._on_commit(records)

    async def _decide(self, jobs: list[_Job], transaction: Transaction) -> tuple[list[Step], list[Record]]:
        asked = union_of([wanted(job.command) for job in jobs])
        found = await self._lookup(asked, transaction)
        steps: list[Step] = []
        records: list[Record] = []
        for job in jobs or [_NOBODY]:
            outcome, again = self._step(job, found), True
            while outcome.spoiled and again:
                found, again = await self._rewind(transaction, asked, records), outcome.doubles > 0
                outcome = self._step(job, found, outcome.doubles) if again else outcome
            steps.append(outcome)
            records += outcome.records
        return steps[: len(jobs)], records

    async def _lookup(self, asked: Wanted, transaction: Transaction) -> Found:
        """What the log says, with what is on its way into it."""
        found = await transaction.lookup(asked) if asked else Found()
        found.take(self._in_flight)
        return found

    async def _rewind(self, transaction: Transaction, asked: Wanted, records: Sequence[Record]) -> Found:
        """Make the state and `Found` anew as they were before a batch that came to nothing."""
        await self._committed()
        self._ahead = clone(self.settled)
        found = await self._lookup(asked, transaction)
        for record in records:
            apply(self._ahead, record)
        found.take(records)
        return found

    def _step(self, job: _Job, found: Found, doubles: int = 0) -> Step:
        now_us = max(self._clock.now_us(), self._ahead.at_us)
        present = Present(now_us, self._presence.names, self._presence.gone)
        return step(self._ahead, job.command, present, found, last_seen_us=self._presence.last_seen_us, doubles=doubles)


def _pieces(jobs: list[_Job]) -> list[list[_Job]]:
    """Cut a group into pieces of at least `PIECE_NOTES` notes; a group of none is one piece of none."""
    pieces: list[list[_Job]] = [[]]
    notes = 0
    for job in jobs:
        if notes >= PIECE_NOTES:
            pieces.append([])
            notes = 0
        pieces[-1].append(job)
        notes += job.notes
    return pieces


_MAY_FREE: Final = (PassTime, Release, Narrow, Transfer)
_NOBODY: Final = _Job(PassTime(), None)  # type: ignore[arg-type] -- time passes, and nobody waits for the answer
