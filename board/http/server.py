"""uvicorn, as this product starts and stops it."""

from __future__ import annotations

import asyncio
import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import uvicorn

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Generator

SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)


class HttpServer(uvicorn.Server):
    """Serves until SIGTERM or SIGINT, then calls `on_stop`, lets what is open end, and returns.

    uvicorn itself sends the signal again when it has ended, which kills the process before the board is closed. It also
    waits for open requests: `on_stop` must end those that wait for something to happen.
    """

    def __init__(self, config: uvicorn.Config, *, on_stop: Callable[[], None]) -> None:
        super().__init__(config)
        self._on_stop = on_stop

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        """Take the signals for as long as the server runs; a second SIGINT does not wait for what is open."""
        loop = asyncio.get_running_loop()
        for one in SIGNALS:
            loop.add_signal_handler(one, self.handle_exit, one, None)
        try:
            yield
        finally:
            for one in SIGNALS:
                loop.remove_signal_handler(one)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop to listen, and let what is open end."""
        self._on_stop()
        await super().shutdown(sockets)
