"""The cluster of `compose.yaml`, without its containers: two nodes on PostgreSQL and Redis, behind the nginx of that file."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

import httpx
import pytest

from schema.notes import Observed
from tests.harness.listener import Listener
from tests.harness.nginx import PROGRAM, Nginx
from tests.harness.pair import Follower, Load, Pair
from workers.client import BoardClient

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.harness.node import Node
    from tests.harness.postgres import Postgres
    from tests.harness.redis import Redis

pytestmark = [pytest.mark.anyio, pytest.mark.skipif(PROGRAM is None, reason="nginx is not installed")]

ENDS_OF_A_RESTART = {"going_away", "unreachable", "store_unavailable", "too_many_connections"}


class Cluster:
    """Two nodes, and the proxy before them."""

    def __init__(self, pair: Pair, proxy: Nginx) -> None:
        self.pair = pair
        self.proxy = proxy

    def client(self, worker: str) -> BoardClient:
        """Give a client that goes through the proxy. Use as `async with`."""
        return BoardClient(self.proxy.url, "main", worker=worker)


@pytest.fixture
async def cluster(tmp_path: Path, postgres_server: Postgres, redis_server: Redis) -> AsyncIterator[Cluster]:
    async with Pair(tmp_path, await postgres_server.new_place(), redis_server.url()) as pair:
        with Nginx(tmp_path / "nginx", *pair.nodes) as proxy:
            yield Cluster(pair, proxy)


def open_streams(node: Node) -> float:
    """How many streams a node has."""
    lines = httpx.get(f"{node.url}/metrics", trust_env=False).text.splitlines()
    return float(next(line.split()[1] for line in lines if line.startswith("board_streams_open ")))


async def test_streams_and_calls_go_to_both_nodes(cluster: Cluster) -> None:
    """Streams through the proxy are spread over the nodes, and every one gets what was posted through it, at once."""
    listeners = [await Listener.open(cluster.proxy.url, "main", f"w{number}", after=0) for number in range(8)]
    for listener in listeners:
        await listener.until(lambda one: one.live)
    assert min(map(open_streams, cluster.pair.nodes)) >= 2
    async with cluster.client("w1") as board:
        posted = [(await board.post(Observed(text=f"note {number}"))).seq for number in range(20)]
        for listener in listeners:
            await listener.reach(20)
            assert listener.seqs == posted
        assert (await board.wait(after=19, timeout_s=5)).events


async def test_a_rolling_restart_loses_nothing(cluster: Cluster) -> None:
    """One node after the other is stopped and started under load: streams end with 1001 and their last seq, clients come back."""
    async with AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(cluster.client(f"f{number}")) for number in range(6)]
        followers = [await stack.enter_async_context(Follower(client)) for client in clients]
        async with Load(cluster.proxy, workers=4) as load:
            await load.more(50)
            for node in cluster.pair.nodes:
                await stop_under(cluster, node)
                await load.more(50)
                await node.restart()
                await load.more(50)
        head, _ = await cluster.pair.agree()
        for follower in followers:
            await follower.has(head)
    assert {error.problem.code for error in load.refused} <= ENDS_OF_A_RESTART
    load.check(await cluster.pair.log())


async def stop_under(cluster: Cluster, node: Node) -> None:
    """Stop a node: its streams end with 1001 and the last seq they were sent, those of the other one go on."""
    streams = await streams_at(cluster, node)
    assert await node.terminate() == 0
    async with cluster.client("w1") as board:
        later = (await board.post(Observed(text=f"without {node.port}"))).seq
    for stream in streams:
        await stream.until(lambda one: one.closed or one.seqs[-1] >= later)
    ends = [(stream.closed, stream.seqs[-1]) for stream in streams if stream.closed]
    assert len(ends) >= 2
    for closed, last in ends:
        assert closed is not None
        assert (closed[0], closed[1]["seq"]) == (1001, last)
    for stream in streams:
        stream.close()


async def streams_at(cluster: Cluster, node: Node) -> list[Listener]:
    """Open streams through the proxy until two more are at this node: it chooses the node that has fewer."""
    before, streams = open_streams(node), list[Listener]()
    while open_streams(node) < before + 2:
        streams.append(await Listener.open(cluster.proxy.url, "main", f"w{len(streams)}", after=0))
        await streams[-1].until(lambda one: one.live)
    return streams
