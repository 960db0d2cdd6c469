"""Notes, sorted once for whoever asks of them: by seq, by recipient, by place, and those that speak of others.

The readers of a board choose from the same notes again and again, so what does not depend on the reader is made once.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from board.core import framing
from board.core.scope_index import ScopeIndex

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from board.core.scope import Target
    from schema.events import Note

    Targets = Callable[[tuple[str, ...]], tuple[Target, ...]]
    """Parses a scope that was spelt before."""

LINES: Final = 16_384
"""The most lines that are remembered of a board: about 6 MB."""

NEARBY: Final = frozenset(("FAIL", "PATCH_SUMMARY"))
"""The types of notes that are of interest also where they only lie near."""


class Lines:
    """The lines of notes by seq, each made once."""

    def __init__(self) -> None:
        self._made: dict[int, str] = {}

    def of(self, note: Note) -> str:
        """The line of a note."""
        line = self._made.get(note.seq)
        if line is None:
            if len(self._made) >= LINES:
                self._made.clear()
            line = self._made[note.seq] = framing.line(note)
        return line


class Pool:
    """Some notes. `targets` parses a scope that was spelt before, as the board of these notes does."""

    def __init__(self, notes: Iterable[Note], targets: Targets) -> None:
        self.notes: dict[int, Note] = {}
        self.counts: Counter[str] = Counter()
        self.speaking: list[Note] = []
        """Those that ran something, or stand to other notes."""
        self.targets = targets
        self._to: dict[str, list[int]] = {}
        self._index: ScopeIndex | None = None
        self._folders: dict[tuple[str, ...], set[int]] = {}
        for note in notes:
            self.add(note)

    def add(self, note: Note) -> None:
        """Take a note that is not here yet."""
        self.notes[note.seq] = note
        self.counts[note.type] += 1
        if note.refs or note.run is not None:
            self.speaking.append(note)
        for worker in note.to:
            self._to.setdefault(worker, []).append(note.seq)
        if self._index is not None:
            self._place(self._index, note)

    def to(self, worker: str) -> Sequence[int]:
        """The notes that are addressed to a worker."""
        return self._to.get(worker, ())

    def touching(self, scope: Sequence[Target]) -> Collection[int]:
        """The notes whose scope overlaps another."""
        return self._places.touching(scope) if scope else ()

    def near(self, scope: Sequence[Target]) -> set[int]:
        """The failures and patches that lie in a folder of the scope."""
        if not (scope and self._places):
            return set()
        return {seq for folder in folders(scope) for seq in self._folders.get(folder, ())}

    def targets_of(self, note: Note) -> tuple[Target, ...]:
        """Where a note belongs; the files of a patch count as its scope."""
        return self.targets((*note.scope, *note.files))

    @property
    def _places(self) -> ScopeIndex:
        """The index by place. Made when it is first asked for: most boards have readers without a claim."""
        if self._index is None:
            self._index = ScopeIndex()
            for note in self.notes.values():
                self._place(self._index, note)
        return self._index

    def _place(self, index: ScopeIndex, note: Note) -> None:
        theirs = self.targets_of(note)
        index.add(note.seq, theirs)
        for folder in folders(theirs) if note.type in NEARBY else ():
            self._folders.setdefault(folder, set()).add(note.seq)


def folders(targets: Iterable[Target]) -> set[tuple[str, ...]]:
    """The folders of some targets, each behind its kind."""
    return {(one.kind, *pattern.prefix[:-1]) for one in targets for pattern in one.patterns if len(pattern.prefix) > 1}
