"""Notes, sorted once for whoever asks of them."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from board.core.pool import LINES, Lines, Pool
from board.core.scope import Target, overlap
from board.core.spelling import spell
from schema.notes import Ref, Run
from tests.harness.views import note

PATHS = ("src/a.c", "src/a.c:3-9", "src", "lib/*.c", "lib/z.c", "task:rows")


def targets(scope: tuple[str, ...]) -> tuple[Target, ...]:
    return tuple(map(spell, scope))


def test_notes_are_found_by_what_they_say() -> None:
    """By seq, by recipient, by type; and those that speak of others, or ran something, are named."""
    said: list[dict[str, Any]] = [{"to": ("w1", "w2")}, {"refs": (Ref("refutes", 1),)}, {"run": Run("make", 0)}, {}]
    pool = Pool([note(seq, **one) for seq, one in enumerate(said, start=1)], targets)
    assert (pool.to("w1"), pool.to("w2"), pool.to("w3")) == ([1], [1], ())
    assert [one.seq for one in pool.speaking] == [2, 3]
    assert pool.counts == {"FACT": 4}


@given(st.lists(st.lists(st.sampled_from(PATHS), max_size=2)), st.sampled_from(PATHS), st.integers(0, 9))
def test_notes_are_found_by_place(scopes: list[list[str]], asked: str, first: int) -> None:
    """Whether a note came before or after the first question by place, it is found where its scope overlaps."""
    notes = [note(seq, scope=tuple(scope)) for seq, scope in enumerate(scopes, start=1)]
    pool = Pool(notes[:first], targets)
    pool.touching((spell(asked),))
    for one in notes[first:]:
        pool.add(one)
    expected = {one.seq for one in notes for text in one.scope if overlap(spell(text), spell(asked)) is not None}
    assert set(pool.touching((spell(asked),))) == expected
    assert set(pool.touching(())) == set()


def test_failures_and_patches_are_found_where_they_lie_near() -> None:
    """What failed in the same folder is near; facts are not looked for there."""
    pool = Pool(
        [note(1, "FAIL", scope=("src/b.c",)), note(2, scope=("src/c.c",)), note(3, "FAIL", scope=("x.c",))], targets
    )
    assert pool.near(targets(("src/a.c",))) == {1}
    assert pool.near(()) == set()


def test_lines_are_made_once_and_bounded() -> None:
    """The line of a note is the same object the next time; when there are too many, all are made anew."""
    lines = Lines()
    first = lines.of(note(1))
    assert lines.of(note(1)) is first
    for seq in range(2, LINES + 2):
        lines.of(note(seq))
    assert lines.of(note(1)) == first
