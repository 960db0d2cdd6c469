"""Drives an agent program through one turn over ACP: lines of JSON-RPC on its standard input and output."""

from __future__ import annotations

import asyncio
import os
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

import msgspec

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping, Sequence
    from pathlib import Path

Plain = dict[str, Any]

LINE_BYTES: Final = 16_777_216
TURN_S: Final = 120.0


class AgentFailed(Exception):
    """The agent answered with an error, or ended; the text holds the end of what it complained of."""


class Agent:
    """One agent process. `permit` answers its questions by their kind."""

    def __init__(self, process: asyncio.subprocess.Process, complaints: Path) -> None:
        self._process = process
        self._complaints = complaints
        self._last = 0
        self.asked: list[Plain] = []

    async def ask(self, method: str, params: Plain) -> Plain:
        """Send a request, and answer what the agent asks until its result comes."""
        self._last += 1
        await self._write({"id": self._last, "method": method, "params": params})
        while True:
            message = await self._read()
            if "method" in message:
                await self._answer(message)
            elif message.get("id") == self._last:
                if "error" in message:
                    raise AgentFailed(f"{message['error']}; {self._end()}")
                return message["result"]

    async def _answer(self, message: Plain) -> None:
        if "id" not in message:
            return
        if message["method"] != "session/request_permission":
            await self._write({"id": message["id"], "error": {"code": -32601, "message": "Method not found"}})
            return
        self.asked.append(message["params"])
        options = message["params"]["options"]
        allow = next(one for one in options if one["kind"].startswith("allow"))
        outcome = {"outcome": "selected", "optionId": allow["optionId"]}
        await self._write({"id": message["id"], "result": {"outcome": outcome}})

    async def _write(self, message: Plain) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(msgspec.json.encode({"jsonrpc": "2.0", **message}) + b"\n")
        await self._process.stdin.drain()

    async def _read(self) -> Plain:
        assert self._process.stdout is not None
        while line := await self._process.stdout.readline():
            with suppress(msgspec.DecodeError):
                return msgspec.json.decode(line, type=Plain)
        raise AgentFailed(f"the agent ended; {self._end()}")

    def _end(self) -> str:
        return self._complaints.read_text(errors="replace")[-2000:]


@asynccontextmanager
async def running(command: Sequence[str], environ: Mapping[str, str], folder: Path) -> AsyncGenerator[Agent]:
    """Run an agent with a clean environment and a home of its own below `folder`; kill it at the end."""
    home, complaints = folder / "home", folder / "agent.err"
    home.mkdir()
    clean = {"PATH": os.environ["PATH"], "HOME": str(home), "LANG": "C.UTF-8", "TMPDIR": str(folder), **environ}
    with complaints.open("wb") as errors:
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=errors,
            env=clean,
            cwd=home,
            limit=LINE_BYTES,
            start_new_session=True,
        )
    try:
        yield Agent(process, complaints)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, 9)
        await process.wait()


async def play_turn(agent: Agent, folder: Path, server: Plain, mode: str) -> str:
    """Open a session with one MCP server, in a mode if one is named, and play one turn; give why it stopped."""
    capabilities = {"fs": {"readTextFile": False, "writeTextFile": False}, "terminal": False}
    await agent.ask("initialize", {"protocolVersion": 1, "clientCapabilities": capabilities})
    session = await agent.ask("session/new", {"cwd": str(folder), "mcpServers": [server]})
    if mode:
        await agent.ask("session/set_mode", {"sessionId": session["sessionId"], "modeId": mode})
    prompt = [{"type": "text", "text": "Do your work with the board."}]
    answer = await agent.ask("session/prompt", {"sessionId": session["sessionId"], "prompt": prompt})
    return answer["stopReason"]
