"""The subscription against a scripted server: resuming, refusing, holes, back-pressure, writing on the same socket."""

from __future__ import annotations

import anyio
import pytest

from schema.codes import ProblemError
from schema.events import Note
from schema.notes import Fact
from tests.harness.peer import EPOCH, Peer, event, listening
from workers.client import BoardClient, Change, Connected, Lost, StreamHole, Subscription
from workers.client.address import Caller
from workers.client.backoff import Backoff

pytestmark = pytest.mark.anyio

AT_ONCE = Backoff(tries=3, base_s=0.0)
LIMIT_S = 10


@pytest.fixture
def anyio_backend() -> str:
    """The stream is asyncio's: its library knows no other loop."""
    return "asyncio"


class Script:
    """Runs one step for each connection, in order, and remembers what each asked for."""

    def __init__(self, *steps: object) -> None:
        self.steps = list(steps)
        self.queries: list[list[tuple[str, str]]] = []

    async def __call__(self, peer: Peer) -> None:
        """Run the next step."""
        self.queries.append(peer.query)
        step = self.steps.pop(0)
        await step(peer)  # type: ignore[operator]


async def take(stream: Subscription, count: int) -> list[int]:
    """Read so many events, and give their seqs."""
    with anyio.fail_after(LIMIT_S):
        return [(await anext(stream)).seq for _ in range(count)]


async def test_resumes_where_it_broke_off() -> None:
    """After a lost connection the stream asks for what follows the last event, with the log's epoch, and goes on."""

    async def first(peer: Peer) -> None:
        await peer.hello(after=41, head=43)
        await peer.events(42, 43)
        peer.socket.transport.abort()

    async def second(peer: Peer) -> None:
        await peer.hello(after=43, head=45)
        await peer.events(44, 45)
        await peer.wait_gone()

    script = Script(first, second)
    async with listening(script) as url, Subscription(url, "main", Caller(), after=41, backoff=AT_ONCE) as stream:
        assert await take(stream, 4) == [42, 43, 44, 45]
        assert stream.seq == 45
    assert script.queries == [[("after", "41")], [("epoch", EPOCH), ("after", "43")]]


@pytest.mark.parametrize("code", [1001, 1009, 1011, 1012, 4429])
async def test_comes_back_after_a_close_that_allows_it(code: int) -> None:
    """The server's going, failing or dropping a slow reader ends a connection, not the subscription."""

    async def first(peer: Peer) -> None:
        await peer.hello(after=0)
        await peer.close(code, "0")

    async def second(peer: Peer) -> None:
        await peer.hello(after=0)
        await peer.events(1)
        await peer.wait_gone()

    changes: list[Change] = []
    async with (
        listening(Script(first, second)) as url,
        Subscription(url, "main", Caller(), after=0, backoff=AT_ONCE, on_change=changes.append) as stream,
    ):
        assert await take(stream, 1) == [1]
    assert [type(change) for change in changes] == [Connected, Lost, Connected]


@pytest.mark.parametrize(
    ("code", "refusal"),
    [
        (4400, "invalid_parameter"),
        (4401, "unauthorized"),
        (4403, "forbidden"),
        (4404, "board_not_found"),
        (4409, "wrong_epoch"),
        (4410, "position_gone"),
    ],
)
async def test_a_refusal_ends_it_for_good(code: int, refusal: str) -> None:
    """A close that says no is raised, after the events that came before it, and raised again when asked again."""

    async def only(peer: Peer) -> None:
        await peer.hello(after=0)
        await peer.events(1)
        await peer.close(code)

    async with listening(Script(only)) as url, Subscription(url, "main", Caller(), after=0) as stream:
        assert await take(stream, 1) == [1]
        for _ in range(2):
            with pytest.raises(ProblemError) as refused, anyio.fail_after(LIMIT_S):
                await anext(stream)
            assert refused.value.problem.code == refusal


async def test_a_refusal_at_the_door_is_raised_on_entering() -> None:
    """A stream that is refused before it began raises where it is entered."""

    async def only(peer: Peer) -> None:
        await peer.close(4404)

    async with listening(Script(only)) as url:
        with pytest.raises(ProblemError, match="board_not_found"):
            async with Subscription(url, "nowhere", Caller()):
                pass


async def test_nobody_there_is_unreachable() -> None:
    """Without a server the first connection is given up after the tries that were allowed."""
    with pytest.raises(ProblemError, match="unreachable"):
        async with Subscription("http://127.0.0.1:9", "main", Caller(), backoff=AT_ONCE):
            pass


async def test_leaves_out_what_comes_twice() -> None:
    """An event that was given out once is never given out again."""

    async def only(peer: Peer) -> None:
        await peer.hello(after=0)
        await peer.events(1, 2)
        await peer.events(2, 1, 3)
        await peer.wait_gone()

    async with listening(Script(only)) as url, Subscription(url, "main", Caller(), after=0) as stream:
        assert await take(stream, 3) == [1, 2, 3]


async def test_a_hole_is_raised() -> None:
    """Without a filter a skipped seq is an error, raised after the events before it."""

    async def only(peer: Peer) -> None:
        await peer.hello(after=0)
        await peer.events(1, 3)
        await peer.wait_gone()

    async with listening(Script(only)) as url, Subscription(url, "main", Caller(), after=0) as stream:
        assert await take(stream, 1) == [1]
        with pytest.raises(StreamHole) as hole, anyio.fail_after(LIMIT_S):
            await anext(stream)
        assert (hole.value.expected, hole.value.got) == (2, 3)


async def test_a_filter_may_leave_holes() -> None:
    """With a filter the seqs only grow, and the filter is asked for again after a lost connection."""

    async def first(peer: Peer) -> None:
        await peer.hello(after=0, head=9)
        await peer.events(3, 7)
        await peer.send("live", seq=9)
        await peer.close(1012)

    async def second(peer: Peer) -> None:
        await peer.hello(after=9, head=12)
        await peer.events(12)
        await peer.wait_gone()

    script = Script(first, second)
    async with listening(script) as url, BoardClient(url) as board:
        wanted = board.subscribe(after=0, types=["FAIL"], scope=["src"], author="w1", to="w2", backoff=AT_ONCE)
        async with wanted as stream:
            assert await take(stream, 3) == [3, 7, 12]
    where = [("type", "FAIL"), ("scope", "src"), ("author", "w1"), ("to", "w2")]
    assert script.queries == [[("after", "0"), *where], [("epoch", EPOCH), ("after", "9"), *where]]


async def test_skips_kinds_that_it_does_not_know() -> None:
    """An event of an unknown kind is no hole; only the lines as they came still show it."""

    async def only(peer: Peer) -> None:
        await peer.hello(after=0)
        await peer.events(1)
        await peer.events(2, kind="note.translated")
        await peer.events(3)
        await peer.wait_gone()

    async with listening(Script(only, only)) as url:
        async with Subscription(url, "main", Caller(), after=0) as stream:
            assert await take(stream, 2) == [1, 3]
        async with Subscription(url, "main", Caller(), after=0) as stream:
            lines = stream.lines()
            assert [b"note.translated" in await anext(lines) for _ in range(3)] == [False, True, False]


async def test_asks_for_a_tail_only_once() -> None:
    """`tail` is where the first connection begins; a later one begins where the first ended."""

    async def first(peer: Peer) -> None:
        await peer.hello(after=90, head=100)
        await peer.close(1001)

    async def second(peer: Peer) -> None:
        await peer.hello(after=90, head=100)
        await peer.events(91)
        await peer.wait_gone()

    script = Script(first, second)
    async with listening(script) as url, Subscription(url, "main", Caller(), tail=10, backoff=AT_ONCE) as stream:
        assert await take(stream, 1) == [91]
    assert script.queries == [[("tail", "10")], [("epoch", EPOCH), ("after", "90")]]


async def test_a_slow_reader_loses_nothing() -> None:
    """What finds no room while a reply is awaited is read again from the log: no event is lost, none comes twice."""
    events = 50

    async def first(peer: Peer) -> None:
        await peer.hello(after=0)
        await peer.events(1)
        op = await peer.receive()
        for seq in range(2, events + 1):
            await peer.events(seq)
        await peer.send("reply", id=op["id"], status=200, body={"through": 1, "seqs": []})
        await peer.wait_gone()

    async def second(peer: Peer) -> None:
        after = int(dict(peer.query)["after"])
        await peer.hello(after=after)
        await peer.events(*range(after + 1, events + 1))
        await peer.wait_gone()

    script = Script(first, second)
    async with (
        listening(script) as url,
        Subscription(url, "main", Caller(), after=0, inbox=5, backoff=AT_ONCE) as stream,
    ):
        assert await take(stream, 1) == [1]
        await stream.ack(through=1)
        assert await take(stream, events - 1) == list(range(2, events + 1))
    assert len(script.queries) == 2


async def test_a_post_is_sent_again_under_its_key() -> None:
    """A post whose reply was lost is sent again on the next connection with the same key."""
    sent: list[dict[str, object]] = []

    async def first(peer: Peer) -> None:
        await peer.hello(after=0)
        sent.append((await peer.receive())["note"])
        peer.socket.transport.abort()

    async def second(peer: Peer) -> None:
        await peer.hello(after=0)
        op = await peer.receive()
        sent.append(op["note"])
        body = {"seq": 1, "at": "2026-12-01T10:00:00.000000Z", "note": event(1), "duplicate": True}
        await peer.send("reply", id=op["id"], status=200, body=body)
        await peer.wait_gone()

    async with (
        listening(Script(first, second)) as url,
        Subscription(url, "main", Caller(), after=0, backoff=AT_ONCE) as stream,
    ):
        with anyio.fail_after(LIMIT_S):
            posted = await stream.post(Fact(text="note 1"))
    assert isinstance(posted.note, Note)
    assert sent[0] == sent[1]
    assert sent[0]["key"]


async def test_a_refused_post_is_raised() -> None:
    """A reply with a problem document is raised as such, with its facts, and the stream goes on."""

    async def only(peer: Peer) -> None:
        await peer.hello(after=0)
        op = await peer.receive()
        body = {"code": "over_limit", "detail": "too long", "limit": 400, "unit": "characters"}
        await peer.send("reply", id=op["id"], status=422, body=body)
        await peer.events(1)
        await peer.wait_gone()

    async with listening(Script(only)) as url, Subscription(url, "main", Caller(), after=0) as stream:
        with pytest.raises(ProblemError) as refused:
            await stream.post(Fact(text="long"))
        assert refused.value.problem.code == "over_limit"
        assert refused.value.problem.facts == {"limit": 400, "unit": "characters"}
        assert await take(stream, 1) == [1]


async def test_replacing_the_filter_is_remembered() -> None:
    """A new filter is sent at once and asked for again by the next connection."""
    filters: list[dict[str, object]] = []

    async def first(peer: Peer) -> None:
        await peer.hello(after=0)
        op = await peer.receive()
        filters.append(op)
        await peer.send("reply", id=op["id"], status=200, body={})
        await peer.events(4)
        await peer.close(1001)

    async def second(peer: Peer) -> None:
        await peer.hello(after=4)
        await peer.events(6)
        await peer.wait_gone()

    script = Script(first, second)
    async with listening(script) as url, Subscription(url, "main", Caller(), after=0, backoff=AT_ONCE) as stream:
        await stream.filter(types=["FAIL"])
        assert await take(stream, 2) == [4, 6]
    assert filters[0]["type"] == ["FAIL"]
    assert ("type", "FAIL") in script.queries[1]


async def test_says_who_calls() -> None:
    """The credential, the worker and its root go with the handshake, never into the URL."""
    seen: list[Peer] = []

    async def only(peer: Peer) -> None:
        seen.append(peer)
        await peer.hello(after=0)
        await peer.wait_gone()

    caller = Caller(token="secret", worker="w1", root="/srv/é")
    async with listening(Script(only)) as url, Subscription(url, "team-a", caller):
        pass
    assert seen[0].path == "/v1/boards/team-a/stream"
    assert seen[0].headers["Authorization"] == "Bearer secret"
    assert seen[0].headers["X-Board-Worker"] == "w1"
    assert seen[0].query == []


async def test_closing_ends_the_iteration() -> None:
    """Whoever waits for an event when the subscription is closed sees the iteration end."""

    async def only(peer: Peer) -> None:
        await peer.hello(after=0)
        await peer.wait_gone()

    async with (
        listening(Script(only)) as url,
        Subscription(url, "main", Caller()) as stream,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(stream.close)
        with anyio.fail_after(LIMIT_S):
            assert [event async for event in stream] == []
