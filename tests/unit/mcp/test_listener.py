"""One plain listener: what it says, and what it does not say twice."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from board.mcp.lane import Listen
from board.mcp.listener import Listener

pytestmark = pytest.mark.anyio

URI = "board://main/snapshot"


@pytest.fixture
def anyio_backend() -> str:
    """It is the server's own loop that these run on."""
    return "asyncio"


class Client:
    """The other end of a stream, which reads when it is let."""

    def __init__(self, *uris: str) -> None:
        self.reads = asyncio.Event()
        self.reads.set()
        self.heard: list[str] = []
        self._left = asyncio.Event()
        asked = {"notifications": {"resourceSubscriptions": uris}}
        message = {"jsonrpc": "2.0", "id": "a", "method": "subscriptions/listen", "params": asked}
        request = msgspec.convert(message, Listen)
        self.listener = Listener(request, URI, self._receive, self._send)

    async def _receive(self) -> dict[str, Any]:
        await self._left.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Any) -> None:
        await self.reads.wait()
        for line in message.get("body", b"").decode().splitlines():
            if line.startswith("data: "):
                said = msgspec.json.decode(line.removeprefix("data: "))
                self.heard.append(said.get("method", "result" if "result" in said else "error"))
            elif line.startswith(":"):
                self.heard.append("ping")

    def leave(self) -> None:
        """Close the connection."""
        self._left.set()

    async def serving(self) -> asyncio.Task[None]:
        """Begin, and serve in a task."""
        await self.listener.begin()
        task = asyncio.create_task(self.listener.serve({"name": "board"}))
        await asyncio.sleep(0)
        return task


async def test_it_says_once_what_was_told_before_it_was_read() -> None:
    """However often the board changes while a client does not read, it hears of it once, and keeps no queue."""
    client = Client(URI)
    task = await client.serving()
    client.reads.clear()
    client.listener.tell()
    await asyncio.sleep(0.01)
    for _ in range(100):
        client.listener.tell()
        client.listener.ping()
    client.reads.set()
    client.listener.end()
    await task
    updated = "notifications/resources/updated"
    assert client.heard == ["notifications/subscriptions/acknowledged", updated, updated, "result"]


async def test_a_quiet_stream_gives_signs_of_life() -> None:
    """Where nothing is told, a ping is a comment, and no event."""
    client = Client()
    task = await client.serving()
    client.listener.ping()
    await asyncio.sleep(0.01)
    client.listener.end()
    await task
    assert client.heard == ["notifications/subscriptions/acknowledged", "ping", "result"]
    assert not client.listener.wants_news


async def test_who_has_left_is_told_nothing() -> None:
    """A client that goes ends its stream, and no result is sent after it."""
    client = Client(URI)
    task = await client.serving()
    client.leave()
    await task
    assert client.heard == ["notifications/subscriptions/acknowledged"]
