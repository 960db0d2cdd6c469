"""MCP over standard input and output, for a client that cannot speak HTTP: every message goes to a running board.

It adds nothing and holds nothing. What the client sends is posted to the board's own endpoint as it is, whichever
protocol era it is of, and what the board answers is written as it is; so both ways give the same tools and results.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import anyio
import httpx
import msgspec

from schema.codec import encode
from schema.codes import CODES
from workers.client.address import Caller, is_loopback

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from anyio.abc import TaskGroup

VERSION_KEY: Final = "io.modelcontextprotocol/protocolVersion"
_NAMED_BY: Final = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
_INTERNAL_ERROR: Final = -32603
_CONNECT_S: Final = 5.0
_ANSWER_S: Final = 120.0
"""Longer than the longest wait that a tool may be asked for; a stream of a listener may be silent for as long."""

_UNREACHABLE: Final = CODES["unreachable"]

Message = dict[str, Any]


def run(url: str, board: str, token: str | None, worker: str | None) -> int:
    """Serve until standard input ends. Gives the exit status: 0, or 1 refused, 3 when the board cannot be reached."""
    return anyio.run(_serve, f"{url.rstrip('/')}/mcp/{board}", Caller(token=token, worker=worker))


async def _serve(endpoint: str, caller: Caller) -> int:
    timeout = httpx.Timeout(_ANSWER_S, connect=_CONNECT_S)
    limits = httpx.Limits(max_connections=None)
    headers = caller.headers() | {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    async with httpx.AsyncClient(
        headers=headers, timeout=timeout, limits=limits, trust_env=not is_loopback(endpoint)
    ) as http:
        link = Link(http, endpoint, _write)
        refused = await link.greet()
        if refused:
            return refused
        async with anyio.create_task_group() as tasks:
            async for line in _lines():
                link.take(line, tasks)
        return 0


async def _lines() -> AsyncIterator[bytes]:
    async for line in anyio.wrap_file(sys.stdin.buffer):
        if line.strip():
            yield line


def _write(message: bytes) -> None:
    sys.stdout.buffer.write(message + b"\n")
    sys.stdout.buffer.flush()


def _complain(sentence: str) -> None:
    sys.stderr.write(f"board mcp: {sentence}\n")


class Link:
    """Carries messages between one client and one board; answers come in the order in which they are ready."""

    def __init__(self, http: httpx.AsyncClient, endpoint: str, write: Callable[[bytes], None]) -> None:
        self._http = http
        self._endpoint = endpoint
        self._write = write
        self._version = ""
        self._calls: dict[object, anyio.CancelScope] = {}

    async def greet(self) -> int:
        """Ask the board whether it takes this caller; give the exit status with which to stop, 0 to go on."""
        try:
            response = await self._http.post(self._endpoint, content=_PING)
        except httpx.HTTPError as error:
            _complain(f"{self._endpoint} cannot be reached ({error or type(error).__name__}). {_UNREACHABLE.action}")
            return _UNREACHABLE.exit
        if response.is_success:
            return 0
        _complain(f"{self._endpoint} refused: {_reason(response)}")
        return 1

    def take(self, line: bytes, tasks: TaskGroup) -> None:
        """Take one line of the client."""
        try:
            message = msgspec.json.decode(line, type=Message)
        except msgspec.MsgspecError as error:
            self._write(encode(_error(None, -32700, f"Parse error: {error}")))
            return
        if message.get("method") == "notifications/cancelled":
            self._cancel(message)
        tasks.start_soon(self._forward, message, line)

    def _cancel(self, message: Message) -> None:
        """End the request that the client gave up. In HTTP, to leave is how that is said."""
        scope = self._calls.get((message.get("params") or {}).get("requestId"))
        if scope is not None:
            scope.cancel()

    async def _forward(self, message: Message, line: bytes) -> None:
        id_ = message.get("id")
        with anyio.CancelScope() as scope:
            self._calls[id_] = scope
            try:
                await self._exchange(message, line)
            except httpx.HTTPError as error:
                if id_ is not None:
                    self._write(encode(self._unreachable(message, str(error) or type(error).__name__)))
            finally:
                del self._calls[id_]

    async def _exchange(self, message: Message, line: bytes) -> None:
        async with self._http.stream("POST", self._endpoint, content=line, headers=self._headers(message)) as response:
            if response.headers.get("content-type", "").startswith("text/event-stream"):
                async for event in response.aiter_lines():
                    if event.startswith("data:"):
                        self._write(event.removeprefix("data:").strip().encode())
                return
            body = await response.aread()
        if "id" not in message:
            return
        if not response.headers.get("content-type", "").startswith("application/json"):
            body = encode(_error(message["id"], _INTERNAL_ERROR, _reason(response), _document(body)))
        self._learn(message, body)
        self._write(body)

    def _headers(self, message: Message) -> dict[str, str]:
        """What a client of HTTP says of its message beside it: both eras' headers, from the message alone."""
        params = message.get("params") or {}
        version = (params.get("_meta") or {}).get(VERSION_KEY, "")
        if not version:
            return (
                {"MCP-Protocol-Version": self._version}
                if self._version and message.get("method") != "initialize"
                else {}
            )
        method = str(message.get("method", ""))
        named = params.get(_NAMED_BY.get(method, ""))
        headers = {"MCP-Protocol-Version": str(version), "Mcp-Method": method}
        return headers | ({"Mcp-Name": _header_value(str(named))} if named is not None else {})

    def _learn(self, message: Message, body: bytes) -> None:
        """Note which revision an `initialize` agreed on: over HTTP every later message names it."""
        if message.get("method") == "initialize":
            with suppress(msgspec.MsgspecError, KeyError, TypeError):
                self._version = str(msgspec.json.decode(body)["result"]["protocolVersion"])

    def _unreachable(self, message: Message, why: str) -> Message:
        said = {"code": "unreachable", "detail": f"The board did not answer: {why}.", "action": _UNREACHABLE.action}
        if message.get("method") != "tools/call":
            return _error(message["id"], _INTERNAL_ERROR, said["detail"], said)
        text = f"Refused ({said['code']}): {said['detail']}\nWhat to do: {said['action']}"
        content = [{"type": "text", "text": text}]
        result = {"resultType": "complete", "content": content, "structuredContent": said, "isError": True}
        return {"jsonrpc": "2.0", "id": message["id"], "result": result}


_PING: Final = encode({"jsonrpc": "2.0", "id": 0, "method": "ping"})


def _error(id_: object, code: int, message: str, data: object = None) -> Message:
    error = {"code": code, "message": message} | ({} if data is None else {"data": data})
    return {"jsonrpc": "2.0", "id": id_, "error": error}


def _document(body: bytes) -> Message | None:
    with suppress(msgspec.MsgspecError):
        return msgspec.json.decode(body, type=Message)
    return None


def _reason(response: httpx.Response) -> str:
    document = _document(response.content) or {}
    return str(document.get("detail") or f"HTTP status {response.status_code}")


def _header_value(text: str) -> str:
    if text.isascii() and text.isprintable() and text.strip() == text and not text.startswith("=?"):
        return text
    from mcp.shared.inbound import encode_header_value  # noqa: PLC0415 -- takes 0.6 s, and such names are rare

    return encode_header_value(text)
