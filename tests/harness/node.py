"""A real server as a process of its own: started, killed, stopped and started again as the world does it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn, Self

import anyio.to_thread
import httpx
import msgspec

from workers.client import Backoff, BoardClient

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import TracebackType


ROOT: Final = Path(__file__).parents[2]
START_S: Final = 30.0
END_S: Final = 20.0

_LOOK_AGAIN_S: Final = 0.01


_USUAL: Final = Backoff()
_LAST_CHARS: Final = 4000


class NodeFailed(Exception):
    """The server did not do `what` was waited for in time; the sentence ends with what it logged last."""

    def __init__(self, what: str, log: Path) -> None:
        super().__init__(what, log)
        self.what = what
        self.log = log

    def __str__(self) -> str:
        return f"the server {self.what}; {self.log} ends:\n{self.log.read_text(errors='replace')[-_LAST_CHARS:]}"


class Node:
    """One server process, its store and its log file, all below `folder`. Use as `async with`, or `start` and `close`.

    The first start takes a free port, and later ones the same again, with the same store, `flags` and `environ`.
    Every wait has a time limit and raises NodeFailed with the log's last lines; the whole process group is killed at
    the end. Waits do not block the event loop.
    """

    def __init__(
        self,
        folder: Path,
        *,
        name: str = "node",
        store: str | None = None,
        flags: tuple[str, ...] = (),
        environ: Mapping[str, str] | None = None,
        module: str = "board",
    ) -> None:
        self.store = store or f"sqlite:{folder / 'board.db'}"
        self.log = folder / f"{name}.log"
        self.port = 0
        self.url = ""
        self._folder = folder
        self._flags = flags
        self._module = module
        self._environ = dict(environ or {})
        self._process: subprocess.Popen[bytes] | None = None
        self._log_from = 0

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def pid(self) -> int:
        """The process id of the running server."""
        return self._running().pid

    # Starting and ending

    async def start(self) -> None:
        """Start the server; returns when it is ready to take a call."""
        await anyio.to_thread.run_sync(self._start)
        await self.wait_ready()

    async def restart(self) -> None:
        """Start the server again after its end, on the same port and store; returns when it is ready."""
        assert self._process is None, "the server still runs"
        await self.start()

    async def kill9(self) -> None:
        """Kill the server as a power cut would; returns when the process is gone."""
        self._signal(signal.SIGKILL)
        await self.wait_exit()

    async def terminate(self) -> int:
        """Ask the server to stop, as a supervisor does; returns its exit status."""
        self._signal(signal.SIGTERM)
        return await self.wait_exit()

    async def wait_exit(self) -> int:
        """Wait for the server to end by itself; returns its exit status."""
        return await anyio.to_thread.run_sync(self._wait_exit)

    def freeze(self) -> None:
        """Stop the process without its knowing (SIGSTOP)."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let a frozen process go on (SIGCONT)."""
        self._signal(signal.SIGCONT)

    def close(self) -> None:
        """Kill whatever still runs. Closing twice is a no-op."""
        process, self._process = self._process, None
        if process is not None:
            _kill_group(process)

    # Waiting

    async def wait_ready(self) -> None:
        """Wait until the server says that it can store."""
        await anyio.to_thread.run_sync(self._wait_for, self._is_ready, "ready")

    async def wait_logged(self, event: str) -> dict[str, Any]:
        """Wait until the running server has logged an event of this name; returns the first such line."""
        found: list[dict[str, Any]] = []
        await anyio.to_thread.run_sync(self._wait_for, lambda: self._find(event, found), f"logged {event!r}")
        return found[0]

    def logged(self) -> list[dict[str, Any]]:
        """Give the lines that the running (or last) process logged, those that are JSON."""
        with self.log.open("rb") as file:
            file.seek(self._log_from)
            return [line for raw in file if (line := _line(raw)) is not None]

    # Calling

    def client(
        self,
        worker: str | None = None,
        *,
        board: str = "main",
        token: str | None = None,
        backoff: Backoff = _USUAL,
    ) -> BoardClient:
        """Give a client of this server. Use as `async with`."""
        return BoardClient(self.url, board, token, worker, backoff=backoff)

    def run(self, *arguments: str, stdin: str = "", environ: Mapping[str, str] | None = None) -> Finished:
        """Run the command line against this server, to its end."""
        return run_board(*arguments, stdin=stdin, environ={"BOARD_URL": self.url, **(environ or {})})

    # Inside: all of it blocks, and runs in a thread

    def _start(self) -> None:
        self._log_from = self.log.stat().st_size if self.log.exists() else 0
        arguments = ["serve", "--port", str(self.port), "--store", self.store, *self._flags]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", self._module, *arguments],
                cwd=ROOT,
                env=_environment({"BOARD_LOG_FORMAT": "json", **self._environ}),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._wait_for(self._is_listening, "listening")

    def _is_listening(self) -> bool:
        found: list[dict[str, Any]] = []
        if not self._find("server.listening", found):
            return False
        self.url = str(found[0]["url"]).rstrip("/")
        self.port = int(self.url.rpartition(":")[2])
        return True

    def _is_ready(self) -> bool:
        with suppress(httpx.TransportError):
            return httpx.get(f"{self.url}/readyz", timeout=START_S, trust_env=False).is_success
        return False

    def _find(self, event: str, found: list[dict[str, Any]]) -> bool:
        found.extend(line for line in self.logged() if line.get("event") == event)
        return bool(found)

    def _wait_for(self, condition: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + START_S
        while not condition():
            if self._running().poll() is not None:
                self._fail(f"ended with {self._running().returncode} before it was {what}")
            if time.monotonic() > deadline:
                self._fail(f"was not {what} within {START_S:g} s")
            time.sleep(_LOOK_AGAIN_S)

    def _wait_exit(self) -> int:
        process = self._running()
        try:
            status = process.wait(END_S)
        except subprocess.TimeoutExpired:
            self._fail(f"did not end within {END_S:g} s")
        self._process = None
        # What it had started itself must not outlive it.
        _kill_group(process)
        return status

    def _signal(self, number: int) -> None:
        os.kill(self._running().pid, number)

    def _running(self) -> subprocess.Popen[bytes]:
        assert self._process is not None, "the server does not run"
        return self._process

    def _fail(self, what: str) -> NoReturn:
        raise NodeFailed(what, self.log)


class Finished(msgspec.Struct, frozen=True):
    """How a command ended."""

    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The one JSON document on standard output."""
        return msgspec.json.decode(self.out)

    @property
    def lines(self) -> list[Any]:
        """The JSON documents on standard output, one a line."""
        return [msgspec.json.decode(line) for line in self.out.splitlines()]


def run_board(*arguments: str, stdin: str = "", environ: Mapping[str, str] | None = None) -> Finished:
    """Run the command line as a process, to its end."""
    finished = subprocess.run(
        [sys.executable, "-m", "board", *arguments],
        cwd=ROOT,
        env=_environment(environ or {}),
        input=stdin,
        capture_output=True,
        text=True,
        timeout=START_S,
        check=False,
    )
    return Finished(finished.returncode, finished.stdout, finished.stderr)


def _environment(said: Mapping[str, str]) -> dict[str, str]:
    # Settings of whoever runs the tests must not leak into the servers under test.
    kept = {name: value for name, value in os.environ.items() if not name.startswith("BOARD_")}
    return kept | {"PYTHONPATH": str(ROOT), "NO_COLOR": "1", **said}


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait(END_S)


def _line(raw: bytes) -> dict[str, Any] | None:
    with suppress(msgspec.DecodeError, UnicodeDecodeError):
        return msgspec.json.decode(raw, type=dict[str, Any])
    return None
