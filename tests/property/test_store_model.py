"""Whatever is written, in whatever order, SQLite's store answers as the oracle does."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from board.core.spelling import spell
from board.core.words import parse
from board.store.contract import Filter, HeadMoved, LogTrimmed, Wanted
from board.store.memory import MemoryStore
from board.store.sqlite import SqliteStore
from schema.notes import NOTE_TYPES
from tests.harness.logs import append, conflicted, invalidated, note, renewed, retracted, superseded, transferred

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from board.store.contract import Record, Store

SCOPES = (
    "src",
    "src/a.c",
    "src/a.c:1-9",
    "src/a.c::f",
    "src/*.c",
    "**/*.c",
    "{src,lib}/b",
    "lib",
    "task:a",
    "task:a/b",
)
WORDS = ("table", "POL-358", "don't", "Straße", "STRASSE", "e\u0301", "é", "x\x00y", "ﬁle", "x" * 300, "__", "日本語")
NAMES = ("w1", "w2", "w3")

some_scope = st.lists(st.sampled_from(SCOPES), max_size=3, unique=True).map(tuple)
some_text = st.lists(st.sampled_from(WORDS) | st.text(max_size=4), max_size=4).map(" ".join)
some_seqs = st.frozensets(st.integers(-1, 40), max_size=6)
some_filter = st.builds(
    Filter,
    types=st.lists(st.sampled_from((*NOTE_TYPES, "note.retracted", "claim.released")), max_size=3).map(tuple),
    author=st.sampled_from(("", "", *NAMES, "board")),
    task=st.sampled_from(("", "", "a", "b")),
    to=st.sampled_from(("", "", *NAMES)),
    scope=st.lists(st.sampled_from(SCOPES), max_size=2).map(lambda texts: tuple(spell(text) for text in texts)),
    notes_only=st.booleans(),
    live_only=st.booleans(),
)


@st.composite
def some_records(draw: st.DrawFn, head: int) -> list[Record]:
    """Make a few records that follow a head."""
    return [draw(some_record(seq)) for seq in range(head + 1, head + 1 + draw(st.integers(1, 5)))]


@st.composite
def some_record(draw: st.DrawFn, seq: int) -> Record:
    """Make a note mostly, else an event about something earlier."""
    if draw(st.integers(0, 2)):
        return draw(some_note(seq))
    subject, other, who = draw(st.integers(1, seq)), draw(st.integers(1, seq)), draw(st.sampled_from(NAMES))
    made = (
        lambda: retracted(seq, subject, who),
        lambda: superseded(seq, subject, other),
        lambda: invalidated(seq, subject, other),
        lambda: renewed(seq, subject, who),
        lambda: transferred(seq, subject, who),
        lambda: conflicted(seq, subject, other),
    )
    return draw(st.sampled_from(made))()


@st.composite
def some_note(draw: st.DrawFn, seq: int) -> Record:
    """Make a note of any type; its key is its own."""
    kind = draw(st.sampled_from(NOTE_TYPES))
    patch = (
        {"files": draw(some_scope), "work": draw(st.sampled_from(("", "p", "q")))} if kind == "PATCH_SUMMARY" else {}
    )
    return note(
        seq,
        kind,
        author=draw(st.sampled_from(NAMES)),
        text=draw(some_text),
        scope=draw(some_scope),
        task=draw(st.sampled_from(("", "a", "b"))),
        to=tuple(draw(st.sets(st.sampled_from(NAMES), max_size=2))),
        detail=draw(st.just("") | st.text(max_size=9)),
        key=draw(st.sampled_from(("", f"k{seq}"))),
        digest=draw(st.binary(max_size=3)),
        **patch,
    )


class Stores(RuleBasedStateMachine):
    """The oracle and SQLite's store side by side: what is done to one is done to the other."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.loop = asyncio.Runner()
        self.head = 0
        self.oracle: Store = MemoryStore()
        self.tested: Store = self.made()
        self.loop.run(self.oracle.open())
        self.loop.run(self.tested.open())

    def made(self) -> SqliteStore:
        """Make the store on its file."""
        return SqliteStore(str(Path(self.folder.name) / "board.db"), read_threads=1)

    def teardown(self) -> None:
        """Close what is open."""
        self.loop.run(self.tested.close())
        self.loop.close()
        self.folder.cleanup()

    def agree(self, ask: Callable[[Store], Awaitable[Any]]) -> None:
        """Ask both, and compare the answers."""

        async def both() -> tuple[Any, Any]:
            return await ask(self.tested), await ask(self.oracle)

        tested, expected = self.loop.run(both())
        assert tested == expected

    @rule(data=st.data())
    def commit(self, data: st.DataObject) -> None:
        """Commit records that follow."""
        records = data.draw(some_records(self.head))
        self.agree(lambda store: append(store, records))
        self.head += len(records)

    @rule(seq=st.integers(1, 60))
    def commit_elsewhere(self, seq: int) -> None:
        """Commit a record that mostly does not follow."""

        async def attempt(store: Store) -> bool:
            try:
                async with store.begin("main", self.head) as transaction:
                    await transaction.commit([note(seq)])
            except HeadMoved:
                return False
            return True

        self.agree(attempt)
        self.head += seq == self.head + 1

    @rule()
    def reopen(self) -> None:
        """Close SQLite's store and open its file again."""
        self.loop.run(self.tested.close())
        self.tested = self.made()
        self.loop.run(self.tested.open())

    @rule(through=st.none() | st.integers(0, 40), seqs=some_seqs, worker=st.sampled_from(NAMES))
    def acknowledge(self, through: int | None, seqs: frozenset[int], worker: str) -> None:
        """Acknowledge."""
        self.agree(lambda store: store.ack("main", worker, through=through, seqs=seqs))

    @rule(seq=st.integers(1, 40), state=st.binary(max_size=4))
    def checkpoint(self, seq: int, state: bytes) -> None:
        """Save a checkpoint, newer or not."""
        self.agree(lambda store: store.save_checkpoint("main", seq, state))
        self.agree(lambda store: store.checkpoint("main"))

    @rule(seq=st.integers(0, 40), state=st.binary(max_size=4))
    def trim(self, seq: int, state: bytes) -> None:
        """Trim up to a seq that was given out, whether it is kept or not, and sweep to the end."""

        async def trim(store: Store) -> Any:
            trimmed = await store.trim("main", min(seq, self.head), state)
            while await store.sweep("main"):
                pass
            acks = [await store.acks("main", worker) for worker in NAMES]
            return trimmed, await store.base("main"), await store.checkpoint("main"), acks

        self.agree(trim)

    @rule(
        where=some_filter,
        after=st.integers(-1, 40),
        before=st.none() | st.integers(0, 41),
        limit=st.integers(1, 12),
        descending=st.booleans(),
        max_bytes=st.none() | st.integers(0, 2000),
    )
    def page(self, **asked: Any) -> None:
        """Read a page."""
        self.agree(lambda store: store.page("main", **asked))

    @rule(q=some_text, before=st.none() | st.integers(0, 41), limit=st.integers(1, 12))
    def search(self, q: str, before: int | None, limit: int) -> None:
        """Search for anything."""
        self.agree(lambda store: store.search("main", parse(q), before=before, limit=limit))

    @rule(scope=some_scope, types=st.sets(st.sampled_from(NOTE_TYPES)), limit=st.integers(1, 12))
    def overlapping(self, scope: tuple[str, ...], types: set[str], limit: int) -> None:
        """Find what overlaps."""
        targets = [spell(text) for text in scope]
        self.agree(lambda store: store.overlapping("main", targets, sorted(types), limit=limit))

    @rule(seqs=some_seqs, after=st.integers(0, 40))
    def look_up(self, seqs: frozenset[int], after: int) -> None:
        """Read by seq, and all that a decision may ask."""
        self.agree(lambda store: store.rows("main", seqs))
        self.agree(lambda store: store.about("main", seqs))
        self.agree(lambda store: store.records("main", after=after, limit=9))
        keys = frozenset((name, f"k{seq}") for name in NAMES for seq in seqs)
        works = frozenset((name, work) for name in NAMES for work in ("p", "q"))
        wanted = Wanted(seqs, keys, works)

        async def lookup(store: Store) -> Any:
            try:
                async with store.begin("main", max(self.head - after, 0)) as transaction:
                    return await transaction.lookup(wanted), list(transaction.missed)
            except LogTrimmed:
                return None

        self.agree(lookup)

    @invariant()
    def rows_agree(self) -> None:
        """The heads are where the commits left them, and the oldest seqs where the trims did."""

        async def ends(store: Store) -> tuple[int, int]:
            row = (await store.boards())[0]
            return row.oldest, row.head

        self.agree(ends)


Stores.TestCase.settings = settings(
    max_examples=40, stateful_step_count=25, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
TestStores = Stores.TestCase
