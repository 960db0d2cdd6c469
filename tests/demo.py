"""`make demo`: a board, a real team's record played into it by its workers, and a subscriber that prints what arrives.

The record is two days of an agent team's issue list (`tests/data`), played in a few seconds. The server is left running.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final
from urllib.request import urlopen

RECORD: Final = Path(__file__).parent / "data" / "agent-team-trace-sample.jsonl.gz"
PORT: Final = 8420
SPEED: Final = 20_000
START_S: Final = 30.0


def main() -> int:
    """Run the demo. Gives the exit status: that of the replay."""
    folder = Path(tempfile.mkdtemp(prefix="board-demo-"))
    server = start_server(folder)
    try:
        url = wait_until_listening(folder / "server.log", server)
        print(f"The board runs at {url}; its log is {folder / 'board.db'}.", flush=True)
        status = play(url)
    except BaseException:
        server.terminate()
        raise
    say_where(url, server.pid)
    return status


def board(*arguments: str) -> list[str]:
    """Give the command line of `board` in this environment."""
    return [sys.executable, "-m", "board", *arguments]


def start_server(folder: Path) -> subprocess.Popen[bytes]:
    """Start a server that outlives this process, on the usual port if that is free."""
    environ = os.environ | {"BOARD_LOG_FORMAT": "json"}
    command = board("serve", "--port", str(free_port()), "--store", f"sqlite:{folder / 'board.db'}")
    with (folder / "server.log").open("wb") as log:
        return subprocess.Popen(command, stdout=log, stderr=log, env=environ, start_new_session=True)


def free_port() -> int:
    """Give the usual port, or 0 where something else listens there."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", PORT))
        except OSError:
            return 0
    return PORT


def wait_until_listening(log: Path, server: subprocess.Popen[bytes]) -> str:
    """Give the address that the server says it listens on."""
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline and server.poll() is None:
        for line in log.read_text().splitlines():
            if '"server.listening"' in line:
                return json.loads(line)["url"]
        time.sleep(0.05)
    raise SystemExit(f"the server did not start:\n{log.read_text()}")


def play(url: str) -> int:
    """Play the record while a subscriber prints what arrives; give the replay's exit status."""
    with subprocess.Popen(board("tail", "--after", "0", "--url", url)) as subscriber:
        replay = subprocess.run(board("replay", str(RECORD), "--speed", str(SPEED), "--to", url), check=False)
        time.sleep(1.0)
        subscriber.send_signal(signal.SIGINT)
    return replay.returncode


def say_where(url: str, pid: int) -> None:
    """Tell how to go on."""
    with urlopen(f"{url}/v1/boards/main") as answer:
        head = json.load(answer)["head"]
    print(
        f"\n{head} events. The server goes on at {url} (process {pid}); try:\n"
        f"  .venv/bin/board read --url {url}\n"
        f"  .venv/bin/board grep patrol --url {url}\n"
        f"  .venv/bin/board claims --url {url}\n"
        f"  curl {url}/v1/boards/main/notes?limit=2\n"
        f"Stop it with: kill {pid}",
        flush=True,
    )


if __name__ == "__main__":
    sys.exit(main())
