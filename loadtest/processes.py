"""Programs under load, as processes of their own: started, waited for, and killed at the end whatever happens."""

from __future__ import annotations

import http.client
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping, Sequence

ROOT: Final = Path(__file__).parents[1]
HOST: Final = "127.0.0.1"
START_S: Final = 120.0
END_S: Final = 20.0

_LAST_CHARS: Final = 4000
_BACKLOG: Final = 4096


class ProgramFailed(Exception):
    """A program ended, or was not ready in time; the sentence ends with what it wrote last."""

    def __init__(self, what: str, log: Path) -> None:
        # Read now: the folder of the log may be gone by the time that somebody reads the sentence.
        said = log.read_text(errors="replace")[-_LAST_CHARS:] if log.exists() else ""
        super().__init__(f"{what}; {log} ends:\n{said}")


@contextmanager
def running(
    command: Sequence[str | Path],
    log: Path,
    *,
    environ: Mapping[str, str] | None = None,
    pass_fds: Sequence[int] = (),
) -> Generator[subprocess.Popen[bytes]]:
    """Run a program in a process group of its own, its output appended to `log`, and kill the group at the end."""
    with log.open("ab") as output:
        process = subprocess.Popen(
            list(map(str, command)),
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            pass_fds=tuple(pass_fds),
            start_new_session=True,
        )
    try:
        yield process
    finally:
        end(process)


def end(process: subprocess.Popen[bytes]) -> None:
    """Kill a process and its group, and wait until it is gone."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait(END_S)


class Board:
    """One `board serve` that runs: where it listens, its process, its folder.

    `begun_ns` is when its process was started and `ready_s` how long after that `/readyz` was answered: the listening
    socket is handed over, so the first request waits in its backlog and nothing is asked twice.
    """

    def __init__(self, process: subprocess.Popen[bytes], folder: Path, port: int, begun_ns: int) -> None:
        self.pid = process.pid
        self._process = process
        self.folder = folder
        self.port = port
        self.url = f"http://{HOST}:{port}"
        self.begun_ns = begun_ns
        self.ready_s = 0.0

    @property
    def wal(self) -> Path:
        """The write-ahead log of its database."""
        return self.folder / "board.db-wal"

    def stop(self) -> None:
        """Ask the server to stop, as a supervisor does, and wait for it. Raises ProgramFailed."""
        self._process.terminate()
        status = self._process.wait(END_S)
        if status != 0:
            raise ProgramFailed(f"the board ended with {status}", self.folder / "board.log")

    def wait_ready(self) -> None:
        """Wait until the server can store. Raises ProgramFailed."""
        connection = http.client.HTTPConnection(HOST, self.port, timeout=START_S)
        try:
            connection.request("GET", "/readyz")
            status = connection.getresponse().status
        except (OSError, http.client.HTTPException) as error:
            raise ProgramFailed(f"the board did not become ready: {error}", self.folder / "board.log") from error
        finally:
            connection.close()
        if status != 200:
            raise ProgramFailed(f"the board says {status} of itself", self.folder / "board.log")
        self.ready_s = (time.monotonic_ns() - self.begun_ns) / 1e9


@contextmanager
def serving(folder: Path, *, environ: Mapping[str, str] | None = None, store: str | None = None) -> Generator[Board]:
    """Run a board on a free loopback port, its log at the level that it has by default.

    Its store is SQLite below `folder`, unless another is named.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        with socket.create_server((HOST, 0), backlog=_BACKLOG) as listener:
            port = listener.getsockname()[1]
            begun_ns = time.monotonic_ns()
            store = store or f"sqlite:{folder / 'board.db'}"
            process = stack.enter_context(_serve(folder, listener, environ or {}, store))
        board = Board(process, folder, port, begun_ns)
        board.wait_ready()
        yield board


def _serve(
    folder: Path, listener: socket.socket, environ: Mapping[str, str], store: str
) -> AbstractContextManager[subprocess.Popen[bytes]]:
    flags = ["--fd", str(listener.fileno()), "--store", store, "--log-format", "json"]
    return running(
        [sys.executable, "-m", "board", "serve", *flags],
        folder / "board.log",
        environ=environment(environ),
        pass_fds=[listener.fileno()],
    )


def environment(said: Mapping[str, str]) -> dict[str, str]:
    """Give this process's environment without settings of a board, but with these."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("BOARD_")}
    return kept | {"PYTHONPATH": str(ROOT), **said}


def free_port() -> int:
    """Give a loopback port that nobody listened on just now, for servers that take no socket."""
    with socket.create_server((HOST, 0)) as listener:
        return listener.getsockname()[1]


def wait_listening(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    """Wait until a server accepts connections. Raises ProgramFailed."""
    deadline = time.monotonic() + START_S
    while True:
        with suppress(OSError), socket.create_connection((HOST, port), timeout=1):
            return
        if process.poll() is not None or time.monotonic() > deadline:
            raise ProgramFailed(f"nothing listens at {port}", log)
        time.sleep(0.01)
