"""A lean HTTP client: kept-alive connections that send encoded requests and read no more of an answer than they must.

It costs about 20 µs of CPU a request, so that the generator of a load is not what is measured.
"""

from __future__ import annotations

import asyncio
import re
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Self, cast

import msgspec

if TYPE_CHECKING:
    from types import TracebackType

_HEAD_END: Final = b"\r\n\r\n"
_LENGTH: Final = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)


Answered = Callable[[int, bytes], None]
"""What is called with the status and body of an answer; it may submit the next request at once."""


class _Waiting(msgspec.Struct):
    request: bytes
    answered: Answered


class Lane(asyncio.Protocol):
    """One connection, with one request under way at most. Answers must carry a Content-Length."""

    def __init__(self, lanes: Lanes) -> None:
        self.gone = asyncio.Event()
        self._lanes = lanes
        self._transport: asyncio.Transport
        self._answered: Answered | None = None
        self._buffer = b""
        self._missing = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        self._transport = cast("asyncio.Transport", transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """End; with a request under way that is a failure."""
        self.gone.set()
        self._lanes.lost(self, exc, busy=self._answered is not None)

    def send(self, request: bytes, answered: Answered) -> None:
        """Send a request."""
        self._answered = answered
        self._transport.write(request)

    def close(self) -> None:
        """Let go of the connection."""
        self._transport.abort()

    def data_received(self, data: bytes) -> None:
        """Take a piece of an answer."""
        if self._buffer:
            data = self._buffer + data
        if len(data) < self._missing:
            self._buffer = data
            return
        head_end = data.find(_HEAD_END)
        length = _LENGTH.search(data, 0, head_end) if head_end >= 0 else None
        size = 0 if length is None else head_end + 4 + int(length[1])
        if length is None or len(data) < size:
            self._buffer, self._missing = data, size
            return
        self._buffer, self._missing = b"", 0
        self._finish(int(data[9:12]), data[head_end + 4 :])

    def _finish(self, status: int, body: bytes) -> None:
        answered, self._answered = self._answered, None
        assert answered is not None, "an answer without a request"
        self._lanes.free(self)
        answered(status, body)


class Lanes:
    """Connections to one server. A request takes the one that has been idle longest, or waits for the first that is free.

    Use as `async with`; all are open from its beginning. One that the server closes while it is idle, as it may, is
    opened again when it is needed.
    """

    def __init__(self, host: str, port: int, count: int) -> None:
        self._address = (host, port)
        self._count = count
        self._open: set[Lane] = set()
        self._idle: deque[Lane] = deque()
        self._waiting: deque[_Waiting] = deque()
        self._unanswered = 0
        self._opening: set[asyncio.Task[None]] = set()
        self._drained = asyncio.Event()
        self._failure: Exception | None = None
        self._calls: set[asyncio.Future[tuple[int, bytes]]] = set()

    async def __aenter__(self) -> Self:
        for _ in range(self._count):
            await self._open_one()
        self._drained.set()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for task in self._opening:
            task.cancel()
        lanes, self._open = self._open, set()
        for lane in lanes:
            lane.close()
        for lane in lanes:
            await lane.gone.wait()

    def submit(self, request: bytes, answered: Answered) -> None:
        """Send a request as soon as a connection is free; requests that wait keep their order."""
        self._unanswered += 1
        self._drained.clear()
        if self._idle:
            self._idle.popleft().send(request, answered)
            return
        self._waiting.append(_Waiting(request, answered))
        if len(self._open) + len(self._opening) < self._count:
            task = asyncio.create_task(self._open_one(), name="opening a connection again")
            self._opening.add(task)
            task.add_done_callback(self._opened)

    async def call(self, request: bytes) -> tuple[int, bytes]:
        """Send a request and wait for its answer: status and body. Raises ConnectionError where any request was lost."""
        future: asyncio.Future[tuple[int, bytes]] = asyncio.get_running_loop().create_future()

        def answered(status: int, body: bytes) -> None:
            # Who asked may be gone by now.
            if not future.done():
                future.set_result((status, body))

        self._calls.add(future)
        future.add_done_callback(self._calls.discard)
        self.submit(request, answered)
        return await future

    async def drained(self) -> None:
        """Return when every answer is in. Raises ConnectionError where a request was lost."""
        await self._drained.wait()
        if self._failure is not None:
            raise self._failure

    def free(self, lane: Lane) -> None:
        """Take back a connection whose answer is in."""
        self._unanswered -= 1
        self._use(lane)
        if not self._unanswered:
            self._drained.set()

    def lost(self, lane: Lane, reason: Exception | None, *, busy: bool) -> None:
        """Hear that a connection ended, by the server's will unless all end."""
        if lane not in self._open:
            return
        self._open.remove(lane)
        if busy:
            self._fail(ConnectionError(f"the server closed a connection before it answered: {reason}"))
        else:
            self._idle.remove(lane)

    async def _open_one(self) -> None:
        _, lane = await asyncio.get_running_loop().create_connection(lambda: Lane(self), *self._address)
        if lane.gone.is_set():
            raise ConnectionError("the server closed a connection at once")
        self._open.add(lane)
        self._use(lane)

    def _opened(self, task: asyncio.Task[None]) -> None:
        self._opening.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._fail(ConnectionError(f"the server takes no connection: {error}"))

    def _use(self, lane: Lane) -> None:
        if self._waiting:
            next_ = self._waiting.popleft()
            lane.send(next_.request, next_.answered)
        else:
            self._idle.append(lane)

    def _fail(self, failure: Exception) -> None:
        self._failure = failure
        self._drained.set()
        for call in self._calls:
            if not call.done():
                call.set_exception(failure)


def encode_request(method: str, path: str, body: bytes = b"", *, worker: str = "", host: str = "127.0.0.1") -> bytes:
    """Make the bytes of a request with a JSON body."""
    lines = [f"{method} {path} HTTP/1.1", f"Host: {host}", "Content-Type: application/json"]
    if worker:
        lines.append(f"X-Board-Worker: {worker}")
    lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join([*lines, "", ""]).encode() + body
