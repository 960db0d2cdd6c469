"""1,024 MCP clients, each of which calls a tool every 5 s, while notes fan out to subscribers.

The clients are raw: one kept-alive connection each, and requests that were encoded before. What they call is what a team
does: they read the board in brief, write, check, search, unfold, claim and release. A tool that answers with an error is
an error here. The clock of a call is from before its request to its answer.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import time
from typing import TYPE_CHECKING, Final

import msgspec
import uvloop

from loadtest.calls import Calls
from loadtest.lanes import Lanes
from loadtest.notes import mark
from loadtest.posting import BoardPublisher, Pace
from loadtest.processes import HOST, Board, serving
from loadtest.quantiles import Quantiles, quantiles_of
from loadtest.readers import Readers, subscribing_to_board
from loadtest.report import MIB, Figures, verdict
from loadtest.vitals import vitals_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

P99_TARGET_MS: Final = 250.0

MIX: Final = {
    "board_read": 40,
    "board_write": 35,
    "board_check": 10,
    "board_unfold": 5,
    "board_grep": 5,
    "board_claim": 3,
    "board_release": 2,
}
"""How often each tool is called, in a hundred calls."""

PLACES: Final = 500

_PHASE: Final = 3
_LANES: Final = 64
_VERSION: Final = "2026-07-28"
_META: Final = {
    "io.modelcontextprotocol/protocolVersion": _VERSION,
    "io.modelcontextprotocol/clientInfo": {"name": "loadtest", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """How many clients and subscribers, and what goes on. `filled` notes are on the board before."""

    clients: int
    subscribers: int
    rate_per_s: float
    gap_s: float
    warm_s: float
    seconds: float
    filled: int


class Called(msgspec.Struct, frozen=True, kw_only=True):
    """How it went: calls of each tool, in all, and what the server took. `holes` are the subscribers'."""

    plan: Plan
    tools: dict[str, Quantiles]
    every: Quantiles
    errors: dict[str, int]
    holes: int
    cpu_share: float
    rss_bytes: int


class _Structured(msgspec.Struct):
    code: str = ""
    seq: int = 0


class _Result(msgspec.Struct):
    structured: _Structured = msgspec.field(name="structuredContent", default_factory=_Structured)
    is_error: bool = msgspec.field(name="isError", default=False)


class _Answer(msgspec.Struct):
    result: _Result | None = None


_numbers: Final = itertools.count()
_answers: Final = msgspec.json.Decoder(_Answer)


def encode_call(worker: str, method: str, params: Mapping[str, object]) -> bytes:
    """Make the bytes of a request of the newest revision."""
    message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": _META}}
    body = msgspec.json.encode(message)
    lines = [
        "POST /mcp HTTP/1.1",
        f"Host: {HOST}",
        "Content-Type: application/json",
        "Accept: application/json, text/event-stream",
        f"X-Board-Worker: {worker}",
        f"MCP-Protocol-Version: {_VERSION}",
        f"Mcp-Method: {method}",
        *([f"Mcp-Name: {params['name']}"] if "name" in params else []),
        f"Content-Length: {len(body)}",
    ]
    return "\r\n".join([*lines, "", ""]).encode() + body


class Team:
    """The clients, each with its own connection."""

    def __init__(self, plan: Plan, lanes: Lanes) -> None:
        self.taken_ns: dict[str, list[int]] = {tool: [] for tool in MIX}
        self.errors: dict[str, int] = {}
        self._plan = plan
        self._lanes = lanes
        self._random = random.Random(1)
        self._measured_ns = 0

    async def work(self) -> None:
        """Let every client call until the time is over."""
        loop = asyncio.get_running_loop()
        self._measured_ns = time.monotonic_ns() + int(self._plan.warm_s * 1e9)
        end_s = loop.time() + self._plan.warm_s + self._plan.seconds
        async with asyncio.TaskGroup() as clients:
            for number in range(self._plan.clients):
                clients.create_task(self._client(number, end_s))

    async def _client(self, number: int, end_s: float) -> None:
        loop, gap_s = asyncio.get_running_loop(), self._plan.gap_s
        due_s = loop.time() + gap_s * number / self._plan.clients
        held: list[int] = []
        while due_s < end_s:
            await asyncio.sleep(max(0.0, due_s - loop.time()))
            await self._act(f"w{number}", held)
            due_s += gap_s

    async def _act(self, worker: str, held: list[int]) -> None:
        tool = self._random.choices(list(MIX), list(MIX.values()))[0]
        tool = "board_check" if tool == "board_release" and not held else tool
        arguments = self._arguments(tool, held)
        begun_ns = time.monotonic_ns()
        status, body = await self._lanes.call(encode_call(worker, "tools/call", {"name": tool, "arguments": arguments}))
        if begun_ns >= self._measured_ns:
            self.taken_ns[tool].append(time.monotonic_ns() - begun_ns)
        result = _answers.decode(body).result if status == 200 else None
        if result is None or (result.is_error and result.structured.code != "claim_conflict"):
            why = result.structured.code if result is not None else str(status)
            self.errors[f"{tool} {why}"] = self.errors.get(f"{tool} {why}", 0) + 1
        elif tool == "board_claim" and not result.is_error:
            held.append(result.structured.seq)

    def _arguments(self, tool: str, held: list[int]) -> dict[str, object]:
        place = f"src/part{self._random.randrange(PLACES)}.c"
        by_tool: dict[str, Callable[[], dict[str, object]]] = {
            "board_read": dict,
            "board_write": lambda: {
                "type": self._random.choice(["OBSERVED", "FACT"]),
                "text": _text(),
                "scope": [place],
            },
            "board_unfold": lambda: {"seq": self._random.randrange(1, self._plan.filled + 1)},
            "board_grep": lambda: {"q": f"dashes part{self._random.randrange(PLACES)}"},
            "board_claim": lambda: {"scope": [place], "text": "work on this"},
            "board_release": lambda: {"claim": held.pop()},
            "board_check": lambda: {"scope": [place]},
        }
        return by_tool[tool]()


def _text() -> str:
    return f"{mark(1, next(_numbers), time.monotonic_ns()).decode()} rows end at dashes"


def history(count: int) -> Iterator[dict[str, object]]:
    """Give what is on the board before: mostly facts and observations, some failures and patches."""
    drawn = random.Random(2)
    for number in range(count):
        place = f"src/part{drawn.randrange(PLACES)}.c"
        text = f"{mark(2, number, drawn.getrandbits(60)).decode()} rows end at a line of dashes"
        if number % 20 == 0:
            yield {"type": "PATCH_SUMMARY", "files": [place], "idea": text, "evidence": "ran the tests, all passed"}
        else:
            kind = "FAIL" if number % 20 == 1 else drawn.choice(["OBSERVED", "FACT"])
            yield {"type": kind, "text": text, "scope": [place]}


async def measure(board: Board, plan: Plan) -> Called:
    """Measure on a server that runs."""
    async with (
        Lanes(HOST, board.port, _LANES) as posts,
        Lanes(HOST, board.port, plan.clients) as lanes,
        Readers(subscribing_to_board(board.port), max(plan.subscribers, 1)) as readers,
    ):
        await Calls(posts, "main").post_all(list(history(plan.filled)), worker="poster")
        await readers.begin(_PHASE, int(plan.rate_per_s * (plan.warm_s + plan.seconds)) + 2)
        if plan.subscribers:
            await readers.connect()
        return await _worked(board, plan, readers, BoardPublisher(posts), Team(plan, lanes))


async def _worked(board: Board, plan: Plan, readers: Readers, publisher: BoardPublisher, team: Team) -> Called:
    pace = Pace(publisher, _PHASE, plan.rate_per_s)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(pace.run(plan.warm_s + plan.seconds))
        tasks.create_task(team.work())
        await asyncio.sleep(plan.warm_s)
        cpu_s, begun_s = vitals_of(board.pid).cpu_s, time.monotonic()
        await asyncio.sleep(plan.seconds)
        cpu_share = (vitals_of(board.pid).cpu_s - cpu_s) / (time.monotonic() - begun_s)
    holes = 0
    if plan.subscribers:
        await readers.wait_received(pace.sent, 10.0)
        received = await readers.report(pace.sent)
        holes = received.holes + received.seq_gaps
    return Called(
        plan=plan,
        tools={tool: quantiles_of(taken) for tool, taken in team.taken_ns.items()},
        every=quantiles_of([one for taken in team.taken_ns.values() for one in taken]),
        errors=team.errors | ({"notes refused": publisher.refused} if publisher.refused else {}),
        holes=holes,
        cpu_share=cpu_share,
        rss_bytes=vitals_of(board.pid).rss_bytes,
    )


def run(folder: Path, plan: Plan) -> Called:
    """Measure on a server of its own."""
    with serving(folder) as board:
        return uvloop.run(measure(board, plan))


def figures(result: Called) -> Figures:
    """Make the table."""
    plan = result.plan
    rows: list[tuple[str | float | None, ...]] = [
        (tool, took.count, took.p50, took.p95, took.p99, took.max, None) for tool, took in result.tools.items()
    ]
    every = result.every
    met = verdict(every.p99, P99_TARGET_MS, at_least=False)
    rows.append(("all", every.count, every.p50, every.p95, every.p99, every.max, met))
    return Figures(
        title=(
            f"{plan.clients:,} MCP clients, a call each {plan.gap_s:g} s; {plan.rate_per_s:g} notes/s to "
            f"{plan.subscribers:,} subscribers; server {result.cpu_share:.0%} of a core, "
            f"{result.rss_bytes / MIB:.0f} MiB; holes {result.holes}; errors {result.errors or 'none'}"
        ),
        columns=("tool", "calls", "p50 ms", "p95", "p99", "max", "target"),
        rows=tuple(rows),
    )


def broken(results: Sequence[Called]) -> bool:
    """Whether anything went wrong that never should."""
    return any(result.errors or result.holes for result in results)
