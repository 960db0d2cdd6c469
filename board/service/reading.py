"""What a worker reads: what it has not acknowledged, and the prompt view of a board.

The core decides what is shown; this fetches what the core needs from the hub's tail, from memory and through the
store's indexes, never by reading the whole log.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from board.core.recent import Recent, correction
from board.core.selection import Filter
from board.core.snapshot import Snapshot, snapshot
from board.core.unread import Block, Item, Ranked, Rides, Standing, block_of, fit, left_out, rank
from board.service.gathering import Beds, Gathering
from board.service.views import counted
from board.store.contract import Acks
from schema.codec import decode_event
from schema.events import AboutNote
from schema.notes import NOTE_TYPES

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from board.core.scope import Target
    from board.service.boards import OpenBoard
    from board.service.questions import UnreadQuery
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

    async def unread(self, board: OpenBoard, worker: str, query: UnreadQuery) -> dict[str, Any]:
        """What the worker has not acknowledged, the most relevant first, within `limit` and `budget_tokens`."""
        standing = _standing(board, worker, await self._store.acks(board.name, worker))
        recent = await self.recent(board)
        head = recent.seq
        counts, exact = await self._counts(board, recent, standing)
        found = await self._find(board, recent, standing, head, newest=RECENT_NOTES)
        shown = fit(found.ranked, limit=query.limit, budget_tokens=query.budget_tokens)
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
        standing = _standing(board, worker, await self._store.acks(board.name, worker))
        recent = await self.recent(board)
        found = await self._find(board, recent, standing, recent.seq, newest=0)
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

    async def _find(self, board: OpenBoard, recent: Recent, standing: Standing, head: int, *, newest: int) -> Found:
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

    async def _items(self, board: OpenBoard, recent: Recent, standing: Standing, rows: Sequence[Row]) -> list[Item]:
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
        material = await gathering.material()
        for _ in range(GATHERINGS - 1):
            if material.head == board.state.seq:
                break
            material = await gathering.material()
        return snapshot(material, board.state, budget_tokens=budget_tokens)


def _standing(board: OpenBoard, worker: str, acks: Acks) -> Standing:
    held = (lease for lease in board.state.leases_of(worker) if lease.state == "held")
    claims = tuple({target.text: target for lease in held for target in board.state.targets(lease.scope)}.values())
    return Standing(worker, acks.through, acks.seqs, claims)


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
