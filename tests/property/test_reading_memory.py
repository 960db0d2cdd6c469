"""What is read from memory is what the log says: on any history, after each step of it.

A reader whose memory follows the board is asked beside one that has none, so that it has to ask the store for all, and
beside one that knows the whole log. Of what is unread the store is only asked for what concerns a worker's own claims
and patches, so that who remembers more may be told of more; nobody is told of less.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from board.core.recent import correction
from board.core.retention import trimmable
from board.core.spelling import spell
from board.core.unread import Item, Ranked, Standing, rank
from board.service.access import Identity
from board.service.questions import (
    AckBody,
    NarrowBody,
    ReleaseBody,
    RetractBody,
    TransferBody,
    UnreadQuery,
)
from board.service.reading import POINTED_NOTES, Reading
from board.service.service import Service
from board.service.shelf import Reach
from board.settings import read
from board.store.memory import MemoryStore
from schema.codec import decode_event, encode
from schema.codes import ProblemError
from schema.events import AboutNote, AnyEvent, NoteRetracted
from schema.notes import Batch, Claim, Fact, Fail, Observed, PatchSummary, Ref, Run

if TYPE_CHECKING:
    from collections.abc import Sequence

    from board.service.boards import OpenBoard

WORKERS: Final = ("w1", "w2", "w3")
PATHS: Final = ("src/a.c", "src/b.c", "src", "lib/z.c", "src/a.c:1-9", "src/*.c")
NOTHING: Final = Reach(primed=0, window=1)
QUERY: Final = UnreadQuery(limit=1000, budget_tokens=100_000)

worker = st.sampled_from(WORKERS)
path = st.sampled_from(PATHS)
back = st.integers(1, 12)
"""How many events ago it was that something is done to."""

steps = st.one_of(
    st.tuples(st.just("note"), worker, path, back, st.sampled_from(["", "refutes", "supersedes", "supports"]), worker),
    st.tuples(st.just("run"), worker, path, st.integers(0, 1)),
    st.tuples(st.just("patch"), worker, path),
    st.tuples(st.just("claim"), worker, path, st.sampled_from(["contest", "wait", "refuse"])),
    st.tuples(st.just("release"), worker, back),
    st.tuples(st.just("narrow"), worker, back, st.sampled_from(["src/a.c", "src/a.c:2-3"])),
    st.tuples(st.just("transfer"), worker, back, worker),
    st.tuples(st.just("retract"), worker, back),
    st.tuples(st.just("ack"), worker, back),
    st.tuples(st.just("read"), worker),
    st.tuples(st.just("many"), worker, path, st.integers(50, 120)),
    st.tuples(st.just("trim"), worker, back),
)
reaches = st.builds(Reach, primed=st.integers(1, 12), window=st.sampled_from([2, 5, 12, 300]))


class Clock:
    """A clock that moves at each look, so that leases are renewed and end, and old events need not be kept."""

    def __init__(self) -> None:
        self._now_us = 1_800_000_000_000_000

    def now_us(self) -> int:
        """Microseconds since 1970, UTC."""
        self._now_us += 15_000_000
        return self._now_us


class Team:
    """A board whose workers act, and two who read it: one with a memory, one without."""

    def __init__(self, service: Service, store: MemoryStore, board: OpenBoard, reach: Reach) -> None:
        self.board = board
        self.memory = Reading(store, alone=True, reach=reach)
        self._service = service
        self._store = store

    async def act(self, kind: str, name: str, *said: Any) -> None:
        """Let a worker do something; a refusal is an answer as well."""
        with suppress(ProblemError):
            await self._act(kind, Identity(name, "admin"), *said)

    async def _act(self, kind: str, who: Identity, *said: Any) -> None:
        service, seq = self._service, self.board.state.seq
        match kind, said:
            case "note", (place, ago, rel, to):
                refs = (Ref(rel, seq - ago),) if rel and seq > ago else ()
                note = (Fail if rel == "refutes" else Fact)(text=f"note {seq}", scope=(place,), refs=refs, to=(to,))
                await service.post(who, "main", msgspec.structs.replace(note, to=() if seq % 3 else (to,)))
            case "run", (place, code):
                await service.post(who, "main", Observed(text=f"ran {seq}", scope=(place,), run=Run("make", code)))
            case "patch", (place,):
                said_of = {"idea": f"idea {seq}", "evidence": "ran it, 3 of 3 pass", "work": "rows"}
                await service.post(who, "main", PatchSummary(files=(place,), **said_of))
            case "claim", (place, on_conflict):
                await service.post(
                    who, "main", Claim(text=f"work {seq}", scope=(place, "doc"), on_conflict=on_conflict, ttl_s=1800)
                )
            case "ack", (ago,):
                await service.ack(who, "main", AckBody(seqs=(seq - ago,)))
                await self.memory.ack(self.board, who.worker, through=None, seqs=[seq - ago])
            case "retract", (ago,):
                await service.retract(who, "main", seq - ago, RetractBody(reason="mistaken"))
            case "many", (place, count):
                notes = tuple(Fact(text=f"note {seq} {number}", scope=(place,)) for number in range(count))
                await service.post_batch(who, "main", Batch(notes))
            case "trim", (ago,):
                await self._trim(seq - ago)
            case "read", ():
                await self.memory.urgent_block(self.board, who.worker)
            case _:
                await self._move(kind, who, *said)

    async def _trim(self, wanted: int) -> None:
        upto = trimmable(self.board.state, wanted)
        if upto >= self.board.oldest:
            await self._store.trim("main", upto, (await self.board.folded(upto)).freeze())
            await self.board.learn_oldest()
            while await self._store.sweep("main"):
                pass

    async def _move(self, kind: str, who: Identity, ago: int, *said: Any) -> None:
        claims = sorted(self.board.state.leases)
        if not claims:
            return
        claim = claims[-min(ago, len(claims))]
        match kind:
            case "release":
                await self._service.release(who, "main", claim, ReleaseBody(outcome="handoff", to=("w1",), reason="r"))
            case "narrow":
                await self._service.narrow(who, "main", claim, NarrowBody(scope=said))
            case _:
                await self._service.transfer(who, "main", claim, TransferBody(to=said[0], reason="r"))

    async def check(self) -> None:
        """Compare what the reader with a memory is shown with what the log says."""
        without = Reading(self._store, alone=True, reach=NOTHING)
        whole = Reading(self._store, alone=True)
        for name in WORKERS:
            for scope in ((), (spell("src/a.c"),)):
                for budget in (150, 600, 4000):
                    mine = await self.memory.snapshot(self.board, name, scope, budget)
                    assert mine == await without.snapshot(self.board, name, scope, budget)
            least, mine, most = [await self._unread(one, name) for one in (without, self.memory, whole)]
            unread = await self._expected(name)
            urgent = sorted((one.item.seq for one in unread if one.urgent), reverse=True)
            assert least <= mine <= most <= {one.item.seq for one in unread}
            assert most >= set(urgent[:POINTED_NOTES])

    async def _unread(self, reading: Reading, name: str) -> set[int]:
        body = await reading.unread(self.board, name, QUERY)
        return {msgspec.json.decode(raw)["seq"] for raw in body["notes"]}

    async def _expected(self, name: str) -> list[Ranked]:
        """What is unread, found by a walk over the whole log."""
        rows, _ = await self._store.page("main", limit=10_000)
        events = [decode_event(row.body) for row in rows]
        authors = {event.seq: event.author for event in events}
        gone = {event.note for event in events if isinstance(event, NoteRetracted)}
        acks = await self._store.acks("main", name)
        through = max(acks.through, self.board.oldest - 1)
        leases = [lease for lease in self.board.state.leases_of(name) if lease.state == "held"]
        held = tuple(target for lease in leases for target in self.board.state.targets(lease.scope))
        items = [_item(event, authors, name) for event in events if event.seq not in gone]
        return rank(items, Standing(name, through, acks.seqs, held), self.board.spell)


def _item(event: AnyEvent, authors: dict[int, str], name: str) -> Item:
    subject = authors.get(event.note, "") if isinstance(event, AboutNote) else ""
    found = correction(event)
    own = found is not None and any(authors.get(target) == name for target in found.targets)
    return Item(event, encode(event), subject, own)


async def _team(history: Sequence[tuple[Any, ...]], reach: Reach, *, every: int) -> None:
    store, clock = MemoryStore(), Clock()
    service = Service(store, clock, read(store="memory:"))
    await service.start()
    try:
        board = await service.enter(Identity("w1", "admin"), "main")
        for name in WORKERS:
            await service.enter(Identity(name, "admin"), "main")
        team = Team(service, store, board, reach)
        for number, step in enumerate(history):
            await team.act(*step)
            if number % every == 0:
                await team.check()
        await team.check()
    finally:
        await service.close()


@settings(max_examples=100, deadline=None)
@given(st.lists(steps, max_size=30), reaches, st.integers(1, 7))
def test_memory_shows_what_the_log_holds(history: Sequence[tuple[Any, ...]], reach: Reach, every: int) -> None:
    """However far memory reaches and whenever it was asked before, prompt views and unread notes are the log's."""
    asyncio.run(_team(history, reach, every=every))
