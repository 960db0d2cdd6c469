"""The live stream of a board: a subscription that outlives its connections."""

from __future__ import annotations

import asyncio
import itertools
import random
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, NoReturn, Self

import msgspec
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus, InvalidURI

from schema.codec import encode
from schema.codes import ProblemError, problem
from workers.client.address import is_loopback, stream_url
from workers.client.answers import Acked, Posted, known_event
from workers.client.backoff import Backoff
from workers.client.inbox import Inbox
from workers.client.keys import with_key
from workers.client.position import Filter, Position, refusal_of_close
from workers.client.refusals import no_board, refusal, refusal_of_document, unreachable

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence
    from types import TracebackType

    from websockets.asyncio.client import ClientConnection

    from schema.events import AnyEvent
    from schema.notes import Draft
    from workers.client.address import Caller
    from workers.client.inbox import Arrived

_MESSAGE_BYTES: Final = 4 * 1024 * 1024
_TOO_BIG: Final = 1009
_ABNORMAL: Final = 1006
_REFUSED: Final = 400
_TRY_LATER: Final = frozenset({429, 502, 503, 504})


class Connected(msgspec.Struct, frozen=True, kw_only=True):
    """A connection began: reading goes on after `after`; `again` tells whether there was one before."""

    epoch: str
    head: int
    after: int
    again: bool


class Lost(msgspec.Struct, frozen=True, kw_only=True):
    """The connection ended, or could not be made; the next try is in `retry_in_s` seconds."""

    reason: str
    retry_in_s: float


Change = Connected | Lost


class Frame(msgspec.Struct, frozen=True):
    """Anything that the server sends; an op that is not known here is skipped."""

    op: str
    epoch: str = ""
    head: int = 0
    after: int = 0
    seq: int = 0
    events: tuple[msgspec.Raw, ...] = ()
    id: int | str | None = None
    status: int = 0
    body: msgspec.Raw = msgspec.Raw(b"null")


_frame_decoder: Final = msgspec.json.Decoder(Frame)


class Subscription:
    """The events of a board, live, as an async iterator. Use as `async with`, which returns once it has begun.

    Begins after seq `after` (0 is the beginning), or with the newest `tail` events, or else with what is written
    from now on. `epoch` says which life of the log `after` belongs to.

    Order and delivery: seq order, each event given at most once, none left out. A lost connection is made again, with
    full jitter, where it broke off; before the first one at most `backoff.tries` times, later without end. The position
    moves when an event comes, before it is given out: whoever dies between getting an event and handling it must have
    kept the seq of the last one handled, and begin there. Events of kinds unknown to this version are skipped.

    Raises ProblemError when the board refuses (`wrong_epoch`, `position_from_future` and `position_gone` mean: begin
    again from a snapshot), and StreamHole for a hole that no filter explains. Then it has ended, and raises the same
    again.

    At most `inbox` events wait for the reader; a reader that is slower reads on from the log later. Cancelling a
    wait for an event loses none. One task reads; any number may post.
    """

    def __init__(
        self,
        url: str,
        board: str,
        caller: Caller,
        *,
        after: int | None = None,
        tail: int | None = None,
        epoch: str | None = None,
        where: Filter = Filter(),
        backoff: Backoff = Backoff(tries=5),
        reply_s: float = 30.0,
        inbox: int = 10_000,
        on_change: Callable[[Change], None] | None = None,
    ) -> None:
        self.seq = after or 0
        self._url = url
        self._board = board
        self._caller = caller
        self._backoff = backoff
        self._reply_s = reply_s
        self._on_change = on_change
        self._position = Position(after=after, tail=tail, epoch=epoch, where=where)
        self._inbox = Inbox(self._position, inbox)
        self._replies: dict[int, asyncio.Future[Frame]] = {}
        self._ids = itertools.count(1)
        self._socket: ClientConnection | None = None
        self._ended: Exception | None = None
        self._failures = 0
        self._began = False
        self._readable = asyncio.Event()
        self._writable = asyncio.Event()
        self._online = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @property
    def epoch(self) -> str | None:
        """The life of the log that the seqs belong to; known once begun."""
        return self._position.epoch

    @property
    def head(self) -> int:
        """The head of the log when the newest connection began."""
        return self._position.head

    # Life

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._run(), name=f"stream of {self._board}")
        try:
            await self._online.wait()
        except BaseException:
            await self.close()
            raise
        if self._ended is not None:
            await self.close()
            raise self._ended
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Let go of the connection; whoever waits for an event sees the end. Closing twice is a no-op."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        self._end(StopAsyncIteration())

    def _end(self, error: Exception) -> None:
        self._ended = self._ended or error
        self._readable.set()
        self._online.set()

    # Reading

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> AnyEvent:
        while True:
            arrived = await self._next()
            try:
                event = known_event(arrived.body)
            except msgspec.ValidationError as error:
                raise no_board(self._url, f"event {arrived.seq}: {error}") from error
            if event is not None:
                return event

    async def lines(self) -> AsyncIterator[bytes]:
        """Give the events as they came, encoded, in place of decoded ones; of unknown kinds, too."""
        while True:
            try:
                arrived = await self._next()
            except StopAsyncIteration:
                return
            yield arrived.body

    async def _next(self) -> Arrived:
        while (arrived := self._inbox.get()) is None:
            if self._ended is not None:
                raise self._ended
            self._read_on()
            self._readable.clear()
            await self._readable.wait()
        self._writable.set()
        self.seq = arrived.seq
        return arrived

    def _read_on(self) -> None:
        if self._inbox.broken_off and self._socket is not None:
            self._socket.transport.abort()

    # Writing on the same connection

    async def post(self, draft: Draft) -> Posted:
        """Write one note; durable on return, and exactly once although lost replies are asked for again.

        Raises ProblemError: the board's refusal, or `unreachable` after `reply_s` seconds without an answer.
        """
        body = await self._ask({"op": "post", "note": with_key(draft)})
        return msgspec.json.decode(body, type=Posted)

    async def ack(self, seqs: Sequence[int] = (), *, through: int | None = None) -> Acked:
        """Acknowledge these notes, or everything up to `through`, shown or not; durable on return. Raises as `post`."""
        what = {"seqs": tuple(seqs)} if through is None else {"through": through}
        return msgspec.json.decode(await self._ask({"op": "ack", **what}), type=Acked)

    async def filter(self, *, types: Sequence[str] = (), scope: Sequence[str] = ()) -> None:
        """Replace the filter, from the next event on. Raises as `post`."""
        where = Filter(types=tuple(types), scope=tuple(scope))
        self._position.refilter(where)
        await self._ask({"op": "filter", "type": where.types, "scope": where.scope})

    async def _ask(self, op: dict[str, Any]) -> msgspec.Raw:
        try:
            async with asyncio.timeout(self._reply_s):
                frame = await self._answer(op | {"id": next(self._ids)})
        except TimeoutError as error:
            raise unreachable(self._url, f"no reply on the stream for {self._reply_s:g} s") from error
        if frame.status >= _REFUSED:
            raise refusal_of_document(msgspec.json.decode(frame.body, type=dict[str, Any]), frame.status)
        return frame.body

    async def _answer(self, op: dict[str, Any]) -> Frame:
        while True:
            await self._online.wait()
            if self._ended is not None:
                raise unreachable(self._url, "the stream has ended") from self._ended
            try:
                return await self._exchange(op)
            except ConnectionClosed:
                continue

    async def _exchange(self, op: dict[str, Any]) -> Frame:
        assert self._socket is not None, "online means that there is a socket"
        reply: asyncio.Future[Frame] = asyncio.get_running_loop().create_future()
        self._replies[op["id"]] = reply
        self._writable.set()
        try:
            await self._socket.send(encode(op), text=True)
            return await reply
        finally:
            self._replies.pop(op["id"], None)

    # The task that owns the connection

    async def _run(self) -> None:
        try:
            while True:
                await self._wait_for_room()
                await self._pause(await self._connection())
        except Exception as error:  # noqa: BLE001 -- whatever it is, the reader must see it
            self._end(error)

    async def _wait_for_room(self) -> None:
        # With a reply outstanding, reading goes on: the reader may be the very one who waits for it.
        while self._inbox.full and not self._replies:
            self._writable.clear()
            await self._writable.wait()

    async def _pause(self, reason: str) -> None:
        self._failures += 1
        if not self._began and self._failures >= self._backoff.tries:
            raise unreachable(self._url, reason)
        delay_s = self._backoff.delay_s(self._failures, random.random())  # noqa: S311 -- spreads load, keeps no secret
        self._tell(Lost(reason=reason, retry_in_s=delay_s))
        await asyncio.sleep(delay_s)

    async def _connection(self) -> str:
        """Make one connection and read it to its end; give the reason of the end when another may follow."""
        try:
            async with self._connect() as socket:
                self._socket = socket
                await self._read(socket)
        except ConnectionClosed as error:
            return self._lost(error)
        except InvalidStatus as error:
            status = error.response.status_code
            failed = refusal(status, bytes(error.response.body or b""), self._url)
            if status not in _TRY_LATER:
                raise failed from error
            return str(failed)
        except InvalidURI as error:
            raise unreachable(self._url, str(error)) from error
        except (OSError, TimeoutError, InvalidHandshake) as error:
            return str(error) or type(error).__name__
        finally:
            self._socket = None
            if self._ended is None:
                self._online.clear()

    def _connect(self) -> connect:
        return connect(
            stream_url(self._url, self._board, self._position.params()),
            additional_headers=self._caller.headers(),
            compression=None,
            max_size=_MESSAGE_BYTES,
            proxy=None if is_loopback(self._url) else True,
            close_timeout=1,
            max_queue=4,
        )

    async def _read(self, socket: ClientConnection) -> NoReturn:
        while True:
            await self._wait_for_room()
            self._handle(_frame_decoder.decode(await socket.recv()))

    def _handle(self, frame: Frame) -> None:
        match frame.op:
            case "hello":
                self._hello(frame)
            case "events":
                self._failures = 0
                self._inbox.put(frame.events)
                self._readable.set()
            case "live":
                self._failures = 0
                self._inbox.live(frame.seq)
            case "reply":
                reply = self._replies.get(frame.id) if isinstance(frame.id, int) else None
                if reply is not None and not reply.done():
                    reply.set_result(frame)
            case _:
                pass

    def _hello(self, frame: Frame) -> None:
        self._position.hello(epoch=frame.epoch, head=frame.head, after=frame.after)
        self._inbox.reconnected()
        after = self._position.after or 0
        if not self._began:
            self.seq = after
        self._tell(Connected(epoch=frame.epoch, head=frame.head, after=after, again=self._began))
        self._began = True
        self._online.set()

    def _lost(self, error: ConnectionClosed) -> str:
        close = error.rcvd
        code = close.code if close is not None else _ABNORMAL
        refused = code == _TOO_BIG
        for reply in self._replies.values():
            if not reply.done():
                reply.set_exception(_too_big() if refused else error)
        if error.sent is not None and error.sent.code == _TOO_BIG and close is None:
            raise _too_big() from error
        failed = refusal_of_close(code, close.reason if close is not None else "")
        if failed is not None:
            raise failed from error
        return str(error)

    def _tell(self, change: Change) -> None:
        if self._on_change is not None:
            self._on_change(change)


def _too_big() -> ProblemError:
    return ProblemError(
        problem("body_too_large", "a message was larger than the stream takes", limit=_MESSAGE_BYTES, unit="bytes")
    )
