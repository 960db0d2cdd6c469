"""Every promise of the bus's contract, on every bus."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

import msgspec
import pytest

from board.bus.postgres import NotifyBus
from board.bus.redis import CHANNEL, RedisBus
from board.bus.rings import RING_BYTES
from tests.harness.team import until

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Sequence

    from board.bus.contract import Bus

pytestmark = pytest.mark.anyio

Make = "Callable[[], Bus]"
Cut = "Callable[[], Awaitable[int]]"


class Rung(msgspec.Struct, frozen=True):
    """One ring as it was heard."""

    board: str
    epoch: str
    head: int
    bodies: tuple[bytes, ...]


class Ear:
    """A listener that remembers."""

    def __init__(self) -> None:
        self.rings: list[Rung] = []
        self.tokens = 0
        self.begun = 0

    def heard(self, board: str, epoch: str, head: int, bodies: Sequence[bytes]) -> None:
        """Remember a ring."""
        self.rings.append(Rung(board, epoch, head, tuple(bodies)))

    def heard_of_tokens(self) -> None:
        """Count."""
        self.tokens += 1

    def may_have_missed(self) -> None:
        """Count."""
        self.begun += 1

    async def hears(self, condition: Callable[[], Any]) -> None:
        """Wait until something was heard."""

        async def holds() -> bool:
            return bool(condition())

        await until(holds)

    async def begins(self) -> None:
        """Wait until listening has begun."""
        await self.hears(lambda: self.begun)


@pytest.fixture(params=["redis", "local"])
async def make(request: pytest.FixtureRequest) -> Make:
    """Give what makes buses of a kind that are on the same server; `local` is what the setting calls PostgreSQL's own."""
    if request.param == "redis":
        url = request.getfixturevalue("redis_server").url()
        return lambda: RedisBus(url)
    dsn = request.getfixturevalue("postgres_server").dsn()
    return lambda: NotifyBus(dsn)


@asynccontextmanager
async def listening(make: Make) -> AsyncGenerator[tuple[Bus, Ear]]:
    """Give a bus that listens, and what it tells."""
    bus, ear = make(), Ear()
    bus.start(ear)
    try:
        await ear.begins()
        yield bus, ear
    finally:
        await bus.close()


async def test_rings_arrive_in_order(make: Make) -> None:
    """What one node rings is heard by the others, in order, each ring once, and not by itself."""
    async with listening(make) as (mine, own_ear), listening(make) as (_, ear):
        for head in range(1, 201):
            mine.ring(f"board-{head % 2}", "e", head, [b"%d" % head])
        await ear.hears(lambda: [ring.head for ring in ear.rings][-2:] == [199, 200])
        for board in ("board-0", "board-1"):
            heads = [ring.head for ring in ear.rings if ring.board == board]
            assert heads == sorted(set(heads))
        assert own_ear.rings == []


async def test_bodies_are_those_that_were_rung_or_none(make: Make) -> None:
    """A ring brings the bytes that were rung, whole and in order, or none at all."""
    bodies = [b'{"text":"\\u001e"}', "{ä}".encode(), b"{}"]
    async with listening(make) as (mine, _), listening(make) as (_, ear):
        mine.ring("main", "e", 3, bodies)
        await ear.hears(lambda: ear.rings)
        assert ear.rings[0] in (Rung("main", "e", 3, tuple(bodies)), Rung("main", "e", 3, ()))


async def test_a_long_ring_loses_its_bodies_and_not_its_head(make: Make) -> None:
    """Bodies that are too many are left out; that the head moved is told."""
    async with listening(make) as (mine, _), listening(make) as (_, ear):
        mine.ring("main", "e", 7, [b"x" * RING_BYTES, b"y"])
        await ear.hears(lambda: ear.rings)
        assert ear.rings == [Rung("main", "e", 7, ())]


async def test_what_waits_is_bounded(make: Make) -> None:
    """Thousands of rings in one turn of the loop are told by their last head at least."""
    async with listening(make) as (mine, _), listening(make) as (_, ear):
        for head in range(1, 5001):
            mine.ring("main", "e", head, [b"x" * 10_000])
        await ear.hears(lambda: ear.rings and ear.rings[-1].head == 5000)


async def test_tokens_are_rung_for(make: Make) -> None:
    """A change of tokens is told to the others."""
    async with listening(make) as (mine, own_ear), listening(make) as (_, ear):
        mine.ring_for_tokens()
        await ear.hears(lambda: ear.tokens)
        assert own_ear.tokens == 0


async def test_every_node_hears(make: Make) -> None:
    """A ring is heard by all other nodes, and each ring of theirs by all others."""
    async with listening(make) as one, listening(make) as two, listening(make) as three:
        everyone = (one, two, three)
        for place, (bus, _) in enumerate(everyone):
            bus.ring("main", f"e{place}", 1, [])
        for place, (_, ear) in enumerate(everyone):
            others = {f"e{other}" for other in range(3) if other != place}
            await ear.hears(lambda ear=ear, others=others: {ring.epoch for ring in ear.rings} == others)


async def test_it_hears_itself(make: Make) -> None:
    """A bus knows that it hears, for as long as it is open and its server there."""
    bus = make()
    assert not bus.hears
    async with listening(make) as (opened, _):
        assert opened.hears
    assert not opened.hears


async def test_ringing_never_fails(make: Make) -> None:
    """Ringing before the start and after the end is lost, and no error; closing twice is a no-op."""
    bus = make()
    bus.ring("main", "e", 1, [b"x"])
    bus.ring_for_tokens()
    bus.start(Ear())
    bus.ring("main", "e", 2, [b"x"])
    await bus.close()
    await bus.close()
    bus.ring("main", "e", 3, [b"x"])
    bus.ring_for_tokens()


async def test_a_last_ring_is_sent(make: Make) -> None:
    """What was rung just before the bus is closed is still sent."""
    async with listening(make) as (_, ear):
        async with listening(make) as (mine, _):
            mine.ring("main", "e", 9, [b"x"])
        await ear.hears(lambda: ear.rings)
        assert ear.rings[-1].head == 9


async def test_strangers_on_the_channel_are_passed_over(postgres_server: Any, redis_server: Any) -> None:
    """What is no ring is no error, and what follows it is heard."""
    import redis.asyncio

    async with (
        listening(lambda: RedisBus(redis_server.url())) as (mine, _),
        listening(lambda: RedisBus(redis_server.url())) as (_, ear),
    ):
        async with redis.asyncio.from_url(redis_server.url()) as stranger:
            for junk in (b"", b"\x1e\x1e", b"[]", b'{"node":1}', b"\xff", b"[1,2]"):
                await stranger.publish(CHANNEL, junk)
        mine.ring("main", "e", 1, [b"x"])
        await ear.hears(lambda: ear.rings)
        assert ear.rings[-1].head == 1
    async with (
        listening(lambda: NotifyBus(postgres_server.dsn())) as (mine, _),
        listening(lambda: NotifyBus(postgres_server.dsn())) as (_, ear),
    ):
        await postgres_server.run("SELECT pg_notify('board_bell', 'what?')")
        mine.ring("main", "e", 1, [b"x"])
        await ear.hears(lambda: ear.rings)


_CUT: Final = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query ~ '^(LISTEN|SELECT pg_notify)'"


@pytest.fixture
async def cut(request: pytest.FixtureRequest, make: Make) -> Cut:
    """Give what ends every subscription to such a bus, as an administrator does, and tells how many there were."""
    del make  # it is of the same kind
    if request.node.callspec.params["make"] == "redis":
        server = request.getfixturevalue("redis_server")
        return lambda: asyncio.to_thread(server.kill_subscriptions)
    postgres = request.getfixturevalue("postgres_server")

    async def end() -> int:
        return len(await postgres.run(_CUT))

    return end


async def test_a_subscription_that_was_cut_begins_again(make: Make, cut: Cut) -> None:
    """After its subscription was cut, a bus listens again, says that it may have missed something, and hears."""
    async with listening(make) as (mine, _), listening(make) as (_, ear):
        assert await cut() >= 2
        await ear.hears(lambda: ear.begun == 2)

        async def rings() -> bool:
            mine.ring("main", "e", 5, [])
            await asyncio.sleep(0.05)
            return bool(ear.rings)

        await until(rings)
