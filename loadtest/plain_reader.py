"""The subscriber of `native/reader.c` in Python, for where there is no C compiler: same words, same commands, slower.

It takes several times the CPU, so with many subscribers it is itself what limits the rate; its answers say how much it
used.
"""

from __future__ import annotations

import asyncio
import re
import socket
import sys
import time
from collections import Counter
from typing import TYPE_CHECKING, Final, cast

import msgspec
import uvloop

from loadtest.quantiles import quantiles_of
from loadtest.readers import Ready, Received

if TYPE_CHECKING:
    from collections.abc import Sequence

_FOUND: Final = re.compile(rb'"seq":(\d+),"at":|~~([0-9a-f]):([0-9a-f]{8}):([0-9a-f]{16})~')
_KEPT_BYTES: Final = 1024
_ABNORMAL: Final = 1006


class Phase:
    """What came of one phase, over all subscribers."""

    def __init__(self, number: int, capacity: int, subscribers: int) -> None:
        self.number = number
        self.received = self.doubles = self.gaps = self.repeats = 0
        self.each_ns: list[int] = []
        self.last_ns: list[int] = []
        self._subscribers = subscribers
        self._seen: list[set[int]] = [set() for _ in range(capacity)]

    def take(self, subscriber: int, index: int, late_ns: int) -> None:
        """Count one note that one subscriber got."""
        if index >= len(self._seen):
            return
        seen = self._seen[index]
        if subscriber in seen:
            self.doubles += 1
            return
        seen.add(subscriber)
        self.received += 1
        self.each_ns.append(late_ns)
        if len(seen) == self._subscribers:
            self.last_ns.append(late_ns)

    def there(self, published: int) -> int:
        """Count what came of the first notes."""
        return sum(len(seen) for seen in self._seen[:published])


class Subscriber(asyncio.Protocol):
    """One socket."""

    def __init__(self, crowd: Crowd, number: int) -> None:
        self.ready_ns: int | None = None
        self._crowd = crowd
        self._number = number
        self._begun_ns = time.monotonic_ns()
        self._transport: asyncio.Transport
        self._open = False
        self._over = False
        self._seq: int | None = None
        self._buffer = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Ask to be let in."""
        self._transport = cast("asyncio.Transport", transport)
        self._transport.write(self._crowd.request(self._number))
        if not self._crowd.websocket:
            self._enter()

    def connection_lost(self, exc: Exception | None) -> None:
        """Count a socket that was not closed in order."""
        del exc
        self.end(_ABNORMAL)

    def end(self, code: int) -> None:
        """Count the end, once, and let go of the socket."""
        if not self._over:
            self._over = True
            self._crowd.ended(self, code)
            self._transport.abort()

    def data_received(self, data: bytes) -> None:
        """Take what came."""
        now_ns = time.monotonic_ns()
        self._buffer += data
        if not self._open and not self._shaken():
            return
        if self._crowd.websocket:
            self._take_frames(now_ns)
        else:
            done = self._scan(self._buffer, now_ns)
            self._buffer = self._buffer[max(done, len(self._buffer) - _KEPT_BYTES) :]

    def _shaken(self) -> bool:
        head, end, rest = self._buffer.partition(b"\r\n\r\n")
        if not end:
            return False
        if head[9:12] != b"101":
            self.end(_ABNORMAL)
            return False
        self._buffer = rest
        self._enter()
        return True

    def _enter(self) -> None:
        self._open = True
        if self._crowd.greeting:
            self._transport.write(_framed(1, self._crowd.greeting) if self._crowd.websocket else self._crowd.greeting)
        if not self._crowd.ready:
            self._become_ready()

    def _become_ready(self) -> None:
        self.ready_ns = time.monotonic_ns() - self._begun_ns
        self._crowd.became_ready()

    def _take_frames(self, now_ns: int) -> None:
        at = 0
        while (frame := _frame_at(self._buffer, at)) is not None:
            opcode, start, at = frame
            self._take_frame(opcode, self._buffer[start:at], now_ns)
        self._buffer = self._buffer[at:]

    def _take_frame(self, opcode: int, payload: bytes, now_ns: int) -> None:
        if opcode == 9:
            self._transport.write(_framed(10, payload))
        elif opcode == 8:
            self.end(int.from_bytes(payload[:2], "big") or 1005)
        else:
            self._scan(payload, now_ns)

    def _scan(self, payload: bytes, now_ns: int) -> int:
        if self.ready_ns is None and self._crowd.ready in payload:
            self._become_ready()
        done = 0
        phase = self._crowd.phase
        for found in _FOUND.finditer(payload):
            done = found.end()
            if found[1] is not None:
                self._take_seq(phase, int(found[1]))
            elif int(found[2], 16) == phase.number:
                phase.take(self._number, int(found[3], 16), max(0, now_ns - int(found[4], 16)))
        return done

    def _take_seq(self, phase: Phase, seq: int) -> None:
        if self._seq is not None and seq > self._seq + 1:
            phase.gaps += seq - self._seq - 1
        if self._seq is not None and seq <= self._seq:
            phase.repeats += 1
        else:
            self._seq = seq


class Crowd:
    """All subscribers, and the commands."""

    def __init__(self, words: Sequence[str]) -> None:
        host, port, count, mode, self._request, greeting, ready = words
        self.websocket = mode == "websocket"
        self.greeting, self.ready = greeting.encode(), ready.encode()
        self.phase = Phase(0, 0, int(count))
        self._address = (host, int(port))
        self._count = int(count)
        self._query = ""
        self._window_bytes = 0
        self._subscribers: list[Subscriber] = []
        self._closed: Counter[str] = Counter()
        self._failed = self._ready = 0
        self._all_settled = asyncio.Event()

    def request(self, number: int) -> bytes:
        """Give what a subscriber sends first."""
        return self._request.replace("{n}", f"{number:04d}").replace("{query}", self._query).encode()

    def became_ready(self) -> None:
        """Hear that a subscriber is in."""
        self._ready += 1
        self._settle()

    def ended(self, subscriber: Subscriber, code: int) -> None:
        """Hear that a subscriber is out."""
        self._closed[str(code)] += 1
        self._failed += subscriber.ready_ns is None
        self._settle()

    def _settle(self) -> None:
        if self._ready + self._failed >= self._count:
            self._all_settled.set()

    async def obey(self, line: str) -> msgspec.Struct | dict[str, int]:
        """Carry out one command."""
        match line.split(" "):
            case ["begin", phase, capacity]:
                self.phase = Phase(int(phase), int(capacity), self._count)
                return {}
            case ["window", window_bytes]:
                self._window_bytes = int(window_bytes)
                return {}
            case ["connect", query]:
                return await self._connect(query)
            case ["count"]:
                return {"received": self.phase.received}
            case ["report", published]:
                return self._report(int(published))
            case ["close"]:
                self._close()
                return {}
            case _:
                sys.exit(f"not a command: {line}")

    async def _connect(self, query: str) -> Ready:
        self._query, self._ready, self._failed = query, 0, 0
        self._subscribers = []
        self._all_settled.clear()
        begun_ns = time.monotonic_ns()
        await asyncio.gather(*map(self._open, range(self._count)))
        await self._all_settled.wait()
        each = quantiles_of([one.ready_ns for one in self._subscribers if one.ready_ns is not None])
        took_ms = (time.monotonic_ns() - begun_ns) / 1e6
        return Ready(ready=self._ready, failed=self._failed, took_ms=took_ms, each=each)

    async def _open(self, number: int) -> None:
        subscriber = Subscriber(self, number)
        self._subscribers.append(subscriber)
        loop, endpoint = asyncio.get_running_loop(), socket.socket()
        endpoint.setblocking(False)
        if self._window_bytes:
            endpoint.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self._window_bytes)
        try:
            await loop.sock_connect(endpoint, self._address)
            await loop.create_connection(lambda: subscriber, sock=endpoint)
        except OSError:
            endpoint.close()
            self.ended(subscriber, _ABNORMAL)

    def _close(self) -> None:
        for subscriber in self._subscribers:
            subscriber.end(0)
        self._closed.clear()

    def _report(self, published: int) -> Received:
        phase = self.phase
        expected = published * self._count
        return Received(
            expected=expected,
            received=phase.received,
            holes=expected - phase.there(published),
            doubles=phase.doubles,
            seq_gaps=phase.gaps,
            seq_repeats=phase.repeats,
            each=quantiles_of(phase.each_ns),
            last=quantiles_of(phase.last_ns),
            cpu_s=time.process_time(),
            closed=dict(self._closed),
        )


def _framed(opcode: int, payload: bytes) -> bytes:
    # Masked, as clients must, with the mask 0, which leaves the payload as it is.
    return bytes((0x80 | opcode, 0x80 | len(payload), 0, 0, 0, 0)) + payload


def _frame_at(data: bytes, at: int) -> tuple[int, int, int] | None:
    """Give opcode, start and end of the payload of the frame that begins there, or None while it is not whole."""
    if len(data) < at + 2:
        return None
    size, start = data[at + 1] & 0x7F, at + 2
    if size >= 126:
        more = 2 if size == 126 else 8
        size, start = int.from_bytes(data[start : start + more], "big"), start + more
    return (data[at] & 0x0F, start, start + size) if len(data) >= start + size else None


async def main() -> None:
    """Obey until standard input ends."""
    crowd = Crowd(sys.argv[1:])
    lines = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    while line := await lines.readline():
        answer = await crowd.obey(line.decode().removesuffix("\n"))
        sys.stdout.buffer.write(msgspec.json.encode(answer) + b"\n")
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    uvloop.run(main())
