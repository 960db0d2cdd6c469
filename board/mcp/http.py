"""MCP over streamable HTTP: one URL for both protocol eras, without sessions.

What stands before this (see `board.http`) has told who calls and on which board, for every request anew.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

from board.mcp.caller import SCOPE_KEY, Caller
from board.mcp.calls import Calls, Meter
from board.mcp.lane import Lane, replayed
from board.mcp.listening import Listeners
from board.mcp.resources import Resources
from board.mcp.server import make_server

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, MutableMapping

    from board.service.access import Identity
    from board.service.service import Service

    Message = MutableMapping[str, Any]

PATHS: Final = ("/mcp", "/mcp/{board}")
"""Where it is served, for POST alone: the board `main`, or the one that is named.

The stream that older revisions open with GET is for what a server sends of its own accord within a session, and there
are no sessions here; 405 is how the protocol says so.
"""

BODY_BYTES: Final = 1_048_576
"""The largest body of a request, as of every other call."""


class McpSurface:
    """The tools and resources of all boards of one process. `serve` within `running`."""

    def __init__(self, service: Service, meter: Meter) -> None:
        self._listeners = Listeners(service)
        calls = Calls(service, meter)
        self.server = make_server(calls, Resources(service), self._listeners)
        self._lane = Lane(calls, self.server.server_info_stamp)
        self.manager = StreamableHTTPSessionManager(
            self.server, json_response=True, stateless=True, max_request_body_size=BODY_BYTES
        )

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Serve for as long as the block runs. Once only."""
        async with self.manager.run():
            try:
                yield
            finally:
                self.stop_listening()

    def stop_listening(self) -> None:
        """End the streams of listeners, because the server is stopping."""
        self._listeners.close()

    async def serve(
        self,
        who: Identity,
        board: str,
        scope: MutableMapping[str, Any],
        receive: Callable[[], Awaitable[Message]],
        send: Callable[[Message], Awaitable[None]],
    ) -> None:
        """Answer one POST: a plain tool call by the short way, anything else through the SDK."""
        # The HTTP parser leaves blanks behind values, and the SDK compares them as they are.
        headers = [(name, value.strip()) for name, value in scope["headers"]]
        caller = Caller(who, board)
        body = await self._lane.read(headers, receive, BODY_BYTES)
        if body is not None and await self._lane.answer(headers, body, caller, send):
            return
        again = receive if body is None else replayed(body, receive)
        await self.manager.handle_request({**scope, "headers": headers, SCOPE_KEY: caller}, again, send)
