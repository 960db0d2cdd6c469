"""The bus over Redis or Valkey: one channel, whose messages carry the encoded events.

Two connections a conversation, one that subscribes and one that publishes, and both are thrown away at its end: after
an error or a cancelled command, what is still to come on a connection belongs to nobody. redis-py mends a broken
subscription by itself and does not say so; with no retries left it raises as well, and that ends the conversation.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from redis.asyncio import from_url
from redis.asyncio.connection import parse_url
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from board.bus.bell import Bell, BusLost
from board.bus.contract import DEAF_S, PROBE_S
from board.bus.rings import encoded

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

CHANNEL: Final = "board.bell"

_DRIVER: Final = (RedisError, OSError, TimeoutError)


class RedisBus(Bell):
    """The bus at a `redis://`, `rediss://` or `unix://` address, options of redis-py included."""

    def __init__(self, url: str) -> None:
        """Take note of the address. Raises ValueError for one that is none."""
        super().__init__()
        parse_url(url)
        self._url = url

    async def converse(self) -> None:
        """Subscribe, then listen and publish."""
        client: Any = from_url(
            self._url, socket_timeout=DEAF_S, socket_connect_timeout=DEAF_S, retry=Retry(NoBackoff(), 0)
        )
        subscription = client.pubsub()
        try:
            await subscription.subscribe(CHANNEL)
            await self._until_one_ends(self._listen(subscription), self._publish(client))
        except _DRIVER as error:
            raise BusLost(str(error) or type(error).__name__) from error
        finally:
            with suppress(*_DRIVER):
                await subscription.aclose()
                await client.aclose(close_connection_pool=True)

    @staticmethod
    async def _until_one_ends(*parts: Any) -> None:  # noqa: ANN401 -- coroutines
        tasks = [asyncio.ensure_future(part) for part in parts]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, Exception):
                raise outcome

    async def _listen(self, subscription: Any) -> None:  # noqa: ANN401 -- redis.asyncio.client.PubSub
        async for message in self._messages(subscription):
            if message["type"] == "subscribe":
                self.begin()
            elif message["type"] == "message":
                self.take(message["data"])

    async def _messages(self, subscription: Any) -> AsyncGenerator[dict[str, Any]]:  # noqa: ANN401
        while True:
            message = await subscription.get_message(timeout=PROBE_S)
            if message is not None:
                yield message
            if self._conversing:
                self.check_hearing()

    async def _publish(self, client: Any) -> None:  # noqa: ANN401 -- redis.asyncio.Redis
        while True:
            await self.rung()
            async with client.pipeline(transaction=False) as pipeline:
                for ring, bodies in self.waiting.take():
                    pipeline.publish(CHANNEL, encoded(ring, bodies))
                await pipeline.execute()
