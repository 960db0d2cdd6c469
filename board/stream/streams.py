"""All streams of this process: who may open one, how many there are, and who has gone silent."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import msgspec

from board.service.access import Identity
from board.service.decoding import read_draft
from board.service.origin import check_origin
from board.service.service import Reply
from board.stream.protocol import StreamProtocol
from board.turnstile import Turnstile
from schema.codes import ProblemError, problem

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

    from websockets.http11 import Request

    from board.service.boards import OpenBoard
    from board.service.questions import StreamQuery
    from board.service.service import Service
    from board.settings import ServerSettings
    from board.store.contract import Store

SILENCE_PINGS = 2
"""A peer that answered none of so many pings in a row is gone."""


class Streams:
    """The open streams. `protocol_class` is what uvicorn makes connections with."""

    def __init__(self, service: Service, store: Store, settings: ServerSettings) -> None:
        self.service = service
        self.store = store
        self.settings = settings
        self.stalled = 0
        """How many readers were closed because they did not keep up."""
        self.silent = 0
        """How many peers were dropped because they answered no ping."""
        self.feeds = Turnstile()
        """Where readers that are behind take turns for their next pages."""
        self._open: set[StreamProtocol] = set()
        self._pinging: asyncio.Task[None] | None = None
        service.access.on_revoke = self.end_revoked

    def protocol_class(self) -> type[StreamProtocol]:
        """The protocol of this process's streams."""
        return type("BoundStreamProtocol", (StreamProtocol,), {"streams": self})

    def start(self) -> None:
        """Begin to ping."""
        self._pinging = asyncio.create_task(self._ping(), name="pings of the streams")

    async def close(self) -> None:
        """End every stream with 1001 and stop to ping."""
        if self._pinging is not None:
            self._pinging.cancel()
            await asyncio.gather(self._pinging, return_exceptions=True)
        for stream in list(self._open):
            stream.shutdown()

    @property
    def count(self) -> int:
        """How many streams are open."""
        return len(self._open)

    @property
    def behind(self) -> int:
        """How many streams are fed from the log or the tail."""
        return sum(stream.behind for stream in self._open)

    @property
    def waiting_bytes(self) -> int:
        """Bytes that wait for slow readers, over all streams."""
        return sum(stream.waiting_bytes for stream in self._open)

    async def identify(self, request: Request, query: StreamQuery) -> Identity:
        """Tell who opens a stream. Raises ProblemError."""
        headers = request.headers
        check_origin(_one(headers, "Origin"), _one(headers, "Host"), self.settings, self.service.access.open_mode)
        if query.ticket:
            return await self.service.use_ticket(query.ticket)
        return self.service.access.identify(_one(headers, "Authorization"), _one(headers, "X-Board-Worker"))

    def admit(self, stream: StreamProtocol, board: OpenBoard, who: Identity) -> None:
        """Count a stream. Raises ProblemError `rate_limited` when there are too many."""
        self.service.quotas.check_stream(board, who.worker)
        if len(self._open) >= self.settings.subscribers:
            limit = self.settings.subscribers
            raise ProblemError(problem("rate_limited", f"{limit} streams are open.", limit=limit, unit="streams"))
        self._open.add(stream)

    def left(self, stream: StreamProtocol, board: OpenBoard | None, who: Identity | None) -> None:
        """Forget a stream that ended; idempotent for one that never got to a board."""
        self._open.discard(stream)
        if board is None or who is None:
            return
        self.service.quotas.stream_closed(board, who.worker)
        if board.presence.disconnected(who.worker, board.clock.now_us()) and board.state.waiting:
            board.writer.catch_up()

    async def post(self, who: Identity, board: OpenBoard, note: msgspec.Raw) -> Reply:
        """Store a note that came over the socket, as `POST …/notes` does."""
        limit = board.row.settings.body_bytes
        if len(bytes(note)) > limit:
            size = len(bytes(note))
            facts = {"value": size, "limit": limit, "unit": "bytes"}
            raise ProblemError(problem("body_too_large", f"The note has {size} bytes; the limit is {limit}.", **facts))
        return await self.service.post(who, board.name, read_draft(note))

    def count_stalled(self) -> None:
        """Count a reader that did not keep up."""
        self.stalled += 1

    def end_revoked(self, tokens: AbstractSet[str]) -> None:
        """Close the streams of tokens that ended."""
        for stream in list(self._open):
            if stream.token in tokens:
                stream.end(ProblemError(problem("unauthorized", "The token was revoked or has expired.")))

    async def _ping(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(self.settings.ping_s)
            horizon = loop.time() - SILENCE_PINGS * self.settings.ping_s
            for index, stream in enumerate(list(self._open)):
                if stream.heard < horizon:
                    self.silent += 1
                    stream.abort()
                else:
                    stream.ping()
                if index % 128 == 127:
                    await asyncio.sleep(0)


def _one(headers: Any, name: str) -> str | None:  # noqa: ANN401 -- websockets.datastructures.Headers
    values = headers.get_all(name)
    return values[0].strip() if len(values) == 1 else None
