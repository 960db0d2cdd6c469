"""What the newest events of a board mean to those who read it: an index of them, in memory and bounded.

It answers without reading the log: how many notes a worker has not acknowledged, which events concern it, and which
notes correct earlier ones. It knows every event after `since` up to `seq`; of older ones it knows nothing, and says so.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from itertools import islice, takewhile
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from schema.events import (
    AboutConflict,
    AboutNote,
    ClaimExpired,
    ClaimGranted,
    ClaimNarrowed,
    ClaimReleased,
    ClaimTransferred,
    Note,
    NoteRetracted,
    PatchInvalidated,
)
from schema.notes import NOTE_TYPES

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from schema.events import AnyEvent

Key = TypeVar("Key")
One = TypeVar("One")

NOTES: Final = 32_768
"""The most notes that are known of a board; over it, the older half is forgotten."""

CORRECTING: Final = frozenset(("refutes", "supersedes"))
"""How a note may stand to an earlier one so that whoever used the earlier one should know."""

_NONE_TOLD: Final[Mapping[int, str]] = MappingProxyType({})


class Correction(msgspec.Struct, frozen=True):
    """An event that changes what earlier notes are worth."""

    seq: int
    author: str
    targets: tuple[int, ...]


def concerned(event: AnyEvent, subject_author: str) -> frozenset[str]:
    """Name the workers whom an event that is no note concerns, but for its author.

    `subject_author` is the author of the note that a `patch.*` or `note.*` event is about; empty where unknown.
    """
    match event:
        case ClaimExpired() | ClaimGranted() | ClaimNarrowed():
            names = {event.holder}
        case ClaimReleased():
            names = {event.holder, *event.to}
        case ClaimTransferred():
            names = {event.holder, event.giver}
        case AboutConflict():
            names = set(event.holders)
        case PatchInvalidated() | NoteRetracted():
            names = {subject_author}
        case _:
            names = set[str]()
    return frozenset(names - {event.author, ""})


def correction(event: AnyEvent) -> Correction | None:
    """Read an event as a correction of earlier notes, if it is one."""
    match event:
        case Note():
            targets = tuple(ref.seq for ref in event.refs if ref.rel in CORRECTING)
        case NoteRetracted():
            targets = (event.note,)
        case _:
            targets = ()
    return Correction(event.seq, event.author, targets) if targets else None


class Recent:
    """The index. Fed with every event in order; read at any time."""

    def __init__(self, since: int, *, limit: int = NOTES) -> None:
        self.since = since
        self.seq = since
        self._limit = limit
        self._heads: dict[int, tuple[str, str]] = {}
        self._elders: dict[int, str] = {}
        """The authors of notes that are not counted, because they are older or were taken back, and were spoken of."""
        self._pairs: dict[tuple[str, str], tuple[str, str]] = {}
        self._seqs: dict[tuple[str, str], list[int]] = {}
        self._concerns: dict[str, list[int]] = {}
        self._corrections: list[Correction] = []
        self._corrected: dict[str, list[Correction]] = {}
        """By the author of what was corrected."""
        self._by_target: dict[int, list[Correction]] = {}
        self._struck: set[int] = set()
        """The notes that were taken back."""

    def author(self, note: int) -> str | None:
        """The author of a note, or None where the note is not known here."""
        head = self._heads.get(note)
        return head[1] if head else self._elders.get(note)

    def unknown_subjects(self, event: AnyEvent) -> list[int]:
        """The notes that an event is about, or corrects, and whose authors must be told to `add`."""
        about = (event.note,) if isinstance(event, AboutNote) else ()
        found = correction(event)
        return [seq for seq in {*about, *(found.targets if found else ())} if self.author(seq) is None]

    def add(self, event: AnyEvent, authors: Mapping[int, str] = _NONE_TOLD) -> None:
        """Take the next event. `authors` are those of the notes that `unknown_subjects` names, where they exist."""
        self.seq = event.seq
        for seq in self.unknown_subjects(event):
            if seq in authors:
                self._elders[seq] = authors[seq]
        if (found := correction(event)) is not None:
            self._add_correction(found)
        if isinstance(event, Note):
            self._add_note(event)
            return
        subject_author = self.author(event.note) if isinstance(event, AboutNote) else None
        for worker in concerned(event, subject_author or ""):
            self._concerns.setdefault(worker, []).append(event.seq)
        if isinstance(event, NoteRetracted):
            self._drop_note(event.note)

    def _add_correction(self, found: Correction) -> None:
        self._corrections.append(found)
        for target in found.targets:
            self._by_target.setdefault(target, []).append(found)
        for author in {self.author(target) or "" for target in found.targets}:
            self._corrected.setdefault(author, []).append(found)

    def _add_note(self, note: Note) -> None:
        pair = (note.type, note.author)
        self._heads[note.seq] = self._pairs.setdefault(pair, pair)
        for key in ((note.type, ""), pair):
            self._seqs.setdefault(key, []).append(note.seq)
        if len(self._heads) > self._limit:
            self.forget(list(self._heads)[len(self._heads) // 2])

    def _drop_note(self, seq: int) -> None:
        head = self._heads.pop(seq, None)
        if head is None:
            return
        self._elders[seq] = head[1]
        self._struck.add(seq)
        for key in ((head[0], ""), head):
            seqs = self._seqs[key]
            del seqs[bisect_left(seqs, seq)]

    def forget(self, upto: int) -> None:
        """Know nothing any more of the events up to a seq, but who wrote what later ones are about."""
        if upto <= self.since:
            return
        self.since = upto
        self.seq = max(self.seq, upto)
        gone = {seq: head[1] for seq, head in self._heads.items() if seq <= upto}
        self._heads = {seq: head for seq, head in self._heads.items() if seq > upto}
        self._pairs = {head: head for head in self._heads.values()}
        self._seqs = _later(self._seqs, upto)
        self._concerns = _later(self._concerns, upto)
        self._corrections = [one for one in self._corrections if one.seq > upto]
        self._corrected = _later(self._corrected, upto, key=_seq)
        self._by_target = _later(self._by_target, upto, key=_seq)
        self._struck = {seq for seq in self._struck if seq > upto}
        self._elders = {seq: name for seq, name in (self._elders | gone).items() if seq in self._by_target}

    def unread(self, worker: str, through: int, seqs: Collection[int]) -> dict[str, int]:
        """Count the notes after `through` that others wrote and that are not among `seqs`, by type; none retracted."""
        counts = {type_: self._after(type_, "", through) - self._after(type_, worker, through) for type_ in NOTE_TYPES}
        for seq in seqs:
            head = self._heads.get(seq)
            if head is not None and seq > through and head[1] != worker:
                counts[head[0]] -= 1
        return counts

    def own(self, worker: str) -> dict[str, int]:
        """Count the notes of a worker that are known here, by type."""
        return {type_: self._after(type_, worker, self.since) for type_ in NOTE_TYPES}

    def _after(self, type_: str, author: str, seq: int) -> int:
        seqs = self._seqs.get((type_, author), ())
        return len(seqs) - bisect_right(seqs, seq)

    def concerning(self, worker: str, after: int) -> list[int]:
        """The events after a seq, other than notes, that concern a worker."""
        seqs = self._concerns.get(worker, [])
        return seqs[bisect_right(seqs, after) :]

    def corrections(self, worker: str, through: int, seqs: Collection[int], *, limit: int) -> list[int]:
        """The newest live corrections after `through` of what the worker wrote or acknowledged (up to `through`, and `seqs`).

        They are in no order, and at most `limit` for each of these reasons.
        """
        found = {one.seq for author in (worker, "") for one in _newest(self._corrected.get(author, ()), through, limit)}
        found |= {one.seq for seq in seqs for one in _newest(self._by_target.get(seq, ()), through, limit)}
        if through:
            found |= set(islice((one.seq for one in self._past(through) if min(one.targets) <= through), limit))
        return [seq for seq in found if seq not in self._struck]

    def _past(self, after: int) -> Iterator[Correction]:
        return takewhile(lambda one: one.seq > after, reversed(self._corrections))


def _newest(corrections: Sequence[Correction], after: int, limit: int) -> Sequence[Correction]:
    return corrections[max(bisect_right(corrections, after, key=_seq), len(corrections) - limit) :]


def _seq(one: Correction) -> int:
    return one.seq


def _later(
    lists: Mapping[Key, list[One]], upto: int, *, key: Callable[[One], Any] | None = None
) -> dict[Key, list[One]]:
    kept = {name: ones[bisect_right(ones, upto, key=key) :] for name, ones in lists.items()}  # pyright: ignore[reportArgumentType, reportCallIssue] -- without a key they are seqs
    return {name: ones for name, ones in kept.items() if ones}
