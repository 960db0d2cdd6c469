"""Many subscribers in one process of their own, told what to do, and asked what came."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from typing import TYPE_CHECKING, Final, Literal, Self, TypeVar

import msgspec

from loadtest.native import reader_binary
from loadtest.processes import HOST, ROOT
from loadtest.quantiles import Quantiles

if TYPE_CHECKING:
    from types import TracebackType

T = TypeVar("T")

ANSWER_S: Final = 120.0
LOOK_AGAIN_S: Final = 0.02


class Subscribing(msgspec.Struct, frozen=True, kw_only=True):
    """How one subscribes to a server; see the head of `native/reader.c`."""

    port: int
    mode: Literal["websocket", "raw"] = "websocket"
    request: str = ""
    greeting: str = ""
    ready: str = ""


class Ready(msgspec.Struct, frozen=True, kw_only=True):
    """What came of connecting: `took_ms` is from the first connect() until all were ready, `each` of one socket."""

    ready: int
    failed: int
    took_ms: float
    each: Quantiles


class Received(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a phase, over all sockets.

    `holes` are notes that a socket did not get, `doubles` those that it got twice; `seq_gaps` and `seq_repeats` say the
    same of the log's own numbers. `each` is the latency of every delivery, `last` of the last subscriber of each note;
    `closed` counts sockets by close code (1006: lost without one).
    """

    expected: int
    received: int
    holes: int
    doubles: int
    seq_gaps: int
    seq_repeats: int
    each: Quantiles
    last: Quantiles
    cpu_s: float
    closed: dict[str, int] = {}


class _Count(msgspec.Struct):
    received: int


class ReadersFailed(Exception):
    """The process of the subscribers ended, or did not answer in time."""


class Readers:
    """`count` subscribers of one server. Use as `async with`; the process is killed at its end."""

    def __init__(self, subscribing: Subscribing, count: int) -> None:
        self.count = count
        self._subscribing = subscribing
        self._process: asyncio.subprocess.Process

    async def __aenter__(self) -> Self:
        how = self._subscribing
        words = [HOST, str(how.port), str(self.count), how.mode, how.request, how.greeting, how.ready]
        self._process = await asyncio.create_subprocess_exec(
            *_program(),
            *words,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            start_new_session=True,
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process.returncode is None:
            self._process.kill()
        await self._process.wait()

    async def begin(self, phase: int, capacity: int) -> None:
        """Count a phase of at most `capacity` notes from nothing."""
        await self._ask(f"begin {phase} {capacity}", dict[str, int])

    async def limit_window(self, window_bytes: int) -> None:
        """Let the kernel take no more than this for a socket that is opened from now on, so that a stall shows soon."""
        await self._ask(f"window {window_bytes}", dict[str, int])

    async def connect(self, query: str = "") -> Ready:
        """Open all sockets at once; return when each is ready or has failed."""
        return await self._ask(f"connect {query}", Ready)

    async def received(self) -> int:
        """Tell how many notes of the phase came, over all sockets."""
        return (await self._ask("count", _Count)).received

    async def report(self, published: int) -> Received:
        """Tell what came of the first `published` notes of the phase."""
        return await self._ask(f"report {published}", Received)

    async def close(self) -> None:
        """Drop all sockets."""
        await self._ask("close", dict[str, int])

    async def wait_received(self, published: int, patience_s: float) -> bool:
        """Wait until every subscriber has so many notes, or nothing more has come for `patience_s`; tell which."""
        loop = asyncio.get_running_loop()
        before, since_s = -1, loop.time()
        while (now := await self.received()) < published * self.count:
            if now != before:
                before, since_s = now, loop.time()
            elif loop.time() - since_s > patience_s:
                return False
            await asyncio.sleep(LOOK_AGAIN_S)
        return True

    def stall(self) -> None:
        """Stop to read, on all sockets."""
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Read on."""
        self._process.send_signal(signal.SIGCONT)

    async def _ask(self, command: str, answer: type[T]) -> T:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{command}\n".encode())
        try:
            async with asyncio.timeout(ANSWER_S):
                line = await self._process.stdout.readline()
        except TimeoutError as error:
            raise ReadersFailed(f"no answer to {command!r} in {ANSWER_S:g} s") from error
        if not line:
            raise ReadersFailed(f"the subscribers ended at {command!r}")
        return msgspec.json.decode(line, type=answer)


def subscribing_to_board(port: int, board: str = "main") -> Subscribing:
    """Say how one subscribes to a board: ready is who has been told that what follows is live."""
    lines = [
        f"GET /v1/boards/{board}/stream{{query}} HTTP/1.1",
        f"Host: {HOST}",
        "Upgrade: websocket",
        "Connection: Upgrade",
        "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==",
        "Sec-WebSocket-Version: 13",
        "X-Board-Worker: reader-{n}",
    ]
    return Subscribing(port=port, request="\r\n".join([*lines, "", ""]), ready='"op":"live"')


def _program() -> list[str]:
    binary = reader_binary()
    return [sys.executable, "-m", "loadtest.plain_reader"] if binary is None else [str(binary)]
