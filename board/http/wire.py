"""The HTTP connection under the application: uvicorn's, with a bound on the head of a request and its own refusals.

uvicorn and httptools bound no header: a peer that never ends one would be kept in memory for as long as it sends; nor
do they mind one that sends a byte a minute, or never reads its answer. And what they cannot parse they answer with plain
text, where every other refusal of the board is a problem document.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from board.http.call import PROBLEM_JSON, problem_headers
from board.http.lingering import Lingering
from schema.codec import encode
from schema.codes import Problem, problem

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from board.http.patience import Patience

HEAD_BYTES: Final = 65_536
"""The most that the line and the headers of one request may have together, give or take one read of the socket."""

GOING_S: Final = 0.5
"""Seconds for which a stopping server takes one more request on a connection that is kept: a proxy may have sent it."""

_UPGRADE: Final = b"\r\nupgrade:"
_LOOK_BYTES: Final = 1024
"""Where it is looked for: one that stands further on is carried out at once, as any request."""

_HEAD: Final = b"HTTP/1.1 "
_CONTINUE: Final = b"HTTP/1.1 100 "
_END_OF_HEAD: Final = b"\r\n\r\n"


class OneWrite:
    """A transport that sends the head of an answer together with what follows it.

    uvicorn writes them apart, which is two system calls, and two wake-ups of the peer, for each small answer. `flush`
    sends a head that nothing follows, as that of an answer to HEAD. How it is closed is for the protocol to say.
    """

    __slots__ = ("_ended", "_head", "_on_close", "_plain")

    def __init__(self, plain: asyncio.Transport, on_close: Callable[[], None]) -> None:
        self._plain = plain
        self._on_close: Callable[[], None] | None = on_close
        self._ended = False
        self._head = b""

    def write(self, data: bytes) -> None:
        """Keep a head; send anything else, behind the head that was kept. After `end` nothing is sent."""
        if self._ended:
            return
        if self._head:
            data, self._head = self._head + data, b""
        elif data.endswith(_END_OF_HEAD) and data.startswith(_HEAD) and not data.startswith(_CONTINUE):
            self._head = data
            return
        self._plain.write(data)

    def flush(self) -> None:
        """Send what is kept."""
        if self._head:
            self.write(b"")

    def close(self) -> None:
        """Send what is kept, and let the protocol end the connection, unless it has."""
        self.flush()
        if self._on_close is not None:
            self._on_close()

    def end(self) -> asyncio.Transport:
        """Give the transport itself. This one has ended, and holds on to no protocol."""
        self._ended = True
        self._on_close = None
        return self._plain

    def is_closing(self) -> bool:
        """Whether it has ended, or is closed."""
        return self._ended or self._plain.is_closing()

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 -- whatever else the transport has
        return getattr(self._plain, name)


class HttpProtocol(HttpToolsProtocol):
    """One HTTP connection. Made by uvicorn through `http_protocol`."""

    transport: asyncio.Transport
    patience: Patience

    def __init__(self, *args: Any, **named: Any) -> None:  # noqa: ANN401 -- uvicorn's own
        super().__init__(*args, **named)
        self._in_head = True
        self._head_bytes = 0
        self._body_bytes = 0
        self._timer: asyncio.TimerHandle | None = None
        self._unread: asyncio.TimerHandle | None = None
        self._going = False
        self._garbled = False
        self._lingering: Lingering | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] -- as uvicorn's
        """Take a peer in, unless there are too many, and wait for its first request."""
        super().connection_made(cast("asyncio.Transport", OneWrite(transport, self._close)))
        self.patience.open += 1
        if len(self.connections) > self.patience.connections:
            self.patience.refused += 1
            limit = self.patience.connections
            self._refuse(problem("too_many_connections", f"{limit} connections are open.", limit=limit))
            return
        self._timer = self.loop.call_later(self.patience.request_s, self._look)

    def connection_lost(self, exc: Exception | None) -> None:
        """Let go of everything."""
        self.patience.open -= 1
        self._wait_no_more()
        self._read_on()
        if self._lingering is not None:
            self._lingering.end()
        cast("OneWrite", self.transport).end()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse what came; give up on a head that does not end."""
        if self._lingering is not None:
            self._lingering.drop(data)
            return
        if self._in_head and not self._head_bytes and _UPGRADE in data[:_LOOK_BYTES].lower():
            self.transport.pause_reading()
            self.patience.handshakes.enter(lambda: self._take_handshake(data))
        else:
            self._take(data)

    def _take_handshake(self, data: bytes) -> None:
        if not self.transport.is_closing():
            self.transport.resume_reading()
            self._take(data)

    def _take(self, data: bytes) -> None:
        self._head_bytes += len(data)
        self._body_bytes += len(data)
        super().data_received(data)
        if self._lingering is None:
            self._wait_for_more()
        if self._in_head and self._head_bytes > HEAD_BYTES:
            sentence = f"The head of the request has more than {HEAD_BYTES} bytes."
            self._refuse(problem("head_too_large", sentence, limit=HEAD_BYTES, unit="bytes"))

    def _wait_for_more(self) -> None:
        """See to it that a request which has begun goes on; most come whole, and then there is no timer to set."""
        if self.transport.get_protocol() is not self:  # it is a stream now
            self.patience.open -= 1
            self._wait_no_more()
        elif self._in_head and not self._head_bytes:
            self._wait_no_more()
        elif self._timer is None:
            self._body_bytes = 0
            self._timer = self.loop.call_later(self.patience.request_s, self._look)

    def _wait_no_more(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        """Give up on a peer that is still not through with its head, or whose body hardly flows.

        A body that the server itself is slow to take counts as flowing.
        """
        self._timer = None
        if self.flow.read_paused or (not self._in_head and self._body_bytes >= self.patience.body_bytes):
            self._wait_for_more()
            return
        self.patience.late += 1
        if self._head_bytes and self._may_answer():
            sentence = f"The request was not there after {self.patience.request_s:g} s."
            self._refuse(problem("request_timeout", sentence, limit=self.patience.request_s, unit="seconds"))
        else:
            self.transport.close()

    def _may_answer(self) -> bool:
        """Whether a refusal would be read as the answer to the request that is late, and to no other."""
        cycle = cast("RequestResponseCycle | None", self.cycle)
        return cycle is None or (cycle.response_complete if self._in_head else not cycle.response_started)

    def pause_writing(self) -> None:
        """The socket takes no more for now: whoever reads the answer must go on in time."""
        super().pause_writing()
        self._await_reader()

    def resume_writing(self) -> None:
        """The socket takes more."""
        super().resume_writing()
        self._read_on()

    def _await_reader(self) -> None:
        waiting = self.transport.get_write_buffer_size()
        self._unread = self.loop.call_later(self.patience.request_s, self._look_at_reader, waiting)

    def _look_at_reader(self, before: int) -> None:
        if self.transport.get_write_buffer_size() < before:
            self._await_reader()
            return
        self.patience.unread += 1
        self.transport.abort()

    def _read_on(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None

    def handle_websocket_upgrade(self) -> None:
        """Hand the socket over to the stream, as it came."""
        self.transport = cast("OneWrite", self.transport).end()
        super().handle_websocket_upgrade()

    def on_headers_complete(self) -> None:
        """The head is whole."""
        self._in_head = False
        super().on_headers_complete()
        if self._going:
            self._keep_no_longer()

    def on_message_complete(self) -> None:
        """The request is whole; the next one's head begins."""
        self._in_head = True
        self._head_bytes = 0
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """The answer is whole."""
        cast("OneWrite", self.transport).flush()
        super().on_response_complete()

    def shutdown(self) -> None:
        """The server stops (uvicorn calls this): say so with the next answer, or close after a moment without a request.

        To close at once would reset what is on its way, and its sender could not tell whether it was carried out.
        """
        self._going = True
        self._keep_no_longer()
        self.loop.call_later(GOING_S, super().shutdown)

    def _keep_no_longer(self) -> None:
        cycle = cast("RequestResponseCycle | None", self.cycle)
        if cycle is not None:
            cycle.keep_alive = False

    def send_400_response(self, msg: str) -> None:
        """Refuse what cannot be parsed, and end the connection: where the next request begins is not known.

        A whole request before it is carried out, so its own answer is what the peer must read.
        """
        del msg
        self._garbled = True
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
        headers = problem_headers(found, "", name=str(self.client))
        more = "".join(f"{name.decode()}: {value.decode()}\r\n" for name, value in headers)
        head = (
            f"HTTP/1.1 {status} {found.row.name}\r\ncontent-type: {PROBLEM_JSON}\r\n"
            f"content-length: {len(body)}\r\n{more}connection: close\r\n\r\n"
        )
        self.transport.write(head.encode() + body)
        self._linger()

    def _close(self) -> None:
        """End the connection; where its peer may be in the middle of a request, not before that has read the answer."""
        if self._garbled or not self._in_head:
            self._linger()
        else:
            cast("OneWrite", self.transport).end().close()

    def _linger(self) -> None:
        self._wait_no_more()
        self._leave_request()
        self._lingering = Lingering(cast("OneWrite", self.transport).end(), self.patience)

    def _leave_request(self) -> None:
        """Tell whoever carries the request out that nobody waits for its answer, as where the connection is lost."""
        cycle = cast("RequestResponseCycle | None", self.cycle)
        if cycle is not None:
            cycle.disconnected = not cycle.response_complete
            cycle.message_event.set()


def http_protocol(patience: Patience) -> type[HttpProtocol]:
    """The protocol of this process's HTTP connections."""
    return type("BoundHttpProtocol", (HttpProtocol,), {"patience": patience})
