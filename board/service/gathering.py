"""What a snapshot is made of, fetched: a bounded number of notes, from memory or through the store's indexes.

The notes that a level chooses from are the same for every reader, and for as long as the level's bound stands; those
since then only become more. So the readers of a board share them, and only what is a reader's own is looked up for each.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final

import msgspec

from board.core.levels import BOUNDS, TYPES, Bed, Fresh, Holding, Reader
from board.core.pool import Lines
from board.core.recent import CORRECTING
from board.core.selection import Filter
from board.core.snapshot import Material, Stretch
from board.service.shelf import notes_of
from schema.events import (
    AboutClaim,
    AboutNote,
    ClaimExpired,
    ClaimGranted,
    ClaimNarrowed,
    ClaimReleased,
    ClaimTransferred,
    NoteRetracted,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from board.core.pool import Pool
    from board.core.scope import Target
    from board.service.boards import OpenBoard
    from board.service.shelf import Shelf
    from schema.events import AnyEvent, Note

NEWEST: Final = 48
"""How many notes of each type a level chooses from: several times as many as fit into the default budget."""

POINTED: Final = 32
"""How many notes a level chooses from beside these that are addressed to the reader, or touch what it asked or holds."""

SCOPED: Final = 96
"""How many notes a level chooses from where a scope was asked for."""

CLAIMS: Final = 16
"""How many of the reader's newest claims tell what it was interested in."""

OWN_SUBJECTS: Final = 32
"""How many of a worker's newest claims, and patches, are looked up: for both ways to read, so that one answer serves both."""

BEDS_KEPT: Final = 32
"""How many stretches are kept of a board, for all of its readers and for some scopes; each holds 192 notes at the most."""


class _Shared(msgspec.Struct, frozen=True):
    """What a level chooses from for every reader; `whole` when none that was looked for is missing.

    `early` is what had become of the notes by then.
    """

    bed: Bed
    whole: bool
    early: tuple[AnyEvent, ...]


class _Page(msgspec.Struct):
    """The notes since the levels, up to an event; `key` tells when they must be gathered anew."""

    key: tuple[object, ...]
    fresh: Fresh
    early: tuple[AnyEvent, ...]
    upto: int


class Gathering:
    """Fetches for the readers of one board."""

    def __init__(self, board: OpenBoard, shelf: Shelf) -> None:
        self._board = board
        self._shelf = shelf
        self._lines = Lines()
        self._beds: OrderedDict[tuple[object, ...], _Shared] = OrderedDict()
        self._page: _Page | None = None

    async def material(self, worker: str, scope: tuple[Target, ...]) -> Material:
        """Fetch all that a view as of the board's head needs. While memory has it all, the board cannot move meanwhile."""
        await self._shelf.catch_up()
        head = self._shelf.window.seq
        reader = Reader(worker, () if scope else tuple(await self._holdings(worker, head)), scope)
        bounds = [head - head % size for size in BOUNDS]
        shared = [await self._bed(scope, after, through) for after, through in zip((0, *bounds), bounds, strict=False)]
        stretches = tuple([await self._stretch(one.bed, reader) for one in shared])
        page = await (self._scoped_page(reader, bounds[-1], head) if scope else self._shared_page(bounds[-1], head))
        pools = (*(one.bed for one in shared), page.fresh)
        own = {note.seq: note for one in stretches for note in one.own}
        touching = [note for note in await self._touching_now(reader, head) if not _holds(pools, own, note.seq)]
        own |= {note.seq: note for note in touching}
        early = (event for one in (*shared, page) for event in one.early)
        history, refuted = await self._history(pools, own, early)
        return Material(
            board=self._board.name,
            reader=reader,
            head=head,
            stretches=stretches,
            fresh=page.fresh,
            aside=(*touching, *refuted),
            history=history,
            whole=all(one.whole for one in shared),
            lines=self._lines,
        )

    def _targets(self, scope: tuple[str, ...]) -> tuple[Target, ...]:
        return self._board.state.targets(scope)

    @property
    def _version(self) -> tuple[int, int]:
        return self._shelf.window.since, self._shelf.removals

    # --- the levels --------------------------------------------------------------------------------------------------

    async def _bed(self, scope: tuple[Target, ...], after: int, through: int) -> _Shared:
        """What every reader's level chooses from in a stretch."""
        key = (scope, after, through, *self._version)
        shared = self._beds.get(key)
        if shared is None:
            shared = self._beds[key] = await self._made_bed(scope, after, through)
        self._beds.move_to_end(key)
        while len(self._beds) > BEDS_KEPT:
            self._beds.popitem(last=False)
        return shared

    async def _made_bed(self, scope: tuple[Target, ...], after: int, through: int) -> _Shared:
        wheres, limit = ([_live(scope=scope)], SCOPED) if scope else ([_live(types=(one,)) for one in TYPES], NEWEST)
        pages = [await self._shelf.newest(where, after, through, limit) for where in wheres] if through > after else []
        bed = Bed(after, through, (note for page in pages for note in notes_of(page.records)), self._targets)
        return _Shared(bed, all(page.whole for page in pages), await self._early(bed))

    async def _early(self, pool: Pool) -> tuple[AnyEvent, ...]:
        return tuple(record.event for record in await self._shelf.about(pool.notes))

    async def _stretch(self, bed: Bed, reader: Reader) -> Stretch:
        """A stretch with the notes that are addressed to the reader, or touch what it held at the end of it."""
        if bed.through == bed.after:
            return Stretch(bed)
        held = () if reader.scope else reader.interests(bed.through)
        wheres = [_live(to=reader.worker), *([_live(scope=held)] if held else [])]
        pages = [await self._shelf.newest(where, bed.after, bed.through, POINTED) for where in wheres]
        own = {note.seq: note for page in pages for note in notes_of(page.records) if note.seq not in bed.notes}
        return Stretch(bed, tuple(own.values()))

    # --- the page ----------------------------------------------------------------------------------------------------

    async def _shared_page(self, after: int, head: int) -> _Page:
        """The notes since the levels, for every reader: those that came since the last one asked are added."""
        page, key = self._page, (after, *self._version)
        if page is None or page.key != key or page.upto > head:
            page = self._page = await self._made_page(key, after, head, [_live()])
        elif page.upto < head:
            for note in reversed(notes_of(self._shelf.window.newest(_live(), page.upto, head, BOUNDS[-1]))):
                page.fresh.add(note)
            page.upto = head
        return page

    async def _scoped_page(self, reader: Reader, after: int, head: int) -> _Page:
        return await self._made_page((), after, head, [_live(scope=reader.scope), _live(to=reader.worker)])

    async def _made_page(self, key: tuple[object, ...], after: int, head: int, wheres: Sequence[Filter]) -> _Page:
        pages = [await self._shelf.newest(where, after, head, BOUNDS[-1]) for where in wheres]
        notes = {note.seq: note for page in pages for note in notes_of(page.records)}
        fresh = Fresh(after, (notes[seq] for seq in sorted(notes)), self._targets)
        return _Page(key, fresh, await self._early(fresh), head)

    # --- what is beside them -----------------------------------------------------------------------------------------

    async def _touching_now(self, reader: Reader, head: int) -> tuple[Note, ...]:
        leases = self._board.state.leases_of(reader.worker)
        held = tuple(target for lease in leases for target in self._targets(lease.scope))
        if not held or reader.scope:
            return ()
        return notes_of((await self._shelf.newest(_live(scope=held), 0, head, POINTED)).records)

    async def _history(
        self, pools: Sequence[Pool], own: Mapping[int, Note], early: Iterable[AnyEvent]
    ) -> tuple[tuple[AnyEvent, ...], list[Note]]:
        """What became of the notes, and the live notes that these refute and that are not among them."""
        speaking = (*(note for pool in pools for note in pool.speaking), *own.values())
        corrected = {ref.seq for note in speaking for ref in note.refs if ref.rel in CORRECTING}
        refuted = {seq for seq in corrected if not _holds(pools, own, seq)}
        late = (record.event for pool in pools for record in self._shelf.window.fates(pool.notes))
        about = [record.event for record in await self._shelf.about({*own, *refuted})] if own or refuted else []
        gone = {event.note for event in about if isinstance(event, NoteRetracted)}
        found = await self._shelf.rows(refuted - gone) if refuted - gone else {}
        history = {event.seq: event for event in (*early, *late, *about) if isinstance(event, AboutNote)}
        notes = [note for note in notes_of(found.values()) if note.type in TYPES]
        return tuple(history[seq] for seq in sorted(history)), notes

    async def _holdings(self, worker: str, head: int) -> list[Holding]:
        """What the reader held, and when, by its newest claims and those that it has now."""
        where = Filter(types=("CLAIM",), author=worker, notes_only=True)
        claims = {
            record.seq: record for record in (await self._shelf.newest(where, 0, head, OWN_SUBJECTS)).records[:CLAIMS]
        }
        given = [lease.claim for lease in self._board.state.leases_of(worker) if lease.claim not in claims]
        if given:
            claims |= await self._shelf.rows(given)
        if not claims:
            return []
        events: dict[int, list[AboutClaim]] = {claim: [] for claim in claims}
        for record in await self._shelf.about(claims):
            if isinstance(record.event, _MOVING):
                events[record.event.claim].append(record.event)
        return [one for claim in notes_of(claims.values()) for one in self._lives(worker, claim, events[claim.seq])]

    def _lives(self, worker: str, claim: Note, events: Iterable[AboutClaim]) -> list[Holding]:
        """The stretches in which a worker held a claim, each with what it held then."""
        holder, scope = claim.author, claim.scope
        since = claim.seq if claim.state != "waiting" else None
        held: list[Holding] = []
        for event in events:
            if since is not None and holder == worker:
                held.append(Holding(since, event.seq, self._targets(scope)))
            holder = event.holder
            scope = event.scope if isinstance(event, ClaimNarrowed) else scope
            since = None if isinstance(event, (ClaimReleased, ClaimExpired)) else event.seq
        if since is not None and holder == worker:
            held.append(Holding(since, None, self._targets(scope)))
        return held


def _live(*, types: tuple[str, ...] = TYPES, to: str = "", scope: tuple[Target, ...] = ()) -> Filter:
    """Ask for notes that stand on levels and the page."""
    return Filter(types=types, to=to, scope=scope, notes_only=True, live_only=True)


def _holds(pools: Iterable[Pool], own: Mapping[int, Note], seq: int) -> bool:
    return seq in own or any(seq in pool.notes for pool in pools)


_MOVING: Final = (ClaimGranted, ClaimNarrowed, ClaimReleased, ClaimExpired, ClaimTransferred)
