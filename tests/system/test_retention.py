"""Logs whose beginning is no longer kept: who is told so and how, what still holds, and what a crash leaves behind."""

from __future__ import annotations

import sqlite3
from contextlib import AsyncExitStack, closing, suppress
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from schema.codes import ProblemError
from schema.events import ClaimExpired, Note
from schema.notes import Claim, Observed, Ref
from tests.harness.clocked import ClockedNode
from tests.harness.listener import Listener
from tests.harness.node import Node, run_board
from tests.harness.team import until
from workers.client import Backoff

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable
    from pathlib import Path

    from schema.events import AnyEvent
    from tests.harness.postgres import Postgres
    from workers.client import BoardClient

pytestmark = pytest.mark.anyio

YOUNG_S = 700
"""Longer than what is kept in any case."""
KEEP_TEN = {"BOARD_KEEP_EVENTS": "10", "BOARD_TRIM_S": "0.05"}
ONCE = Backoff(tries=1)


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[ClockedNode]:
    """A server that keeps ten events, on a clock that a test moves."""
    async with ClockedNode(tmp_path, environ=KEEP_TEN) as running:
        yield running


async def post(client: BoardClient, count: int, **said: Any) -> int:
    """Write so many notes at once; give the seq of the last."""
    posted = await client.post_batch([Observed(text=f"number {number}", **said) for number in range(count)])
    assert posted.last is not None
    return posted.last


async def trimmed(client: BoardClient, oldest: int) -> None:
    """Wait until the log begins with a seq."""

    async def begins() -> bool:
        return (await client.board()).oldest == oldest

    await until(begins)


async def trim(node: ClockedNode, client: BoardClient) -> None:
    """Write 31 notes of which the last ten are kept, from 22 on."""
    await post(client, 30, scope=("src/a.c",), to=("w1",))
    node.clock.move(YOUNG_S)
    assert await post(client, 1) == 31
    await trimmed(client, 22)


async def first_of(client: BoardClient) -> AnyEvent:
    """Give the first event of a stream from the beginning."""
    async with client.subscribe(after=0) as stream:
        return await anext(stream)


async def refused(call: Awaitable[Any]) -> tuple[str, Any]:
    """Give the code of a refusal, and the oldest seq that it names."""
    with pytest.raises(ProblemError) as caught:
        await call
    return caught.value.problem.code, caught.value.problem.facts.get("oldest")


# What callers are told


async def test_a_position_that_is_no_longer_kept_is_said_so(node: ClockedNode) -> None:
    """Scenario 19: over HTTP it is 410 with the oldest, or 409 from the future; what is kept is given whole."""
    async with node.client("w1", backoff=ONCE) as board:
        await trim(node, board)
        gone = ("position_gone", 22)
        for after in (0, 20):
            assert await refused(board.notes(after=after)) == gone
            assert await refused(board.events(after=after)) == gone
            assert await refused(board.notes(after=after, order="desc")) == gone
            assert await refused(board.wait(after=after)) == gone
        for before in (1, 22):
            assert await refused(board.notes(before=before)) == gone
            assert await refused(board.notes(before=before, order="desc")) == gone
            assert await refused(board.search("number", before=before)) == gone
        assert await refused(board.wait(after=32)) == ("position_from_future", None)
        page = await board.notes(limit=5)
        assert ([note.seq for note in page.notes], page.oldest, page.head) == ([22, 23, 24, 25, 26], 22, 31)
        assert [event.seq async for event in board.each_event(limit=3)] == list(range(22, 32))
        assert [note.seq async for note in board.each_note(after=21, limit=3)] == list(range(22, 32))
        assert [note.seq async for note in board.each_note(order="desc", limit=3)] == list(range(31, 21, -1))
        assert [note.seq for note in (await board.search("number")).notes] == list(range(31, 21, -1))
        assert [note.seq async for note in board.each_note(scope=["src/a.c"], to="w1")] == list(range(22, 31))


async def test_a_note_that_is_no_longer_kept_is_said_so(node: ClockedNode) -> None:
    """To read it, to refer to it or to move it is refused, as other than what never was; nothing is stored."""
    async with node.client("w1", backoff=ONCE) as board:
        await trim(node, board)
        assert await refused(board.note(21)) == ("note_gone", 22)
        assert await refused(board.detail(1)) == ("note_gone", 22)
        assert await refused(board.retract(21)) == ("note_gone", 22)
        assert await refused(board.release(21)) == ("claim_not_found", 22)
        assert await refused(board.post(Observed(text="see", refs=(Ref("supports", 21),)))) == ("unknown_ref", 22)
        for call in (board.note(99), board.retract(99), board.release(99)):
            assert (await refused(call))[1] is None
        assert await refused(board.post(Observed(text="see", refs=(Ref("supports", 99),)))) == ("unknown_ref", None)
        assert (await board.note(22)).seq == 22
        assert (await board.board()).head == 31


async def test_a_stream_is_told_where_the_log_begins(node: ClockedNode) -> None:
    """Scenario 19 on the stream: 4410 with the oldest, 4409 from the future; from the oldest on there is no hole."""
    async with node.client("w1") as board:
        await trim(node, board)
        for after, code, oldest in ((0, 4410, 22), (20, 4410, 22), (32, 4409, None)):
            listener = await Listener.open(node.url, "main", after=after)
            await listener.until(lambda one: one.closed)
            assert listener.closed is not None
            assert (listener.closed[0], listener.closed[1].get("oldest"), listener.seqs) == (code, oldest, [])
            listener.close()
        for query in ({"after": 21}, {"tail": 1000}, {"tail": 1000, "type": "OBSERVED"}):
            listener = await Listener.open(node.url, "main", **query)
            await listener.reach(31)
            assert listener.seqs == list(range(22, 32))
            listener.close()
        assert await refused(first_of(board)) == ("position_gone", 22)


async def test_the_command_line_tells_where_the_log_begins(node: ClockedNode) -> None:
    """`tail` and `read` from too early say what the oldest is; without a position they show what is kept."""
    async with node.client("w1") as board:
        await trim(node, board)
    for command in ("tail", "read", "export"):
        ended = node.run(command, "--after", "3")
        assert ended.status == 1
        assert "The oldest event that is kept is 22" in ended.err
    shown = node.run("read", "--json", "--limit", "100").lines
    assert [note["seq"] for note in shown] == list(range(22, 32))


async def test_what_concerns_a_worker_is_what_is_kept(node: ClockedNode) -> None:
    """Unread counts, the prompt view and the search for what is known leave out what is gone."""
    async with node.client("w1") as w1, node.client("w2") as w2, httpx.AsyncClient(trust_env=False) as http:
        await w1.board()
        await trim(node, w2)
        url = f"{node.url}/v1/boards/main"
        unread = (await http.get(f"{url}/unread", headers={"X-Board-Worker": "w1"})).json()
        assert sorted(note["seq"] for note in unread["notes"]) == list(range(22, 32))
        assert unread["omitted"]["total"] == 0
        view = await w1.snapshot_document()
        assert {note["seq"] for note in view["notes"]} <= set(range(22, 32))
        found = await w1.check(["src/a.c"])
        assert all(note.seq >= 22 for note in found.related)


# What is kept


async def test_young_events_are_kept(node: ClockedNode) -> None:
    """However few events are to be kept, those of the last ten minutes are."""
    async with node.client("w1") as board:
        await post(board, 20)
        node.clock.move(YOUNG_S)
        await post(board, 100)
        await trimmed(board, 21)


async def test_what_is_in_use_is_kept(node: ClockedNode) -> None:
    """The log is not trimmed beyond a claim that is held or waits; once it has ended, it is."""
    async with node.client("w1") as w1, node.client("w2") as w2:
        await post(w1, 5)
        held = await w1.post(Claim(text="mine", scope=("src",), ttl_s=21_600))
        await w2.post(Claim(text="mine next", scope=("src",), on_conflict="wait", ttl_s=21_600))
        await post(w1, 30)
        node.clock.move(YOUNG_S)
        await post(w1, 20)
        await trimmed(w1, held.seq)
        assert (await w1.release(held.seq)).state == "released"
        await trimmed(w1, held.seq + 1)
        node.clock.move(21_600)
        await post(w1, 11)
        (expired,) = [event async for event in w1.each_event() if isinstance(event, ClaimExpired)]
        await trimmed(w1, expired.seq)


async def test_days(tmp_path: Path) -> None:
    """Events go when they are as many days old as is said; the newest stay, however old the log is."""
    async with (
        ClockedNode(tmp_path, environ={"BOARD_KEEP_DAYS": "1.5", "BOARD_TRIM_S": "0.05"}) as node,
        node.client("w1") as board,
    ):
        for _ in range(3):
            await post(board, 10)
            node.clock.move(86_400)
        await trimmed(board, 21)
        node.clock.move(86_400 * 365)
        await post(board, 5)
        await trimmed(board, 31)


async def test_everything_is_kept_unless_something_else_is_said(tmp_path: Path) -> None:
    """Without a setting nothing goes, however old it is."""
    async with ClockedNode(tmp_path, environ={"BOARD_TRIM_S": "0.05"}) as node, node.client("w1") as board:
        await post(board, 50)
        node.clock.move(86_400 * 365)
        await post(board, 50)
        await node.kill9()
        await node.restart()
        assert [event.seq async for event in board.each_event(after=0)] == list(range(1, 101))
        assert not any(line["event"] == "board.trimmed" for line in node.logged())


# Readers, crashes, copies


async def test_a_reader_that_is_behind_while_the_log_is_trimmed(tmp_path: Path) -> None:
    """It gets events without a hole, and then 4410 with the oldest: never a page that misses some in its middle."""
    environ = {**KEEP_TEN, "BOARD_TAIL_BYTES": "10000", "BOARD_SUBSCRIBER_BYTES": "10000", "BOARD_STALL_S": "60"}
    async with ClockedNode(tmp_path, environ=environ) as node, node.client("w1") as board:
        for _ in range(20):
            await post(board, 500, evidence="e" * 400)
        listeners = [await Listener.open(node.url, "main", after=0, receive_bytes=4096) for _ in range(5)]
        for number, listener in enumerate(listeners):
            await listener.reach(1 + 100 * number)
            listener.stall()
        node.clock.move(YOUNG_S)
        await post(board, 10)
        await trimmed(board, 10_001)
        for listener in listeners:
            listener.resume()
            await listener.until(lambda one: one.closed)
            assert listener.closed is not None
            assert (listener.closed[0], listener.closed[1]["oldest"]) == (4410, 10_001)
            assert listener.seqs == list(range(1, len(listener.seqs) + 1))
            assert len(listener.seqs) < 10_000
            listener.close()


async def test_pages_that_are_read_while_the_log_is_trimmed(tmp_path: Path) -> None:
    """Whoever reads page after page meanwhile gets every event from where it began, or is refused."""
    environ = {"BOARD_KEEP_EVENTS": "1", "BOARD_TRIM_S": "0"}
    async with ClockedNode(tmp_path, environ=environ) as node, node.client("w1", backoff=ONCE) as board:
        for _ in range(20):
            last = await post(board, 500)
            node.clock.move(YOUNG_S)
            begin = (await board.board()).oldest
            with suppress(ProblemError):
                seqs = [event.seq async for event in board.each_event(after=begin - 1, limit=50)]
                assert seqs == list(range(begin, last + 1))
            seqs = [event.seq async for event in board.each_note(order="desc", limit=100)]
            assert seqs == list(range(last, last - len(seqs), -1))
            assert len(seqs) >= 500


def verified(node: Node) -> dict[str, Any]:
    """Let `board verify` look at the store, and find nothing; give what it tells of `main`."""
    ended = run_board("verify", "--store", node.store, "--json")
    assert ended.json["findings"] == []
    assert ended.status == 0
    return next(one for one in ended.json["boards"] if one["board"] == "main")


async def test_a_restart_after_a_trim_gives_the_same_state(node: ClockedNode) -> None:
    """Claims, conflicts, counts and their hash are the same again, with the checkpoint of a clean stop and without."""
    async with node.client("w1") as w1, node.client("w2") as w2:
        await post(w1, 30)
        node.clock.move(YOUNG_S)
        claim = await w1.post(Claim(text="mine", scope=("src",), ttl_s=21_600))
        await w2.post(Claim(text="mine too", scope=("src/a.c",), on_conflict="contest", ttl_s=21_600))
        await trimmed(w1, claim.seq - 7)
        before = await w1.board()
        await node.kill9()
        assert verified(node) == {
            "board": "main",
            "events": 10,
            "head": before.head,
            "state_hash": before.state_hash,
            "oldest": before.oldest,
        }
        await node.restart()
        assert await w1.board() == before
        assert await node.terminate() == 0
        verified(node)
        await node.restart()
        assert await w1.board() == before
        assert len((await w2.conflicts()).conflicts) == 1
    told = node.run("verify", "--store", node.store)
    assert f"main: 10 events from {before.oldest}, where the base ends, to {before.head}" in told.out


def stored_events(node: Node) -> int:
    """Count the events that are in the file."""
    with closing(sqlite3.connect(f"file:{node.store.removeprefix('sqlite:')}?mode=ro", uri=True)) as file:
        return file.execute("SELECT count(*) FROM events").fetchone()[0]


@pytest.mark.parametrize("moment", range(4))
async def test_a_kill_in_the_middle_of_a_trim(tmp_path: Path, moment: int) -> None:
    """However far the sweep has come, the log that is left is sound, and the next start takes the rest away."""
    environ = {"BOARD_KEEP_EVENTS": "10", "BOARD_TRIM_S": "0.2"}
    async with ClockedNode(tmp_path, environ=environ) as node, node.client("w1") as board:
        for _ in range(10):
            await post(board, 1000, scope=("src/a.c", "task:a"), detail="long")
        node.clock.move(YOUNG_S)
        await post(board, 1)
        left = 10_001 - 2500 * moment

        async def swept() -> bool:
            return (await board.board()).oldest > 1 and stored_events(node) <= left

        await until(swept)
        await node.kill9()
        told = verified(node)
        assert (told["oldest"], told["events"], told["head"]) == (9992, 10, 10_001)
        await node.restart()

        async def all_swept() -> bool:
            return stored_events(node) == 10

        await until(all_swept)
        verified(node)
        assert (await board.board()).state_hash == told["state_hash"]
        assert await post(board, 1) == 10_002


async def test_an_export_of_a_trimmed_log_is_whole(node: ClockedNode, tmp_path: Path) -> None:
    """It holds the base, so an import keeps seqs, claims and state hash, in a file and on a running board."""
    file = tmp_path / "export.jsonl"
    async with node.client("w1") as board, AsyncExitStack() as stack:
        await post(board, 30)
        node.clock.move(YOUNG_S)
        claim = await board.post(Claim(text="mine", scope=("src",), ttl_s=21_600))
        await post(board, 5)
        await trimmed(board, 27)
        before = await board.board()
        assert node.run("export", "-o", str(file)).status == 0
        assert node.run("import", str(file), "--board", "none").status == 1
        await board.create_board("part", None)
        await board.create_board("again", None)
        imported = node.run("import", str(file), "--board", "again", "--json").json
        assert imported == {"head": before.head, "state_hash": before.state_hash}
        again = await stack.enter_async_context(node.client("w1", board="again"))
        assert [event.seq async for event in again.each_event()] == list(range(27, before.head + 1))
        assert await refused(again.events(after=25)) == ("position_gone", 27)
        assert (await again.release(claim.seq)).state == "released"
        assert await post(again, 1) == before.head + 2
        listener = await Listener.open(node.url, "again", after=26)
        await listener.reach(before.head + 2)
        assert listener.seqs == list(range(27, before.head + 3))
        listener.close()
    copy = f"sqlite:{tmp_path / 'copy.db'}"
    assert run_board("import", str(file), "--store", copy).status == 0
    told = run_board("verify", "--store", copy, "--json").json
    assert (told["findings"], told["boards"][0]["state_hash"]) == ([], before.state_hash)
    assert "what came up to event 26 is not in the export" in node.run("report", str(file)).out
    part = node.run("export", "--after", "27").out
    assert "only a whole log can be imported" in node.run("import", "-", "--board", "part", stdin=part).err


async def test_an_import_of_a_base_that_is_none(node: ClockedNode, tmp_path: Path) -> None:
    """A base that cannot be read, or is of another seq than the events follow, is refused, and nothing is stored."""
    async with node.client("w1") as board:
        await trim(node, board)
        await board.create_board("again", None)
        lines = node.run("export").out.splitlines()
        for old, new in (('"base":{"seq":21', '"base":{"seq":20'), ('"base":{"seq":21', '"base":{"at":1,"seq":"x"')):
            wrong = "\n".join([lines[0].replace(old, new), *lines[1:]])
            assert wrong != "\n".join(lines)
            ended = node.run("import", "-", "--board", "again", stdin=wrong)
            assert ended.status == 2
            assert "line 1" in ended.err
        assert [(one.board, one.head) for one in (await board.boards()).boards] == [("again", 0), ("main", 31)]


# Several nodes


@pytest.fixture
async def nodes(tmp_path: Path, postgres_server: Postgres) -> AsyncIterator[tuple[ClockedNode, ClockedNode]]:
    """Two nodes on one store that keep ten events, on clocks that a test moves."""
    place = await postgres_server.new_place()
    async with AsyncExitStack() as stack:
        made = [ClockedNode(tmp_path, name=name, store=place, environ=KEEP_TEN) for name in ("a", "b")]
        yield tuple([await stack.enter_async_context(one) for one in made])  # pyright: ignore[reportReturnType]


CUT = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query ~ '^(LISTEN|SELECT pg_notify)'"
"""Takes the bell away from every node, with all that it would have rung for."""


def move(nodes: tuple[ClockedNode, ...], seconds: float) -> None:
    """Let time jump for all."""
    for node in nodes:
        node.clock.move(seconds)


async def test_every_node_knows_where_the_log_begins(nodes: tuple[ClockedNode, ClockedNode]) -> None:
    """Whichever node trims, each refuses what is no longer kept, and both have the same state; `verify` agrees."""
    first, second = nodes
    async with first.client("w1", backoff=ONCE) as a, second.client("w2", backoff=ONCE) as b:
        await post(a, 30)
        move(nodes, YOUNG_S)
        await post(b, 1)
        for node, board in ((first, a), (second, b)):
            await trimmed(board, 22)
            assert await refused(board.events(after=0)) == ("position_gone", 22)
            assert await refused(board.note(3)) == ("note_gone", 22)
            listener = await Listener.open(node.url, "main", after=20)
            await listener.until(lambda one: one.closed)
            assert listener.closed is not None
            assert listener.closed[0] == 4410
            listener.close()
            assert [event.seq async for event in board.each_event()] == list(range(22, 32))
        assert (await a.board()).state_hash == (await b.board()).state_hash
        told = verified(first)
        assert (told["oldest"], told["events"], told["state_hash"]) == (22, 10, (await a.board()).state_hash)


async def test_a_node_that_was_away_for_long_goes_on(
    nodes: tuple[ClockedNode, ClockedNode], postgres_server: Postgres
) -> None:
    """A node that was cut off while the log was trimmed beyond what it knew begins again from what is kept.

    Its readers are told so, and it writes as before.
    """
    first, second = nodes
    async with first.client("w1") as a, second.client("w2") as b:
        assert await post(b, 5) == 5
        stale = await Listener.open(second.url, "main", after=0)
        await stale.reach(5)
        second.freeze()
        await postgres_server.run(CUT)
        await post(a, 100)
        move(nodes, YOUNG_S)
        await post(a, 1)
        await trimmed(a, 97)
        second.thaw()
        assert await post(b, 1) == 107
        await stale.until(lambda one: one.closed)
        assert stale.closed is not None
        assert (stale.closed[0], stale.closed[1]["oldest"]) == (4410, 97)
        assert stale.seqs == [1, 2, 3, 4, 5]
        stale.close()
        assert (await a.board()).state_hash == (await b.board()).state_hash
        assert isinstance((await b.events(after=106)).events[0], Note)


async def test_an_import_that_begins_late_reaches_every_node(
    nodes: tuple[ClockedNode, ClockedNode], tmp_path: Path
) -> None:
    """A trimmed log that is imported through one node is served by the other, which had the board open and empty."""
    first, second = nodes
    file = tmp_path / "export.jsonl"
    async with first.client("w1") as a, second.client("w2", board="again") as b:
        await post(a, 30)
        move(nodes, YOUNG_S)
        await post(a, 1)
        await trimmed(a, 22)
        assert first.run("export", "-o", str(file)).status == 0
        await a.create_board("again", None)
        assert (await b.board()).head == 0
        assert first.run("import", str(file), "--board", "again").status == 0
        assert [event.seq async for event in b.each_event()] == list(range(22, 32))
        assert (await b.board()).state_hash == (await a.board()).state_hash
        assert await post(b, 1) == 32
