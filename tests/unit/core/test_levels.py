"""The past of a prompt view: where the page begins, and what readers share of what levels choose."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from board.core.levels import CHOICES_KEPT, Bed, Fresh, Page, Past, Reader, kept
from board.core.pool import Lines
from board.core.spelling import spell
from tests.harness.views import note

if TYPE_CHECKING:
    from collections.abc import Sequence

    from board.core.scope import Target
    from schema.events import Note


def targets(scope: tuple[str, ...]) -> tuple[Target, ...]:
    return tuple(map(spell, scope))


def page_of(prices: Sequence[int], room: int) -> Page:
    page = Page(room)
    page.take(prices)
    return page


@pytest.mark.parametrize(
    ("prices", "room", "left"),
    [
        ([10, 10, 10], 30, 0),
        ([10, 10, 10, 10], 30, 3),
        ([10, 10, 10, 10, 10], 30, 3),
        ([40], 30, 1),
        ([10, 40, 10], 30, 2),
    ],
)
def test_a_page_starts_anew_when_it_is_full(prices: Sequence[int], room: int, left: int) -> None:
    """Notes stay on the page until one does not fit; then the older ones leave until the page is half full at most."""
    assert page_of(prices, room).start == left


@given(st.lists(st.integers(1, 50), max_size=60), st.integers(1, 200), st.data())
def test_a_page_that_grew_is_a_page_that_was_made_at_once(prices: list[int], room: int, data: st.DataObject) -> None:
    """Where the page begins does not depend on how often it was asked for on the way."""
    page = Page(room)
    for seen in sorted(data.draw(st.lists(st.integers(0, len(prices))))):
        page.take(prices[:seen])
    page.take(prices)
    assert page.start == page_of(prices, room).start


def chosen(bed: Bed, reader: Reader, own: Sequence[Note] = ()) -> list[int]:
    """What a level of one bed shows."""
    past = Past(reader, [(bed, own), (Bed(64, 64, (), targets), ())], Fresh(64, (), targets), {}, Lines().of)
    return [seq for section in past.sections(2000) if section.name == "level" for seq in section.seqs]


def test_readers_without_an_interest_share_one_choice() -> None:
    """What is chosen for one reader is there for the next; whoever is addressed gets a choice of its own."""
    bed = Bed(0, 64, [note(seq, to=("w9",) if seq == 1 else ()) for seq in range(1, 60)], targets)
    assert chosen(bed, Reader("w1")) == chosen(bed, Reader("w2"))
    assert len(bed.choices) == 1
    assert 1 in chosen(bed, Reader("w9"))
    assert 1 not in chosen(bed, Reader("w1"))
    assert len(bed.choices) == 2


def test_what_is_a_readers_own_is_chosen_first() -> None:
    """A note that only this reader is shown stands before those that all are shown, and in nobody else's choice."""
    bed = Bed(0, 64, [note(seq) for seq in range(20, 60)], targets)
    assert 3 in chosen(bed, Reader("w9"), [note(3, to=("w9",))])
    assert 3 not in chosen(bed, Reader("w1"))


def test_what_is_kept_is_bounded() -> None:
    """A memory that is full begins anew."""
    memory: dict[int, int] = {}
    for number in range(3 * CHOICES_KEPT):
        assert kept(memory, number, number) == number
    assert len(memory) <= CHOICES_KEPT
