"""Notes that say the opposite of each other: both are shown, the newer first, and neither is merged into the other.

Two notes contradict each other where one refutes the other by name, or where the same command ended well in one and
badly in the other. Of many runs of one command only the newest of each outcome count, and none that was superseded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import msgspec

from schema.events import Note

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


class Contradiction(msgspec.Struct, frozen=True):
    """Two notes against each other."""

    how: Literal["refutes", "run"]
    newer: Note
    older: Note


def contradictions(notes: Iterable[Note]) -> list[Contradiction]:
    """Find the contradictions among notes, the newest first; a note may be given twice."""
    by_seq = {note.seq: note for note in notes}
    found = [*_refuted(by_seq), *_opposite_runs(by_seq)]
    return sorted(found, key=lambda one: (-one.newer.seq, -one.older.seq, one.how))


def _refuted(by_seq: Mapping[int, Note]) -> Iterable[Contradiction]:
    for note in by_seq.values():
        for target in {ref.seq for ref in note.refs if ref.rel == "refutes"}:
            if target in by_seq:
                yield Contradiction("refutes", note, by_seq[target])


def _opposite_runs(by_seq: Mapping[int, Note]) -> Iterable[Contradiction]:
    superseded = {ref.seq for note in by_seq.values() for ref in note.refs if ref.rel == "supersedes"}
    newest: dict[tuple[str, bool], Note] = {}
    for seq in sorted(by_seq.keys() - superseded):
        note = by_seq[seq]
        if note.run is not None:
            newest[note.run.command, note.run.exit_code == 0] = note
    for (command, passed), note in newest.items():
        if passed and (failed := newest.get((command, False))) is not None:
            older, newer = sorted((note, failed), key=lambda one: one.seq)
            yield Contradiction("run", newer, older)
