"""Real agent programs play one whole turn against the board, with a scripted model in place of theirs.

A lane of its own (`make test-agents`): each takes about half a gigabyte. What each agent let its model see, the names of
the tools and the text of their results, is held to a golden file; `BOARD_WRITE_GOLDEN=1` writes these anew.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import anyio
import msgspec
import pytest

from schema.notes import Fail
from tests.agents.driving import TURN_S, play_turn, running
from tests.agents.scripted import SCOPE, SCRIPT, scripted_model
from tests.harness.node import Node
from tests.harness.npm import Npm

if TYPE_CHECKING:
    from tests.agents.scripted import Seen

pytestmark = [pytest.mark.anyio, pytest.mark.agents, pytest.mark.timeout(600)]

GOLDEN: Final = Path(__file__).parent / "golden"
_CHANGING: Final = (
    (re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z"), "TIME"),
    (re.compile(r"Wall time: [\d.]+"), "Wall time: N"),
)


class Program(msgspec.Struct, frozen=True):
    """One agent: its package, its command, how it is pointed at the model, and the session's mode that asks."""

    package: str
    command: tuple[str, ...]
    environ: dict[str, str]
    mode: str = ""

    def environment(self, model: str) -> dict[str, str]:
        """The variables, with the model's address in them."""
        return {name: value.replace("MODEL_URL", model) for name, value in self.environ.items()}


_CODEX: Final = {
    "model": "scripted",
    "model_providers": {"fake": {"name": "fake", "base_url": "MODEL_URL/v1", "wire_api": "responses"}},
}

PROGRAMS: Final = {
    "claude": Program(
        "@agentclientprotocol/claude-agent-acp@0.101.0",
        ("claude-agent-acp",),
        {"ANTHROPIC_BASE_URL": "MODEL_URL", "ANTHROPIC_API_KEY": "x", "ENABLE_TOOL_SEARCH": "false"},
        mode="default",
    ),
    "copilot": Program(
        "@github/copilot@1.0.102",
        ("copilot", "--acp", "--stdio"),
        {
            "COPILOT_OFFLINE": "true",
            "COPILOT_PROVIDER_TYPE": "anthropic",
            "COPILOT_PROVIDER_BASE_URL": "MODEL_URL",
            "COPILOT_PROVIDER_API_KEY": "x",
            "COPILOT_MODEL": "scripted",
        },
    ),
    "codex": Program(
        "@agentclientprotocol/codex-acp@2.6.0",
        ("codex-acp",),
        {
            "MODEL_PROVIDER": "fake",
            "OPENAI_API_KEY": "x",
            "INITIAL_AGENT_MODE": "workspace-write",
            "CODEX_CONFIG": msgspec.json.encode(_CODEX).decode(),
        },
    ),
}


@pytest.fixture(scope="module")
def npm() -> Npm:
    """Give the installed agents; skip where they cannot be had."""
    npm = Npm("agents", [program.package for program in PROGRAMS.values()])
    npm.install_or_skip()
    return npm


@pytest.mark.parametrize("name", PROGRAMS)
async def test_an_agent_plays_a_turn(npm: Npm, tmp_path: Path, name: str) -> None:
    """It claims, writes and releases through the tools, as itself, and is shown a peer's urgent note on the way."""
    async with Node(tmp_path) as node, scripted_model() as (model, seen):
        await _leave_word(node, name)
        stopped = await _play(npm, node, tmp_path, name, model)
        calls = [
            (line["tool"], line["worker"], line["status"]) for line in node.logged() if line["event"] == "mcp.call"
        ]
    assert stopped == "end_turn"
    assert calls == [(step.tool, name, 200) for step in SCRIPT]
    _hold_to_golden(name, seen)


async def _play(npm: Npm, node: Node, folder: Path, name: str, model: str) -> str:
    program = PROGRAMS[name]
    server = {
        "type": "http",
        "name": "board",
        "url": f"{node.url}/mcp",
        "headers": [{"name": "X-Board-Worker", "value": name}],
    }
    environ = {"PATH": npm.search_path, **program.environment(model)}
    command = [npm.program(program.command[0]), *program.command[1:]]
    work = folder / "work"
    work.mkdir()
    async with running(command, environ, work) as agent:
        with anyio.fail_after(TURN_S):
            return await play_turn(agent, work, server, program.mode)


async def _leave_word(node: Node, name: str) -> None:
    async with node.client(name) as client:
        await client.board()
    async with node.client("peer") as client:
        await client.post(Fail(text="splitting at every bar loses escaped ones", scope=tuple(SCOPE), to=(name,)))


def _hold_to_golden(name: str, seen: Seen) -> None:
    shown = {"tools": sorted(seen.tools), "results": [_steady(result).split("\n") for result in seen.results]}
    path = GOLDEN / f"{name}.json"
    if os.environ.get("BOARD_WRITE_GOLDEN"):
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(msgspec.json.format(msgspec.json.encode(shown)) + b"\n")
    golden: dict[str, Any] = msgspec.json.decode(path.read_bytes())
    assert shown == golden


def _steady(text: str) -> str:
    for changing, instead in _CHANGING:
        text = changing.sub(instead, text)
    return text
