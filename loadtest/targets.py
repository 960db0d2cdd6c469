"""Servers that fan notes out: the board, and peers that are asked to do the same work."""

from __future__ import annotations

import asyncio
import shutil
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from loadtest.lanes import Lanes, encode_request
from loadtest.notes import event
from loadtest.posting import BoardPublisher, Publisher
from loadtest.processes import HOST, free_port, running, serving, wait_listening
from loadtest.readers import Subscribing, subscribing_to_board

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Generator
    from contextlib import AbstractAsyncContextManager

LANES: Final = 256
"""Connections of a poster over HTTP: enough that no note waits for one while the server keeps up."""

_ANSWER_S: Final = 60.0


class Target(Protocol):
    """A server that runs."""

    name: str
    pid: int
    subscribing: Subscribing

    def publishing(self) -> AbstractAsyncContextManager[Publisher]:
        """Open what notes are published through."""
        ...


class BoardTarget:
    """The board: a note is posted over HTTP, stored durably, and comes out of websockets."""

    name = "board"

    def __init__(self, pid: int, port: int) -> None:
        self.pid = pid
        self.subscribing = subscribing_to_board(port)
        self._port = port

    @asynccontextmanager
    async def publishing(self) -> AsyncGenerator[Publisher]:
        """Open connections to post over."""
        async with Lanes(HOST, self._port, LANES) as lanes:
            yield BoardPublisher(lanes)


@contextmanager
def board(folder: Path) -> Generator[Target]:
    """Run a board."""
    with serving(folder) as served:
        yield BoardTarget(served.pid, served.port)


# --- NATS: core publish over TCP, subscribers on its websocket listener; nothing is stored -------------------------------

_NATS_CONFIG: Final = """
listen: "{host}:{port}"
ping_interval: "10m"
max_pending: 67108864
websocket {{ listen: "{host}:{stream_port}", no_tls: true }}
"""


class NatsTarget:
    """NATS, not durable."""

    name = "nats"

    def __init__(self, pid: int, port: int, stream_port: int) -> None:
        self.pid = pid
        self.subscribing = Subscribing(
            port=stream_port,
            request=_upgrade("/"),
            greeting='CONNECT {"verbose":false}\r\nSUB notes 1\r\nPING\r\n',
            ready="PONG",
        )
        self._port = port

    @asynccontextmanager
    async def publishing(self) -> AsyncGenerator[Publisher]:
        """Open one connection."""
        async with _dialogue(self._port) as dialogue:
            await dialogue.readline()  # INFO
            dialogue.write(b'CONNECT {"verbose":false}\r\n')
            yield NatsPublisher(dialogue)


class NatsPublisher:
    """Publishes without an answer; PING and PONG tell that all was taken."""

    def __init__(self, dialogue: Dialogue) -> None:
        self._dialogue = dialogue

    def publish(self, mark_: bytes) -> None:
        """Publish a note."""
        payload = event(mark_)
        self._dialogue.write(b"PUB notes %d\r\n%b\r\n" % (len(payload), payload))

    async def drained(self) -> None:
        """Return when the server has read everything."""
        self._dialogue.write(b"PING\r\n")
        while (await self._dialogue.readline()).strip() != b"PONG":
            pass


@contextmanager
def nats(folder: Path) -> Generator[Target]:
    """Run NATS."""
    folder.mkdir(parents=True, exist_ok=True)
    port, stream_port = free_port(), free_port()
    config, log = folder / "nats.conf", folder / "nats.log"
    config.write_text(_NATS_CONFIG.format(host=HOST, port=port, stream_port=stream_port))
    with running(["nats-server", "-c", config], log) as process:
        wait_listening(process, port, log)
        wait_listening(process, stream_port, log)
        yield NatsTarget(process.pid, port, stream_port)


# --- nchan: HTTP publish and websocket subscribers, in nginx; kept in memory ---------------------------------------------

_NCHAN_CONFIG: Final = """
load_module {module};
daemon off; pid {folder}/nginx.pid; error_log {folder}/nginx-error.log; worker_processes 1; user root;
events {{ worker_connections 8192; }}
http {{
  access_log off; client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi; keepalive_requests 10000000; keepalive_timeout 300s;
  nchan_shared_memory_size 128M;
  server {{
    listen {host}:{port} backlog=4096;
    location = /publish {{ nchan_publisher; nchan_channel_id notes; nchan_message_buffer_length 4096; }}
    location = /stream {{
      nchan_subscriber websocket; nchan_channel_id notes; nchan_subscriber_first_message newest;
    }}
  }}
}}
"""
_NCHAN_MODULE: Final = Path("/usr/lib/nginx/modules/ngx_nchan_module.so")


class NchanTarget:
    """nginx with nchan, not durable."""

    name = "nchan"

    def __init__(self, pid: int, port: int) -> None:
        self.pid = pid
        self.subscribing = Subscribing(port=port, request=_upgrade("/stream"))
        self._port = port

    @asynccontextmanager
    async def publishing(self) -> AsyncGenerator[Publisher]:
        """Open connections to publish over."""
        async with Lanes(HOST, self._port, LANES) as lanes:
            yield NchanPublisher(lanes)


class NchanPublisher:
    """Publishes one note a request, as to the board."""

    def __init__(self, lanes: Lanes) -> None:
        self._lanes = lanes

    def publish(self, mark_: bytes) -> None:
        """Publish a note."""
        self._lanes.submit(encode_request("POST", "/publish", event(mark_)), _taken)

    async def drained(self) -> None:
        """Return when every answer is in."""
        await self._lanes.drained()


def _taken(status: int, _: bytes) -> None:
    assert status in (201, 202), f"nchan answered {status}"


@contextmanager
def nchan(folder: Path) -> Generator[Target]:
    """Run nginx with nchan."""
    folder.mkdir(parents=True, exist_ok=True)
    port, config, log = free_port(), folder / "nginx.conf", folder / "nginx.log"
    config.write_text(_NCHAN_CONFIG.format(module=_NCHAN_MODULE, folder=folder.resolve(), host=HOST, port=port))
    with running(["nginx", "-c", config.resolve(), "-p", folder.resolve()], log) as process:
        wait_listening(process, port, log)
        yield NchanTarget(process.pid, port)


# --- Redis: plain publish and subscribe over TCP; nothing is stored ------------------------------------------------------


class RedisTarget:
    """Redis, not durable and without websockets."""

    name = "redis"

    def __init__(self, pid: int, port: int) -> None:
        self.pid = pid
        self.subscribing = Subscribing(
            port=port, mode="raw", greeting="SUBSCRIBE notes\r\n", ready="$9\r\nsubscribe\r\n"
        )
        self._port = port

    @asynccontextmanager
    async def publishing(self) -> AsyncGenerator[Publisher]:
        """Open one connection."""
        async with _dialogue(self._port) as dialogue:
            yield RedisPublisher(dialogue)


class RedisPublisher:
    """Publishes in a pipeline; each note is answered with a number."""

    def __init__(self, dialogue: Dialogue) -> None:
        self._dialogue = dialogue
        self._unanswered = 0

    def publish(self, mark_: bytes) -> None:
        """Publish a note."""
        payload = event(mark_)
        self._dialogue.write(b"*3\r\n$7\r\nPUBLISH\r\n$5\r\nnotes\r\n$%d\r\n%b\r\n" % (len(payload), payload))
        self._unanswered += 1

    async def drained(self) -> None:
        """Return when every answer is in."""
        while self._unanswered:
            await self._dialogue.readline()
            self._unanswered -= 1


@contextmanager
def redis(folder: Path) -> Generator[Target]:
    """Run Redis."""
    folder.mkdir(parents=True, exist_ok=True)
    port, log = free_port(), folder / "redis.log"
    flags = ["--port", str(port), "--bind", HOST, "--save", "", "--appendonly", "no", "--maxclients", "8192"]
    with running(["redis-server", *flags, "--client-output-buffer-limit", "pubsub", "0", "0", "0"], log) as process:
        wait_listening(process, port, log)
        yield RedisTarget(process.pid, port)


# --- What they share -----------------------------------------------------------------------------------------------------


class Dialogue:
    """One TCP connection that speaks in lines. Writes never wait: what the kernel does not take is kept."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    def write(self, data: bytes) -> None:
        """Send."""
        self._writer.write(data)

    async def readline(self) -> bytes:
        """Receive a line. Raises TimeoutError, and ConnectionError at the end."""
        async with asyncio.timeout(_ANSWER_S):
            line = await self._reader.readline()
        if not line:
            raise ConnectionError("the server closed the connection")
        return line


@asynccontextmanager
async def _dialogue(port: int) -> AsyncGenerator[Dialogue]:
    reader, writer = await asyncio.open_connection(HOST, port)
    try:
        yield Dialogue(reader, writer)
    finally:
        writer.close()


def _upgrade(path: str) -> str:
    lines = [
        f"GET {path} HTTP/1.1",
        f"Host: {HOST}",
        "Upgrade: websocket",
        "Connection: Upgrade",
        "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==",
        "Sec-WebSocket-Version: 13",
    ]
    return "\r\n".join([*lines, "", ""])


Kind = Callable[[Path], AbstractContextManager[Target]]
"""How a target is run, with its files below a folder."""

KINDS: Final[dict[str, Kind]] = {"board": board, "nats": nats, "nchan": nchan, "redis": redis}
_PROGRAMS: Final = {"board": sys.executable, "nats": "nats-server", "nchan": "nginx", "redis": "redis-server"}


def is_installed(name: str) -> bool:
    """Tell whether a target can be run here."""
    return shutil.which(_PROGRAMS[name]) is not None and (name != "nchan" or _NCHAN_MODULE.exists())
