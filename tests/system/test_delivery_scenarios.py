"""Notes on their way to readers that drop, stall, die and come back, through the public door of a real server."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from schema.codec import encode
from schema.events import Note
from schema.limits import SettingsDraft
from schema.notes import Claim, Fact, Observed
from tests.harness.listener import Listener
from tests.harness.node import Node
from tests.harness.team import Team, outcome, refusal, until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Sequence

    from workers.client import BoardClient

pytestmark = pytest.mark.anyio

LIMITS = {"BOARD_STALL_S": "1", "BOARD_TAIL_BYTES": "40000"}


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """A server with little patience and a short tail, so that readers fall behind into the log."""
    node = Node(tmp_path_factory.mktemp("delivery"), environ=LIMITS)
    asyncio.run(node.start())
    yield node
    node.close()


@pytest.fixture
async def team(node: Node) -> AsyncIterator[Team]:
    async with Team(node) as team:
        yield team


@pytest.fixture
async def lone_team(tmp_path: Path) -> AsyncIterator[Team]:
    """A team with a server of its own, whose process and log the test looks at."""
    async with Node(tmp_path, environ=LIMITS) as node, Team(node) as team:
        yield team


async def write(client: BoardClient, count: int, *, text: str = "note", evidence: str = "", batch: int = 100) -> int:
    """Store so many notes, and give the last seq."""
    last = 0
    for start in range(0, count, batch):
        notes = [Observed(text=text, evidence=evidence) for _ in range(min(batch, count - start))]
        last = (await client.post_batch(notes)).last or last
    return last


async def listen(team: Team, worker: str = "listener", **how: Any) -> Listener:
    """Open a stream, and wait until it is live."""
    listener = await Listener.open(team.node.url, team.board, worker, **how)
    await listener.until(lambda one: one.live)
    return listener


def assert_whole(listeners: Sequence[Listener], first: int, last: int) -> None:
    """Each got every seq once, in order."""
    for listener in listeners:
        assert listener.seqs == list(range(first, last + 1))


async def test_nothing_is_lost_between_drop_and_reconnect(lone_team: Team) -> None:
    """A reader that has 41 and is cut gets 42 to 45 once each, although the server restarted in between."""
    team, node = lone_team, lone_team.node
    await write(team("w1"), 41)
    first = await listen(team, after=0)
    assert_whole([first], 1, 41)
    first.reset()
    await write(team("w1"), 3)
    assert await node.terminate() == 0
    await node.restart()
    again = await listen(team, after=41)
    await write(team("w1"), 1)
    await again.reach(45)
    assert_whole([again], 42, 45)


REFUSED = [
    ({"after": 1000}, 4409, "position_from_future"),
    ({"epoch": "another"}, 4409, "wrong_epoch"),
    ({"after": -1}, 4400, "invalid_parameter"),
    ({"after": "x"}, 4400, "invalid_parameter"),
    ({"tail": -1}, 4400, "invalid_parameter"),
    ({"aftre": 1}, 4400, "invalid_parameter"),
    ({"scope": "../x"}, 4400, "bad_target"),
    ({"access_token": "secret"}, 4401, "token_in_url"),
]


@pytest.mark.parametrize(("query", "close", "code"), REFUSED)
async def test_a_stream_that_cannot_begin_says_why(team: Team, query: dict[str, Any], close: int, code: str) -> None:
    """A position from the future, another epoch and a bad question end in their close code, never in a part answer."""
    await write(team("w1"), 3)
    listener = await Listener.open(team.node.url, team.board, **query)
    await listener.until(lambda one: one.closed)
    assert listener.closed is not None
    assert (listener.closed[0], listener.closed[1]["code"]) == (close, code)
    assert listener.hello is None
    assert not listener.seqs


async def test_a_stream_of_no_board_is_closed(node: Node) -> None:
    """A stream of a board that is not there ends with 4404."""
    listener = await Listener.open(node.url, "nowhere")
    await listener.until(lambda one: one.closed)
    assert listener.closed is not None
    assert listener.closed[0] == 4404


async def test_a_frame_that_is_no_text_is_refused(team: Team) -> None:
    """A binary frame, and one that is not JSON, end the stream with 4400."""
    for opcode, payload in ((2, b"{}"), (1, b"{")):
        listener = await listen(team)
        listener.send(opcode, payload)
        await listener.until(lambda one: one.closed)
        assert listener.closed is not None
        assert listener.closed[0] == 4400


async def test_a_retry_is_not_a_second_note(team: Team) -> None:
    """A note whose reply was lost, sent three times more at once: one note, one push, one seq in every reply."""
    listener = await listen(team)
    await lose_the_reply(team, Fact(text="once", key="k1"))
    posted = await asyncio.gather(*(team("w1").post(Fact(text="once", key="k1")) for _ in range(3)))
    assert {one.seq for one in posted} == {1}
    assert all(one.duplicate for one in posted)
    refused = await refusal(team("w1").post(Fact(text="other", key="k1")))
    assert refused.code == "key_reused"
    other = await team("w2").post(Fact(text="once", key="k1"))
    assert not other.duplicate
    await listener.reach(other.seq)
    assert listener.seqs == [1, 2]


async def lose_the_reply(team: Team, note: Fact) -> None:
    """Post a note and hang up before the answer; return once it is stored."""
    body = encode(note)
    head = f"POST /v1/boards/{team.board}/notes HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Board-Worker: w1\r\n"
    _, writer = await asyncio.open_connection("127.0.0.1", team.node.port)
    writer.write(f"{head}Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
    await writer.drain()
    writer.close()
    await team.logged(Note)


async def test_three_first_tries_at_once_are_one_note(team: Team) -> None:
    """Three calls with one key in the same instant, none of them first: one note is stored, all are told its seq."""
    posted = await asyncio.gather(*(team("w1").post(Fact(text="once", key="k1")) for _ in range(3)))
    assert len({one.seq for one in posted}) == 1
    assert sorted(one.duplicate for one in posted) == [False, True, True]
    assert len(await team.log()) == 1


async def test_a_stalled_reader_hurts_nobody(lone_team: Team) -> None:
    """Of 200 readers one stalls: it is closed with 4429 and resumes without a hole; the others get all 2,000 notes."""
    team, node = lone_team, lone_team.node
    stalled = await listen(team, "sleeper", receive_bytes=4096)
    others = await asyncio.gather(*(listen(team, f"w{number}") for number in range(199)))
    stalled.stall()
    last = await write(team("writer"), 2000, text="é" * 400, evidence="é" * 400)
    await asyncio.gather(*(one.reach(last) for one in others))
    assert_whole(others, 1, last)
    await until(lambda: closed_streams(node))
    stalled.resume()
    await stalled.lost.wait()
    assert stalled.closed is not None
    assert (stalled.closed[0], stalled.closed[1]["code"]) == (4429, "too_slow")
    assert stalled.closed[1]["seq"] == stalled.seqs[-1]
    again = await Listener.open(team.node.url, team.board, "sleeper", after=stalled.seqs[-1])
    await again.reach(last)
    assert stalled.seqs + again.seqs == list(range(1, last + 1))


async def closed_streams(node: Node) -> list[int]:
    return [line["code"] for line in node.logged() if line.get("event") == "stream.closed"]


async def test_stalled_readers_cost_little_memory(lone_team: Team) -> None:
    """While eight readers stall, 100 MB of notes pass a server that grows by much less than what they left unread."""
    node = lone_team.node
    async with Team(node, SettingsDraft(text_chars=100_000)) as team:
        stalled = [await listen(team, f"sleeper{number}", receive_bytes=4096) for number in range(8)]
        for one in stalled:
            one.stall()
        await write(team("writer"), 50, text="n" * 99_000, batch=5)
        begun = memory_bytes(node, "VmRSS")
        last = await write(team("writer"), 950, text="n" * 99_000, batch=5)
        awake = await listen(team, "awake", after=last - 10)
        assert_whole([awake], last - 9, last)
        await until(lambda: all_closed(node, 8))
        assert memory_bytes(node, "VmHWM") - begun < 64 * 1_048_576


def memory_bytes(node: Node, what: str) -> int:
    """The memory of the server, now (VmRSS) or at its highest (VmHWM)."""
    (line,) = [line for line in Path(f"/proc/{node.pid}/status").read_text().splitlines() if line.startswith(what)]
    return int(line.split()[1]) * 1024


async def all_closed(node: Node, count: int) -> bool:
    return await closed_streams(node) == [4429] * count


async def test_many_notes_in_one_tick_drop_no_healthy_reader(lone_team: Team) -> None:
    """1,500 small notes in two batches at once reach 100 readers whole; none of them is closed."""
    team, node = lone_team, lone_team.node
    readers = await asyncio.gather(*(listen(team, f"w{number}") for number in range(100)))
    await asyncio.gather(*(write(team(f"writer{number}"), 750, batch=750) for number in range(2)))
    await asyncio.gather(*(one.reach(1500) for one in readers))
    assert_whole(readers, 1, 1500)
    assert await closed_streams(node) == []


async def test_members_change_during_sweeps(team: Team) -> None:
    """While others connect and leave without a pause, no steady reader misses a seq, nor does any that comes."""
    steady = await asyncio.gather(*(listen(team, f"w{number}") for number in range(20)))
    done = asyncio.Event()

    async def come_and_go(number: int) -> int:
        rounds = 0
        while not done.is_set():
            guest = await listen(team, f"guest{number}")
            assert guest.hello is not None
            assert guest.seqs == list(range(guest.hello.after + 1, guest.hello.after + 1 + len(guest.seqs)))
            guest.reset() if rounds % 2 else guest.close()
            rounds += 1
        return rounds

    guests = [asyncio.create_task(come_and_go(number)) for number in range(8)]
    for number in range(300):
        await team("writer").post(Observed(text=f"note {number}"))
    done.set()
    assert sum(await asyncio.gather(*guests)) > 100
    await asyncio.gather(*(one.reach(300) for one in steady))
    assert_whole(steady, 1, 300)


async def test_dead_peers_go_quietly(lone_team: Team) -> None:
    """100 sockets reset in the middle of 5,000 notes are gone, without a line in the log for each, and others go on."""
    team, node = lone_team, lone_team.node
    steady = await asyncio.gather(*(listen(team, f"w{number}") for number in range(10)))
    dying = await asyncio.gather(*(listen(team, f"dying{number}") for number in range(100)))
    writing = asyncio.create_task(write(team("writer"), 5000, batch=200))
    await steady[0].reach(1000)
    for one in dying:
        one.reset()
    last = await writing
    await until(lambda: all_gone(team, "dying"))
    await asyncio.gather(*(one.reach(last) for one in steady))
    assert_whole(steady, 1, last)
    assert [line for line in node.logged() if line["level"] not in ("info", "debug")] == [open_mode(node)]
    assert len([line for line in node.logged() if line["event"] != "http.request"]) < 50


def open_mode(node: Node) -> dict[str, Any]:
    """The one warning of a server that nobody made a token for."""
    (line,) = [line for line in node.logged() if line["event"] == "server.open_mode"]
    return line


async def all_gone(team: Team, prefix: str) -> bool:
    workers = (await team("onlooker").workers()).workers
    return not any(one.sockets for one in workers if one.worker.startswith(prefix))


async def test_half_open_peers_are_noticed(tmp_path: Path) -> None:
    """A peer that answers no ping is dropped and its presence ends; one that does stays."""
    async with Node(tmp_path, environ={"BOARD_PING_S": "0.3"}) as node, Team(node) as team:
        alive = await listen(team, "alive")
        mute = await listen(team, "mute", mute=True)
        assert await team.sockets("mute") == 1
        await mute.lost.wait()
        await until(lambda: all_gone(team, "mute"))
        assert not alive.lost.is_set()
        assert await team.sockets("alive") == 1


async def test_compression_is_declined(lone_team: Team) -> None:
    """Clients that offer compression are served without it, and cost no compressor's memory."""
    team, node = lone_team, lone_team.node
    offer = "Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits\r\n"
    await listen(team, "first", headers=offer)
    begun = memory_bytes(node, "VmRSS")
    readers = await asyncio.gather(*(listen(team, f"w{number}", headers=offer) for number in range(256)))
    assert not any("sec-websocket-extensions" in one.headers for one in readers)
    last = await write(team("writer"), 100)
    await asyncio.gather(*(one.reach(last) for one in readers))
    assert memory_bytes(node, "VmHWM") - begun < 256 * 65_536


async def test_sizes_at_the_limit_and_over(team: Team) -> None:
    """On the stream as over HTTP a text at the limit is stored, one above is refused by name, and nothing is cut."""
    at, over = Fact(text="é" * 400), Fact(text="é" * 401)
    async with team("w1").subscribe() as stream:
        for post in (team("w1").post, stream.post):
            refused = await refusal(post(over))
            assert (refused.code, refused.facts["field"]) == ("over_limit", "text")
            assert (refused.facts["limit"], refused.facts["value"], refused.facts["unit"]) == (400, 401, "characters")
        assert (await stream.post(at)).note.text == at.text
    many = Claim(text="all of it", scope=tuple(f"f{number}" for number in range(10_000)))
    refused = await refusal(team("w1").post(many))
    assert (refused.code, refused.facts["limit"], refused.facts["value"]) == ("over_limit", 64, 10_000)
    assert len(await team.log()) == 1


async def test_a_message_that_is_too_big(team: Team) -> None:
    """A body over 1 MiB is answered 413 with the limit, and a message over it ends the stream with 1009."""
    body = b'{"type":"FACT","text":"%s"}' % (b"x" * 1_048_577)
    async with httpx.AsyncClient() as client:
        answer = await client.post(
            f"{team.node.url}/v1/boards/{team.board}/notes", content=body, headers={"Content-Type": "application/json"}
        )
    assert answer.status_code == 413
    assert (answer.json()["code"], answer.json()["limit"]) == ("body_too_large", 1_048_576)
    listener = await listen(team, "w1")
    listener.send(1, b'{"op":"post","note":{"type":"FACT","text":"%s"}}' % (b"x" * 2_000_000))
    await listener.until(lambda one: one.closed or one.lost.is_set())
    assert listener.closed is not None
    assert listener.closed[0] == 1009
    assert await team.log() == []


async def test_a_client_that_reads_no_replies(lone_team: Team) -> None:
    """Who posts on its stream without reading the replies is closed, instead of filling the server's memory."""
    team, node = lone_team, lone_team.node
    listener = await listen(team, "w1", receive_bytes=4096, type="PATCH_SUMMARY")
    listener.stall()
    await asyncio.sleep(0)
    note = encode(Observed(text="é" * 400, evidence="é" * 400))
    for number in range(4000):
        listener.send(1, b'{"op":"post","id":%d,"note":%s}' % (number, note))
    await until(lambda: closed_streams(node))
    assert await closed_streams(node) == [4429]
    listener.resume()
    await listener.lost.wait()


ROUNDS = 3000


async def test_subscribers_race_writers(team: Team) -> None:
    """3,000 times somebody subscribes from N while others write: it gets N+1, N+2, … once each, in order."""
    await write(team("writer"), 500)
    done = asyncio.Event()
    dice = random.Random(7)
    rounds = iter(range(ROUNDS))

    async def keep_writing(number: int) -> None:
        while not done.is_set():
            await outcome(team(f"writer{number}").post(Observed(text="race")))

    async def subscribe_in_turn() -> None:
        for _ in rounds:
            head = (await head_of(team)) if dice.random() < 0.01 else heads[-1]
            heads.append(head)
            after = max(0, head - dice.choice((0, 1, 5, 50, 400)))
            listener = await Listener.open(team.node.url, team.board, "racer", after=after)
            await listener.until(lambda one, to=head + 3: one.live and one.seqs and one.seqs[-1] >= to)
            assert listener.seqs == list(range(after + 1, after + 1 + len(listener.seqs)))
            heads.append(max(heads[-1], listener.seqs[-1]))
            listener.close()

    heads = [await head_of(team)]
    writers = [asyncio.create_task(keep_writing(number)) for number in range(4)]
    await asyncio.gather(*(subscribe_in_turn() for _ in range(24)))
    done.set()
    await asyncio.gather(*writers)


async def head_of(team: Team) -> int:
    return (await team("onlooker").board()).head
