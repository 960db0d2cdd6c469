"""A lean reader of a board's stream on a bare socket: it counts what comes, and stalls, dies or stays mute on demand."""

from __future__ import annotations

import asyncio
import base64
import os
import socket
import struct
from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import urlencode, urlsplit

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable

WAIT_S: Final = 60.0

_CLOSE: Final = 8
_PONG: Final = 10


class _Event(msgspec.Struct):
    seq: int


class _Frame(msgspec.Struct):
    op: str
    head: int = 0
    after: int = 0
    seq: int = 0
    events: tuple[_Event, ...] = ()


_frames: Final = msgspec.json.Decoder(_Frame)


class Listener(asyncio.Protocol):
    """One stream. `seqs` are those that came, in order; `closed` is the code and reason that the server gave.

    `mute` answers no pings. `lost` is set once the socket is gone.
    """

    def __init__(self, request: bytes, *, mute: bool = False) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self.hello: _Frame | None = None
        self.live = False
        self.seqs: list[int] = []
        self.closed: tuple[int, dict[str, Any]] | None = None
        self.lost = asyncio.Event()
        self._request = request
        self._mute = mute
        self._transport: asyncio.Transport
        self._buffer = bytearray()
        self._changed = asyncio.Event()

    @classmethod
    async def open(
        cls,
        url: str,
        board: str,
        worker: str = "listener",
        *,
        mute: bool = False,
        receive_bytes: int = 0,
        headers: str = "",
        **query: object,
    ) -> Listener:
        """Connect and ask for the stream. A small `receive_bytes` keeps the system from reading ahead of a stall."""
        host, port = str(urlsplit(url).hostname), int(urlsplit(url).port or 0)
        made = socket.socket()
        made.setblocking(False)
        if receive_bytes:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        loop = asyncio.get_running_loop()
        await loop.sock_connect(made, (host, port))
        request = _request(f"{host}:{port}", board, worker, query, headers)
        _, listener = await loop.create_connection(lambda: cls(request, mute=mute), sock=made)
        return listener

    # What a test does to it

    def stall(self) -> None:
        """Read nothing more."""
        self._transport.pause_reading()

    def resume(self) -> None:
        """Read on."""
        self._transport.resume_reading()

    def reset(self) -> None:
        """Die: the server's next write finds no one."""
        sock = self._transport.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._transport.abort()

    def close(self) -> None:
        """Let go of the socket."""
        self._transport.close()

    def send(self, opcode: int, payload: bytes) -> None:
        """Send one frame."""
        self._transport.write(_masked(opcode, payload))

    async def until(self, condition: Callable[[Listener], object]) -> None:
        """Wait until what came makes the condition true."""
        async with asyncio.timeout(WAIT_S):
            while not condition(self):
                self._changed.clear()
                await self._changed.wait()

    async def reach(self, seq: int) -> None:
        """Wait until this seq has come."""
        await self.until(lambda one: one.seqs and one.seqs[-1] >= seq)

    # The protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send the request."""
        self._transport = cast("asyncio.Transport", transport)
        self._transport.write(self._request)

    def connection_lost(self, exc: Exception | None) -> None:
        """Say so."""
        del exc
        self.lost.set()
        self._changed.set()

    def data_received(self, data: bytes) -> None:
        """Take what came."""
        self._buffer += data
        if not self.status:
            self._take_response()
        while self.status == 101 and (found := _frame(self._buffer)) is not None:
            opcode, payload = found
            self._take(opcode, payload)
        self._changed.set()

    def _take_response(self) -> None:
        head, end, rest = bytes(self._buffer).partition(b"\r\n\r\n")
        if not end:
            return
        first, *lines = head.decode().split("\r\n")
        self.status = int(first.split()[1])
        self.headers = {name.casefold(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        self._buffer = bytearray(rest)

    def _take(self, opcode: int, payload: bytes) -> None:
        match opcode:
            case 1:
                self._take_text(_frames.decode(payload))
            case 8:
                self.closed = int.from_bytes(payload[:2], "big"), _reason(payload[2:])
                self._transport.write(_masked(_CLOSE, payload[:2]))
            case 9 if not self._mute:
                self._transport.write(_masked(_PONG, payload))
            case _:
                pass

    def _take_text(self, frame: _Frame) -> None:
        self.seqs.extend(event.seq for event in frame.events)
        if frame.op == "hello":
            self.hello = frame
        elif frame.op == "live":
            self.live = True


def _request(host: str, board: str, worker: str, query: dict[str, object], headers: str) -> bytes:
    key = base64.b64encode(os.urandom(16)).decode()
    return (
        f"GET /v1/boards/{board}/stream?{urlencode(query, doseq=True)} HTTP/1.1\r\nHost: {host}\r\n"
        f"Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n"
        f"X-Board-Worker: {worker}\r\n{headers}\r\n"
    ).encode()


def _frame(buffer: bytearray) -> tuple[int, bytes] | None:
    """Cut one whole frame off the front."""
    if len(buffer) < 2:
        return None
    size, start = buffer[1] & 0x7F, 2
    if size >= 126:
        start = 4 if size == 126 else 10
        if len(buffer) < start:
            return None
        size = int.from_bytes(buffer[2:start], "big")
    if len(buffer) < start + size:
        return None
    opcode, payload = buffer[0] & 0x0F, bytes(buffer[start : start + size])
    del buffer[: start + size]
    return opcode, payload


def _reason(text: bytes) -> dict[str, Any]:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return {"detail": text.decode()}


def _masked(opcode: int, payload: bytes) -> bytes:
    # A mask of zeros is a mask.
    size = len(payload)
    length = struct.pack("!B", 0x80 | size) if size < 126 else struct.pack("!BQ", 0xFF, size)
    return bytes([0x80 | opcode]) + length + bytes(4) + payload
