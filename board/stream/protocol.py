"""The socket of one stream: handshake, client frames, pings, closes, and shared frames written straight to it.

uvicorn hands over every connection that asks for an upgrade to the class that its `ws` setting names; here that is a
`StreamProtocol`, built on the sans-I/O `ServerProtocol` of `websockets`. It speaks RFC 6455 through that class, but
what the hub fans out is already a frame and goes to the transport as it is: no task, queue or ASGI message for each
subscriber. The asyncio transport keeps references to bytes that its socket does not take yet (uvloop does not copy).
"""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import unquote, urlsplit

import msgspec
import structlog
from websockets.frames import Frame, Opcode
from websockets.http11 import Request
from websockets.protocol import State
from websockets.server import ServerProtocol

from board.hub import frame
from board.service.access import Identity
from board.service.questions import AckBody, StreamQuery, read_query
from board.stream.subscription import Subscription
from schema.codec import encode
from schema.codes import CODES, ProblemError, problem
from schema.ops import AckOp, FilterOp, PostOp

if TYPE_CHECKING:
    from collections.abc import Sequence

    from board.service.boards import OpenBoard
    from board.stream.streams import Streams

log = structlog.get_logger()

OPS_WAITING: Final = 64
"""Ops of one client that may wait; its socket is not read on while so many do."""

ANSWERS_WAITING: Final = 4
"""Times `subscriber_bytes` that may wait for a client which asks (pings, bad ops) and reads no answer: then its socket is
not read on. What it is sent as a subscriber stays below that by itself."""

CLOSE_S: Final = 5.0
"""Seconds that a peer has to answer a close before its socket is dropped."""

HANDSHAKE_S: Final = 10.0
PING: Final = b"\x89\x00"
"""An unsolicited-looking but answered ping: empty, so that all subscribers share it."""

_REASON_BYTES: Final = 123


Op = PostOp | AckOp | FilterOp
_ops: Final = msgspec.json.Decoder(Op)


class StreamProtocol(asyncio.Protocol):
    """One websocket connection. Made by uvicorn through `Streams.protocol_class`."""

    streams: Streams

    def __init__(self, config: Any, server_state: Any, app_state: Any = None, **_: Any) -> None:  # noqa: ANN401 -- uvicorn's
        del config, app_state
        self._connections: set[Any] = server_state.connections
        self._http = ServerProtocol(max_size=1_048_576 + 4096)
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport
        self._identity: Identity | None = None
        self._board: OpenBoard | None = None
        self._subscription: Subscription | None = None
        self._ops: asyncio.Queue[Op] = asyncio.Queue()
        self._worker: asyncio.Task[None] | None = None
        self._message = bytearray()
        self._writable = asyncio.Event()
        self._writable.set()
        self._deadline: asyncio.TimerHandle | None = None
        self._takes = True
        """Whether `_writable` is set; looked at for each delivery."""
        self._speaks = False
        """Whether frames may be sent: from the handshake until either side closes."""
        self._lost = False
        self._ended = False
        self.heard = self._loop.time()
        """When the peer was last heard of, by the loop's clock."""

    # --- the transport -----------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take over the socket."""
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is one in all but name
        self._transport.set_write_buffer_limits(high=self.streams.settings.subscriber_bytes)
        self._connections.add(self)
        self._deadline = self._loop.call_later(HANDSHAKE_S, self._transport.abort)

    def connection_lost(self, exc: Exception | None) -> None:
        """Let go of everything."""
        del exc
        self._lost = True
        self._speaks = False
        self._connections.discard(self)
        self._writable.set()
        if self._deadline is not None:
            self._deadline.cancel()
        self._stop()

    def pause_writing(self) -> None:
        """The socket takes no more for now."""
        self._takes = False
        self._writable.clear()

    def resume_writing(self) -> None:
        """The socket takes more."""
        self._takes = True
        self._writable.set()
        if self._ops.qsize() < OPS_WAITING:
            self._transport.resume_reading()

    def eof_received(self) -> None:
        """The peer sends no more; without its close frame that ends the stream."""
        self._transport.close()

    def data_received(self, data: bytes) -> None:
        """Handle what the client sent."""
        self.heard = self._loop.time()
        self._http.receive_data(data)
        for event in self._http.events_received():
            if isinstance(event, Request):
                self._begin(event)
            elif isinstance(event, Frame):
                self._take_frame(event)
        self._flush()
        self._speaks &= self._http.state is State.OPEN
        if self.waiting_bytes > ANSWERS_WAITING * self.streams.settings.subscriber_bytes:
            self._transport.pause_reading()
        if self._http.close_rcvd is not None:
            self._transport.close()
        elif self._http.parser_exc is not None and not self._ended:
            sent = self._http.close_sent
            self._finish(sent.code if sent else CODES["internal_error"].close, str(self._http.parser_exc))

    def _flush(self) -> None:
        for data in self._http.data_to_send():
            if data:
                self._transport.write(data)

    # --- the handshake -----------------------------------------------------------------------------------------------

    def _begin(self, request: Request) -> None:
        response = self._http.accept(request)
        if urlsplit(request.path).path.rstrip("/").rpartition("/")[2] != "stream":
            response = self._http.reject(HTTPStatus.NOT_FOUND, "Websockets are served at /v1/boards/{board}/stream.\n")
        self._http.send_response(response)
        if self._deadline is not None:
            self._deadline.cancel()
        if response.status_code != HTTPStatus.SWITCHING_PROTOCOLS:
            self._flush()
            self._transport.close()
            return
        self._speaks = True
        self._worker = self._loop.create_task(self._serve(request), name="ops of a subscriber")

    async def _serve(self, request: Request) -> None:
        try:
            await self._enter(request)
            while True:
                op = await self._ops.get()
                await self.drained()
                await self._carry_out(op)
                if self._ops.qsize() < OPS_WAITING:
                    self._transport.resume_reading()
        except ProblemError as error:
            self.end(error)
        except Exception:
            log.exception("stream.failed", board=self._board.name if self._board else None)
            self.end(ProblemError(problem("internal_error", "The stream failed.")))

    async def _enter(self, request: Request) -> None:
        path, query = _read_path(request.path)
        identity = await self.streams.identify(request, query)
        board = await self.streams.service.enter(identity, path)
        self.streams.admit(self, board, identity)
        where = self.streams.service.filter_of(
            board, identity, types=query.type, scope=query.scope, author=query.author, to=query.to
        )
        self._identity, self._board = identity, board
        board.presence.connected(identity.worker)
        self.streams.service.quotas.stream_opened(board, identity.worker)
        self._subscription = Subscription(board, self.streams.store, self, where, self.streams.feeds)
        await self._subscription.start(query)

    @property
    def token(self) -> str:
        """The id of the token that this stream was opened with; empty for none."""
        return self._identity.token if self._identity else ""

    @property
    def behind(self) -> bool:
        """Whether it is fed from the log or the tail, in place of the live events."""
        return self._subscription is not None and not self._subscription.live

    @property
    def waiting_bytes(self) -> int:
        """Bytes that the socket has not taken yet."""
        return 0 if self._lost else self._transport.get_write_buffer_size()

    # --- what the client sends ----------------------------------------------------------------------------------------

    def _take_frame(self, frame_: Frame) -> None:
        if frame_.opcode is Opcode.BINARY:
            self.end(ProblemError(problem("invalid_field", "Frames must be text.")))
        elif frame_.opcode in (Opcode.TEXT, Opcode.CONT):
            self._message += frame_.data  # never a list of parts: empty ones would make it grow for nothing
            if frame_.fin:
                message, self._message = bytes(self._message), bytearray()
                self._take_message(message)
        elif frame_.opcode is Opcode.CLOSE:
            self._stop()

    def _take_message(self, message: bytes) -> None:
        if self._ended:
            return
        try:
            message.decode()  # the decoder of ops only looks at what it takes
            op = _ops.decode(message)
        except (UnicodeDecodeError, RecursionError) as error:
            self.end(ProblemError(problem("malformed_json", str(error))))
        except msgspec.ValidationError as error:
            self._reply(_id_of(message), ProblemError(problem("invalid_field", str(error))))
        except msgspec.DecodeError as error:
            self.end(ProblemError(problem("malformed_json", str(error))))
        else:
            self._ops.put_nowait(op)
            if self._ops.qsize() >= OPS_WAITING:
                self._transport.pause_reading()

    async def _carry_out(self, op: Op) -> None:
        assert self._identity is not None
        assert self._board is not None
        assert self._subscription is not None
        try:
            match op:
                case PostOp():
                    answer = await self.streams.post(self._identity, self._board, op.note)
                case AckOp():
                    body = AckBody(seqs=op.seqs, through=op.through)
                    answer = await self.streams.service.ack(self._identity, self._board.name, body)
                case FilterOp():
                    self._subscription.filter(self._where(op))
                    return self._answer(op.id, 200, {}) if op.id is not None else None
        except ProblemError as error:
            if error.problem.code == "unauthorized":
                raise
            return self._reply(op.id, error)
        if op.id is not None or isinstance(op, PostOp):
            self._answer(op.id, answer.status, answer.body)
        return None

    def _where(self, op: FilterOp) -> Any:  # noqa: ANN401 -- board.core.selection.Filter
        assert self._identity is not None
        assert self._board is not None
        return self.streams.service.filter_of(
            self._board, self._identity, types=op.type, scope=op.scope, author=op.author, to=op.to
        )

    def _reply(self, id_: str | int | None, error: ProblemError) -> None:
        self._answer(id_, error.problem.row.status, error.problem.document())

    def _answer(self, id_: str | int | None, status: int, body: Any) -> None:  # noqa: ANN401 -- any answer
        self.write([frame(encode({"op": "reply", "id": id_, "status": status, "body": body}))])

    # --- what the server sends ---------------------------------------------------------------------------------------

    def write(self, frames: Sequence[bytes]) -> bool:
        """Send frames; tell whether the socket takes more now. Nothing is sent after a close."""
        if not self._speaks:
            return False
        for data in frames:
            self._transport.write(data)
        return self._takes

    async def drained(self) -> None:
        """Return when the socket takes more. Raises ProblemError `too_slow` when not a byte went out for too long."""
        last = self._transport.get_write_buffer_size()
        while not self._writable.is_set():
            try:
                async with asyncio.timeout(self.streams.settings.stall_s):
                    await self._writable.wait()
            except TimeoutError:
                waiting = self._transport.get_write_buffer_size()
                if waiting >= last:  # pings and a reply may have been added to what the peer does not take
                    self.streams.count_stalled()
                    sentence = f"{waiting} bytes waited for {self.streams.settings.stall_s:g} s."
                    raise ProblemError(problem("too_slow", sentence)) from None
                last = waiting
        if not self._speaks:
            raise asyncio.CancelledError

    def ping(self) -> None:
        """Ask the peer whether it is there."""
        self.write([PING])

    def abort(self) -> None:
        """Drop the socket at once."""
        self._transport.abort()

    def end(self, error: ProblemError) -> None:
        """Close with the problem's code; the reason carries the code and, where it helps, the last seq sent."""
        if self._ended or self._lost:
            return
        code, reason = CODES[error.problem.code].close, self._reason(error)
        if self._http.state is State.OPEN:
            self._http.send_close(code, reason)
            self._flush()
        self._finish(code, reason)

    def _finish(self, code: int, reason: str) -> None:
        """Send nothing more, and give the peer time to answer.

        What it sends meanwhile is read and dropped: a socket that is closed on unread bytes is reset, and then the
        peer may never see the close frame.
        """
        self._ended = True
        self._speaks = False
        log.info("stream.closed", code=code, reason=reason, worker=self._identity.worker if self._identity else None)
        self._deadline = self._loop.call_later(CLOSE_S, self._transport.abort)
        self._stop()

    def _reason(self, error: ProblemError) -> str:
        facts: dict[str, Any] = {"code": error.problem.code}
        if self._subscription is not None and error.problem.code in ("too_slow", "going_away"):
            facts["seq"] = self._subscription.position
        facts |= {
            name: error.problem.facts[name] for name in ("oldest", "head", "epoch") if name in error.problem.facts
        }
        room = _REASON_BYTES - len(encode({**facts, "detail": ""}))
        detail = error.problem.detail.encode()[: max(0, room // 2)].decode("utf-8", "ignore")
        return encode({**facts, "detail": detail}).decode()

    def shutdown(self) -> None:
        """The server stops (uvicorn calls this): close with 1001 and the last seq sent."""
        if self._http.state is State.OPEN:
            self.end(ProblemError(problem("going_away", "The server is stopping.")))
        else:
            self._transport.close()

    def _stop(self) -> None:
        if self._subscription is not None:
            self._subscription.close()
        self.streams.left(self, self._board, self._identity)
        self._board = None
        if self._worker is not None and self._worker is not asyncio.current_task():
            self._worker.cancel()


def _read_path(target: str) -> tuple[str, StreamQuery]:
    parts = urlsplit(target)
    segments = [unquote(segment) for segment in parts.path.strip("/").split("/")]
    if len(segments) != 4 or segments[:2] != ["v1", "boards"]:
        raise ProblemError(problem("route_not_found", "Streams are at /v1/boards/{board}/stream."))
    return segments[2], read_query(parts.query.encode("ascii", "surrogateescape"), StreamQuery)


def _id_of(message: bytes) -> str | int | None:
    try:
        found = msgspec.json.decode(message)
    except (msgspec.DecodeError, RecursionError):
        return None
    id_ = found.get("id") if isinstance(found, dict) else None
    return id_ if isinstance(id_, (str, int)) else None
