"""What this process knows of one board's log without reading it, and what the store says of the rest.

The newest events are in memory (`board.service.window`, and `board.core.recent` for what they mean to each worker),
followed as the board moves. Of what is older, which never changes but by a retraction, the store's answers are kept. So
a read costs the store something once for each reader, and then only when memory forgets its older half.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final

import msgspec

from board.core.recent import Recent
from board.service.boards import records_of
from board.service.window import EVENTS, Window, subjects_of
from schema.events import ClaimRenewed, Note, NoteRetracted

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from board.core.history import Record
    from board.core.selection import Filter
    from board.service.boards import OpenBoard
    from board.store.contract import Store

NOTES_KEPT: Final = 16_384
"""How many notes and answers of the store are kept of each board: 40 MB of long notes at the most."""

FATES_KEPT: Final = 16_384
"""Of how many older notes and claims it is kept what became of them."""

STALE_EVENTS: Final = 1024
"""What is kept is brought up to date when it is this far behind, so that memory does not forget what lies between."""


class Reach(msgspec.Struct, frozen=True):
    """How far memory reaches.

    `primed` are the newest events that are looked at when a board is first read from: the rest of the log is found by
    index. `window` is how many are kept whole at the most; the older half is forgotten over it.
    """

    primed: int = 4096
    window: int = EVENTS


class Page(msgspec.Struct, frozen=True):
    """Notes as of an event, the newest first; `whole` when there are no more of them."""

    records: tuple[Record, ...]
    whole: bool
    upto: int


class _Fate(msgspec.Struct, frozen=True):
    """What became of a note or claim, as of an event."""

    records: tuple[Record, ...]
    upto: int


_REACH: Final = Reach()


class Shelf:
    """The reads of one board. `catch_up` before the first of them; what they give is as of then."""

    def __init__(self, store: Store, board: OpenBoard, reach: Reach = _REACH) -> None:
        self._store = store
        self._board = board
        self._reach = reach
        self._pages: OrderedDict[tuple[Filter, int, int, bool], Page] = OrderedDict()
        self._weight = 0
        self._fates: dict[int, _Fate] = {}
        self._rows: dict[int, Record | None] = {}
        self.removals = 0
        """How often notes were taken back, or memory began anew: what was made of it before may hold what is gone."""
        self._start()

    def _start(self) -> None:
        self._oldest = self._board.oldest
        since = max(0, self._board.state.seq - self._reach.primed, self._oldest - 1)
        self.window = Window(since, self._board.row.settings, events=self._reach.window)
        self.recent = Recent(since)
        self._begin_anew()

    def _begin_anew(self) -> None:
        self.removals += 1
        self._pages.clear()
        self._weight = 0
        self._fates.clear()
        self._rows.clear()

    # --- following the board -----------------------------------------------------------------------------------------

    async def catch_up(self) -> None:
        """Follow the board up to its head. Where that is in memory it happens at once, without another turn of the loop."""
        if self._board.state.seq - self.window.seq > self._reach.primed:
            self._start()
        self._forget_trimmed()
        while self.window.seq < self._board.state.seq:
            after = self.window.seq
            records = await self._records_after(after)
            if records and records[0].seq > after + 1:  # another node trimmed the log
                await self._board.learn_oldest()
                self._forget_trimmed()
                continue
            authors = await self._authors({seq for one in records for seq in self.recent.unknown_subjects(one.event)})
            for record in records:
                if record.seq == self.window.seq + 1:  # another reader may have been quicker while the log was read
                    self._add(record, authors)

    def _forget_trimmed(self) -> None:
        """What the log no longer keeps is not shown from memory either."""
        if self._board.oldest == self._oldest:
            return
        self._oldest = self._board.oldest
        self.window.forget(self._oldest - 1)
        self.recent.forget(self._oldest - 1)
        self._begin_anew()

    def _add(self, record: Record, authors: Mapping[int, str]) -> None:
        event = record.event
        self.recent.add(event, authors)
        self.window.add(record)
        self.removals += isinstance(event, NoteRetracted)

    async def _records_after(self, seq: int) -> Sequence[Record]:
        tail = self._board.channel.tail
        if tail.reaches <= seq < tail.head:
            return tail.after(seq, limit=self._reach.primed)
        rows, _ = await self._store.page(self._board.name, after=seq, limit=1000)
        return records_of(rows)

    async def _authors(self, seqs: Collection[int]) -> dict[int, str]:
        if not seqs:
            return {}
        return {seq: record.event.author for seq, record in (await self.rows(seqs)).items()}

    # --- reading -----------------------------------------------------------------------------------------------------

    async def newest(self, where: Filter, after: int, through: int, limit: int) -> Page:
        """The newest notes after one seq and up to another that a filter of notes keeps, at most `limit`.

        What the store says is kept and carried on, for as long as it is asked again before memory has moved on.
        """
        after = max(after, self._oldest - 1)
        if after >= self.window.since:
            return _page((), self.window.newest(where, after, through, limit + 1), limit, through, whole=True)
        key = (where, after, limit, through == self.window.seq)
        known = self._pages.get(key)
        page = self._carried_on(known, where, through, limit) if known is not None else None
        if page is None:
            oldest = self._oldest
            page = await self._read_page(where, after, through, limit)
            if oldest != self._oldest:
                return page
        self._keep(key, page)
        return page

    def _carried_on(self, page: Page, where: Filter, through: int, limit: int) -> Page | None:
        """Bring a page up to an event; None where memory does not tell how it reads there."""
        if not self.window.since <= page.upto <= through:
            return None
        if page.upto == through and not self.window.has_lost(page.records):
            return page
        records = self.window.without_lost(page.records) if where.live_only else page.records
        if len(records) < len(page.records) and not page.whole:
            return None
        newer = self.window.newest(where, page.upto, through, limit + 1)
        return _page(records, newer, limit, through, whole=page.whole)

    async def _read_page(self, where: Filter, after: int, through: int, limit: int) -> Page:
        rows, more = await self._store.page(
            self._board.name, after=after, before=through + 1, limit=limit, descending=True, where=where
        )
        return Page(tuple(map(self._shared, records_of(rows))), not more, through)

    def _shared(self, record: Record) -> Record:
        """The same event as it is in memory already."""
        return self.window.get(record.seq) or record

    def _keep(self, key: tuple[Filter, int, int, bool], page: Page) -> None:
        before = self._pages.pop(key, None)
        self._weight += 1 + len(page.records) - (1 + len(before.records) if before is not None else 0)
        self._pages[key] = page
        while self._weight > NOTES_KEPT:
            _, gone = self._pages.popitem(last=False)
            self._weight -= 1 + len(gone.records)

    async def rows(self, seqs: Collection[int]) -> dict[int, Record]:
        """The events with these seqs; those that are not there are left out."""
        found = {seq: self.window.get(seq) for seq in seqs}
        older = [seq for seq in seqs if self._oldest <= seq <= self.window.since]
        if older:
            found |= await self._older_rows(older)
        return {seq: record for seq, record in found.items() if record is not None}

    async def _older_rows(self, seqs: Collection[int]) -> dict[int, Record | None]:
        found = {seq: self._rows[seq] for seq in seqs if seq in self._rows}
        missing = [seq for seq in seqs if seq not in found]
        if missing:
            oldest = self._oldest
            rows = await self._store.rows(self._board.name, missing)
            read = dict.fromkeys(missing) | {record.seq: record for record in records_of(list(rows.values()))}
            if oldest == self._oldest:
                if len(self._rows) + len(read) > NOTES_KEPT:
                    self._rows.clear()
                self._rows |= read
            found |= read
        return found

    async def about(self, seqs: Collection[int]) -> list[Record]:
        """The events about any of these seqs, in order; renewals of claims are left out."""
        found = {record.seq: record for record in self.window.about(seqs)}
        missing: list[int] = []
        for seq in seqs:
            if self._oldest <= seq <= self.window.since:
                fate = self._fate(seq)
                found |= {record.seq: record for record in fate.records} if fate is not None else {}
                missing += [seq] if fate is None else []
        if missing:
            found |= {record.seq: record for record in await self._read_fates(missing)}
        return [found[seq] for seq in sorted(found)]

    def _fate(self, seq: int) -> _Fate | None:
        """What is kept of a note or claim, where memory knows all that came after it."""
        fate = self._fates.get(seq)
        if fate is None or fate.upto < self.window.since:
            return None
        if self.window.seq - fate.upto > STALE_EVENTS:
            newer = [record for record in self.window.about({seq}) if record.seq > fate.upto]
            fate = self._fates[seq] = _Fate((*fate.records, *newer), self.window.seq)
        return fate

    async def _read_fates(self, seqs: Sequence[int]) -> list[Record]:
        upto, oldest = self.window.seq, self._oldest
        rows = await self._store.about(self._board.name, seqs)
        records = [one for one in records_of(rows) if one.seq >= oldest and not isinstance(one.event, ClaimRenewed)]
        if oldest == self._oldest:
            if len(self._fates) + len(seqs) > FATES_KEPT:
                self._fates.clear()
            self._fates |= {seq: _Fate(fates, upto) for seq, fates in _by_subject(seqs, records).items()}
        return records


def _page(older: Sequence[Record], newer: Sequence[Record], limit: int, through: int, *, whole: bool) -> Page:
    records = (*newer, *older)
    return Page(records[:limit], whole and len(records) <= limit, through)


def _by_subject(seqs: Iterable[int], records: Iterable[Record]) -> dict[int, tuple[Record, ...]]:
    found: dict[int, list[Record]] = {seq: [] for seq in seqs}
    for record in records:
        for subject in subjects_of(record.event):
            if subject in found:
                found[subject].append(record)
    return {seq: tuple(fates) for seq, fates in found.items()}


def notes_of(records: Iterable[Record]) -> tuple[Note, ...]:
    """The notes among events."""
    return tuple(record.event for record in records if isinstance(record.event, Note))
