"""Answers that become a stream only where something is said before the result, such as progress.

The SDK decides so by itself for the newest revision. For the older ones it makes every answer a stream, or none; here its
stream is held back until its first message: where that is the result, it is sent as one JSON document.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, MutableMapping, Sequence

    Message = MutableMapping[str, Any]
    Send = Callable[[Message], Awaitable[None]]
    Headers = Sequence[tuple[bytes, bytes]]

JSON: Final = b"application/json"
EVENTS: Final = b"text/event-stream"

_DATA: Final = b"data: "
_OF_STREAMS: Final = frozenset({b"content-type", b"cache-control", b"connection", b"x-accel-buffering"})


class _Said(msgspec.Struct):
    method: str = ""


_said: Final = msgspec.json.Decoder(_Said)


def takes_streams(headers: Headers) -> bool:
    """Whether a client accepts both a document and a stream as an answer."""
    accepted = next((value for name, value in headers if name == b"accept"), b"")
    return EVENTS in accepted and JSON in accepted


class Held:
    """Sends what an ASGI application answers, its stream as a document where it holds the result alone."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._start: Message | None = None
        self._is_done = False

    async def __call__(self, message: Message) -> None:
        """Take a message of the application."""
        if self._is_done:
            return
        if message["type"] == "http.response.start" and _media(message["headers"]).startswith(EVENTS):
            self._start = message
        elif self._start is None:
            await self._send(message)
        else:
            await self._settle(self._start, message)

    async def _settle(self, start: Message, message: Message) -> None:
        result = _result_of(message.get("body", b""))
        self._start = None
        if result is None:
            await self._send(start)
            await self._send(message)
            return
        self._is_done = True
        kept = [(name, value) for name, value in start["headers"] if name.lower() not in _OF_STREAMS]
        headers = [(b"content-type", JSON), (b"content-length", b"%d" % len(result)), *kept]
        await self._send({"type": "http.response.start", "status": start["status"], "headers": headers})
        await self._send({"type": "http.response.body", "body": result})


def _media(headers: Headers) -> bytes:
    return next((value for name, value in headers if name.lower() == b"content-type"), b"")


def _result_of(event: bytes) -> bytes | None:
    """The JSON of an event that is a result or an error; None for a notification, a request, or a sign of life."""
    data = b"".join(line.removeprefix(_DATA) for line in event.splitlines() if line.startswith(_DATA))
    return data if data and not _said.decode(data).method else None
