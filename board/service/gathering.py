"""What a snapshot is made of, fetched: a bounded number of notes, through the store's indexes.

The notes that a level chooses from are the same for every reader, and for as long as the level's bound stands, so they
are kept: a board's readers share them, and only what is the reader's own is fetched for each.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final

import msgspec

from board.core.recent import CORRECTING
from board.core.selection import Filter
from board.core.snapshot import BOUNDS, TYPES, Bed, Holding, Material
from schema.codec import decode_event
from schema.events import (
    AboutClaim,
    ClaimExpired,
    ClaimGranted,
    ClaimNarrowed,
    ClaimReleased,
    ClaimTransferred,
    Note,
    NoteRetracted,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from board.core.scope import Target
    from board.service.boards import OpenBoard
    from board.store.contract import Row, Store
    from schema.events import AnyEvent

NEWEST: Final = 48
"""How many notes of each type a level chooses from: several times as many as fit into the default budget."""

POINTED: Final = 32
"""How many notes a level chooses from beside these that are addressed to the reader, or touch what it asked or holds."""

SCOPED: Final = 96
"""How many notes a level chooses from where a scope was asked for."""

CLAIMS: Final = 16
"""How many of the reader's newest claims tell what it was interested in."""

BEDS_KEPT: Final = 64

_note: Final = msgspec.json.Decoder(Note).decode


class Beds:
    """The newest notes of each type in a stretch of a log, kept for the boards' newest stretches."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._kept: OrderedDict[tuple[str, int, int, int], Found] = OrderedDict()

    async def newest(self, board: OpenBoard, after: int, through: int) -> Found:
        """Give them, the newest first of each type; none that was retracted."""
        # A retraction takes a note out of a stretch that was closed before.
        key = (board.row.epoch, after, through, board.state.counts.get("note.retracted", 0))
        found = self._kept.get(key)
        if found is None:
            found = self._kept[key] = await self._read(board, after, through)
        self._kept.move_to_end(key)
        while len(self._kept) > BEDS_KEPT:
            self._kept.popitem(last=False)
        return found

    async def _read(self, board: OpenBoard, after: int, through: int) -> Found:
        found = Found()
        for type_ in TYPES:
            where = Filter(types=(type_,), notes_only=True, live_only=True)
            page = await self._store.page(
                board.name, after=after, before=through + 1, limit=NEWEST, descending=True, where=where
            )
            found = found.plus(page)
        return found


class Found(msgspec.Struct, frozen=True):
    """Notes that were found; `whole` when none that was looked for is missing."""

    notes: tuple[Note, ...] = ()
    whole: bool = True

    def plus(self, page: tuple[Sequence[Row], bool]) -> Found:
        """Add a page of notes, without claims."""
        rows, more = page
        notes = tuple(_note(row.body) for row in rows if row.type in TYPES)
        return Found(self.notes + notes, self.whole and not more)


class Gathering:
    """Fetches for one reader of one board."""

    def __init__(self, store: Store, beds: Beds, board: OpenBoard, worker: str, scope: tuple[Target, ...]) -> None:
        self._store = store
        self._beds = beds
        self._board = board
        self._worker = worker
        self._scope = scope

    async def material(self) -> Material:
        """Fetch all that a view as of the board's head needs."""
        head = self._board.state.seq
        holdings = await self._holdings(head)
        bounds = [head - head % size for size in BOUNDS]
        beds: list[Bed] = []
        whole = True
        for after, through in zip((0, *bounds), bounds, strict=False):
            found = await self._bed(after, through, holdings) if through > after else Found()
            beds.append(Bed(after, through, found.notes))
            whole &= found.whole
        fresh = await self._fresh(bounds[-1], head)
        touching = await self._touching_now(head)
        seen = {note.seq: note for note in (*(note for bed in beds for note in bed.notes), *fresh.notes, *touching)}
        history, refuted = await self._history(seen)
        return Material(
            board=self._board.name,
            worker=self._worker,
            head=head,
            beds=tuple(beds),
            fresh=fresh.notes,
            aside=(*touching, *refuted),
            history=tuple(history),
            holdings=tuple(holdings),
            scope=self._scope,
            whole=whole and fresh.whole,
        )

    async def _bed(self, after: int, through: int, holdings: Sequence[Holding]) -> Found:
        if self._scope:
            found = await self._page(after, through, Filter(scope=self._scope), SCOPED)
        else:
            found = await self._beds.newest(self._board, after, through)
        held = tuple(target for one in holdings if one.lasts(through) for target in one.targets)
        pointed = [Filter(to=self._worker), *([Filter(scope=held)] if held and not self._scope else [])]
        notes = {note.seq: note for note in found.notes}
        for where in pointed:
            more = await self._page(after, through, where, POINTED)
            notes |= {note.seq: note for note in more.notes}
        return Found(tuple(notes.values()), found.whole)

    async def _fresh(self, after: int, head: int) -> Found:
        wheres = [Filter(scope=self._scope), Filter(to=self._worker)] if self._scope else [Filter()]
        notes: dict[int, Note] = {}
        for where in wheres:
            found = await self._page(after, head, where, BOUNDS[-1])
            notes |= {note.seq: note for note in found.notes}
        return Found(tuple(notes[seq] for seq in sorted(notes)))

    async def _touching_now(self, head: int) -> tuple[Note, ...]:
        leases = self._board.state.leases_of(self._worker)
        held = tuple(target for lease in leases for target in self._board.state.targets(lease.scope))
        if not held or self._scope:
            return ()
        return (await self._page(0, head, Filter(scope=held), POINTED)).notes

    async def _page(self, after: int, through: int, where: Filter, limit: int) -> Found:
        where = msgspec.structs.replace(where, types=TYPES, notes_only=True, live_only=True)
        page = await self._store.page(
            self._board.name, after=after, before=through + 1, limit=limit, descending=True, where=where
        )
        return Found().plus(page)

    async def _history(self, notes: dict[int, Note]) -> tuple[list[AnyEvent], list[Note]]:
        """The events about the notes, and the live notes that these refute and that are not among them."""
        refuted = {ref.seq for note in notes.values() for ref in note.refs if ref.rel in CORRECTING} - notes.keys()
        asked = notes.keys() | refuted
        rows = await self._store.about(self._board.name, asked) if asked else []
        events = [decode_event(row.body) for row in rows]
        gone = {event.note for event in events if isinstance(event, NoteRetracted)}
        found = await self._store.rows(self._board.name, refuted - gone) if refuted - gone else {}
        return events, [_note(row.body) for row in found.values() if row.type in TYPES]

    async def _holdings(self, head: int) -> list[Holding]:
        """What the reader held, and when, by its newest claims and those that it has now."""
        if self._scope:
            return []
        where = Filter(types=("CLAIM",), author=self._worker, notes_only=True)
        page, _ = await self._store.page(self._board.name, before=head + 1, limit=CLAIMS, descending=True, where=where)
        leases = {lease.claim for lease in self._board.state.leases_of(self._worker)}
        given = await self._store.rows(self._board.name, leases - {row.seq for row in page})
        claims = {row.seq: _note(row.body) for row in (*page, *given.values())}
        rows = await self._store.about(self._board.name, claims) if claims else []
        events = [decode_event(row.body) for row in rows if row.kind in _MOVING]
        return [one for claim in claims.values() for one in self._lives(claim, events)]

    def _lives(self, claim: Note, events: Iterable[AnyEvent]) -> list[Holding]:
        """The stretches in which the reader held a claim, each with what it held then."""
        holder, scope = claim.author, claim.scope
        since = claim.seq if claim.state != "waiting" else None
        held: list[Holding] = []
        for event in events:
            if not isinstance(event, AboutClaim) or event.claim != claim.seq:
                continue
            if since is not None and holder == self._worker:
                held.append(Holding(since, event.seq, self._board.state.targets(scope)))
            holder = event.holder
            scope = event.scope if isinstance(event, ClaimNarrowed) else scope
            since = None if isinstance(event, (ClaimReleased, ClaimExpired)) else event.seq
        if since is not None and holder == self._worker:
            held.append(Holding(since, None, self._board.state.targets(scope)))
        return held


_MOVING: Final = frozenset(
    str(kind.__struct_config__.tag)
    for kind in (ClaimGranted, ClaimNarrowed, ClaimReleased, ClaimExpired, ClaimTransferred)
)
