"""Answers that become a stream only where something is said before the result."""

from __future__ import annotations

from typing import Any

import pytest

from board.mcp.streaming import EVENTS, JSON, Held, takes_streams

pytestmark = pytest.mark.anyio

RESULT = b'{"jsonrpc":"2.0","id":1,"result":{"a":"\\n"}}'
PROGRESS = b'{"jsonrpc":"2.0","method":"notifications/progress","params":{}}'


def start(media: bytes, status: int = 200) -> dict[str, Any]:
    return {"type": "http.response.start", "status": status, "headers": [(b"Content-Type", media), (b"x", b"y")]}


def event(data: bytes) -> dict[str, Any]:
    return body(b"event: message\r\ndata: " + data + b"\r\n\r\n")


def body(data: bytes, *, more: bool = True) -> dict[str, Any]:
    return {"type": "http.response.body", "body": data, "more_body": more}


async def sent(*messages: dict[str, Any]) -> list[Any]:
    """What goes out of what an application says."""
    out: list[Any] = []

    async def send(message: Any) -> None:
        out.append(message)

    held = Held(send)
    for message in messages:
        await held(message)
    return out


async def test_a_result_alone_is_a_document() -> None:
    """A stream whose first message is the result is sent as JSON, with its length, and its end is not sent."""
    out = await sent(start(EVENTS), event(RESULT), body(b"", more=False))
    assert out[0]["headers"] == [(b"content-type", JSON), (b"content-length", b"%d" % len(RESULT)), (b"x", b"y")]
    assert [message.get("body") for message in out] == [None, RESULT]


@pytest.mark.parametrize("first", [event(PROGRESS), body(b": ping\r\n\r\n")])
async def test_what_is_said_before_makes_a_stream(first: dict[str, Any]) -> None:
    """A notification, or a sign of life while the result is awaited, lets all go out as it comes."""
    messages = [start(EVENTS + b"; charset=utf-8"), first, event(RESULT), body(b"", more=False)]
    assert await sent(*messages) == messages


async def test_a_document_is_left_as_it_is() -> None:
    """Refusals before the call, which the SDK sends as documents, are not touched."""
    messages = [start(JSON, 400), body(b"{}", more=False)]
    assert await sent(*messages) == messages


@pytest.mark.parametrize(
    ("accept", "streams"),
    [(b"application/json, text/event-stream", True), (b"application/json", False), (b"text/event-stream", False)],
)
def test_only_who_takes_both_may_get_a_stream(accept: bytes, streams: bool) -> None:
    """A client that names documents alone gets nothing else."""
    assert takes_streams([(b"accept", accept)]) is streams
    assert not takes_streams([])
