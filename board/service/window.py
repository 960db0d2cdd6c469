"""The newest events of a board, in memory, with an index of them: what they answer needs no store.

It knows every event after `since` up to `seq`, and gives of them what the store's `page` of live notes, `rows` and
`about` would. What is older it does not know; whoever asks for more puts the store's answer behind (`board.service.shelf`).
"""

from __future__ import annotations

from bisect import bisect_right
from heapq import merge
from itertools import groupby
from typing import TYPE_CHECKING, Final, TypeVar

from board.core.scope import meet
from board.hub import RECORD_BYTES
from board.store.places import asked_for, labels_of, recipient, scope_of
from schema.events import AboutConflict, AboutNote, ClaimRenewed, Note, NoteRetracted, about

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from board.core.history import Record
    from board.core.selection import Filter
    from schema.events import AnyEvent
    from schema.limits import Settings

Key = TypeVar("Key")

EVENTS: Final = 8192
"""The most events that are known of a board: the older half is forgotten over it."""

BYTES: Final = 33_554_432
"""The most that these may take, with the objects around them."""

_EVERY: Final = "note"


def subjects_of(event: AnyEvent) -> tuple[int, ...]:
    """What an event is about: both claims of a conflict. Of renewals nobody asks, and there may be many."""
    if isinstance(event, AboutConflict):
        return event.claims
    subject = None if isinstance(event, ClaimRenewed) else about(event)
    return () if subject is None else (subject,)


class Window:
    """The events and their index. Fed with every event in order; read at any time. Bounded in events and in bytes."""

    def __init__(self, since: int, settings: Settings, *, events: int = EVENTS, size_bytes: int = BYTES) -> None:
        self.since = since
        self._settings = settings
        self._limits = (events, size_bytes)
        self._records: list[Record] = []
        self._bytes = 0
        self._filed: dict[str, list[int]] = {}
        self._about_notes: dict[int, list[int]] = {}
        self._about_claims: dict[int, list[int]] = {}
        self._retracted: set[int] = set()

    @property
    def seq(self) -> int:
        """The newest event that is known."""
        return self.since + len(self._records)

    def add(self, record: Record) -> None:
        """Take the next event."""
        self._records.append(record)
        self._bytes += _size(record)
        for label in self._labels(record.event):
            self._filed.setdefault(label, []).append(record.seq)
        about = self._about_notes if isinstance(record.event, AboutNote) else self._about_claims
        for subject in subjects_of(record.event):
            about.setdefault(subject, []).append(record.seq)
        if isinstance(record.event, NoteRetracted):
            self._retracted.add(record.event.note)
        if len(self._records) > self._limits[0] or self._bytes > self._limits[1]:
            self.forget(self.since + (len(self._records) + 1) // 2)

    def _labels(self, event: AnyEvent) -> Iterable[str]:
        if not isinstance(event, Note):
            return ()
        return (_EVERY, _type(event.type), _author(event.author), *labels_of(event, self._settings))

    def forget(self, upto: int) -> None:
        """Know nothing any more of the events up to a seq."""
        if upto <= self.since:
            return
        self._records = self._records[upto - self.since :]
        self._bytes = sum(map(_size, self._records))
        self.since = upto
        self._filed = _later(self._filed, upto)
        self._about_notes = _later(self._about_notes, upto)
        self._about_claims = _later(self._about_claims, upto)
        self._retracted = {one.event.note for one in self._records if isinstance(one.event, NoteRetracted)}

    def get(self, seq: int) -> Record | None:
        """An event, or None where it is not known."""
        index = seq - self.since - 1
        return self._records[index] if 0 <= index < len(self._records) else None

    def about(self, seqs: Collection[int]) -> list[Record]:
        """The events that are known about any of these seqs, but for renewals."""
        found = {one for about in (self._about_notes, self._about_claims) for one in _of_any(seqs, about)}
        return [self._records[one - self.since - 1] for one in sorted(found)]

    def fates(self, notes: Collection[int]) -> list[Record]:
        """The events that are known about any of these notes: what became of them."""
        return [self._records[one - self.since - 1] for one in sorted(_of_any(notes, self._about_notes))]

    def has_lost(self, records: Iterable[Record]) -> bool:
        """Whether any of these notes is known to have been taken back."""
        return bool(self._retracted) and any(record.seq in self._retracted for record in records)

    def without_lost(self, records: tuple[Record, ...]) -> tuple[Record, ...]:
        """Those of the notes that are not known to have been taken back."""
        if not self.has_lost(records):
            return records
        return tuple(record for record in records if record.seq not in self._retracted)

    def newest(self, where: Filter, after: int, through: int, limit: int) -> list[Record]:
        """The newest notes after one seq and up to another that a filter of notes keeps, the newest first."""
        assert where.notes_only, where
        found: list[Record] = []
        for seq in self._candidates(where, after, through):
            record = self._records[seq - self.since - 1]
            if self._keeps(where, record):
                found.append(record)
                if len(found) == limit:
                    break
        return found

    def _candidates(self, where: Filter, after: int, through: int) -> Iterator[int]:
        """Every note that the filter may keep, from the one of its conditions that leaves fewest."""
        if where.to:
            labels = [recipient(where.to)]
        elif where.scope:
            labels = list({label for target in where.scope for label in asked_for(target)})
        elif where.author:
            labels = [_author(where.author)]
        else:
            labels = [_type(type_) for type_ in where.types] or [_EVERY]
        streams = [_between(seqs, after, through) for label in labels if (seqs := self._filed.get(label))]
        if len(streams) < 2:
            return streams[0] if streams else iter(())
        return (seq for seq, _ in groupby(merge(*streams, reverse=True)))

    def _keeps(self, where: Filter, record: Record) -> bool:
        note = record.event
        assert isinstance(note, Note)
        if where.live_only and record.seq in self._retracted:
            return False
        if where.types and note.type not in where.types:
            return False
        if where.author not in ("", note.author) or where.task not in ("", note.task):
            return False
        return not where.scope or self._touches(note, where)

    def _touches(self, note: Note, where: Filter) -> bool:
        theirs = scope_of(note, self._settings)
        return any(meet(x, y) for x in theirs for y in where.scope)


def _size(record: Record) -> int:
    return len(record.body) + RECORD_BYTES


def _type(type_: str) -> str:
    return f"type:{type_}"


def _author(worker: str) -> str:
    return f"by:{worker}"


def _of_any(seqs: Collection[int], about: Mapping[int, list[int]]) -> Iterator[int]:
    # Whichever are fewer are gone through.
    known = (seq for seq in seqs if seq in about) if len(seqs) < len(about) else (seq for seq in about if seq in seqs)
    return (one for seq in known for one in about[seq])


def _later(lists: Mapping[Key, list[int]], upto: int) -> dict[Key, list[int]]:
    return {key: rest for key, seqs in lists.items() if (rest := seqs[bisect_right(seqs, upto) :])}


def _between(seqs: Sequence[int], after: int, through: int) -> Iterator[int]:
    """The seqs after one and up to another, the newest first."""
    for index in range(bisect_right(seqs, through) - 1, -1, -1):
        if seqs[index] <= after:
            return
        yield seqs[index]
