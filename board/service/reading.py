"""What a worker reads: what it has not acknowledged, what it waits for, and the prompt view of a board.

The core decides what is shown; this fetches what the core needs from the hub's tail, from memory and through the
store's indexes, never by reading the whole log.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

import msgspec

from board.core.recent import Recent, correction
from board.core.selection import Filter, selects
from board.core.snapshot import Snapshot, snapshot
from board.core.unread import Block, Item, Ranked, Rides, Standing, block_of, fit, left_out, rank
from board.hub import bodies_of
from board.service.gathering import Beds, Gathering
from board.service.views import counted
from board.store.contract import Acks
from schema.codec import decode_event
from schema.codes import ProblemError, problem
from schema.events import AboutNote
from schema.notes import NOTE_TYPES

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from board.core.scope import Target
    from board.service.boards import OpenBoard
    from board.service.questions import UnreadQuery, WaitQuery
    from board.store.contract import Row, Store
    from schema.events import AnyEvent

PRIMED_EVENTS: Final = 4096
"""How many of the newest events are looked at when a board is first read from: the rest of the log is found by index."""

PAGE_ROWS: Final = 256

PAGES: Final = 16
"""The most pages that are read to find what is unread among what is acknowledged."""

RECENT_NOTES: Final = 256
"""How many of the newest unread notes are weighed against each other; the older ones are counted."""

POINTED_NOTES: Final = 64
"""How many of the newest unread notes are looked for that are addressed to a worker, or touch its claims."""

OWN_SUBJECTS: Final = 32
"""How many of a worker's newest claims, and patches, are looked up for events older than what is known in memory."""

GATHERINGS: Final = 3
"""How often a view is fetched again because the board moved; after that, claims may be some notes ahead."""

OWN_KEPT: Final = 4096
"""Of how many readers it is kept how much they wrote before what is known in memory."""

WAIT_EVENTS: Final = 1000
WAIT_BYTES: Final = 262_144
"""The most that one long poll answers with, unless a single event is larger."""


class Found(msgspec.Struct, frozen=True):
    """What was found unread: ranked; `complete` when there is nothing older that was not looked at."""

    ranked: list[Ranked]
    complete: bool


class Reading:
    """The reads of all boards of one process."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._recents: dict[str, Recent] = {}
        self._rides = Rides()
        self._beds = Beds(store)
        self._own: dict[tuple[str, str], tuple[int, dict[str, int] | None]] = {}
        self._waiters: set[_Waiter] = set()
        self._stopping = False

    def stop_waits(self) -> None:
        """Let every long poll answer now, and every later one at once."""
        self._stopping = True
        for waiter in self._waiters:
            waiter.wake()

    # --- unread ------------------------------------------------------------------------------------------------------

    async def unread(self, board: OpenBoard, worker: str, query: UnreadQuery) -> dict[str, Any]:
        """What the worker has not acknowledged, the most relevant first, within `limit` and `budget_tokens`."""
        head = board.state.seq
        acks = await self._store.acks(board.name, worker)
        recent = await self.recent(board)
        standing = _standing(board, worker, acks)
        found = await self._find(board, recent, standing, head, newest=RECENT_NOTES)
        shown = fit(found.ranked, limit=query.limit, budget_tokens=query.budget_tokens)
        counts, exact = await self._counts(board, recent, standing)
        omitted = left_out({} if found.complete else counts, found.ranked, shown.items)
        return {
            "notes": [msgspec.Raw(one.item.body) for one in shown.items],
            "omitted": counted(omitted, exact=exact or found.complete, too_large=shown.too_large),
            "urgent": sum(one.urgent for one in found.ranked),
            "through": head,
            "head": head,
            "epoch": board.row.epoch,
        }

    async def urgent_block(self, board: OpenBoard, worker: str) -> Block | None:
        """The worker's urgent unread notes as a framed text, each at most three times; None where there is none."""
        acks = await self._store.acks(board.name, worker)
        recent = await self.recent(board)
        found = await self._find(board, recent, _standing(board, worker, acks), board.state.seq, newest=0)
        riding = [one for one in found.ranked if one.urgent and self._rides.may(board.name, worker, one.item.seq)]
        block = block_of(riding)
        if block is not None:
            self._rides.count(board.name, worker, block.seqs)
        return block

    async def unread_counts(self, board: OpenBoard) -> dict[str, dict[str, Any]]:
        """How much each worker of a board has not acknowledged: `unread`, and `unread_at_least` where it may be more."""
        recent = await self.recent(board)
        acks = await self._store.all_acks(board.name)
        counts: dict[str, dict[str, Any]] = {}
        for worker in board.presence.names:
            standing = _standing(board, worker, acks.get(worker, Acks()))
            notes, exact = await self._counts(board, recent, standing, deep=False)
            events = sum(not standing.acked(seq) for seq in recent.concerning(worker, standing.through))
            told: dict[str, Any] = {"unread": sum(notes.values()) + events}
            counts[worker] = told if exact else told | {"unread_at_least": True}
        return counts

    async def recent(self, board: OpenBoard) -> Recent:
        """The index of a board's newest events, brought up to its head."""
        recent = self._recents.get(board.name)
        if recent is None or board.state.seq - recent.seq > PRIMED_EVENTS:
            recent = self._recents[board.name] = Recent(max(0, board.state.seq - PRIMED_EVENTS))
        while recent.seq < board.state.seq:
            events = await self._events_after(board, recent.seq)
            authors = await self._authors(board, [seq for event in events if (seq := recent.unknown_subject(event))])
            for event in events:
                if event.seq == recent.seq + 1:  # another reader may have been quicker while the log was read
                    recent.add(event, authors.get(event.note, "") if isinstance(event, AboutNote) else "")
        return recent

    async def _events_after(self, board: OpenBoard, seq: int) -> Sequence[AnyEvent]:
        tail = board.channel.tail
        if tail.reaches <= seq < tail.head:
            return [record.event for record in tail.after(seq, limit=PRIMED_EVENTS)]
        rows, _ = await self._store.page(board.name, after=seq, limit=1000)
        return [decode_event(row.body) for row in rows]

    async def _authors(self, board: OpenBoard, seqs: Collection[int]) -> dict[int, str]:
        if not seqs:
            return {}
        return {seq: row.author for seq, row in (await self._store.rows(board.name, seqs)).items()}

    async def _find(
        self, board: OpenBoard, recent: Recent, standing: Standing, head: int, *, newest: int
    ) -> Found:
        """Fetch what may be unread up to `head`: all that is urgent, and the `newest` of the rest."""
        rows = await self._pointed(board, recent, standing)
        addressed = Filter(to=standing.worker, notes_only=True, live_only=True)
        await self._collect(board, standing, head, addressed, POINTED_NOTES, rows)
        if standing.claims:
            touching = Filter(scope=standing.claims, notes_only=True, live_only=True)
            await self._collect(board, standing, head, touching, POINTED_NOTES, rows)
        complete = bool(newest) and await self._collect(board, standing, head, _LIVE_NOTES, newest, rows)
        items = await self._items(board, recent, standing, [row for row in rows.values() if row.seq <= head])
        return Found(rank(items, standing, board.spell), complete)

    async def _collect(
        self, board: OpenBoard, standing: Standing, head: int, where: Filter, wanted: int, rows: dict[int, Row]
    ) -> bool:
        """Add the newest unread notes of others that the filter keeps; tell whether these are all there are."""
        before = head + 1
        count = 0
        for _ in range(PAGES):
            page, more = await self._store.page(
                board.name, after=standing.through, before=before, limit=PAGE_ROWS, descending=True, where=where
            )
            unread = [row for row in page if row.author != standing.worker and not standing.acked(row.seq)]
            taken = unread[: wanted - count]
            rows |= {row.seq: row for row in taken}
            count += len(taken)
            if len(taken) < len(unread):
                return False
            if not more:
                return True
            before = page[-1].seq
        return False

    async def _pointed(self, board: OpenBoard, recent: Recent, standing: Standing) -> dict[int, Row]:
        """The events that concern the worker, and the notes that may take back what it knows."""
        through, known = standing.through, recent.concerning(standing.worker, standing.through)
        corrections = [
            one.seq
            for one in recent.corrections(through)
            if any(_may_count(recent, standing, target) for target in one.targets)
        ]
        seqs = {seq for seq in (*known[-PAGE_ROWS:], *corrections[-POINTED_NOTES:]) if not standing.acked(seq)}
        rows = await self._store.rows(board.name, seqs) if seqs else {}
        return rows if through >= recent.since else rows | await self._history(board, standing, recent.since)

    async def _history(self, board: OpenBoard, standing: Standing, before: int) -> dict[int, Row]:
        """The events about the worker's newest claims and patches, where they are older than what memory knows."""
        subjects = {lease.claim for lease in board.state.leases_of(standing.worker)}
        for type_ in ("CLAIM", "PATCH_SUMMARY"):
            where = Filter(types=(type_,), author=standing.worker, notes_only=True)
            page, _ = await self._store.page(board.name, limit=OWN_SUBJECTS, descending=True, where=where)
            subjects |= {row.seq for row in page}
        about = await self._store.about(board.name, subjects) if subjects else []
        return {row.seq: row for row in about if standing.through < row.seq <= before}

    async def _items(
        self, board: OpenBoard, recent: Recent, standing: Standing, rows: Sequence[Row]
    ) -> list[Item]:
        events = [(decode_event(row.body), row.body) for row in rows]
        subjects = {subject for event, _ in events for subject in _subjects(event)}
        authors = await self._authors(board, [seq for seq in subjects if recent.author(seq) is None])
        authors |= {seq: author for seq in subjects if (author := recent.author(seq)) is not None}
        return [_item(event, body, authors, standing.worker) for event, body in events]

    async def _counts(
        self, board: OpenBoard, recent: Recent, standing: Standing, *, deep: bool = True
    ) -> tuple[dict[str, int], bool]:
        """Count the unread notes by type, and tell whether that is exact; it is a lower bound where it is not."""
        counts = recent.unread(standing.worker, standing.through, standing.seqs)
        if standing.through >= recent.since:
            return counts, True
        if standing.through or not deep:
            return counts, False
        older = await self._own_older(board, standing.worker, recent.since)
        if older is None:
            return counts, False
        own = {type_: count + older.get(type_, 0) for type_, count in recent.own(standing.worker).items()}
        slack = board.state.counts.get("note.retracted", 0) + sum(seq <= recent.since for seq in standing.seqs)
        every = {type_: board.state.counts.get(type_, 0) - own[type_] - slack for type_ in NOTE_TYPES}
        return {type_: max(count, every[type_]) for type_, count in counts.items()}, slack == 0

    async def _own_older(self, board: OpenBoard, worker: str, since: int) -> dict[str, int] | None:
        """Count the worker's notes up to a seq, by type; None where there are too many to be counted."""
        known_since, own = self._own.get((board.name, worker), (-1, None))
        if known_since != since:
            own = await self._count_own(board, worker, since)
            self._own[board.name, worker] = (since, own)
            while len(self._own) > OWN_KEPT:
                del self._own[next(iter(self._own))]
        return own

    async def _count_own(self, board: OpenBoard, worker: str, upto: int) -> dict[str, int] | None:
        counts: dict[str, int] = {}
        where, after = Filter(author=worker, notes_only=True), 0
        for _ in range(PAGES):
            page, more = await self._store.page(board.name, after=after, before=upto + 1, limit=1000, where=where)
            for row in page:
                counts[row.type] = counts.get(row.type, 0) + 1
            if not more:
                return counts
            after = page[-1].seq
        return None

    # --- the prompt view -----------------------------------------------------------------------------------------------

    async def snapshot(self, board: OpenBoard, worker: str, scope: tuple[Target, ...], budget_tokens: int) -> Snapshot:
        """The prompt view of a board for a worker, as of its head. The same log and arguments give the same bytes."""
        gathering = Gathering(self._store, self._beds, board, worker, scope)
        for _ in range(GATHERINGS):
            head = board.state.seq
            material = await gathering.material(head)
            if head == board.state.seq:
                break  # else the board moved meanwhile: claims would be newer than the notes beside them
        return snapshot(material, board.state, budget_tokens=budget_tokens)

    # --- wait --------------------------------------------------------------------------------------------------------

    async def wait(self, board: OpenBoard, where: Filter, query: WaitQuery) -> dict[str, Any]:
        """Answer with the first events after a position that the filter keeps, as soon as there are any.

        Raises ProblemError `position_from_future` or `position_gone`. Cancelling frees everything.
        """
        logged, position = await self._logged(board, where, _position(board, query.after))
        bodies = [msgspec.Raw(body) for body in logged]
        timed_out = False
        if not bodies and not self._stopping:
            waiter = _Waiter(board, where, position)
            self._waiters.add(waiter)
            try:
                timed_out = not await waiter.woken(query.timeout_s)
            finally:
                self._waiters.discard(waiter)
                waiter.leave()
            bodies, position = waiter.bodies, waiter.position
        return {
            "events": bodies,
            "next": position,
            "head": board.state.seq,
            "epoch": board.row.epoch,
            "timed_out": timed_out,
        }

    async def _logged(self, board: OpenBoard, where: Filter, position: int) -> tuple[list[bytes], int]:
        """Give what is there already, or nothing and the position that the hub goes on from."""
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
                bodies = [row.body for row in rows if selects(where, decode_event(row.body), board.spell)]
                position = rows[-1].seq if more or bodies else max(upto, position)
            if bodies:
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

    def wake(self) -> None:
        """End the wait."""
        self._wake.set()

    async def woken(self, timeout_s: float) -> bool:
        """Return when the wait has ended; False where nothing ended it in time."""
        try:
            async with asyncio.timeout(timeout_s):
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
    head, oldest = board.state.seq, board.row.oldest
    if after is None:
        return head
    if after > head:
        sentence = f"{after} is past the head, {head}."
        raise ProblemError(problem("position_from_future", sentence, value=after, head=head))
    if after < oldest - 1:
        raise ProblemError(problem("position_gone", f"The oldest event kept is {oldest}.", value=after, oldest=oldest))
    return after


def _standing(board: OpenBoard, worker: str, acks: Acks) -> Standing:
    held = (lease for lease in board.state.leases_of(worker) if lease.state == "held")
    claims = tuple({target.text: target for lease in held for target in board.state.targets(lease.scope)}.values())
    return Standing(worker, acks.through, acks.seqs, claims)


class _Seq(msgspec.Struct):
    seq: int


_seq_decoder: Final = msgspec.json.Decoder(_Seq)


def _seq_of(body: msgspec.Raw) -> int:
    return _seq_decoder.decode(body).seq


def _may_count(recent: Recent, standing: Standing, target: int) -> bool:
    return standing.acked(target) or recent.author(target) in (None, standing.worker)


def _subjects(event: AnyEvent) -> tuple[int, ...]:
    found = correction(event)
    return (*((event.note,) if isinstance(event, AboutNote) else ()), *(found.targets if found else ()))


def _item(event: AnyEvent, body: bytes, authors: Mapping[int, str], worker: str) -> Item:
    subject = authors.get(event.note, "") if isinstance(event, AboutNote) else ""
    found = correction(event)
    own = found is not None and any(authors.get(target) == worker for target in found.targets)
    return Item(event, body, subject, own)


_LIVE_NOTES: Final = Filter(notes_only=True, live_only=True)
