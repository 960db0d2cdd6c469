"""Several nodes, one board: real servers on a real PostgreSQL and Redis, and what befalls them."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from schema.codes import Problem
from schema.events import ClaimExpired, ClaimGranted, ClaimReleased, Note
from schema.notes import Fact
from tests.harness.node import run_board
from tests.harness.pair import ONCE, Follower, Load, Pair
from tests.harness.postgres import Postgres
from tests.harness.redis import Redis
from tests.harness.team import outcome, refusal, until
from workers.client import BoardClient

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from tests.harness.node import Node
    from workers.client.answers import Posted

pytestmark = pytest.mark.anyio

FILE = "src/core/manager.py"


@pytest.fixture(scope="module")
def own_postgres(server_folder: Path) -> Iterator[Postgres]:
    """A PostgreSQL that these tests may stop."""
    with Postgres(server_folder / "nodes-postgres") as server:
        yield server


@pytest.fixture(scope="module")
def own_redis(server_folder: Path) -> Iterator[Redis]:
    """A Redis that these tests may stop."""
    with Redis(server_folder / "nodes-redis") as server:
        yield server


BOTH_BUSES = pytest.mark.parametrize("shared_pair", ["redis", "local"], indirect=True)


@pytest.fixture(scope="module")
def shared_pair(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, postgres_server: Postgres
) -> Iterator[Pair]:
    """Two nodes that no test of these harms, with Redis as their bus, or without where a test asks for that."""
    bus = getattr(request, "param", "redis")
    bus = request.getfixturevalue("redis_server").url() if bus == "redis" else bus
    pair = Pair(tmp_path_factory.mktemp("pair"), asyncio.run(postgres_server.new_place()), bus)
    asyncio.run(pair.start())
    yield pair
    pair.close()


class Workers:
    """The workers of a new board; `workers.a("w1")` calls the first node as that worker."""

    def __init__(self, pair: Pair, board: str) -> None:
        self.pair = pair
        self.board = board
        self._on: list[BoardClient] = [
            BoardClient(node.url, board, worker="onlooker", connections=64, backoff=ONCE) for node in pair.nodes
        ]

    def a(self, worker: str) -> BoardClient:
        """Call the first node."""
        return self._on[0].acting_as(worker)

    def b(self, worker: str) -> BoardClient:
        """Call the second node."""
        return self._on[1].acting_as(worker)

    async def close(self) -> None:
        """Close the connections."""
        for client in self._on:
            await client.close()


@pytest.fixture
async def team(shared_pair: Pair, request: pytest.FixtureRequest) -> AsyncIterator[Workers]:
    """A board of its own for a test, on two nodes."""
    board = f"t{abs(hash(request.node.name)) % 10**9}"
    workers = Workers(shared_pair, board)
    await workers.a("onlooker").create_board(board)
    yield workers
    await workers.close()


def fact(text: str, **said: Any) -> Fact:
    """Make a draft."""
    return Fact(text=text, **said)


# Claims


async def claim_rounds(team: Workers, rounds: int) -> None:
    """Let 32 workers, half of them on each node, claim one file at once, again and again."""
    names = [f"w{number}" for number in range(32)]
    for turn in range(1, rounds + 1):
        barrier = asyncio.Barrier(len(names))

        async def claim(place: int, barrier: asyncio.Barrier = barrier) -> Posted | Problem:
            client = (team.a, team.b)[place % 2](names[place])
            await barrier.wait()
            return await outcome(client.claim((FILE,), "refactor"))

        answers = await asyncio.gather(*map(claim, range(len(names))))
        (winner,) = [place for place, answer in enumerate(answers) if not isinstance(answer, Problem)]
        refused = [answer for answer in answers if isinstance(answer, Problem)]
        held = answers[winner].seq
        assert {(entry["claim"], entry["holder"]) for one in refused for entry in one.facts["conflicts"]} == {
            (held, names[winner])
        }
        for node in (team.a, team.b):
            assert [(one.claim, one.holder) for one in (await node("onlooker").claims()).claims] == [
                (held, names[winner])
            ]
            assert len((await node("onlooker").notes(types=("CLAIM",), limit=1000)).notes) == turn
        await (team.a, team.b)[(winner + 1) % 2](names[winner]).release(held)


async def test_of_32_claimers_on_two_nodes_one_wins(team: Workers) -> None:
    """32 workers claim one file at once on two nodes, 20 times: one holds it, 31 are told who."""
    await claim_rounds(team, 20)
    await team.pair.agree(team.board)


@pytest.mark.slow
async def test_of_32_claimers_on_two_nodes_one_wins_200_times(team: Workers) -> None:
    """The same 200 times."""
    await claim_rounds(team, 200)


async def test_a_lease_ends_once(team: Workers) -> None:
    """A lease that runs out is ended by exactly one of the nodes, and both show the same end."""
    claims = [await team.a("w1").claim((f"f{number}",), "short", ttl_s=1) for number in range(5)]

    async def all_ended() -> bool:
        return not (await team.b("onlooker").claims()).claims

    await until(all_ended)
    log = await team.pair.log(team.board)
    ended = [event.claim for event in log if isinstance(event, ClaimExpired)]
    assert sorted(ended) == [one.seq for one in claims]


async def test_a_call_on_another_node_is_a_sign_of_life(team: Workers) -> None:
    """A holder that calls the other node alone keeps its claim."""
    held = await team.a("w1").claim((FILE,), "long work", ttl_s=1)
    for _ in range(15):
        await asyncio.sleep(0.1)
        await team.b("w1").board()
    assert [one.claim for one in (await team.a("w2").claims()).claims] == [held.seq]


@BOTH_BUSES
async def test_a_waiter_on_another_node_is_granted(team: Workers) -> None:
    """Who waits on one node is granted when the holder releases on the other, and is told on its own."""
    held = await team.a("w1").claim((FILE,), "first")
    waits = await team.b("w2").claim((FILE,), "second", on_conflict="wait")
    assert waits.claim is not None
    assert waits.claim.state == "waiting"
    async with Follower(team.b("w2")) as follower:
        await team.a("w1").release(held.seq)
        head, _ = await team.pair.agree(team.board)
        await follower.has(head)
    log = await team.pair.log(team.board)
    assert [event.claim for event in log if isinstance(event, ClaimGranted)] == [waits.seq]


async def test_a_dead_waiter_on_another_node_is_skipped(team: Workers) -> None:
    """A waiter whose connection to one node ended is passed over by a release on the other."""
    held = await team.a("w1").claim((FILE,), "first")
    async with Follower(team.b("w2")):
        await team.b("w2").claim((FILE,), "second", on_conflict="wait")
        third = await team.b("w3").claim((FILE,), "third", on_conflict="wait")

    async def has_left() -> bool:
        workers = {one.worker: one.sockets for one in (await team.a("onlooker").workers()).workers}
        return workers["w2"] == 0

    await until(has_left)
    await team.a("w1").release(held.seq)
    await team.a("w1").release(held.seq)
    assert [(one.claim, one.holder) for one in (await team.b("onlooker").claims()).claims] == [(third.seq, "w3")]


# A worker that calls another node every time


@BOTH_BUSES
async def test_a_worker_moves_between_nodes_at_every_call(team: Workers) -> None:
    """What a call on one node was answered, the next call on the other one knows: claims, notes, acknowledgements."""
    held = await team.a("w1").claim((FILE,), "first")
    assert (await team.b("w2").check((FILE,))).conflicts[0].holder == "w1"
    renewed = await team.b("w1").renew(held.seq, ttl_s=900)
    assert (await team.a("w1").claims()).claims[0].expires_at == renewed.expires_at
    await team.b("w1").release(held.seq)
    assert (await team.a("w2").check((FILE,))).free
    for turn in range(10):
        here, there = (team.a, team.b) if turn % 2 else (team.b, team.a)
        posted = await here("w1").post(fact(f"turn {turn}"))
        assert (await there("w1").board()).head >= posted.seq
        assert (await there("w2").ack((posted.seq,))).seqs
        async with Follower(there("w2"), after=posted.seq) as follower:
            last = await here("w1").post(fact(f"after {turn}"))
            await follower.has(last.seq)
    assert (await team.a("w2").unread()).head == (await team.b("w2").unread()).head


async def test_notes_are_addressed_to_workers_of_another_node(team: Workers) -> None:
    """A worker that was only seen by one node is known to the other at once; one that nobody saw is not."""
    for number in range(5):
        await team.a(f"engineer{number}").board()
        await team.b("w1").post(fact(f"to {number}", to=(f"engineer{number}",)))
    refused = await refusal(team.b("w1").post(fact("to nobody", to=("enginer1",))))
    assert refused.code == "unknown_recipient"
    assert "engineer1" in refused.facts["near"]


async def test_nodes_remember_as_many_workers_as_one(tmp_path: Path, postgres_server: Postgres) -> None:
    """Where one node has met as many workers as a board takes, the other lets in those alone, and no more."""
    dsn = await postgres_server.new_place()
    pair = Pair(tmp_path, dsn, environ={"BOARD_BOARD_WORKERS": "2"})
    async with pair, pair.a.client("w1") as a, pair.b.client("w1") as b:
        await a.claims()
        await a.acting_as("w2").claims()
        for node in (a, b):
            assert (await refusal(node.acting_as("w3").claims())).code == "too_many_workers"
            assert (await node.acting_as("w2").claims()).claims == ()


async def test_a_root_is_known_on_another_node(team: Workers) -> None:
    """A root that was registered on one node is stripped from paths by the other."""
    await team.a("w1").register("/srv/wt-17/app")
    posted = await team.b("w1").claim(("/srv/wt-17/app/src/a.py",), "there")
    assert (await team.a("w2").note(posted.seq)).scope == ("src/a.py",)


async def test_a_retry_on_another_node_is_no_second_note(team: Workers) -> None:
    """The same note under the same key, sent to both nodes several times at once, is stored once."""
    draft = fact("once", key="k1")
    posted = await asyncio.gather(*(node("w1").post(draft) for node in (team.a, team.b) * 4))
    assert len({one.seq for one in posted}) == 1
    assert [event.text for event in await team.pair.log(team.board) if isinstance(event, Note)] == ["once"]


async def test_sockets_are_counted_on_all_nodes(team: Workers) -> None:
    """Who is here is the same whichever node is asked."""
    async with Follower(team.a("w1")), Follower(team.b("w1")), Follower(team.b("w2")):
        for node in (team.a, team.b):

            async def all_seen(node: Any = node) -> bool:
                found = {one.worker: one.sockets for one in (await node("onlooker").workers()).workers}
                return (found.get("w1"), found.get("w2")) == (2, 1)

            await until(all_seen)


@BOTH_BUSES
async def test_notes_of_both_nodes_come_in_one_order(team: Workers) -> None:
    """Subscribers of both nodes get the notes of both, each once, in one order; the nodes' states are the same."""
    async with Follower(team.a("w1")) as first, Follower(team.b("w2")) as second:
        async with Load(*team.pair.nodes, board=team.board) as load:
            await load.more(300)
        head, _ = await team.pair.agree(team.board)
        await first.has(head)
        await second.has(head)
    assert load.refused == []
    load.check(await team.pair.log(team.board))


# Trust


@pytest.fixture
async def guarded(tmp_path: Path, postgres_server: Postgres, redis_server: Redis) -> AsyncIterator[tuple[Pair, str]]:
    """Two nodes that want tokens, and an admin's."""
    dsn = await postgres_server.new_place()
    made = await asyncio.to_thread(run_board, "token", "create", "--role", "admin", "--store", dsn)
    async with Pair(tmp_path, dsn, redis_server.url()) as pair:
        yield pair, made.out.strip()


async def test_tokens_and_tickets_count_on_every_node(guarded: tuple[Pair, str]) -> None:
    """A token counts on both nodes, a ticket once on either, and revoking ends streams on the other node with 4401."""
    pair, admin = guarded
    async with pair.a.client(token=admin) as a, pair.b.client(token=admin) as b:
        made = await a.create_token("worker", worker="w1")
        async with pair.b.client(token=made.token) as worker:

            async def is_known() -> bool:
                return not isinstance(await outcome(worker.board()), Problem)

            await until(is_known)
            ticket = (await worker.ticket()).ticket
        stream = f"{pair.a.url.replace('http', 'ws')}/v1/boards/main/stream"
        async with connect(f"{stream}?ticket={ticket}") as socket:
            assert '"hello"' in str(await socket.recv())
            async with connect(f"{stream}?ticket={ticket}") as second:
                assert await closed_with(second) == 4401
            await b.revoke_token(made.id)
            assert await closed_with(socket) == 4401


async def closed_with(socket: ClientConnection) -> int | None:
    """Read a stream to its end, and give the close code."""
    with suppress(ConnectionClosed):
        while True:
            await socket.recv()
    return socket.close_code


# What befalls nodes


async def test_a_node_is_killed(tmp_path: Path, postgres_server: Postgres, redis_server: Redis) -> None:
    """Whichever node is killed under load, nothing that was acknowledged is lost, and the other goes on meanwhile."""
    async with Pair(tmp_path, await postgres_server.new_place(), redis_server.url()) as pair:
        async with Load(*pair.nodes) as load:
            for node, other in (pair.nodes, pair.nodes[::-1]):
                await load.more(100)
                await node.kill9()
                async with Load(other, workers=2) as alone:
                    await alone.more(50)
                await node.restart()
            await load.more(100)
        await pair.agree()
        log = await pair.log()
        load.check(log)


async def stop_a_node(folder: Path, dsn: str, bus: str, seconds: float) -> None:
    """Stop a node under load for so long, and let it go on."""
    environ = {"BOARD_STORE_WAIT_S": "2"}
    async with Pair(folder, dsn, bus, environ=environ) as pair, pair.a.client("w1") as a, Follower(a) as follower:
        async with Load(*pair.nodes, workers=4) as load, Load(pair.b, workers=4) as other:
            await load.more(50)
            pair.a.freeze()
            await other.more(100)
            await asyncio.sleep(seconds)
            await other.more(100)
            pair.a.thaw()
            await load.more(100)
            await other.more(10)
        head, _ = await pair.agree()
        await follower.has(head)
        log = await pair.log()
        load.check(log)
        other.check(log)


async def test_a_node_is_stopped(tmp_path: Path, postgres_server: Postgres, redis_server: Redis) -> None:
    """A node that is stopped under load holds nobody up for long, and goes on afterwards without a hole."""
    await stop_a_node(tmp_path, await postgres_server.new_place(), redis_server.url(), 2)


@pytest.mark.slow
async def test_a_node_is_stopped_for_90_s(tmp_path: Path, postgres_server: Postgres, redis_server: Redis) -> None:
    """The same for 90 seconds."""
    await stop_a_node(tmp_path, await postgres_server.new_place(), redis_server.url(), 90)


async def break_the_bell(folder: Path, dsn: str, redis: Redis, pause_s: float) -> None:
    """Do to Redis what the world does to it, under load, and look whether anybody misses anything."""
    async with Pair(folder, dsn, redis.url()) as pair, pair.a.client("w1") as a, pair.b.client("w2") as b:
        async with Follower(a) as first, Follower(b) as second, Load(*pair.nodes, workers=4) as load:

            async def everybody_has_all() -> None:
                await load.more(40)
                seq = max(load.acknowledged.values())
                await first.has(seq)
                await second.has(seq)

            await everybody_has_all()
            redis.kill_subscriptions()
            await everybody_has_all()
            await both_listen(pair, 2)
            redis.freeze()
            await everybody_has_all()
            await asyncio.sleep(pause_s)
            redis.thaw()
            await both_listen(pair, 3)
            await everybody_has_all()
            redis.kill9()
            await everybody_has_all()
            await asyncio.sleep(pause_s)
            await everybody_has_all()
            redis.start()
            await both_listen(pair, 4)
            await everybody_has_all()
        assert load.refused == []
        load.check(await pair.log())
        await pair.agree()


async def both_listen(pair: Pair, times: int) -> None:
    """Wait until both nodes have begun so often to listen to the bus."""

    async def begun() -> bool:
        counts = (sum(line["event"] == "bus.listening" for line in node.logged()) for node in pair.nodes)
        return min(counts) >= times

    await until(begun)


async def test_the_bell_is_deaf(tmp_path: Path, postgres_server: Postgres, own_redis: Redis) -> None:
    """Redis is cut, paused, killed and started again: every write goes on, and nobody misses a note."""
    await break_the_bell(tmp_path, await postgres_server.new_place(), own_redis, 2)


@pytest.mark.slow
async def test_the_bell_is_deaf_for_30_s(tmp_path: Path, postgres_server: Postgres, own_redis: Redis) -> None:
    """The same with a pause of 30 seconds, and 30 seconds without Redis."""
    await break_the_bell(tmp_path, await postgres_server.new_place(), own_redis, 30)


async def test_postgresql_restarts(tmp_path: Path, own_postgres: Postgres, redis_server: Redis) -> None:
    """While PostgreSQL is away writers get 503, streams stay and the state is read; then all goes on by itself."""
    dsn = await own_postgres.new_place()
    async with Pair(tmp_path, dsn, redis_server.url(), environ={"BOARD_STORE_WAIT_S": "1"}) as pair:
        async with pair.a.client("w1") as a, pair.b.client("w2") as b, Follower(a) as first, Follower(b) as second:
            async with Load(*pair.nodes, workers=4) as load:
                await load.more(50)
                own_postgres.kill9()
                answer = await _post_once(pair.a)
                assert (answer.status_code, answer.json()["code"]) == (503, "store_unavailable")
                assert int(answer.headers["retry-after"]) >= 1
                assert (await b.claims()).claims == ()
                own_postgres.start()
                await load.more(50)
            head, _ = await pair.agree()
            await first.has(head)
            await second.has(head)
            assert len(first.changes) == len(second.changes) == 1
        assert {error.problem.code for error in load.refused} <= {"store_unavailable"}
        load.check(await pair.log())


async def _post_once(node: Node) -> httpx.Response:
    async with httpx.AsyncClient(trust_env=False, timeout=30) as client:
        return await client.post(f"{node.url}/v1/boards/main/notes", json={"type": "FACT", "text": "while it is away"})


async def test_nodes_are_restarted_one_by_one(tmp_path: Path, postgres_server: Postgres, redis_server: Redis) -> None:
    """A rolling restart loses no note: streams end with 1001, come back by themselves and go on without a hole."""
    async with Pair(tmp_path, await postgres_server.new_place(), redis_server.url()) as pair:
        async with pair.a.client("w1") as a, pair.b.client("w2") as b, Follower(a) as first, Follower(b) as second:
            async with Load(*pair.nodes) as load:
                for node in pair.nodes:
                    await load.more(50)
                    assert await node.terminate() == 0
                    await node.restart()
                await load.more(50)
            head, _ = await pair.agree()
            await first.has(head)
            await second.has(head)
        for follower in (first, second):
            assert any("1001" in str(change) for change in follower.changes)
        load.check(await pair.log())


async def test_a_log_moves_from_sqlite_to_postgresql(
    tmp_path: Path, node: Node, postgres_server: Postgres, redis_server: Redis
) -> None:
    """A board that is exported from SQLite and imported into PostgreSQL keeps seqs, times and state."""
    async with node.client("w1") as client:
        held = await client.claim((FILE,), "work", ttl_s=600)
        for number in range(30):
            await client.post(fact(f"fact {number}", detail="x" * number, key=f"k{number}"))
        await client.claim(("other",), "more", ttl_s=600)
        await client.release(held.seq)
        board = await client.board()
        events = [event async for event in client.each_event()]
    exported = node.run("export")
    assert exported.status == 0, exported.err
    dsn = await postgres_server.new_place()
    imported = await asyncio.to_thread(run_board, "import", "-", "--store", dsn, stdin=exported.out)
    assert imported.status == 0, imported.err
    async with Pair(tmp_path, dsn, redis_server.url()) as pair:
        assert await pair.log() == events
        assert await pair.agree() == (board.head, board.state_hash)
        assert [event for event in events if isinstance(event, ClaimReleased)]
        async with pair.b.client("w1") as client:
            again = await client.post(fact("fact 3", detail="xxx", key="k3"))
            assert again.duplicate
