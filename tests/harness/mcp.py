"""Clients of MCP: the official SDK's in both protocol eras, and one that sends exactly what it is told."""

from __future__ import annotations

from contextlib import asynccontextmanager
from itertools import count
from typing import TYPE_CHECKING, Any, Final

import httpx
import httpx2
import msgspec
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator
    from contextlib import AbstractAsyncContextManager

    import mcp_types as types

    from tests.harness.node import Node
    from workers.client import BoardClient

MODERN: Final = "2026-07-28"
ERAS: Final = ("auto", "legacy")
"""The SDK's modes: ask first and take the newest revision, or shake hands with `initialize`."""

_numbers: Final = count(1)
_CAPABILITIES: Final = "io.modelcontextprotocol/clientCapabilities"
_VERSION: Final = "io.modelcontextprotocol/protocolVersion"


@asynccontextmanager
async def mcp_client(
    url: str, *, board: str = "", worker: str = "", token: str = "", era: str = "auto"
) -> AsyncGenerator[Client]:
    """Give the official client of a board, connected."""
    headers = _headers(worker, token)
    endpoint = f"{url}/mcp/{board}" if board else f"{url}/mcp"
    # Longer than the longest wait of a tool.
    http = httpx2.AsyncClient(headers=headers, trust_env=False, timeout=90)
    async with http, Client(streamable_http_client(endpoint, http_client=http), mode=era) as client:
        yield client


def _headers(worker: str, token: str) -> dict[str, str]:
    credential = {"Authorization": f"Bearer {token}"} if token else {}
    return credential | ({"X-Board-Worker": worker} if worker else {})


def text_of(result: types.CallToolResult) -> str:
    """The first text of a result: the tool's own answer."""
    part = result.content[0]
    assert part.type == "text"
    return part.text


def urgent_of(result: types.CallToolResult) -> str:
    """The block of urgent notes that came with a result, empty where there was none; the parts may be joined as they are."""
    texts = [
        part.text.removeprefix("\n") for part in result.content[1:] if part.type == "text" and part.text[0] == "\n"
    ]
    assert len(texts) <= 1
    assert texts == ([result.structured_content["urgent"]["text"]] if "urgent" in result.structured_content else [])
    return "".join(texts)


async def send(
    url: str,
    method: str,
    params: dict[str, Any] | None = None,
    *,
    path: str = "/mcp",
    headers: dict[str, str] | None = None,
    worker: str = "",
    token: str = "",
    version: str = MODERN,
) -> httpx.Response:
    """Send one request, as a client without a session does; an older `version` leaves the envelope of 2026 out."""
    message, more = _request(method, params or {}, worker, token, version)
    async with httpx.AsyncClient(trust_env=False, timeout=90) as http:
        return await http.post(url + path, json=message, headers=more | (headers or {}))


def _request(
    method: str, params: dict[str, Any], worker: str, token: str, version: str
) -> tuple[dict[str, Any], dict[str, str]]:
    said = dict(params)
    more = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": version, **_headers(worker, token)}
    if version == MODERN:
        said["_meta"] = {_VERSION: version, _CAPABILITIES: {}, **said.get("_meta", {})}
        more["Mcp-Method"] = method
        if "name" in said:
            more["Mcp-Name"] = said["name"]
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": said}, more


@asynccontextmanager
async def listening(url: str, params: dict[str, Any], *, worker: str) -> AsyncGenerator[AsyncIterator[dict[str, Any]]]:
    """Listen as a client without a session does; give what comes, message by message."""
    message, headers = _request("subscriptions/listen", params, worker, "", MODERN)
    async with (
        httpx.AsyncClient(trust_env=False, timeout=90) as http,
        http.stream("POST", f"{url}/mcp", json=message, headers=headers) as response,
    ):
        yield _messages(response)


async def _messages(response: httpx.Response) -> AsyncIterator[dict[str, Any]]:
    async for line in response.aiter_lines():
        if line.startswith("data: "):
            yield msgspec.json.decode(line.removeprefix("data: "))


async def call(url: str, tool: str, arguments: dict[str, Any], **how: Any) -> dict[str, Any]:
    """Call a tool by `send`, and give the result."""
    response = await send(url, "tools/call", {"name": tool, "arguments": arguments}, **how)
    assert response.status_code == 200, response.text
    return response.json()["result"]


class Place:
    """A new board of a running server, and its clients."""

    def __init__(self, node: Node) -> None:
        self.url = node.url
        self.board = f"place-{next(_numbers)}"
        self._node = node

    async def make(self) -> None:
        """Create the board."""
        async with self._node.client() as client:
            await client.create_board(self.board)

    async def call(self, tool: str, arguments: dict[str, Any], *, worker: str) -> dict[str, Any]:
        """Call a tool of this board, as a worker."""
        return await call(self.url, tool, arguments, worker=worker, path=f"/mcp/{self.board}")

    def mcp(self, worker: str, era: str) -> AbstractAsyncContextManager[Client]:
        """Give the official client of this board."""
        return mcp_client(self.url, board=self.board, worker=worker, era=era)

    def client(self, worker: str) -> BoardClient:
        """Give the client of HTTP."""
        return self._node.client(worker, board=self.board)
