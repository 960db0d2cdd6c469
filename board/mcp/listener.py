"""One plain listener: a stream that says that something has changed, and a sign of life now and then."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

import mcp_types as types
from mcp.shared.subscriptions import SUBSCRIPTION_ID_META_KEY

from board.mcp.caller import complete
from board.mcp.streaming import EVENTS
from schema.codec import encode

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, MutableMapping

    from board.mcp.lane import Listen

    Message = MutableMapping[str, Any]
    Receive = Callable[[], Awaitable[Message]]
    Send = Callable[[Message], Awaitable[None]]

_HEADERS: Final = [
    (b"content-type", EVENTS),
    (b"cache-control", b"no-cache, no-transform"),
    (b"connection", b"keep-alive"),
    (b"x-accel-buffering", b"no"),
]
_PING: Final = b": ping\r\n\r\n"


class Listener:
    """The stream of one request. `tell`, `ping` and `end` come from outside, and never wait."""

    def __init__(self, request: Listen, uri: str, receive: Receive, send: Send) -> None:
        self.wants_news = uri in request.params.notifications.resource_subscriptions
        """Whether it is to be told that the board has changed."""
        self._request = request
        self._receive = receive
        self._send = send
        self._meta = {SUBSCRIPTION_ID_META_KEY: request.id}
        self._news = _event({"method": "notifications/resources/updated", "params": {"_meta": self._meta, "uri": uri}})
        self._wake = asyncio.Event()
        self._is_told = self._is_pinged = self._is_ended = self._is_gone = False

    def tell(self) -> None:
        """Say that the board has changed: once, if that has not been said yet."""
        self._is_told = True
        self._wake.set()

    def ping(self) -> None:
        """Give a sign of life, unless there is something to say."""
        self._is_pinged = True
        self._wake.set()

    def end(self) -> None:
        """End the stream, once what was told is said."""
        self._is_ended = True
        self._wake.set()

    async def begin(self) -> None:
        """Open the stream, and say what will be told."""
        acknowledged = {"_meta": self._meta, "notifications": self._request.params.notifications}
        await self._send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
        await self._say(_event({"method": "notifications/subscriptions/acknowledged", "params": acknowledged}))

    async def serve(self, server_info: dict[str, Any]) -> None:
        """Say what is told until the client leaves, or the stream is ended."""
        watching = asyncio.create_task(self._watch(), name="watching a listener")
        try:
            while not self._is_gone and (self._is_told or not self._is_ended):
                await self._wake.wait()
                self._wake.clear()
                await self._say_what_was_told()
        finally:
            watching.cancel()
        if not self._is_gone:
            result = complete(_meta=self._meta | {types.SERVER_INFO_META_KEY: server_info})
            await self._say(_event({"id": self._request.id, "result": result}), more=False)

    async def refuse(self, why: str) -> None:
        """End the stream with an error."""
        error = {"code": types.INVALID_REQUEST, "message": why}
        await self._say(_event({"id": self._request.id, "error": error}), more=False)

    async def _say_what_was_told(self) -> None:
        said = self._news if self._is_told else _PING if self._is_pinged else b""
        self._is_told = self._is_pinged = False
        if said:
            await self._say(said)

    async def _say(self, said: bytes, *, more: bool = True) -> None:
        await self._send({"type": "http.response.body", "body": said, "more_body": more})

    async def _watch(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self._is_gone = True
        self._wake.set()


def _event(message: dict[str, Any]) -> bytes:
    return b"event: message\r\ndata: " + encode({"jsonrpc": "2.0", **message}) + b"\r\n\r\n"
