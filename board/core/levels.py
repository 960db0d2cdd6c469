"""The past of a prompt view: ranked choices of older notes, then a page of the newer ones. See `board.core.snapshot`.

What a level chooses depends on its notes, on what is left to be spent, and on what its reader is interested in. Most
readers have no interest in a given stretch, so that they share one choice, which is kept beside the notes.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Final, TypeVar

import msgspec

from board.core.pool import Pool
from board.core.purse import Purse, Section, heading, price
from board.core.recent import CORRECTING
from board.core.scope import meet
from board.core.tokens import cost

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from board.core.pool import Targets
    from board.core.scope import Target
    from schema.events import Note
    from schema.notes import NoteType

BOUNDS: Final = (4096, 256)
"""The levels end at the last multiples of these many events."""

TYPES: Final[tuple[NoteType, ...]] = ("PATCH_SUMMARY", "FAIL", "FACT", "OBSERVED")
"""The types that levels and page hold, in the order of a level; claims are shown as they stand now."""

CHOICES_KEPT: Final = 128
"""How many choices of a stretch are kept, for readers with interests or budgets of their own."""

_SHARES: Final = {"PATCH_SUMMARY": 0.3, "FAIL": 0.3, "FACT": 0.25, "OBSERVED": 0.15}
_LEVEL_SHARES: Final = (0.4, 1 / 3)
_OLDER_SHARE: Final = 1 / 3
_ORDER: Final = {type_: place for place, type_ in enumerate(TYPES)}

Key = TypeVar("Key")
Kept = TypeVar("Kept")


class Holding(msgspec.Struct, frozen=True):
    """A scope that the reader held: from the event `since` on, until the event `until` (None while it lasts)."""

    since: int
    until: int | None
    targets: tuple[Target, ...]

    def lasts(self, at: int) -> bool:
        """Whether it was held as of a seq."""
        return self.since <= at and (self.until is None or self.until > at)


class Reader(msgspec.Struct, frozen=True):
    """Who reads: the scope that it asked for, or else what it held, tells what it is interested in."""

    worker: str
    holdings: tuple[Holding, ...] = ()
    scope: tuple[Target, ...] = ()

    def interests(self, at: int) -> tuple[Target, ...]:
        """What it is interested in as of a seq."""
        return self.scope or tuple(target for one in self.holdings if one.lasts(at) for target in one.targets)


class Bed(Pool):
    """The notes that a level chooses from, for every reader: some of those after one seq and up to another.

    `places` is a larger pool, if there is one, that holds them as well and is asked by place instead.
    """

    def __init__(
        self, after: int, through: int, notes: Iterable[Note], targets: Targets, places: Pool | None = None
    ) -> None:
        super().__init__(notes, targets)
        self.after = after
        self.through = through
        self.places = places or self
        self.newest = sorted(self.notes.values(), key=_seq, reverse=True)
        self.of_type = {type_: [note for note in self.newest if note.type == type_] for type_ in TYPES}
        self.choices: dict[tuple[object, ...], Section] = {}


class Fresh(Pool):
    """The notes after the levels, in order. It grows, and remembers where the page begins for each room."""

    def __init__(self, after: int, notes: Iterable[Note], targets: Targets) -> None:
        self.after = after
        self.order: list[Note] = []
        self._prices: list[int] = []
        self._pages: dict[int, Page] = {}
        self._older: dict[int, Bed] = {}
        super().__init__(notes, targets)

    def add(self, note: Note) -> None:
        """Take the next note."""
        super().add(note)
        self.order.append(note)

    def page(self, room: int, line: Callable[[Note], str]) -> int:
        """How many notes have left a page with so much room."""
        self._prices += [price(line(note)) for note in self.order[len(self._prices) :]]
        page = self._pages.get(room)
        if page is None:
            page = kept(self._pages, room, Page(room))
        page.take(self._prices)
        return page.start

    def older(self, count: int) -> Bed:
        """The first so many notes, as what a level chooses from."""
        bed = self._older.get(count)
        if bed is None:
            notes = self.order[:count]
            bed = kept(self._older, count, Bed(self.after, notes[-1].seq, notes, self.targets, self))
        return bed


class Page:
    """Parts the fresh notes into those that have left the page and those that are on it.

    Decided note by note, so that one more note leaves the page as it is or starts it anew, at half of what it holds.
    """

    def __init__(self, room: int) -> None:
        self.start = 0
        """How many have left."""
        self._room = self._limit = room
        self._count = self._spent = 0

    def take(self, prices: Sequence[int]) -> None:
        """Take what its notes cost, in order; those that were taken before are not taken again."""
        for index in range(self._count, len(prices)):
            if self._spent + prices[index] > self._limit:
                self._make_room(prices, index)
            self._spent += prices[index]
            if self._spent > self._limit:
                self.start, self._spent = index + 1, 0
        self._count = len(prices)

    def _make_room(self, prices: Sequence[int], index: int) -> None:
        self._limit = int(self._room * (1 - _OLDER_SHARE))
        while self.start < index and self._spent + prices[index] > self._limit // 2:
            self._spent -= prices[self.start]
            self.start += 1


class Past:
    """The levels and the page of one view.

    `own` are the notes that each of the beds holds for this reader beside the shared ones: those that are addressed to
    it or touch what it is interested in. `struck` tells by which event a patch became out of date.
    """

    def __init__(
        self,
        reader: Reader,
        beds: Sequence[tuple[Bed, Sequence[Note]]],
        fresh: Fresh,
        struck: Mapping[int, int],
        line: Callable[[Note], str],
    ) -> None:
        self._reader = reader
        self._beds = beds
        self._fresh = fresh
        self._struck = struck
        self._line = line
        self._known: list[Pool] = []
        self._known_own: list[Note] = []

    def sections(self, room: int) -> list[Section]:
        """Spend the room: at most a share of what is left on each level, and all the rest on the page."""
        sections: list[Section] = []
        for (bed, own), share in zip(self._beds, _LEVEL_SHARES, strict=True):
            if bed.through > bed.after:
                sections.append(self._level(bed, own, int(room * share)))
                room -= sections[-1].cost
        since = self._fresh.after
        left = self._fresh.page(room - cost(heading(f"Since #{since + BOUNDS[-1]}")), self._line)
        if left:
            older = self._fresh.older(left)
            sections.append(self._level(older, (), int(room * _OLDER_SHARE)))
            since = older.through
        page = tuple((note.seq, self._line(note)) for note in self._fresh.order[left:])
        return [*sections, Section("page", f"Since #{since}", page)]

    def _level(self, bed: Bed, own: Sequence[Note], room: int) -> Section:
        """Choose from a bed; only notes up to its end, of those that are known, may tell that one is out of date."""
        self._known.append(bed)
        self._known_own += own
        interests = self._reader.interests(bed.through)
        is_meant = bool(own or bed.to(self._reader.worker))
        key = (
            room,
            self._reader.worker if is_meant else "",
            tuple(note.seq for note in self._known_own),
            tuple(target.text for target in interests),
        )
        section = bed.choices.get(key)
        return section or kept(bed.choices, key, self._chosen(bed, own, interests, room))

    def _chosen(self, bed: Bed, own: Sequence[Note], interests: tuple[Target, ...], room: int) -> Section:
        ranks, gone = self._ranks(bed, own, interests), self._gone(bed.through)
        mine = {note.seq: note for note in own}
        first = [note for seq in ranks if seq not in gone and (note := mine.get(seq) or bed.notes.get(seq))]
        first.sort(key=lambda note: (ranks[note.seq], -note.seq))
        passed = gone | ranks.keys()
        title = f"Up to #{bed.through}"
        chosen = _by_shares(bed, first, passed, Purse(room - cost(heading(title))), self._line)
        chosen.sort(key=lambda note: (_ORDER[note.type], -note.seq))
        return Section("level", title, tuple((note.seq, self._line(note)) for note in chosen))

    def _gone(self, through: int) -> set[int]:
        """What was out of date as of a seq."""
        speaking = (*(note for pool in self._known for note in pool.speaking), *self._known_own)
        refuted = {ref.seq for note in speaking for ref in note.refs if ref.rel in CORRECTING}
        return refuted | {seq for seq, since in self._struck.items() if since <= through}

    def _ranks(self, bed: Bed, own: Sequence[Note], interests: tuple[Target, ...]) -> dict[int, int]:
        """How near notes are to the reader: 0 addressed to it, 1 touching, 2 near; all others are not named."""
        worker = self._reader.worker
        ranks = dict.fromkeys(bed.places.near(interests), 2) | dict.fromkeys(bed.places.touching(interests), 1)
        ranks |= dict.fromkeys(bed.to(worker), 0)
        return ranks | {note.seq: 0 if worker in note.to else 1 for note in own}


def _by_shares(
    bed: Bed, first: Sequence[Note], passed: Collection[int], purse: Purse, line: Callable[[Note], str]
) -> list[Note]:
    """Choose what each type can pay from its share, then the best of the rest from what is left.

    The best are the `first`, then the newest that are not to be `passed` over.
    """
    room = purse.left
    chosen: list[Note] = []
    for type_, share in _SHARES.items():
        best = (note for note in first if note.type == type_)
        rest = (note for note in bed.of_type[type_] if note.seq not in passed)
        chosen += Purse(int(room * share)).buy(chain(best, rest), line)
    purse.left -= sum(price(line(note)) for note in chosen)
    seen = {note.seq for note in chosen}
    ranked = chain(first, (note for note in bed.newest if note.seq not in passed))
    return chosen + purse.buy((note for note in ranked if note.seq not in seen), line)


def _seq(note: Note) -> int:
    return note.seq


def touch(xs: Iterable[Target], ys: Sequence[Target]) -> bool:
    """Whether two scopes overlap."""
    return any(meet(x, y) for x in xs for y in ys)


def kept(memory: dict[Key, Kept], key: Key, value: Kept) -> Kept:
    """Keep a value in a memory of at most `CHOICES_KEPT`; a full one begins anew."""
    if len(memory) >= CHOICES_KEPT:
        memory.clear()
    memory[key] = value
    return value
