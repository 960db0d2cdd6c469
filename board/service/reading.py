"""What a worker reads: what it has not acknowledged, and the prompt view of a board.

The core decides what is shown; this fetches what the core needs from memory, and where that does not reach back through
the store's indexes, never by reading the whole log.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from board.core.recent import correction
from board.core.selection import Filter
from board.core.snapshot import Snapshot, snapshot
from board.core.unread import Block, Item, Rides, Standing, block_of, fit, left_out, rank
from board.service.acks import AckBook
from board.service.gathering import OWN_SUBJECTS, Gathering
from board.service.shelf import Reach, Shelf
from board.service.views import counted
from board.store.contract import Acks
from schema.events import AboutNote
from schema.notes import NOTE_TYPES

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from board.core.history import Record
    from board.core.scope import Target
    from board.service.boards import OpenBoard
    from board.service.questions import UnreadQuery
    from board.store.contract import Store
    from schema.events import AnyEvent

PAGE_ROWS: Final = 256

PAGES: Final = 16
"""The most pages that are read to find what is unread among what is acknowledged."""

RECENT_NOTES: Final = 256
"""How many of the newest unread notes are weighed against each other; the older ones are counted."""

POINTED_NOTES: Final = 64
"""How many of the newest unread notes are looked for that are addressed to a worker, or touch its claims."""

GATHERINGS: Final = 5
"""How often a view is fetched again because the board moved while the store was asked; what it said is kept, so that the
second time is the last one. After that, claims may be some notes ahead."""

OWN_KEPT: Final = 4096
"""Of how many readers it is kept how much they wrote before what is known in memory."""


class Found(msgspec.Struct, frozen=True):
    """What was found unread; `complete` when there is nothing older that was not looked at."""

    items: list[Item]
    complete: bool


_REACH: Final = Reach()


class _Desk(msgspec.Struct, frozen=True):
    """What the reads of one board are made with."""

    shelf: Shelf
    gathering: Gathering


class Reading:
    """The reads of all boards of one process. `alone` says that no other node writes to the store."""

    def __init__(self, store: Store, *, alone: bool, reach: Reach = _REACH) -> None:
        self._store = store
        self._reach = reach
        self._desks: dict[str, _Desk] = {}
        self._acks = AckBook(store, alone=alone)
        self._rides = Rides()
        self._own: dict[tuple[str, str], tuple[int, dict[str, int] | None]] = {}

    async def ack(self, board: OpenBoard, worker: str, *, through: int | None, seqs: Collection[int]) -> Acks:
        """Acknowledge, durable on return; acknowledging twice changes nothing. Gives what is acknowledged now."""
        return await self._acks.ack(board.name, worker, through=through, seqs=seqs)

    async def unread(self, board: OpenBoard, worker: str, query: UnreadQuery) -> dict[str, Any]:
        """What the worker has not acknowledged, the most relevant first, within `limit` and `budget_tokens`."""
        standing = _standing(board, worker, await self._acks.of(board.name, worker))
        shelf = await self._shelf(board)
        head = shelf.window.seq
        counts, exact = await self._counts(board, shelf, standing)
        found = await self._find(board, shelf, standing, newest=RECENT_NOTES)
        ranked = rank(found.items, standing, board.spell)
        shown = fit(ranked, limit=query.limit, budget_tokens=query.budget_tokens)
        omitted = left_out({} if found.complete else counts, ranked, shown.items)
        return {
            "notes": [msgspec.Raw(one.item.body) for one in shown.items],
            "omitted": counted(omitted, exact=exact or found.complete, too_large=shown.too_large),
            "urgent": sum(one.urgent for one in ranked),
            "through": head,
            "head": head,
            "epoch": board.row.epoch,
        }

    async def urgent_block(self, board: OpenBoard, worker: str) -> Block | None:
        """The worker's urgent unread notes as a framed text, each at most three times; None where there is none."""
        standing = _standing(board, worker, await self._acks.of(board.name, worker))
        shelf = await self._shelf(board)
        found = await self._find(board, shelf, standing, newest=0, rides_only=True)
        riding = [one for one in rank(found.items, standing, board.spell) if one.urgent]
        block = block_of(riding)
        if block is not None:
            self._rides.count(board.name, worker, block.seqs)
        return block

    async def unread_counts(self, board: OpenBoard) -> dict[str, dict[str, Any]]:
        """How much each worker of a board has not acknowledged: `unread`, and `unread_at_least` where it may be more."""
        shelf = await self._shelf(board)
        acks = await self._store.all_acks(board.name)
        counts: dict[str, dict[str, Any]] = {}
        for worker in board.presence.names:
            standing = _standing(board, worker, acks.get(worker, Acks()))
            notes, exact = await self._counts(board, shelf, standing, deep=False)
            events = sum(not standing.acked(seq) for seq in shelf.recent.concerning(worker, standing.through))
            told: dict[str, Any] = {"unread": sum(notes.values()) + events}
            counts[worker] = told if exact else told | {"unread_at_least": True}
        return counts

    async def _shelf(self, board: OpenBoard) -> Shelf:
        """What is known of a board, brought up to its head."""
        shelf = self._desk(board).shelf
        await shelf.catch_up()
        return shelf

    def _desk(self, board: OpenBoard) -> _Desk:
        desk = self._desks.get(board.name)
        if desk is None:
            shelf = Shelf(self._store, board, self._reach)
            desk = self._desks[board.name] = _Desk(shelf, Gathering(board, shelf))
        return desk

    async def _find(
        self, board: OpenBoard, shelf: Shelf, standing: Standing, *, newest: int, rides_only: bool = False
    ) -> Found:
        """Fetch what may be unread now: all that may be urgent, and the `newest` of the rest.

        With `rides_only` what has ridden along often enough is left out.
        """
        head = shelf.window.seq
        found = await self._pointed(board, shelf, standing)
        addressed = Filter(to=standing.worker, notes_only=True, live_only=True)
        await self._collect(shelf, standing, head, addressed, POINTED_NOTES, found)
        if standing.claims:
            touching = Filter(scope=standing.claims, notes_only=True, live_only=True)
            await self._collect(shelf, standing, head, touching, POINTED_NOTES, found)
        complete = bool(newest) and await self._collect(shelf, standing, head, _LIVE_NOTES, newest, found)
        records = [record for record in found.values() if record.seq <= head]
        if rides_only:
            records = [record for record in records if self._rides.may(board.name, standing.worker, record.seq)]
        return Found(await self._items(shelf, standing, records), complete)

    @staticmethod
    async def _collect(
        shelf: Shelf, standing: Standing, head: int, where: Filter, wanted: int, found: dict[int, Record]
    ) -> bool:
        """Add the newest unread notes of others that the filter keeps; tell whether these are all there are."""
        through, rows, count = head, wanted, 0
        for _ in range(PAGES):
            page = await shelf.newest(where, standing.through, through, rows)
            unread = [
                one for one in page.records if one.event.author != standing.worker and not standing.acked(one.seq)
            ]
            taken = unread[: wanted - count]
            found |= {record.seq: record for record in taken}
            count += len(taken)
            if len(taken) < len(unread):
                return False
            if page.whole:
                return True
            through, rows = page.records[-1].seq - 1, PAGE_ROWS
        return False

    async def _pointed(self, board: OpenBoard, shelf: Shelf, standing: Standing) -> dict[int, Record]:
        """The events that concern the worker, and the notes that may take back what it knows."""
        recent, through = shelf.recent, standing.through
        known = recent.concerning(standing.worker, through)[-PAGE_ROWS:]
        corrections = recent.corrections(standing.worker, through, standing.seqs, limit=POINTED_NOTES)
        found = await shelf.rows({seq for seq in (*known, *corrections) if not standing.acked(seq)})
        if through < recent.since:
            found |= await self._history(board, shelf, standing)
        return found

    @staticmethod
    async def _history(board: OpenBoard, shelf: Shelf, standing: Standing) -> dict[int, Record]:
        """The events about the worker's newest claims and patches, where they are older than what memory knows."""
        before = shelf.recent.since
        subjects = {lease.claim for lease in board.state.leases_of(standing.worker)}
        for type_ in ("CLAIM", "PATCH_SUMMARY"):
            where = Filter(types=(type_,), author=standing.worker, notes_only=True)
            page = await shelf.newest(where, 0, shelf.window.seq, OWN_SUBJECTS)
            subjects |= {record.seq for record in page.records}
        about = await shelf.about(subjects)
        return {record.seq: record for record in about if standing.through < record.seq <= before}

    @staticmethod
    async def _items(shelf: Shelf, standing: Standing, records: Iterable[Record]) -> list[Item]:
        told = [(record, _subjects(record.event)) for record in records]
        asked = {subject for _, subjects in told for subject in subjects}
        authors = {seq: author for seq in asked if (author := shelf.recent.author(seq)) is not None}
        unknown = await shelf.rows(asked - authors.keys())
        authors |= {seq: record.event.author for seq, record in unknown.items()}
        return [_item(record, authors, standing.worker) for record, _ in told]

    async def _counts(
        self, board: OpenBoard, shelf: Shelf, standing: Standing, *, deep: bool = True
    ) -> tuple[dict[str, int], bool]:
        """Count the unread notes by type, and tell whether that is exact; it is a lower bound where it is not."""
        recent = shelf.recent
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
        gathering = self._desk(board).gathering
        material = await gathering.material(worker, scope)
        for _ in range(GATHERINGS - 1):
            if material.head == board.state.seq:
                break
            material = await gathering.material(worker, scope)
        return snapshot(material, board.state, budget_tokens=budget_tokens)


def _standing(board: OpenBoard, worker: str, acks: Acks) -> Standing:
    held = (lease for lease in board.state.leases_of(worker) if lease.state == "held")
    claims = tuple({target.text: target for lease in held for target in board.state.targets(lease.scope)}.values())
    return Standing(worker, max(acks.through, board.oldest - 1), acks.seqs, claims)


def _subjects(event: AnyEvent) -> tuple[int, ...]:
    found = correction(event)
    return (*((event.note,) if isinstance(event, AboutNote) else ()), *(found.targets if found else ()))


def _item(record: Record, authors: Mapping[int, str], worker: str) -> Item:
    event = record.event
    subject = authors.get(event.note, "") if isinstance(event, AboutNote) else ""
    found = correction(event)
    own = found is not None and any(authors.get(target) == worker for target in found.targets)
    return Item(event, record.body, subject, own)


_LIVE_NOTES: Final = Filter(notes_only=True, live_only=True)
