"""The official suites: MCP's conformance tests for both protocol eras, and the inspector's view of the real tools.

A lane of its own (`make test-conformance`): see `tests.harness.npm` for where Node and the suites come from.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import anyio.to_thread
import msgspec
import pytest

from board.mcp.tools import TOOLS
from tests.harness.node import Node
from tests.harness.npm import Npm

if TYPE_CHECKING:
    import subprocess
    from pathlib import Path

pytestmark = [pytest.mark.anyio, pytest.mark.conformance, pytest.mark.timeout(600)]

SUITES: Final = ("@modelcontextprotocol/conformance@0.2.0-alpha.12", "@modelcontextprotocol/inspector@2.12")
SUITE_S: Final = 300.0

NEEDS_SESSIONS: Final = {
    "2026-07-28": [],
    "2025-11-25": [
        "tools-call-sampling",
        "tools-call-elicitation",
        "elicitation-sep1034-defaults",
        "elicitation-sep1330-enums",
        "server-sse-multiple-streams",
    ],
}
"""What the board's own setting does not offer, by revision, and no server without sessions can.

In the first four the server asks the client something in the middle of a call. The answer comes as a POST of its own,
which nothing but the id of a session ties to the call that waits for it. The revision of 2026-07-28 lets a result ask
instead, and the call is made again with the answers. None of the board's tools asks anything. The last one does not begin
where `initialize` gives no id of a session; that streams run side by side it asks in 2026-07-28 without one, and passes.
"""


@pytest.fixture(scope="module")
def npm() -> Npm:
    """Give the installed suites; skip where they cannot be had."""
    npm = Npm("suites", SUITES)
    npm.install_or_skip()
    return npm


@pytest.mark.parametrize("revision", NEEDS_SESSIONS)
@pytest.mark.parametrize("sessions", [False, True], ids=["as served", "with sessions"])
async def test_the_official_suite_passes(npm: Npm, tmp_path: Path, revision: str, sessions: bool) -> None:
    """Every scenario that the revision requires passes; as served, but for just those that need a session."""
    flags = ("--sessions",) if sessions else ()
    known = [] if sessions else NEEDS_SESSIONS[revision]
    baseline = tmp_path / "baseline.yml"
    baseline.write_text("server:\n" + "".join(f"  - {name}\n" for name in known) if known else "server: []\n")
    async with Node(tmp_path, store="memory:", flags=flags, module="tests.harness.mcp_fixtures") as node:
        done = await anyio.to_thread.run_sync(_conformance, npm, node.url, revision, baseline, tmp_path)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]


def _conformance(npm: Npm, url: str, revision: str, baseline: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    asked = ("--requirements", revision, "--expected-failures", str(baseline), "--output-dir", str(folder / "results"))
    return npm.run("conformance", "server", "--url", f"{url}/mcp", *asked, timeout_s=SUITE_S)


async def test_the_inspector_finds_nothing_to_correct(npm: Npm, tmp_path: Path) -> None:
    """Its strict check of the tools' schemas is silent, and each tool can be called from it."""
    async with Node(tmp_path) as node:
        listed = await _inspect(npm, node, "--method", "tools/list", "--strict")
        assert (listed.returncode, listed.stderr) == (0, "")
        assert [tool["name"] for tool in msgspec.json.decode(listed.stdout)["tools"]] == [tool.name for tool in TOOLS]
        for tool in TOOLS:
            arguments = [
                f"{name}={_shown(value)}" for name, value in {**tool.example, **_QUICK.get(tool.name, {})}.items()
            ]
            called = await _inspect(
                npm, node, "--method", "tools/call", "--tool-name", tool.name, "--tool-arg", *arguments
            )
            assert "structuredContent" in called.stdout, called.stderr


_QUICK: Final[dict[str, dict[str, Any]]] = {"board_wait": {"timeout_s": 0}}


async def _inspect(npm: Npm, node: Node, *arguments: str) -> subprocess.CompletedProcess[str]:
    def run() -> subprocess.CompletedProcess[str]:
        return npm.run("inspector", "--cli", f"{node.url}/mcp", "--transport", "http", *arguments, timeout_s=SUITE_S)

    return await anyio.to_thread.run_sync(run)


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
