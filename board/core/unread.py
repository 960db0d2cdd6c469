"""What a worker has not acknowledged, the most urgent first.

Urgency falls from what was said to the worker, or happened to what is its own, over what touches its live claims and
what takes back something it acknowledged, to conflicts of its claims; then comes everything else. Within each of these
the newest comes first. Nothing here moves what is acknowledged: reading is not acknowledging.
"""

from __future__ import annotations

from collections import OrderedDict
from enum import IntEnum
from typing import TYPE_CHECKING, Final

import msgspec

from board.core import framing
from board.core.recent import concerned, correction
from board.core.scope import meet
from board.core.selection import places, recipients, type_of
from board.core.tokens import COSTS_A_TOKEN, cost
from schema.events import AboutConflict, Note

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from board.core.scope import Target
    from schema.events import AnyEvent

BLOCK_NOTES: Final = 10
"""The most notes that one block of urgent ones holds."""

BLOCK_CHARS: Final = 1500
"""The most characters that one block of urgent notes has, its frame included."""

RIDES: Final = 3
"""How often an urgent note rides along with other answers before it waits in `unread`."""

_LINE_CHARS: Final = 240


class Urgency(IntEnum):
    """Why a worker should see something, the best reason first."""

    ADDRESSED = 0
    TOUCHING = 1
    CORRECTION = 2
    CONFLICT = 3
    REST = 4


class Standing(msgspec.Struct, frozen=True):
    """Where a worker stands: what it acknowledged (everything up to `through`, and `seqs` beyond), and what it holds."""

    worker: str
    through: int = 0
    seqs: frozenset[int] = frozenset()
    claims: tuple[Target, ...] = ()

    def acked(self, seq: int) -> bool:
        """Whether the worker acknowledged an event."""
        return seq <= self.through or seq in self.seqs


class Item(msgspec.Struct, frozen=True):
    """One event that may be unread, as it stands in the log.

    `subject_author` is the author of the note that it is about, `own_target` whether a note that it corrects is the
    reader's own; both only where that was looked up.
    """

    event: AnyEvent
    body: bytes
    subject_author: str = ""
    own_target: bool = False

    @property
    def seq(self) -> int:
        """The event's seq."""
        return self.event.seq


class Ranked(msgspec.Struct, frozen=True):
    """An unread item and its urgency."""

    urgency: Urgency
    item: Item

    @property
    def urgent(self) -> bool:
        """Whether it should not wait until its reader asks."""
        return self.urgency is not Urgency.REST


class Shown(msgspec.Struct, frozen=True):
    """What fits: the items in order, and the seqs of those that alone are larger than the whole budget."""

    items: tuple[Ranked, ...]
    too_large: tuple[int, ...] = ()


def urgency_of(item: Item, standing: Standing, spell: Callable[[str], Target]) -> Urgency | None:
    """Tell why a worker should see an event that it has not acknowledged; None where it should not.

    Every note of somebody else is worth seeing, and so is an event that concerns the worker.
    """
    event = item.event
    concerns = standing.worker in concerned(event, item.subject_author)
    if isinstance(event, AboutConflict):
        return Urgency.CONFLICT if concerns else None
    if event.author == standing.worker:
        return None
    if concerns or standing.worker in recipients(event):
        return Urgency.ADDRESSED
    if _touches(event, standing.claims, spell):
        return Urgency.TOUCHING
    if _corrects(item, standing):
        return Urgency.CORRECTION
    return Urgency.REST if isinstance(event, Note) else None


def _touches(event: AnyEvent, claims: Sequence[Target], spell: Callable[[str], Target]) -> bool:
    if not isinstance(event, Note) or not claims:
        return False
    theirs = [spell(text) for text in places(event)]
    return any(meet(mine, other) for mine in claims for other in theirs)


def _corrects(item: Item, standing: Standing) -> bool:
    found = correction(item.event)
    return found is not None and (item.own_target or any(map(standing.acked, found.targets)))


def rank(items: Iterable[Item], standing: Standing, spell: Callable[[str], Target]) -> list[Ranked]:
    """Put what is unread in the order in which it should be read; what is acknowledged or its own is left out."""
    unread = [item for item in items if not standing.acked(item.seq)]
    found = [(urgency_of(item, standing, spell), item) for item in unread]
    ranked = [Ranked(urgency, item) for urgency, item in found if urgency is not None]
    return sorted(ranked, key=lambda one: (one.urgency, -one.item.seq))


def fit(ranked: Sequence[Ranked], *, limit: int, budget_tokens: int) -> Shown:
    """Take what fits, in order, at most `limit` and `budget_tokens` (of the items' own JSON, commas included).

    What does not fit is passed over and smaller ones behind it are not: a long note hides no other.
    """
    room = budget_tokens * COSTS_A_TOKEN
    items: list[Ranked] = []
    too_large: list[int] = []
    left = room
    for one in ranked:
        price = cost(one.item.body.decode() + ",")
        if price > room:
            too_large.append(one.item.seq)
        elif price <= left and len(items) < limit:
            items.append(one)
            left -= price
    return Shown(tuple(items), tuple(too_large))


def left_out(unread: Mapping[str, int], known: Sequence[Ranked], shown: Sequence[Ranked]) -> dict[str, int]:
    """Count by type what is unread and not shown.

    `unread` counts the notes by type, where that is known; what was found counts at least.
    """
    counts = _by_type(known)
    for type_, count in unread.items():
        counts[type_] = max(count, counts.get(type_, 0))
    for type_, count in _by_type(shown).items():
        counts[type_] -= count
    return {type_: count for type_, count in sorted(counts.items()) if count > 0}


def _by_type(ranked: Sequence[Ranked]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for one in ranked:
        type_ = type_of(one.item.event)
        counts[type_] = counts.get(type_, 0) + 1
    return counts


class Block(msgspec.Struct, frozen=True):
    """Urgent notes as they ride along with another answer: the framed text, and the seqs to acknowledge."""

    text: str
    seqs: tuple[int, ...]


def block_of(ranked: Sequence[Ranked], *, notes: int = BLOCK_NOTES, chars: int = BLOCK_CHARS) -> Block | None:
    """Frame the first of the items, at most so many notes and characters; None where there is none to show."""
    lines: list[str] = []
    seqs: list[int] = []
    for one in ranked:
        line = framing.line(one.item.event, text_chars=_LINE_CHARS)
        if len(seqs) < notes and len(framing.block([*lines, line], ack=[*seqs, one.item.seq])) <= chars:
            lines.append(line)
            seqs.append(one.item.seq)
    return Block(framing.block(lines, ack=seqs), tuple(seqs)) if seqs else None


class Rides:
    """How often each urgent note rode along, by reader. In memory, bounded: a reader that is forgotten starts anew."""

    def __init__(self, *, readers: int = 4096, notes: int = 256) -> None:
        self._readers = readers
        self._notes = notes
        self._counts: OrderedDict[tuple[str, str], _Counts] = OrderedDict()

    def may(self, board: str, worker: str, seq: int) -> bool:
        """Whether a note may ride along once more."""
        counts = self._counts.get((board, worker))
        return counts is None or (seq > counts.floor and counts.rides.get(seq, 0) < RIDES)

    def count(self, board: str, worker: str, seqs: Iterable[int]) -> None:
        """Note that these rode along."""
        counts = self._counts.setdefault((board, worker), _Counts())
        self._counts.move_to_end((board, worker))
        for seq in seqs:
            counts.rides[seq] = counts.rides.get(seq, 0) + 1
        while len(counts.rides) > self._notes:
            # Below the floor nothing rides any more, so that what is forgotten cannot begin again.
            counts.floor = min(counts.rides)
            del counts.rides[counts.floor]
        while len(self._counts) > self._readers:
            self._counts.popitem(last=False)


class _Counts(msgspec.Struct):
    floor: int = 0
    rides: dict[int, int] = {}
