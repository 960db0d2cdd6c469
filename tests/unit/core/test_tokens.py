"""The rule by which texts are counted."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from board.core.tokens import COSTS_A_TOKEN, cost, tokens


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("", 0),
        ("plain words cost little", 7),
        ("0123456789", 8),
        ("{}[]();:", 6),
        ("Привет", 6),
        ("你好", 3),
        ("🙂", 2),
    ],
)
def test_texts_cost_what_the_rule_says(text: str, count: int) -> None:
    """Letters cost 2/7 of a token, other ASCII characters 5/7, a byte of any other character a half."""
    assert tokens(text) == count


@given(st.text(st.characters()), st.text(st.characters()))
def test_costs_add_up(one: str, other: str) -> None:
    """The cost of two texts joined is the sum of their costs, so that a budget can be spent piece by piece."""
    assert cost(one + other) == cost(one) + cost(other)


@given(st.text(st.characters()))
def test_nothing_is_cheaper_than_a_quarter_of_a_token_a_character(text: str) -> None:
    """A reader who counts four characters to a token never counts more than the board does."""
    assert tokens(text) >= len(text) / 4
    assert cost(text) <= tokens(text) * COSTS_A_TOKEN
