"""What the newest events of a board mean to those who read it: an index of them, in memory and bounded.

It answers without reading the log: how many notes a worker has not acknowledged, which events concern it, and which
notes correct earlier ones. It knows every event after `since` up to `seq`; of older ones it knows nothing, and says so.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING, Final, TypeVar

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
    from collections.abc import Collection, Mapping

    from schema.events import AnyEvent

Key = TypeVar("Key")

NOTES: Final = 32_768
"""The most notes that are known of a board; over it, the older half is forgotten."""

CORRECTING: Final = frozenset(("refutes", "supersedes"))
"""How a note may stand to an earlier one so that whoever used the earlier one should know."""


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
        self._pairs: dict[tuple[str, str], tuple[str, str]] = {}
        self._seqs: dict[tuple[str, str], list[int]] = {}
        self._concerns: dict[str, list[int]] = {}
        self._corrections: list[Correction] = []

    def author(self, note: int) -> str | None:
        """The author of a note, or None where the note is not known here."""
        head = self._heads.get(note)
        return head[1] if head else None

    def unknown_subject(self, event: AnyEvent) -> int | None:
        """The note that an event is about, where its author must be told to `add`."""
        return event.note if isinstance(event, AboutNote) and event.note not in self._heads else None

    def add(self, event: AnyEvent, subject_author: str = "") -> None:
        """Take the next event. `subject_author` is needed where `unknown_subject` names a note."""
        self.seq = event.seq
        if (found := correction(event)) is not None:
            self._corrections.append(found)
        if isinstance(event, Note):
            self._add_note(event)
            return
        if isinstance(event, AboutNote):
            subject_author = self.author(event.note) or subject_author
        for worker in concerned(event, subject_author):
            self._concerns.setdefault(worker, []).append(event.seq)
        if isinstance(event, NoteRetracted):
            self._drop_note(event.note)

    def _add_note(self, note: Note) -> None:
        pair = (note.type, note.author)
        self._heads[note.seq] = self._pairs.setdefault(pair, pair)
        for key in ((note.type, ""), pair):
            self._seqs.setdefault(key, []).append(note.seq)
        if len(self._heads) > self._limit:
            self._forget(list(self._heads)[len(self._heads) // 2])

    def _drop_note(self, seq: int) -> None:
        head = self._heads.pop(seq, None)
        for key in ((head[0], ""), head) if head else ():
            seqs = self._seqs[key]
            del seqs[bisect_left(seqs, seq)]

    def _forget(self, upto: int) -> None:
        self.since = upto
        self._heads = {seq: head for seq, head in self._heads.items() if seq > upto}
        self._pairs = {head: head for head in self._heads.values()}
        self._seqs = _later(self._seqs, upto)
        self._concerns = _later(self._concerns, upto)
        self._corrections = [one for one in self._corrections if one.seq > upto]

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

    def corrections(self, after: int) -> list[Correction]:
        """The corrections after a seq."""
        return self._corrections[bisect_right(self._corrections, after, key=_seq) :]


def _seq(one: Correction) -> int:
    return one.seq


def _later(lists: Mapping[Key, list[int]], upto: int) -> dict[Key, list[int]]:
    kept = {key: seqs[bisect_right(seqs, upto) :] for key, seqs in lists.items()}
    return {key: seqs for key, seqs in kept.items() if seqs}
