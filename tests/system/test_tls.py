"""TLS between a node and its stores: asked for in the addresses, and refused where the certificate is not to be trusted."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

import httpx
import pytest

from schema.notes import Fact
from tests.harness.node import Node, NodeFailed
from tests.harness.pair import Follower, Pair
from tests.harness.tls import Authority, PostgresTls, RedisTls

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.harness.postgres import Postgres
    from tests.harness.redis import Redis

pytestmark = pytest.mark.anyio


class Place:
    """An empty place on a PostgreSQL, and a Redis, both behind certificates of one authority."""

    def __init__(self, folder: Path, schema: str, postgres: PostgresTls, redis: RedisTls, trusted: Authority) -> None:
        self.plain = schema
        self._schema = schema.rpartition("=")[2]
        self._postgres = postgres
        self._redis = redis
        self.trusted = trusted.file
        self.foreign = Authority(folder, "foreign").file

    def store(self, mode: str, authority: Path | None = None) -> str:
        """Give the address of the store."""
        root = f"&sslrootcert={authority}" if authority else ""
        address = f"postgresql://postgres@127.0.0.1:{self._postgres.port}/postgres"
        return f"{address}?search_path={self._schema}&sslmode={mode}{root}"

    def bus(self, authority: Path) -> str:
        """Give the address of the bus."""
        return f"rediss://127.0.0.1:{self._redis.port}/0?ssl_ca_certs={authority}"


@pytest.fixture
async def place(tmp_path: Path, postgres_server: Postgres, redis_server: Redis) -> AsyncIterator[Place]:
    trusted = Authority(tmp_path, "trusted")
    async with AsyncExitStack() as stack:
        postgres = await stack.enter_async_context(PostgresTls(postgres_server.port, trusted.server()))
        redis = await stack.enter_async_context(RedisTls(redis_server.port, trusted.server()))
        yield Place(tmp_path, await postgres_server.new_place(), postgres, redis, trusted)


async def test_nodes_work_over_tls(tmp_path: Path, place: Place) -> None:
    """Two nodes whose store and bus are reached over TLS alone, each checked against its authority, share one board."""
    store, bus = place.store("verify-full", place.trusted), place.bus(place.trusted)
    async with Pair(tmp_path, store, bus) as pair, pair.b.client("w2") as b, Follower(b) as follower:
        async with pair.a.client("w1") as a:
            posted = await a.post(Fact(text="rows end at a dash"))
        await follower.has(posted.seq)
        assert await pair.agree() == (1, (await b.board()).state_hash)


async def test_tls_without_a_check_is_still_tls(tmp_path: Path, place: Place, postgres_server: Postgres) -> None:
    """With `require` any certificate does, for the store and for its bus; a server that has none is not spoken to."""
    async with Node(tmp_path, store=place.store("require")) as node, node.client("w1") as board:
        await node.wait_logged("bus.listening")
        assert (await board.post(Fact(text="rows end at a dash"))).seq == 1
    bare = Node(tmp_path, name="bare", store=f"{place.plain}&sslmode=require")
    with pytest.raises(NodeFailed, match="SSL"):
        await bare.start()
    bare.close()


async def test_a_store_with_a_foreign_certificate_is_refused(tmp_path: Path, place: Place) -> None:
    """A node that does not trust the authority of its PostgreSQL does not start, and says why."""
    node = Node(tmp_path, store=place.store("verify-full", place.foreign))
    with pytest.raises(NodeFailed, match="certificate verify failed"):
        await node.start()
    node.close()


async def test_a_bus_with_a_foreign_certificate_is_refused(tmp_path: Path, place: Place) -> None:
    """A node that does not trust the authority of its Redis says so, goes on without it, and shows that it hears nothing."""
    store = place.store("verify-full", place.trusted)
    flags = ("--bus", place.bus(place.foreign))
    async with Node(tmp_path, store=store, flags=flags) as node, node.client("w1") as board:
        assert "certificate verify failed" in (await node.wait_logged("bus.lost"))["reason"]
        assert (await board.post(Fact(text="rows end at a dash"))).seq == 1
        metrics = httpx.get(f"{node.url}/metrics", trust_env=False).text
        assert "board_bus_hears 0.0" in metrics
