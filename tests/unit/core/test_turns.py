"""The queue in which lines take turns."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from board.core.turns import Turns

ITEMS = st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 5)), max_size=40)


def filled(items: list[tuple[str, int]]) -> Turns[tuple[str, int]]:
    """Make a queue of numbered items."""
    turns: Turns[tuple[str, int]] = Turns()
    for number, (name, weight) in enumerate(items):
        turns.add(name, (name, number), weight)
    return turns


@given(ITEMS, st.integers(1, 12))
def test_everything_comes_out_once_and_each_line_in_order(items: list[tuple[str, int]], weight: int) -> None:
    """Nothing is lost or doubled, nobody overtakes in their own line, and the totals follow."""
    turns, taken = filled(items), []
    while turns:
        group = turns.take(weight)
        assert group
        assert len(group) == 1 or sum(items[number][1] for _, number in group) <= weight
        taken += group
        left = [one for number, one in enumerate(items) if (one[0], number) not in taken]
        assert turns.weight == sum(heavy for _, heavy in left)
        assert all(turns.weight_of(name) == sum(heavy for one, heavy in left if one == name) for name in "abc")
    assert sorted(number for _, number in taken) == list(range(len(items)))
    for name in "abc":
        own = [number for one, number in taken if one == name]
        assert own == sorted(own)


@given(ITEMS)
def test_nobody_waits_behind_a_crowd(items: list[tuple[str, int]]) -> None:
    """Before the n-th item of one line, no other line has had more than n turns."""
    order = [name for name, _ in filled(items).take(10_000)]
    for place, name in enumerate(order):
        before = order[: place + 1]
        assert all(before.count(other) <= before.count(name) + (other != name) for other in "abc")
