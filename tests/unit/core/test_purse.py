"""What fits into a number of tokens."""

from __future__ import annotations

from board.core.purse import Purse, price
from board.core.tokens import cost


def test_a_purse_never_goes_below_nothing() -> None:
    """What is too dear is not bought, and leaves the purse as it was."""
    purse = Purse(cost("abc\n"))
    assert not purse.pays("abcde")
    assert purse.fill("page", "x" * 9, [(1, "abc")]).rows == ()
    assert purse.pays("abc\n")
    assert purse.left == 0


def test_a_section_costs_what_its_text_does() -> None:
    """The costs of its parts add up."""
    section = Purse(10_000).fill("page", "Since #0", [(1, "a line"), (2, "another, of 12 words")])
    assert section.cost == cost(section.text)
    assert price("a line") == cost("a line\n")
    assert Purse(0).fill("page", "Since #0", []).cost == 0
