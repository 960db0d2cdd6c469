"""The HTTP connection under the application: uvicorn's, with a bound on the head of a request and its own refusals.

uvicorn and httptools bound no header: a peer that never ends one would be kept in memory for as long as it sends. And
what they cannot parse they answer with plain text, where every other refusal of the board is a problem document.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from board.http.call import PROBLEM_JSON
from schema.codec import encode
from schema.codes import Problem, problem

if TYPE_CHECKING:
    import asyncio

HEAD_BYTES: Final = 65_536
"""The most that the line and the headers of one request may have together, give or take one read of the socket."""


class HttpProtocol(HttpToolsProtocol):
    """One HTTP connection."""

    transport: asyncio.Transport

    def __init__(self, *args: Any, **named: Any) -> None:  # noqa: ANN401 -- uvicorn's own
        super().__init__(*args, **named)
        self._in_head = True
        self._head_bytes = 0

    def data_received(self, data: bytes) -> None:
        """Parse what came; give up on a head that does not end."""
        self._head_bytes += len(data)
        super().data_received(data)
        if self._in_head and self._head_bytes > HEAD_BYTES:
            sentence = f"The head of the request has more than {HEAD_BYTES} bytes."
            self._refuse(problem("head_too_large", sentence, limit=HEAD_BYTES, unit="bytes"))

    def on_headers_complete(self) -> None:
        """The head is whole."""
        self._in_head = False
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """The request is whole; the next one's head begins."""
        self._in_head = True
        self._head_bytes = 0
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        """Refuse what cannot be parsed, and end the connection: where the next request begins is not known.

        A whole request before it is carried out, so its own answer is what the peer must read.
        """
        del msg
        cycle = cast("RequestResponseCycle | None", self.cycle)  # None before the first request, whatever it is typed
        if cycle is not None and not cycle.more_body and not cycle.response_complete:
            cycle.keep_alive = False
            self.flow.pause_reading()
            return
        self._refuse(problem("malformed_request", "The request cannot be parsed as HTTP/1.1."))

    def _refuse(self, found: Problem) -> None:
        if self.transport.is_closing():
            return
        body, status = encode(found.document()), found.row.status
        head = (
            f"HTTP/1.1 {status} {found.row.name}\r\ncontent-type: {PROBLEM_JSON}\r\n"
            f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
        )
        self.transport.write(head.encode() + body)
        self.transport.close()
