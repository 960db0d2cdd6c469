"""What a writer does with events of other nodes that it hears before it reads them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from board.core.commands import Asker, Post
from board.core.decide import Stored
from board.core.state import State
from board.service.clock import SystemClock
from board.service.presence import Presence
from board.service.writer import Writer
from board.store.memory import MemoryStore
from schema.limits import Settings
from schema.notes import Fact
from tests.harness.logs import append, note, notes, renewed

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from board.store.contract import Record

pytestmark = pytest.mark.anyio


class Heard:
    """A writer, its store, and the seqs that it passed on."""

    def __init__(self) -> None:
        self.store = MemoryStore()
        self.seqs: list[int] = []
        self.writer = Writer(
            "main",
            self.store,
            State(Settings()),
            Presence([]),
            SystemClock(),
            queue_notes=100,
            on_commit=self._commit,
        )

    def _commit(self, records: Sequence[Record]) -> None:
        self.seqs += [record.seq for record in records]

    async def post(self, text: str) -> int:
        """Post a note through the writer."""
        answer = await self.writer.submit(Post(Asker("w1"), Fact(text=text)))
        assert isinstance(answer, Stored)
        return answer.seq


@pytest.fixture
async def heard() -> AsyncIterator[Heard]:
    """A writer that works."""
    made = Heard()
    await made.store.open()
    made.writer.start()
    yield made
    await made.writer.stop()


async def test_what_follows_is_folded(heard: Heard) -> None:
    """Events that follow are folded and passed on; the next note comes after them, and nothing is passed on twice."""
    await append(heard.store, notes(1, 3))
    assert heard.writer.hear(notes(1, 3))
    assert heard.writer.settled.seq == 3
    assert await heard.post("mine") == 4
    assert heard.seqs == [1, 2, 3, 4]


async def test_what_was_folded_is_passed_over(heard: Heard) -> None:
    """A ring that comes late, or twice, or half known, adds only what is new."""
    await append(heard.store, notes(1, 5))
    assert heard.writer.hear(notes(1, 2))
    assert heard.writer.hear(notes(1, 2))
    assert heard.writer.hear(notes(2, 5))
    assert heard.writer.hear([])
    assert heard.seqs == [1, 2, 3, 4, 5]


async def test_a_gap_is_left_to_the_log(heard: Heard) -> None:
    """Events after a gap are not folded; the next transaction reads all of it."""
    await append(heard.store, notes(1, 5))
    assert not heard.writer.hear(notes(3, 5))
    assert heard.seqs == []
    assert await heard.post("mine") == 6
    assert heard.seqs == [1, 2, 3, 4, 5, 6]


async def test_what_cannot_be_is_not_folded(heard: Heard) -> None:
    """Events that no log holds, from a ring that lies, leave the state as it was."""
    before = heard.writer.settled.state_hash()
    assert not heard.writer.hear([note(1), renewed(2, 1)])
    assert heard.writer.settled.state_hash() == before
    assert await heard.post("mine") == 1


async def test_what_is_heard_while_it_waits_for_its_turn(heard: Heard) -> None:
    """Events heard between asking for the right to write and getting it are folded once."""
    async with heard.store.begin("main", 0) as other:
        posting = asyncio.create_task(heard.post("mine"))
        await asyncio.sleep(0.01)
        await other.commit(notes(1, 2))
        assert heard.writer.hear(notes(1, 2))
    assert await posting == 3
    assert heard.seqs == [1, 2, 3]


async def test_nothing_is_folded_between_decision_and_commit(heard: Heard) -> None:
    """While its own decision is under way a writer folds nothing that it hears: it holds the right to write."""
    committing = asyncio.Event()
    go_on = asyncio.Event()
    append_records: Any = heard.store.find("main").append

    class Slow:
        """A transaction whose commit takes its time."""

        commits_apart = True

        def __init__(self, inner: Any) -> None:
            self._inner = inner

        async def __aenter__(self) -> Any:
            self._opened = await self._inner.__aenter__()
            self.missed = self._opened.missed
            return self

        async def __aexit__(self, *said: object) -> None:
            await self._inner.__aexit__(*said)

        async def lookup(self, wanted: Any) -> Any:
            return await self._opened.lookup(wanted)

        async def commit(self, records: Any) -> None:
            committing.set()
            await go_on.wait()
            append_records(records)

    begin: Any = heard.store.begin
    heard.store.begin = lambda board, after: Slow(begin(board, after))  # type: ignore[method-assign]
    posting = asyncio.create_task(heard.post("mine"))
    await committing.wait()
    assert not heard.writer.hear([note(1, text="a stranger's")])
    go_on.set()
    assert await posting == 1
    assert heard.seqs == [1]
