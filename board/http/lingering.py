"""How a connection ends whose peer may still be sending.

A socket that is closed on unread input, or that gets more of it later, resets the connection, and a reset destroys the
answer that its peer has not read yet (RFC 9112, section 9.6). So the answer goes out, then the end of what the server
says, and what still comes is read and dropped until the peer ends too.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from board.http.patience import Patience

LINGER_S: Final = 5.0
"""The most seconds that such a connection stays, or `request_s` where that is less."""

LINGER_BYTES: Final = 16 * 1_048_576
"""The most bytes that are dropped: sixteen of the largest bodies."""

LINGERING: Final = 256
"""The most connections that linger at once, since those that are one too many do so beyond the bound on connections."""


class Lingering:
    """One connection that only waits for its peer to end.

    Over a bound it is closed at once, which is counted in `Patience.cut`: whether the answer was read is not known then.
    """

    def __init__(self, transport: asyncio.Transport, patience: Patience) -> None:
        self._transport = transport
        self._patience = patience
        self._bytes = 0
        patience.lingering += 1
        transport.write_eof()
        transport.resume_reading()
        self._timer = asyncio.get_running_loop().call_later(min(LINGER_S, patience.request_s), self._cut)
        if patience.lingering > LINGERING:
            self._cut()

    def drop(self, data: bytes) -> None:
        """Take what still comes, and keep nothing of it."""
        self._bytes += len(data)
        if self._bytes > LINGER_BYTES:
            self._cut()

    def _cut(self) -> None:
        if not self._transport.is_closing():
            self._patience.cut += 1
            self._transport.close()

    def end(self) -> None:
        """Let go: the connection is over."""
        self._timer.cancel()
        self._patience.lingering -= 1
