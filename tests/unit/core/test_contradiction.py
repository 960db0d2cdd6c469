"""Notes against each other."""

from __future__ import annotations

from typing import Any

from board.core.contradiction import contradictions
from schema.events import Note
from schema.notes import Ref, Run


def note(seq: int, **said: Any) -> Note:
    return Note(seq=seq, at="2026-12-01T10:00:00.000000Z", author="w1", type=said.pop("type", "FACT"), text="t", **said)


def found(*notes: Note) -> list[tuple[str, int, int]]:
    return [(one.how, one.newer.seq, one.older.seq) for one in contradictions(notes)]


def test_opposite_results_of_one_command_stand_against_each_other() -> None:
    """Of a command that passed and failed, the newest of each is shown, the newer first, whichever that is."""
    runs = [note(seq, run=Run("make test", code)) for seq, code in ((1, 0), (2, 0), (3, 1), (4, 7))]
    assert found(*runs) == [("run", 4, 2)]
    assert found(*runs, note(5, run=Run("make test", 0))) == [("run", 5, 4)]


def test_equal_results_and_other_commands_do_not_contradict() -> None:
    """Two failures are no contradiction, nor are two commands."""
    assert found(note(1, run=Run("make", 1)), note(2, run=Run("make", 2)), note(3, run=Run("make test", 0))) == []


def test_what_was_superseded_is_settled() -> None:
    """A run that a later note supersedes does not stand against it any more."""
    assert found(note(1, run=Run("make", 1)), note(2, run=Run("make", 0), refs=(Ref("supersedes", 1),))) == []


def test_a_refutation_stands_against_what_it_refutes() -> None:
    """Two notes are shown where one refutes the other and both are there; the newest pair first, none twice."""
    refuting = note(3, type="FAIL", refs=(Ref("refutes", 1), Ref("refutes", 99), Ref("supports", 2)))
    again = note(4, type="FAIL", refs=(Ref("refutes", 1), Ref("refutes", 1)))
    assert found(note(1), note(2), refuting, again) == [("refutes", 4, 1), ("refutes", 3, 1)]
