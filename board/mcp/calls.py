"""Carries out tool calls: arguments checked, acknowledgements taken, urgent notes put beside the answer."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Protocol

import mcp_types as types
import msgspec
import structlog
from mcp.shared.exceptions import MCPError

from board.mcp import render
from board.mcp.arguments import Ack
from board.mcp.caller import Caller, caller_of, complete
from board.mcp.schemas import input_schema, output_schema
from board.mcp.tools import TOOLS, Tool, decoded, plain
from board.service import questions
from schema.codes import Problem, ProblemError, problem

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext

    from board.core.unread import Block
    from board.service.service import Service

log = structlog.get_logger()


class Meter(Protocol):
    """Counts calls."""

    def request(self, route: str, status: int, took_s: float) -> None:
        """Count one call: its name, the HTTP status that its outcome would have, and how long it took."""
        ...


class _Acks(msgspec.Struct, frozen=True):
    ack: Ack = ()


class Calls:
    """Lists and carries out the tools."""

    def __init__(self, service: Service, meter: Meter, tools: tuple[Tool, ...] = TOOLS) -> None:
        self._service = service
        self._meter = meter
        self._tools = {tool.name: tool for tool in tools}
        self._listing = complete(tools=[listed(tool) for tool in tools])

    async def list(self, _context: ServerRequestContext[Any, Any], _params: object) -> dict[str, Any]:
        """Every tool: the same to every caller."""
        return self._listing

    async def call(self, context: ServerRequestContext[Any, Any], _params: object) -> dict[str, Any]:
        """Carry out one tool. Raises MCPError for one that there is not; a refusal is a result with `isError`."""
        said = context.params or {}
        tool = self.tool(said["name"])
        if tool is None:
            raise MCPError(types.INVALID_PARAMS, f"Unknown tool: {said['name'][:80]}")
        return await self.answer(tool, caller_of(context), said.get("arguments") or {})

    def tool(self, name: str) -> Tool | None:
        """Give a tool by its name."""
        return self._tools.get(name)

    async def answer(self, tool: Tool, caller: Caller, said: dict[str, Any]) -> dict[str, Any]:
        """Carry out a tool and give its result, urgent notes and all; one log line and one measurement."""
        begun, found = time.perf_counter(), None
        try:
            body, text = await self._carried_out(tool, caller, said)
        except ProblemError as error:
            found = error.problem
            body, text = _refused(found)
        result = _result(body, text, await self._urgent(caller), is_error=found is not None)
        self._note(tool, caller, found, time.perf_counter() - begun)
        return result

    async def _carried_out(self, tool: Tool, caller: Caller, said: dict[str, Any]) -> tuple[dict[str, Any], str]:
        ack, rest = said.get("ack"), {name: value for name, value in said.items() if name != "ack"}
        taken = decoded(tool.takes or tool.fields, rest)
        if ack:
            seqs = decoded(_Acks, {"ack": ack}).ack
            await self._service.ack(caller.who, caller.board, questions.AckBody(seqs=seqs))
        try:
            body = await tool.call(self._service, caller, taken)
            return body, tool.text(body)
        except ProblemError:
            raise
        except Exception as error:
            log.exception("mcp.failed", tool=tool.name)
            raise ProblemError(problem("internal_error", "The server failed; its log says how.")) from error

    async def _urgent(self, caller: Caller) -> Block | None:
        try:
            return await self._service.urgent_block(caller.who, caller.board)
        except ProblemError:
            return None  # the tool's own answer matters more, and the notes wait in `unread`

    def _note(self, tool: Tool, caller: Caller, found: Problem | None, took_s: float) -> None:
        status, code = (200, None) if found is None else (found.row.status, found.code)
        self._meter.request(f"mcp {tool.name}", status, took_s)
        log.info(
            "mcp.call",
            tool=tool.name,
            board=caller.board,
            worker=caller.who.worker,
            status=status,
            code=code,
            ms=round(took_s * 1000, 2),
        )


def listed(tool: Tool) -> dict[str, Any]:
    """A tool as `tools/list` shows it."""
    return {
        "name": tool.name,
        "title": tool.title,
        "description": tool.description,
        "inputSchema": input_schema(tool.fields),
        "outputSchema": output_schema(tool.answers),
        "annotations": {
            "title": tool.title,
            "readOnlyHint": tool.read_only,
            "destructiveHint": False,
            "idempotentHint": tool.idempotent,
            "openWorldHint": False,
        },
    }


def _refused(found: Problem) -> tuple[dict[str, Any], str]:
    body = plain({**found.facts, "code": found.code, "detail": found.detail, "action": render.action(found)})
    return body, render.refused(found, body)


def _result(body: dict[str, Any], text: str, urgent: Block | None, *, is_error: bool) -> dict[str, Any]:
    content = [{"type": "text", "text": text}]
    if urgent is not None:
        # In both, because some clients show a model the structured content alone, and others the text alone; on a line
        # of its own, because some join the parts of the text with nothing between them.
        content.append({"type": "text", "text": f"\n{urgent.text}"})
        body = body | {"urgent": {"text": urgent.text, "ack": list(urgent.seqs)}}
    return complete(content=content, structuredContent=body, isError=is_error)
