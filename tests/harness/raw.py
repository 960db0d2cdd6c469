"""A peer that says whatever a test wants it to, byte for byte, and what the server answers."""

from __future__ import annotations

import asyncio
import struct
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Self
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from types import TracebackType

WAIT_S: Final = 30.0

HANDSHAKE: Final = (
    b"GET /v1/boards/main/stream HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nX-Board-Worker: hostile\r\n\r\n"
)


class Raw:
    """One TCP connection. Use as `async with`."""

    def __init__(self, url: str) -> None:
        self._host, self._port = str(urlsplit(url).hostname), int(urlsplit(url).port or 0)

    async def __aenter__(self) -> Self:
        self._reader, self._writer = await asyncio.open_connection(self._host, self._port)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._writer.close()
        with suppress(OSError):
            await self._writer.wait_closed()

    async def send(self, data: bytes) -> bool:
        """Send; tell whether the server still takes anything within a second."""
        with suppress(OSError):
            self._writer.write(data)
            with suppress(TimeoutError):
                async with asyncio.timeout(1):
                    await self._writer.drain()
                    return True
        return False

    @property
    def at_end(self) -> bool:
        """Whether the server has ended the connection."""
        return self._reader.at_eof() or self._reader._eof  # pyright: ignore[reportAttributeAccessIssue]

    async def shake_hands(self) -> None:
        """Become a stream, and read the hello."""
        await self.shake_hands_end(HANDSHAKE)

    async def shake_hands_end(self, rest: bytes) -> None:
        """Send the rest of a handshake, and read the hello."""
        await self.send(rest)
        async with asyncio.timeout(WAIT_S):
            head = await self._reader.readuntil(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 101")
            await self._frame()

    async def answer(self) -> bytes:
        """Read to the end of the connection."""
        async with asyncio.timeout(WAIT_S):
            with suppress(ConnectionError):
                return await self._reader.read()
        return b""

    async def text_with(self, wanted: bytes) -> bytes:
        """Read until a frame holds this, and give all that came."""
        came = b""
        async with asyncio.timeout(WAIT_S):
            while wanted not in came:
                _, payload = await self._frame()
                came += payload
        return came

    async def close_code(self) -> int:
        """Read to the close frame, and give its code; 0 where the connection ends without one."""
        async with asyncio.timeout(WAIT_S):
            with suppress(asyncio.IncompleteReadError, ConnectionError):
                while True:
                    opcode, payload = await self._frame()
                    if opcode == 8:
                        return int.from_bytes(payload[:2], "big")
        return 0

    async def _frame(self) -> tuple[int, bytes]:
        first, size = await self._reader.readexactly(2)
        if size >= 126:
            size = int.from_bytes(await self._reader.readexactly(2 if size == 126 else 8), "big")
        return first & 0x0F, await self._reader.readexactly(size)


def frame(opcode: int, payload: bytes = b"", *, fin: bool = True, reserved: int = 0, masked: bool = True) -> bytes:
    """Make a frame, as wrong as it may be. A mask of zeros is a mask."""
    mask = 0x80 if masked else 0
    size = len(payload)
    if size < 126:
        length = bytes([mask | size])
    elif size < 65_536:
        length = struct.pack("!BH", mask | 126, size)
    else:
        length = struct.pack("!BQ", mask | 127, size)
    return bytes([0x80 * fin | reserved << 4 | opcode]) + length + (bytes(4) if masked else b"") + payload
