"""The README says only what is true: its commands run, its table of settings is the server's, its example works."""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

import pytest

from board import settings
from schema.notes import Fact
from tests.harness.node import Node

README: Final = (Path(__file__).parents[2] / "README.md").read_text()
BIN: Final = Path(sys.executable).parent
MADE_ELSEWHERE: Final = ("make ", "sudo ", ".venv/bin/board serve", ".venv/bin/python -m loadtest")
"""`make` and `serve` have tests of their own, and so has each benchmark; `sudo` is for a machine that is not ours."""

STATUSES: Final = {".venv/bin/board check src/readers --worker worker-0003": 1}
"""What does not end with 0, and the README says why."""


def commands() -> list[str]:
    """List the commands of the README's console blocks, in their order."""
    blocks = re.findall(r"```console\n(.*?)```", README, re.DOTALL)
    lines = [line.removeprefix("$ ") for block in blocks for line in block.splitlines() if line.startswith("$ ")]
    return [line for line in lines if not line.startswith(MADE_ELSEWHERE)]


def as_run_here(command: str, node: Node) -> str:
    """Give a command as this test runs it: this interpreter's programs, and the server that was started for it."""
    return command.replace(".venv/bin/", f"{shlex.quote(str(BIN))}/").replace("http://127.0.0.1:8420", node.url)


def exported(command: str, node: Node, environ: dict[str, str], folder: Path) -> dict[str, str]:
    """Run an `export NAME=…` and give what it sets."""
    name = command.removeprefix("export ").partition("=")[0]
    shell = ["bash", "-ec", f'{as_run_here(command, node)}; printf %s "${name}"']
    done = subprocess.run(shell, cwd=folder, env=environ, capture_output=True, text=True, check=True)
    assert done.stdout, (command, done.stderr)
    return {name: done.stdout}


def check_it_follows(command: str, node: Node, environ: dict[str, str], folder: Path) -> None:
    """Run a command that does not end by itself until it has printed the first note."""
    shell = ["timeout", "30", "bash", "-c", as_run_here(command, node)]
    with subprocess.Popen(shell, cwd=folder, env=environ, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert b"table rows end at a line of dashes" in process.stdout.readline()
        process.terminate()


@pytest.mark.anyio
async def test_every_command_runs(tmp_path: Path) -> None:
    """Each command of the README, run in its order in one folder beside a fresh server, ends as the README says."""
    async with Node(tmp_path) as node:
        environ = os.environ | {"BOARD_URL": node.url}
        for command in commands():
            shell = ["timeout", "30", "bash", "-c", as_run_here(command, node)]
            if command.startswith("export "):
                environ |= exported(command, node, environ, tmp_path)
                continue
            if " tail " in command:
                check_it_follows(command, node, environ, tmp_path)
                continue
            done = subprocess.run(shell, cwd=tmp_path, env=environ, capture_output=True, text=True, check=False)
            assert done.returncode == STATUSES.get(command, 0), (command, done.stdout, done.stderr)


def test_the_table_of_settings_is_the_servers() -> None:
    """The README's table is what `python -m board.settings` prints."""
    _, _, rest = README.partition("<!-- settings: made by `python -m board.settings`, compared by a test -->\n")
    assert rest.partition("<!-- end of settings -->")[0].strip() == settings.table()


@pytest.mark.anyio
async def test_the_python_example_prints_events(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The example of a stream prints the board's notes."""
    (example,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    async with Node(tmp_path) as node:
        async with node.client("worker-0001") as client:
            await client.post(Fact(text="seen by the example"))
        await run_for_a_moment(example.replace("http://127.0.0.1:8420", node.url))
    assert "seen by the example" in capsys.readouterr().out


async def run_for_a_moment(example: str) -> None:
    """Run an example that never ends, until it had time to print."""
    body = "\n".join(f"    {line}" for line in example.splitlines())
    names: dict[str, object] = {}
    exec(f"async def example():\n{body}", names)  # the README's own code
    with suppress(TimeoutError):
        async with asyncio.timeout(3):
            await names["example"]()  # type: ignore[operator]
