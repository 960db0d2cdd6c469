"""`subscriptions/listen`: clients that are told when a board's brief view has changed.

What is told is only that it changed, so a burst of notes is told once: at once when all was quiet, and then at most
every `PAUSE_S` seconds. Nor does a listener that is slow to read need to be told twice of what it has not read once: so
it has no queue, and what is not read at all ends with its connection (`board.http.patience`). Listeners are told in
slices, so that nobody else waits for a thousand of them.

A plain listener is served here; the SDK serves the others, at five times the cost (`python -m loadtest listeners`).
"""

from __future__ import annotations

import asyncio
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

import anyio
import mcp_types as types
from mcp.server.subscriptions import ListenHandler, ResourceUpdated, ServerEvent
from mcp.shared.exceptions import MCPError

from board.core.selection import Filter
from board.mcp.caller import Caller, caller_of
from board.mcp.listener import Listener
from board.mcp.resources import snapshot_uri
from schema.codes import ProblemError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence
    from collections.abc import Set as AbstractSet

    from mcp.server.context import ServerRequestContext

    from board.mcp.lane import Listen
    from board.mcp.listener import Receive, Send
    from board.service.boards import OpenBoard
    from board.service.service import Service

PAUSE_S: Final = 1.0
"""Seconds between two times that the listeners of a board are told, at least."""

SLICE: Final = 32
"""Listeners told in one turn of the loop."""

BACKLOG: Final = 16
"""Times told that may wait for one listener that the SDK serves and that does not read; then its stream ends."""

PING_S: Final = 15.0
"""Seconds between two signs of life on a stream, which keep proxies from ending it."""


class Listeners:
    """All listeners of this process, by board; a listener hears of its own board alone."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._boards: dict[str, _Told] = {}
        self._by_token: dict[str, set[anyio.CancelScope]] = {}
        also_told = service.access.on_revoke

        def on_revoke(tokens: set[str]) -> None:
            also_told(tokens)
            self.end_revoked(tokens)

        service.access.on_revoke = on_revoke

    async def listen(
        self, context: ServerRequestContext[Any, Any], params: types.SubscriptionsListenRequestParams
    ) -> types.SubscriptionsListenResult:
        """Serve one stream, until its client leaves or the server stops. Raises MCPError once its token has ended."""
        caller = caller_of(context)
        board = await self._service.enter(caller.who, caller.board)
        told = self._told(board)
        if len(told) >= self._service.settings.subscribers:
            raise MCPError(types.INTERNAL_ERROR, "Subscription limit reached")
        with self._counted(board, caller.who.worker), self._held(caller.who.token):
            return await told.handler(context, params)
        raise MCPError(types.INVALID_REQUEST, _ENDED)

    async def serve(
        self, request: Listen, caller: Caller, server_info: dict[str, Any], receive: Receive, send: Send
    ) -> bool:
        """Serve one plain listener, and tell whether it was let in: a refusal is left to the SDK, with nothing sent."""
        board = await self._service.enter(caller.who, caller.board)
        told = self._told(board)
        with suppress(MCPError), self._counted(board, caller.who.worker):
            if len(told) >= self._service.settings.subscribers:
                return False
            listener = Listener(request, snapshot_uri(board.name), receive, send)
            with told.listened(listener):
                with self._held(caller.who.token) as held:
                    await listener.begin()
                    await listener.serve(server_info)
                if held.cancelled_caught:
                    await listener.refuse(_ENDED)
            return True
        return False

    def _told(self, board: OpenBoard) -> _Told:
        told = self._boards.get(board.name)
        if told is None:
            told = self._boards[board.name] = _Told(board, self._service.settings.subscribers)
        return told

    @contextmanager
    def _counted(self, board: OpenBoard, worker: str) -> Generator[None]:
        """Count a listener as one of the streams that a worker and a board may have. Raises MCPError."""
        quotas = self._service.quotas
        try:
            quotas.check_stream(board, worker)
        except ProblemError as error:
            raise MCPError(types.INVALID_REQUEST, str(error)) from error
        quotas.stream_opened(board, worker)
        try:
            yield
        finally:
            quotas.stream_closed(board, worker)

    @contextmanager
    def _held(self, token: str) -> Generator[anyio.CancelScope]:
        scopes = self._by_token.setdefault(token, set())
        with anyio.CancelScope() as scope:
            scopes.add(scope)
            try:
                yield scope
            finally:
                scopes.discard(scope)
                if not scopes:
                    self._by_token.pop(token, None)

    def end_revoked(self, tokens: AbstractSet[str]) -> None:
        """End the streams of tokens that ended."""
        for token in tokens & self._by_token.keys():
            for scope in list(self._by_token[token]):
                scope.cancel()

    def close(self) -> None:
        """End every stream, as the protocol says that a server does that goes."""
        for told in self._boards.values():
            told.close()


class _Told:
    """The listeners of one board, and a reader of its fan-out (see `board.hub.Reader`)."""

    def __init__(self, board: OpenBoard, limit: int) -> None:
        self.handler = ListenHandler(self, max_subscriptions=limit, max_buffered_events=BACKLOG)
        self._event = ResourceUpdated(snapshot_uri(board.name))
        self._listeners: dict[object, Callable[[ServerEvent], None]] = {}
        self._plain: dict[Listener, None] = {}
        self._channel = board.channel
        self._telling: asyncio.Task[None] | None = None
        self._pinging: asyncio.Task[None] | None = None
        self._again = False

    def __len__(self) -> int:
        return len(self._listeners) + len(self._plain)

    def subscribe(self, listener: Callable[[ServerEvent], None]) -> Callable[[], None]:
        """Add a listener that the SDK serves; give what removes it."""
        self._join()
        key = object()
        self._listeners[key] = listener

        def unsubscribe() -> None:
            self._listeners.pop(key, None)
            self._leave()

        return unsubscribe

    @contextmanager
    def listened(self, listener: Listener) -> Generator[None]:
        """Tell a plain listener for as long as the block runs."""
        self._join()
        self._plain[listener] = None
        if self._pinging is None:
            self._pinging = asyncio.create_task(self._ping(), name="signs of life to listeners")
        try:
            yield
        finally:
            self._plain.pop(listener, None)
            self._leave()

    def _join(self) -> None:
        if not len(self):
            self._channel.join(self, _EVERYTHING)

    def _leave(self) -> None:
        if not len(self):
            self._channel.leave(self, _EVERYTHING)
            if self._pinging is not None:
                self._pinging.cancel()
                self._pinging = None

    async def publish(self, event: ServerEvent) -> None:
        """Tell every listener, a slice in each turn of the loop."""
        for index, tell in enumerate(list(self._listeners.values())):
            tell(event)
            await _in_slices(index)
        for index, listener in enumerate(list(self._plain)):
            if listener.wants_news:
                listener.tell()
            await _in_slices(index)

    async def _ping(self) -> None:
        while True:
            await asyncio.sleep(PING_S)
            for index, listener in enumerate(list(self._plain)):
                listener.ping()
                await _in_slices(index)

    def deliver(self, frames: Sequence[bytes], seq: int) -> None:
        """Take that something happened."""
        del frames, seq
        self._again = True
        if self._telling is None:
            self._telling = asyncio.create_task(self._tell(), name="telling of listeners")

    def cut_off(self, seq: int) -> None:
        """Take that more happened than came here."""
        self.deliver((), seq)

    async def _tell(self) -> None:
        try:
            while self._again:
                self._again = False
                await self.publish(self._event)
                await asyncio.sleep(PAUSE_S)
        finally:
            self._telling = None

    def close(self) -> None:
        """End every stream."""
        if self._telling is not None:
            self._telling.cancel()
        self.handler.close()
        for listener in self._plain:
            listener.end()


async def _in_slices(index: int) -> None:
    """Let the others have their turn behind every slice."""
    if index % SLICE == SLICE - 1:
        await asyncio.sleep(0)


_EVERYTHING: Final = Filter()
_ENDED: Final = "The token was revoked or has expired."
