"""The demo does what the README says of it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from urllib.request import urlopen

ROOT = Path(__file__).parents[2]


def test_the_demo_plays_the_record_and_leaves_the_server_running() -> None:
    """A subscriber prints what several workers posted, and the server answers at the address that the demo names."""
    command = [sys.executable, "-m", "tests.demo"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    found = re.search(r"(\d+) events\. The server goes on at (\S+) \(process (\d+)\)", done.stdout)
    assert found, done.stdout + done.stderr
    head, url, pid = int(found[1]), found[2], int(found[3])
    try:
        assert done.returncode == 0, done.stderr
        with urlopen(f"{url}/healthz") as answer:
            assert answer.status == 200
        printed = re.findall(r"^ *(\d+)  \S+Z  ", done.stdout, re.MULTILINE)
        assert printed == [str(seq) for seq in range(1, head + 1)]
        assert len(set(re.findall(r"agent-\d+", done.stdout))) > 5
    finally:
        os.kill(pid, signal.SIGTERM)
