"""Rings as bytes, and those that wait."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from board.bus.rings import RING_BYTES, WAITING_BYTES, Ring, Waiting, bodies_in, decoded, encoded

some_ring = st.builds(Ring, st.text(), st.text(), st.text(), st.integers(0, 2**53), st.booleans())
some_body = st.binary(min_size=1).filter(lambda body: b"\x1e" not in body)


@given(some_ring, st.lists(some_body))
def test_a_ring_comes_back_as_it_was(ring: Ring, bodies: list[bytes]) -> None:
    """What was encoded is decoded to the same ring and the same bodies."""
    found = decoded(encoded(ring, bodies))
    assert found is not None
    assert found[0] == ring
    assert bodies_in(found[1]) == bodies


@given(st.binary())
def test_anything_is_a_ring_or_none(data: bytes) -> None:
    """No bytes are an error."""
    decoded(data)


def test_order_is_kept() -> None:
    """Rings with bodies are taken in the order that they came."""
    waiting = Waiting()
    for head in range(5):
        waiting.add(Ring("n", "b", "e", head), [b"x"])
    assert [ring.head for ring, _ in waiting.take()] == list(range(5))
    assert len(waiting) == 0


def test_bare_heads_of_a_board_are_one() -> None:
    """Of rings without bodies only the last of a board waits; those of others, and for tokens, are their own."""
    waiting = Waiting()
    for head in range(5):
        waiting.add(Ring("n", "a", "e", head))
        waiting.add(Ring("n", "b", "e", head))
        waiting.add(Ring("n", tokens=True))
    taken = [(ring.board, ring.head, ring.tokens) for ring, _ in waiting.take()]
    assert sorted(taken) == [("", 0, True), ("a", 4, False), ("b", 4, False)]


@pytest.mark.parametrize("size", [RING_BYTES + 1, RING_BYTES])
def test_what_waits_is_bounded_in_bytes(size: int) -> None:
    """A ring that is too long waits without its bodies, and so does one for which there is no room any more."""
    waiting = Waiting()
    for head in range(40):
        waiting.add(Ring("n", "b", "e", head), [b"x" * size])
    taken = waiting.take()
    assert sum(len(body) for _, bodies in taken for body in bodies) <= WAITING_BYTES
    assert taken[-1][0].head == 39
