"""Claims that read alike."""

from __future__ import annotations

from board.core.similar import similar_claims
from board.core.state import Lease, State
from schema.limits import Settings


def board_with(*claims: tuple[int, str, str]) -> State:
    """Make a state that holds these claims: seq, holder, text."""
    state = State(Settings())
    for claim, holder, text in claims:
        state.put_lease(Lease(claim, holder, text, (f"src/{claim}.c",), "", "held", 0, 0, 600, 0, 600_000_000))
    return state


def test_the_same_intent_in_other_words_order_is_found() -> None:
    """A claim of another worker with the same words in another order is named with a high score."""
    state = board_with((1, "w1", "rewrite the table row reader"), (2, "w2", "fix the LaTeX writer's escaping"))
    found = similar_claims(state, "w3", "table row reader: rewrite", but=())
    assert [one.claim for one in found] == [1]
    assert found[0].score >= 90


def test_ones_own_and_those_in_the_way_are_left_out() -> None:
    """Neither the asker's own claims nor those already listed as conflicts are advice."""
    state = board_with((1, "w1", "rewrite the reader"), (2, "w2", "rewrite the reader"))
    assert similar_claims(state, "w1", "rewrite the reader", but={2}) == []


def test_at_most_three_are_named_the_most_alike_first() -> None:
    """Of many alike, three are named, the closest first and the newer before the older."""
    texts = ["rewrite the reader", "rewrite the reader", "rewrite the reader now", "rewrite the reader", "unrelated"]
    state = board_with(*((seq, f"w{seq}", text) for seq, text in enumerate(texts, start=1)))
    found = similar_claims(state, "me", "rewrite the reader", but=())
    assert [one.claim for one in found] == [4, 3, 2]
