"""The short way for plain tool calls, which are nearly all that a fleet of agents sends, and for plain listeners.

The SDK models every request and result anew, and for the older revisions starts a task group, two streams and a
dispatcher for each: 0.3 and 0.8 ms of CPU a call, as much as the board itself takes or more. A request that is a tool
call and nothing besides, well-formed to the letter and with headers that agree with it, is decoded and answered here.
Whatever is anything else (another method, an unknown member, a header that differs) goes the SDK's way, which so remains the judge of all that is unusual; a test compares the answers of both ways.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal

import mcp_types as types
import msgspec
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, LATEST_MODERN_VERSION

from board.mcp.streaming import takes_streams
from schema.codec import encode

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, MutableMapping, Sequence

    from board.mcp.caller import Caller
    from board.mcp.calls import Calls

    Message = MutableMapping[str, Any]
    Receive = Callable[[], Awaitable[Message]]
    Send = Callable[[Message], Awaitable[None]]
    Headers = Sequence[tuple[bytes, bytes]]

MODERN: Final = LATEST_MODERN_VERSION
_METHOD: Final = "tools/call"
_LISTEN: Final = "subscriptions/listen"
_JSON: Final = b"application/json"
_READ: Final = frozenset(
    {b"accept", b"content-length", b"content-type", b"mcp-protocol-version", b"mcp-method", b"mcp-name"}
)
_OLDER: Final = frozenset(name.encode() for name in HANDSHAKE_PROTOCOL_VERSIONS)


class _Info(msgspec.Struct, frozen=True):
    name: str
    version: str


class _Meta(msgspec.Struct, frozen=True):
    # Others, such as a progress token or a trace, ask for nothing that a tool of the board would do.
    version: str = msgspec.field(name=types.PROTOCOL_VERSION_META_KEY, default="")
    capabilities: dict[str, Any] | None = msgspec.field(name=types.CLIENT_CAPABILITIES_META_KEY, default=None)
    info: _Info | None = msgspec.field(name=types.CLIENT_INFO_META_KEY, default=None)


class _Params(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    arguments: dict[str, Any] = {}
    meta: _Meta = msgspec.field(name="_meta", default=_Meta())


class _Request(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    jsonrpc: Literal["2.0"]
    id: int | str
    method: Literal["tools/call"]
    params: _Params


class Wanted(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel", omit_defaults=True):
    """What a listener asks to be told of."""

    tools_list_changed: bool = False
    prompts_list_changed: bool = False
    resources_list_changed: bool = False
    resource_subscriptions: tuple[str, ...] = ()


class _ListenParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    notifications: Wanted
    meta: _Meta = msgspec.field(name="_meta", default=_Meta())


class Listen(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A request to listen."""

    jsonrpc: Literal["2.0"]
    id: int | str
    method: Literal["subscriptions/listen"]
    params: _ListenParams


_decoder: Final = msgspec.json.Decoder(_Request)
_listen_decoder: Final = msgspec.json.Decoder(Listen)


def listen_of(headers: Headers, body: bytes) -> Listen | None:
    """Read a request to listen that is plain: of the newest revision, and by a client that takes a stream."""
    if _LISTEN.encode() not in body or not takes_streams(headers):
        return None
    try:
        request = _listen_decoder.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    return request if _era(headers, _LISTEN, "", request.params.meta) == MODERN else None


class Lane:
    """Answers plain tool calls; `server_info` is what results of the newest revision are stamped with."""

    def __init__(self, calls: Calls, server_info: dict[str, Any]) -> None:
        self._calls = calls
        self._stamp: dict[str, Any] = {"_meta": {types.SERVER_INFO_META_KEY: server_info}}

    async def read(self, headers: Headers, receive: Receive, limit_bytes: int) -> bytes | None:
        """Read a body whose length was told and is not over the limit; None, with nothing read, for any other."""
        length = next((value for name, value in headers if name == b"content-length"), b"")
        if not length.isdigit() or int(length) > limit_bytes:
            return None
        parts: list[bytes] = []
        more = True
        while more:
            message = await receive()
            parts.append(message.get("body", b""))
            more = message.get("more_body", False)
        return b"".join(parts)

    async def answer(self, headers: Headers, body: bytes, caller: Caller, send: Send) -> bool:
        """Answer the request if it is a plain tool call, and tell whether it was."""
        try:
            request = _decoder.decode(body)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return False
        tool = self._calls.tool(request.params.name)
        era = _era(headers, _METHOD, request.params.name, request.params.meta)
        if tool is None or era is None:
            return False
        result = await self._calls.answer(tool, caller, request.params.arguments)
        if era == MODERN:
            result |= self._stamp
        else:
            del result["resultType"]
        await _send(send, encode({"jsonrpc": "2.0", "id": request.id, "result": result}))
        return True


def _era(headers: Headers, method: str, name: str, meta: _Meta) -> str | None:
    """Tell whether a call is of the newest revision (MODERN) or an older one (""); None where anything is unusual."""
    said: dict[bytes, bytes] = {}
    for header, value in headers:
        if header in _READ:
            if header in said:
                return None
            said[header] = value
    if said.get(b"content-type", b"").partition(b";")[0] != _JSON or _JSON not in said.get(b"accept", b""):
        return None
    version = said.get(b"mcp-protocol-version")
    if version is None or version in _OLDER:
        return None if meta.version or meta.capabilities is not None else ""
    routed = (version, said.get(b"mcp-method"), said.get(b"mcp-name", b""))
    whole = meta.version == MODERN and meta.capabilities is not None
    return MODERN if routed == (MODERN.encode(), method.encode(), name.encode()) and whole else None


async def _send(send: Send, body: bytes) -> None:
    headers = [(b"content-type", _JSON), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def replayed(body: bytes, receive: Receive) -> Receive:
    """Give a body again that was read, and then what really comes."""
    waiting = [{"type": "http.request", "body": body, "more_body": False}]

    async def again() -> Message:
        return waiting.pop() if waiting else await receive()

    return again
