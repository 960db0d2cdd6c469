"""The composition root: the only place that names concrete parts and wires them."""

from __future__ import annotations

import asyncio
import gc
import os
import resource
import socket
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

import structlog
import uvicorn
import uvloop

from board.bus.postgres import NotifyBus
from board.bus.redis import RedisBus
from board.http.app import make_app
from board.http.metrics import Metrics
from board.http.patience import Patience
from board.http.server import HttpServer
from board.http.vitals import LoopLag, Vitals
from board.http.wire import http_protocol
from board.logs import configure
from board.mcp.http import PATHS, McpSurface
from board.service.access import Access, is_loopback
from board.service.clock import Clock, SystemClock
from board.service.neighbours import Nodes
from board.service.service import Service
from board.settings import shown
from board.store.commons import Commons
from board.store.contract import StoreUnavailable
from board.store.memory import MemoryStore
from board.store.postgres import PostgresStore
from board.store.sqlite import SqliteStore
from board.stream.streams import Streams

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from board.settings import ServerSettings
    from board.store.contract import Store

log = structlog.get_logger()

REFUSED: Final = 2
"""Exit status of a server that may not start as it was told to."""

FAILED: Final = 1


def make_store(settings: ServerSettings) -> Store:
    """Make the store that the settings name, not yet open."""
    kind, _, where = settings.store.partition(":")
    if kind == "sqlite":
        return SqliteStore(where, read_threads=settings.read_threads)
    if kind == "memory":
        return MemoryStore()
    return PostgresStore(settings.store, connections=settings.store_connections, wait_s=settings.store_wait_s)


def make_nodes(store: Store, settings: ServerSettings) -> Nodes | None:
    """Make what this node needs to share a store with others, or give None where it is alone with its store."""
    if not isinstance(store, Commons):
        return None
    bus = NotifyBus(settings.store) if settings.bus == "local" else RedisBus(settings.bus)
    return Nodes(store, store, bus, poll_s=settings.poll_s)


@asynccontextmanager
async def open_store(settings: ServerSettings) -> AsyncGenerator[Store]:
    """Open the store, migrated to this version, for as long as the block runs."""
    store = make_store(settings)
    await store.open()
    try:
        yield store
    finally:
        await store.close()


@asynccontextmanager
async def open_tokens(settings: ServerSettings) -> AsyncGenerator[Access]:
    """Open the tokens of a store, for the command line."""
    async with open_store(settings) as store:
        access = Access(store, SystemClock(), secret=settings.secret)
        await access.refresh()
        yield access


def serve(settings: ServerSettings, clock: Clock | None = None) -> int:
    """Serve until told to stop by SIGTERM or SIGINT. Gives the exit status: 0, or 2 when it refuses to start."""
    configure(settings)
    _calm_the_collector()
    _take_all_files()
    server = Server(settings, clock or SystemClock())
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(server.run())
    except StoreUnavailable as error:
        log.error("store.failed", store=shown(settings.store), reason=str(error))  # noqa: TRY400
        return FAILED


def _take_all_files() -> None:
    """Let this process open as many files and sockets as the system admits it at all."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _calm_the_collector() -> None:
    """Collect cycles less often, and never look at what was there from the start.

    With the defaults a batch of 1,000 notes ran the collector over 100 times: a third of its time.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)


class Server:
    """One server process: store, service, surfaces, and the socket that they share."""

    def __init__(self, settings: ServerSettings, clock: Clock) -> None:
        self._settings = settings
        store = make_store(settings)
        self._service = Service(store, clock, settings, make_nodes(store, settings))
        self._streams = Streams(self._service, store, settings)
        self._patience = Patience(settings)
        self._lag = LoopLag()
        self._metrics = Metrics()
        vitals = Vitals(self._service, self._streams, self._patience, self._lag)
        self._metrics.watch(self._service, self._streams, vitals)
        self.mcp = McpSurface(self._service, self._metrics)
        """The tools and resources; more can be added to its `server` before `run`."""

    async def run(self) -> int:
        """Start everything, serve, and end everything."""
        await self._service.start()
        try:
            if not self._may_listen():
                return REFUSED
            await self._serve()
        finally:
            await self._service.close()
        return 0

    def _may_listen(self) -> bool:
        if not self._service.access.open_mode:
            return True
        host = self._settings.host if self._settings.fd is None else _host_of(self._settings.fd)
        if not is_loopback(host):
            sentence = "no token was ever made, so only a loopback address may be served"
            log.error("server.refused", host=host, reason=sentence, action="make one with `board token create`")
            return False
        log.warning("server.open_mode", reason="no token was ever made: everyone on this machine is an admin")
        return True

    async def _serve(self) -> None:
        listener = self._listener()
        server = HttpServer(self._config(), on_stop=self._end_waits)
        server_task = asyncio.create_task(server.serve(sockets=[listener]), name="uvicorn")
        self._streams.start()
        self._lag.start()
        name = listener.getsockname()
        host = f"[{name[0]}]" if ":" in name[0] else name[0]
        log.info(
            "server.listening",
            url=f"http://{host}:{name[1]}",
            store=shown(self._settings.store),
        )
        try:
            async with self.mcp.running():
                await server_task
        finally:
            await self._streams.close()
            await self._lag.stop()
            log.info("server.stopped")

    def _end_waits(self) -> None:
        self._service.stop_waits()
        self.mcp.stop_listening()

    def _listener(self) -> socket.socket:
        if self._settings.fd is not None:
            return socket.socket(fileno=self._settings.fd)
        family, kind, protocol, _, address = socket.getaddrinfo(
            self._settings.host, self._settings.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(4096)
        listener.setblocking(False)
        return listener

    def _config(self) -> uvicorn.Config:
        return uvicorn.Config(
            make_app(self._service, self._metrics, dict.fromkeys(PATHS, self.mcp.serve)),
            ws=self._streams.protocol_class(),
            http=http_protocol(self._patience),
            proxy_headers=False,
            lifespan="off",
            access_log=False,
            log_config=None,
            server_header=False,
            backlog=4096,
            timeout_keep_alive=75,
            timeout_graceful_shutdown=int(self._settings.drain_s) or 1,
        )


def _host_of(fd: int) -> str:
    """Tell the address that a socket was bound to by whoever hands it over; one in the file system is this machine's."""
    with socket.socket(fileno=os.dup(fd)) as listener:
        name = listener.getsockname()
    return name[0] if isinstance(name, tuple) else "localhost"
