"""TLS before a PostgreSQL or Redis: the servers that come from pip are built without it, so it ends at a proxy.

To a client it is the server's own: Redis speaks TLS from the first byte, PostgreSQL once it was asked for it.
"""

from __future__ import annotations

import asyncio
import ssl
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Self

import trustme

from tests.harness.proxy import Proxy

if TYPE_CHECKING:
    from pathlib import Path

_SSL_REQUEST: Final = bytes.fromhex("0000000804d2162f")
"""How a client of PostgreSQL asks for TLS, in plain; `S` is the answer that it may begin."""


class Authority:
    """Who signs certificates. `file` is its own, for clients that shall trust it."""

    def __init__(self, folder: Path, name: str) -> None:
        self._signs = trustme.CA()
        self.file = folder / f"{name}.pem"
        self._signs.cert_pem.write_to_path(str(self.file))

    def server(self) -> ssl.SSLContext:
        """Give what a server on this machine needs to be trusted."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._signs.issue_cert("127.0.0.1").configure_cert(context)
        return context


class RedisTls(Proxy):
    """TLS before a Redis."""

    def __init__(self, port: int, context: ssl.SSLContext) -> None:
        super().__init__(port)
        self._context = context

    async def __aenter__(self) -> Self:
        self._listener = await asyncio.start_server(self._connect, "127.0.0.1", 0, ssl=self._context)
        self.port = self._listener.sockets[0].getsockname()[1]
        return self


class PostgresTls(Proxy):
    """TLS before a PostgreSQL. Whoever does not ask for it is cut off."""

    def __init__(self, port: int, context: ssl.SSLContext) -> None:
        super().__init__(port)
        self._context = context

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError):
            if await reader.readexactly(len(_SSL_REQUEST)) == _SSL_REQUEST:
                writer.write(b"S")
                await writer.start_tls(self._context)
                await super()._connect(reader, writer)
                return
        writer.transport.abort()
