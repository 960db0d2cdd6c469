"""What workers acknowledged, in memory beside the store."""

from __future__ import annotations

import pytest

from board.service.acks import ACKS_KEPT, AckBook
from board.store.contract import Acks
from board.store.memory import MemoryStore

pytestmark = pytest.mark.anyio


@pytest.fixture
async def store() -> MemoryStore:
    """Give a store that is open."""
    store = MemoryStore()
    await store.open()
    return store


async def test_what_was_acknowledged_is_known(store: MemoryStore) -> None:
    """Before anything, after one acknowledgement and after the next, memory says what the store does."""
    book = AckBook(store, alone=True)
    assert await book.of("main", "w1") == Acks()
    await book.ack("main", "w1", through=None, seqs=[3, 5])
    assert await book.of("main", "w1") == await store.acks("main", "w1") == Acks(0, frozenset((3, 5)))
    await book.ack("main", "w1", through=4, seqs=[])
    assert await book.of("main", "w1") == await store.acks("main", "w1") == Acks(4, frozenset((5,)))
    assert await book.of("main", "w2") == Acks()


async def test_a_slow_look_takes_nothing_back(store: MemoryStore) -> None:
    """What the store said before an acknowledgement is joined with it when it comes late."""
    book = AckBook(store, alone=True)
    await book.ack("main", "w1", through=7, seqs=[9])
    await store.ack("main", "w1", through=None, seqs=[12])
    assert await book.ack("main", "w1", through=2, seqs=[]) == Acks(7, frozenset((9, 12)))


async def test_where_other_nodes_write_the_store_is_asked(store: MemoryStore) -> None:
    """What another node took is seen at the next look."""
    book = AckBook(store, alone=False)
    assert await book.of("main", "w1") == Acks()
    await store.ack("main", "w1", through=7, seqs=[])
    assert await book.of("main", "w1") == Acks(7)


async def test_what_is_known_is_bounded(store: MemoryStore) -> None:
    """Who acknowledged more than is kept is asked of the store again, and nothing is forgotten by that."""
    book = AckBook(store, alone=True)
    await book.ack("main", "w1", through=None, seqs=range(1, ACKS_KEPT))
    await book.ack("main", "w2", through=None, seqs=[5, 6])
    assert len((await book.of("main", "w1")).seqs) == ACKS_KEPT - 1
    assert await book.of("main", "w2") == Acks(0, frozenset((5, 6)))
