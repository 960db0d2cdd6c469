"""`board mcp`: the same tools over standard input and output, for both protocol eras."""

from __future__ import annotations

import os
import sys
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import anyio
import pytest
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from tests.harness.mcp import ERAS, call, mcp_client, text_of
from tests.harness.node import ROOT, Node, run_board

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from pathlib import Path

pytestmark = pytest.mark.anyio

FACT = {"type": "FACT", "text": "rows end at dashes\u2028für immer"}


@asynccontextmanager
async def stdio(node: Node, era: str, *arguments: str) -> AsyncGenerator[Client]:
    """Give the official client of a `board mcp` process."""
    environ = {**os.environ, "BOARD_URL": node.url}
    command = ["-m", "board", "mcp", *arguments]
    server = StdioServerParameters(command=sys.executable, args=command, env=environ, cwd=ROOT)
    async with Client(stdio_client(server), mode=era) as client:
        yield client


@pytest.mark.parametrize("era", ERAS)
async def test_it_gives_what_http_gives(node: Node, era: str) -> None:
    """Tools, results, refusals and identity are those of the board's own endpoint."""
    async with stdio(node, era, "--worker", "w1") as client:
        listed = await client.list_tools()
        wrote = await client.call_tool("board_write", FACT)
        refused = await client.call_tool("board_unfold", {"seq": 99})
        snapshot = await client.read_resource("board://main/snapshot")
    async with mcp_client(node.url, worker="w1", era=era) as client:
        assert (await client.list_tools()).tools == listed.tools
    assert wrote.structured_content["note"]["text"] == FACT["text"]
    assert wrote.structured_content["note"]["author"] == "w1"
    assert refused.is_error
    assert refused.structured_content["code"] == "note_not_found"
    assert "Board main" in snapshot.contents[0].text


async def test_a_listener_is_told(node: Node) -> None:
    """What comes as a stream over HTTP comes as lines here, while calls go on."""
    async with stdio(node, "auto") as client, client.listen(resource_subscriptions=["board://main/snapshot"]) as stream:
        await client.call_tool("board_write", FACT)
        told = await anext(aiter(stream))
    assert told.uri == "board://main/snapshot"


@pytest.mark.parametrize("era", ERAS)
async def test_calls_do_not_wait_for_each_other(node: Node, era: str) -> None:
    """A long wait is ended by what the same client writes meanwhile."""
    heard: dict[str, Any] = {}

    async def wait() -> None:
        result = await client.call_tool("board_wait", {"after": 0, "types": ["FAIL"], "timeout_s": 60})
        heard.update(result.structured_content)

    async with stdio(node, era) as client, anyio.create_task_group() as tasks:
        tasks.start_soon(wait)
        await client.call_tool("board_write", FACT)
        await client.call_tool("board_write", {**FACT, "type": "FAIL"})
    assert [event["type"] for event in heard["events"]] == ["FAIL"]


@pytest.mark.parametrize("era", ERAS)
async def test_a_board_that_goes_away_is_a_tool_error(node: Node, era: str) -> None:
    """The model is told that the board cannot be reached; once it is back, calls go on."""
    async with stdio(node, era) as client:
        await client.call_tool("board_write", FACT)
        await node.kill9()
        lost = await client.call_tool("board_unfold", {"seq": 1})
        await node.restart()
        again = await client.call_tool("board_unfold", {"seq": 1})
    assert lost.is_error
    assert lost.structured_content["code"] == "unreachable"
    assert "What to do" in text_of(lost)
    assert again.structured_content["note"]["text"] == FACT["text"]


async def test_it_says_at_the_start_that_it_cannot_serve(tmp_path: Path) -> None:
    """No board there ends with 3; a board that refuses the caller ends with 1, and says why."""
    nowhere = run_board("mcp", "--url", "http://127.0.0.1:9")
    async with Node(tmp_path) as node:
        async with node.client() as admin:
            await admin.create_token("admin")
        refused = node.run("mcp", "--token", "bt_0_no")
        no_board = node.run("mcp", "--board", "nowhere")
    assert (nowhere.status, refused.status, no_board.status) == (3, 1, 1)
    assert "cannot be reached" in nowhere.err
    assert "token" in refused.err
    assert "bt_0_no" not in refused.err


async def test_a_line_that_is_no_json_is_answered(node: Node) -> None:
    """A broken line is a parse error of its own, and the next line is served; the end of input ends it with 0."""
    ping = '{"jsonrpc":"2.0","id":7,"method":"ping"}\n'
    done = node.run("mcp", stdin="{oops\n\n" + ping)
    assert done.status == 0
    assert [line.get("id") for line in done.lines] == [None, 7]
    assert done.lines[0]["error"]["code"] == -32700


async def test_it_acts_by_its_token(tmp_path: Path) -> None:
    """With a token the worker is the token's."""
    async with Node(tmp_path) as node:
        async with node.client() as admin:
            root = (await admin.create_token("admin")).token
        async with node.client(token=root) as admin:
            token = (await admin.create_token("worker", worker="w7")).token
        async with stdio(node, "auto", "--token", token) as client:
            wrote = await client.call_tool("board_write", FACT)
        read = await call(node.url, "board_grep", {"q": "rows"}, token=token)
    assert wrote.structured_content["note"]["author"] == "w7"
    assert len(read["structuredContent"]["notes"]) == 1
