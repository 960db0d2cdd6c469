"""A server end of the stream that does what a test tells it to: a real socket, without a board behind it."""

from __future__ import annotations

from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlsplit

import msgspec
from websockets.asyncio.server import serve
from websockets.exceptions import ConnectionClosed

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable

    from websockets.asyncio.server import ServerConnection

EPOCH = "e1"


class Peer:
    """One connection as the server sees it; `query` is what the client asked for, in order."""

    def __init__(self, socket: ServerConnection) -> None:
        self.socket = socket
        request = socket.request
        assert request is not None
        self.headers = request.headers
        self.path = urlsplit(request.path).path
        self.query = parse_qsl(urlsplit(request.path).query)

    async def send(self, op: str, **fields: Any) -> None:
        """Send one frame."""
        await self.socket.send(msgspec.json.encode({"op": op, **fields}).decode())

    async def hello(self, *, after: int, head: int = 0) -> None:
        """Greet."""
        await self.send("hello", board="main", epoch=EPOCH, head=head, after=after)

    async def events(self, *seqs: int, kind: str = "note") -> None:
        """Send events of these seqs in one frame."""
        await self.send("events", events=[event(seq, kind) for seq in seqs])

    async def receive(self) -> dict[str, Any]:
        """Wait for what the client sends."""
        return msgspec.json.decode(await self.socket.recv())

    async def close(self, code: int, reason: str = "") -> None:
        """End the connection with this code."""
        await self.socket.close(code, reason)

    async def wait_gone(self) -> None:
        """Wait until the client has ended the connection."""
        await self.socket.wait_closed()


def event(seq: int, kind: str = "note") -> dict[str, Any]:
    """Give an event as a board would send it."""
    at = "2026-12-01T10:00:00.000000Z"
    return {"kind": kind, "seq": seq, "at": at, "author": "w1", "type": "FACT", "text": f"note {seq}"}


@asynccontextmanager
async def listening(script: Callable[[Peer], Awaitable[None]]) -> AsyncGenerator[str]:
    """Run `script` for every connection, and give the URL of the server."""

    async def run(socket: ServerConnection) -> None:
        # The client may leave in the middle of the script, as some tests mean it to.
        with suppress(ConnectionClosed):
            await script(Peer(socket))

    async with serve(run, "127.0.0.1", 0, compression=None) as server:
        port = next(iter(server.sockets)).getsockname()[1]
        yield f"http://127.0.0.1:{port}"
