"""MCP over streamable HTTP: one URL for both protocol eras, without sessions.

An answer is one JSON document, or a stream where something is said before the result and the client takes streams.

What stands before this (see `board.http`) has told who calls and on which board, for every request anew.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

from board.mcp.caller import SCOPE_KEY, Caller
from board.mcp.calls import Calls, Meter
from board.mcp.lane import Lane, listen_of, replayed
from board.mcp.listening import Listeners
from board.mcp.resources import Resources
from board.mcp.server import make_server
from board.mcp.streaming import Held, takes_streams

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, MutableMapping

    from board.mcp.lane import Headers, Receive, Send
    from board.service.access import Identity
    from board.service.service import Service

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
        self._documents = self._manager(json_response=True)
        self.streams = self._manager(json_response=False)
        """What serves clients that take streams."""

    def _manager(self, *, json_response: bool) -> StreamableHTTPSessionManager:
        return StreamableHTTPSessionManager(
            self.server, json_response=json_response, stateless=True, max_request_body_size=BODY_BYTES
        )

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Serve for as long as the block runs. Once only."""
        async with self._documents.run(), self.streams.run():
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
        receive: Receive,
        send: Send,
    ) -> None:
        """Answer one POST: a plain tool call or listener by the short way, anything else through the SDK."""
        # The HTTP parser leaves blanks behind values, and the SDK compares them as they are.
        headers = [(name, value.strip()) for name, value in scope["headers"]]
        caller = Caller(who, board)
        body = await self._lane.read(headers, receive, BODY_BYTES)
        if body is not None and await self._short_way(headers, body, caller, receive, send):
            return
        again = receive if body is None else replayed(body, receive)
        request = {**scope, "headers": headers, SCOPE_KEY: caller}
        if takes_streams(headers):
            await self.streams.handle_request(request, again, Held(send))
        else:
            await self._documents.handle_request(request, again, send)

    async def _short_way(self, headers: Headers, body: bytes, caller: Caller, receive: Receive, send: Send) -> bool:
        """Answer a plain tool call, or serve a plain listener; tell whether it was one."""
        if await self._lane.answer(headers, body, caller, send):
            return True
        listen = listen_of(headers, body)
        if listen is None:
            return False
        return await self._listeners.serve(listen, caller, self.server.server_info_stamp, receive, send)
