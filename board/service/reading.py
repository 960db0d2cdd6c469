"""What a worker reads: what it has not acknowledged, what it waits for, and the prompt view of a board.

The core decides what is shown; this fetches what the core needs from the hub's tail, from memory and through the
store's indexes, never by reading the whole log.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

import msgspec

from board.core.recent import Recent
from board.core.selection import Filter, selects
from board.core.unread import Block, Item, Ranked, Rides, Standing, block_of, fit, left_out, rank
from board.store.contract import Acks
from schema.codec import decode_event
from schema.codes import ProblemError, problem
from schema.events import AboutNote
from schema.notes import NOTE_TYPES

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Collection, Mapping, Sequence

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
        counted, exact = await self._counts(board, recent, standing)
        omitted = left_out({} if found.complete else counted, found.ranked, shown.items)
        return {
            "notes": [msgspec.Raw(one.item.body) for one in shown.items],
            "omitted": _omitted(omitted, shown.too_large, exact=exact or found.complete),
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
            notes, exact = await self._counts(board, recent, standing)
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
        if seq >= tail.reaches:
            return [record.event for record in tail.after(seq)]
        rows, _ = await self._store.page(board.name, after=seq, limit=1000)
        return [decode_event(row.body) for row in rows]

    async def _authors(self, board: OpenBoard, seqs: Collection[int]) -> dict[int, str]:
        if not seqs:
            return {}
        return {seq: row.author for seq, row in (await self._store.rows(board.name, seqs)).items()}

    async def _find(
        self, board: OpenBoard, recent: Recent, standing: Standing, head: int, *, newest: int
    ) -> Found:
        rows: dict[int, Row] = {}
        addressed = Filter(to=standing.worker, notes_only=True, live_only=True)
        complete = await self._collect(board, standing, head, addressed, POINTED_NOTES, rows)
        if standing.claims:
            touching = Filter(scope=standing.claims, notes_only=True, live_only=True)
            complete &= await self._collect(board, standing, head, touching, POINTED_NOTES, rows)
        pointed = await self._pointed(board, recent, standing)
        rows |= await self._store.rows(board.name, pointed - rows.keys()) if pointed - rows.keys() else {}
        if newest:
            complete = await self._collect(board, standing, head, _LIVE_NOTES, newest, rows)
        items = await self._items(board, recent, standing, [row for row in rows.values() if row.seq <= head])
        return Found(rank(items, standing, board.spell), complete)

    async def _collect(
        self, board: OpenBoard, standing: Standing, head: int, where: Filter, wanted: int, rows: dict[int, Row]
    ) -> bool:
        """Add the newest unread notes of others that the filter keeps; tell whether those are all."""
        count = 0
        async for row in self._newest_first(board, standing.through, head, where):
            if row.author == standing.worker or standing.acked(row.seq):
                continue
            if count == wanted:
                return False
            rows[row.seq] = row
            count += 1
        return True

    async def _newest_first(self, board: OpenBoard, after: int, head: int, where: Filter) -> AsyncIterator[Row]:
        before = head + 1
        for _ in range(PAGES):
            rows, more = await self._store.page(
                board.name, after=after, before=before, limit=PAGE_ROWS, descending=True, where=where
            )
            for row in rows:
                yield row
            if not more:
                return
            before = rows[-1].seq
