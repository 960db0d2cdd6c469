"""The OpenAPI document against the server that serves it: whatever schemathesis makes of the one, the other keeps."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest
from anyio import to_thread

if TYPE_CHECKING:
    from tests.harness.node import Node

pytestmark = pytest.mark.anyio

SETTINGS = Path(__file__).parent / "schemathesis"
SEED = "1"


async def test_every_operation_keeps_its_description(node: Node) -> None:
    """Examples, edge cases and some random requests of every operation are answered as the document says."""
    await check(node, "--phases", "examples,coverage,fuzzing", "-n", "5")


@pytest.mark.slow
@pytest.mark.timeout(960)
async def test_every_operation_keeps_its_description_at_length(node: Node) -> None:
    """Many random requests, and chains of requests that feed each other, are answered as the document says."""
    await check(node, "--phases", "coverage,fuzzing,stateful", "-n", "60")


async def check(node: Node, *arguments: str) -> None:
    token = fill(node.url)
    command = [
        *(sys.executable, "-c", "from schemathesis.cli import schemathesis; schemathesis()"),
        *("--config-file", str(SETTINGS / "schemathesis.toml")),
        *("run", f"{node.url}/openapi.json", "-H", f"Authorization: Bearer {token}", "--seed", SEED),
        *("--no-color", "--warnings", "off", *arguments),
    ]
    finished = await to_thread.run_sync(
        lambda: subprocess.run(
            command,
            cwd=SETTINGS,
            env={**os.environ, "BOARD_TEST_TOKEN": token},
            capture_output=True,
            text=True,
            timeout=900,
            check=False,
        )
    )
    assert finished.returncode == 0, finished.stdout[-8000:] + finished.stderr[-2000:]


def fill(url: str) -> str:
    """Put something on the board to be read, and give an admin's token."""
    made = httpx.post(f"{url}/v1/tokens", json={"role": "admin", "worker": "w1"}, trust_env=False).raise_for_status()
    token = made.json()["token"]
    notes = [
        {"type": "CLAIM", "text": "the reader", "scope": ["src/a.c"], "ttl_s": 21_600},
        {"type": "CLAIM", "text": "the writer", "scope": ["src/b.c"], "ttl_s": 21_600},
        {"type": "FACT", "text": "rows end at a dash", "detail": "seen in 14 of 14 files"},
        {"type": "PATCH_SUMMARY", "files": ["src/a.c"], "idea": "rows", "evidence": "14 of 14 pass", "work": "rows"},
    ]
    headers = {"Authorization": f"Bearer {token}"}
    answer = httpx.post(f"{url}/v1/boards/main/notes/batch", json={"notes": notes}, headers=headers, trust_env=False)
    answer.raise_for_status()
    return token
