"""A TCP proxy that does to connections what networks do: it cuts them, holds what they carry, and lets it go again."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Self

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

_CHUNK: Final = 65_536


class Proxy:
    """Stands before a server on loopback. Use as `async with`; `port` is where clients go."""

    def __init__(self, port: int) -> None:
        self.port = 0
        self._server_port = port
        self._pipes: set[asyncio.Task[None]] = set()
        self._writers: set[asyncio.StreamWriter] = set()
        self._to_server = asyncio.Event()
        self._to_client = asyncio.Event()
        self._to_server.set()
        self._to_client.set()
        self._refusing = False
        self._traps: dict[bytes, Callable[[], None]] = {}

    async def __aenter__(self) -> Self:
        self._listener = await asyncio.start_server(self._connect, "127.0.0.1", 0)
        self.port = self._listener.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listener.close()
        self.cut()
        for pipe in self._pipes:
            pipe.cancel()
        await asyncio.gather(*self._pipes, return_exceptions=True)

    def cut(self) -> None:
        """End every connection at once, as a reset does; new ones are taken."""
        for writer in list(self._writers):
            writer.transport.abort()

    def refuse(self) -> None:
        """End every connection, and every new one."""
        self._refusing = True
        self.cut()

    def allow(self) -> None:
        """Take new connections again, and let go of what was held."""
        self._refusing = False
        self._to_server.set()
        self._to_client.set()

    def hold_answers(self) -> None:
        """Hold back what the server says; what the clients say goes on."""
        self._to_client.clear()

    def hold_requests(self) -> None:
        """Hold back what the clients say."""
        self._to_server.clear()

    def lose(self, request: bytes) -> None:
        """Cut everything when a client next says this; the server does not hear it."""
        self._traps[request] = self.cut

    def lose_answer_to(self, request: bytes) -> None:
        """Hold back all answers from when a client next says this; the server hears it."""
        self._traps[request] = self.hold_answers

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._refusing:
            writer.transport.abort()
            return
        with suppress(OSError):
            server_reader, server_writer = await asyncio.open_connection("127.0.0.1", self._server_port)
            self._pipe(reader, server_writer, self._to_server, self._look)
            self._pipe(server_reader, writer, self._to_client, _pass_by)
            return
        writer.transport.abort()

    def _look(self, data: bytes) -> None:
        for request in [one for one in self._traps if one in data]:
            self._traps.pop(request)()

    def _pipe(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        gate: asyncio.Event,
        look: Callable[[bytes], None],
    ) -> None:
        self._writers.add(writer)
        task = asyncio.get_running_loop().create_task(self._carry(reader, writer, gate, look))
        self._pipes.add(task)
        task.add_done_callback(self._pipes.discard)

    async def _carry(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        gate: asyncio.Event,
        look: Callable[[bytes], None],
    ) -> None:
        with suppress(OSError):
            while data := await reader.read(_CHUNK):
                look(data)
                await gate.wait()
                if writer.is_closing():
                    break
                writer.write(data)
                await writer.drain()
        self._writers.discard(writer)
        writer.close()


def _pass_by(_data: bytes) -> None:
    return None
