"""The newest events of a board, in memory."""

from __future__ import annotations

from board.core.selection import Filter
from board.core.spelling import spell
from board.service.window import Window
from schema.limits import Settings
from tests.harness.logs import invalidated, note, renewed, retracted

NOTES = Filter(notes_only=True, live_only=True)


def window(count: int, **bounds: int) -> Window:
    """A window that was fed with some notes, every third of them about one place."""
    made = Window(0, Settings(), **bounds)
    for seq in range(1, count + 1):
        made.add(note(seq, "FAIL" if seq % 2 else "FACT", scope=("src/a.c",) if seq % 3 == 0 else ()))
    return made


def seqs(made: Window, where: Filter, after: int = 0, through: int = 99, limit: int = 99) -> list[int]:
    return [record.seq for record in made.newest(where, after, through, limit)]


def test_the_newest_come_first_and_within_both_bounds() -> None:
    """A page is cut by its ends, by its limit and by each condition."""
    made = window(10)
    assert seqs(made, NOTES, 3, 7) == [7, 6, 5, 4]
    assert seqs(made, NOTES, limit=2) == [10, 9]
    assert seqs(made, Filter(types=("FAIL",), notes_only=True)) == [9, 7, 5, 3, 1]
    assert seqs(made, Filter(scope=(spell("src"),), types=("FACT",), notes_only=True)) == [6]
    assert seqs(made, Filter(scope=(spell("lib"),), notes_only=True)) == []
    assert seqs(made, Filter(author="w1", types=("FACT",), notes_only=True), 5) == [10, 8, 6]


def test_what_was_taken_back_is_left_out_where_that_was_asked() -> None:
    """A retracted note is no live one; without that condition it is still there."""
    made = window(3)
    made.add(retracted(4, 2))
    assert seqs(made, NOTES) == [3, 1]
    assert seqs(made, Filter(notes_only=True)) == [3, 2, 1]


def test_events_are_found_by_what_they_are_about() -> None:
    """What became of a note is found by it; renewals of claims, of which there may be many, are not."""
    made = window(2)
    for record in (invalidated(3, 1, 2), retracted(4, 1), renewed(5, 2)):
        made.add(record)
    assert [record.seq for record in made.about({1, 2})] == [3, 4]
    assert [record.seq for record in made.fates({1: None})] == [3, 4]
    assert made.about({9}) == []


def test_it_is_bounded_in_events() -> None:
    """Over its limit it forgets the older half, and says from where on it knows all."""
    made = window(11, events=10)
    assert (made.since, made.seq) == (6, 11)
    assert seqs(made, NOTES) == [11, 10, 9, 8, 7]
    assert made.get(6) is None
    assert made.get(7) is not None
    assert made.get(12) is None


def test_it_is_bounded_in_bytes() -> None:
    """Large events are forgotten sooner."""
    assert window(10, size_bytes=10_000).since > window(10, size_bytes=100_000).since == 0


def test_all_can_be_forgotten() -> None:
    """What the log no longer keeps is forgotten, also where that is more than was known."""
    made = window(5)
    made.forget(3)
    assert seqs(made, NOTES) == [5, 4]
    made.forget(9)
    assert (made.since, made.seq) == (9, 9)
    made.add(note(10))
    assert seqs(made, NOTES) == [10]
