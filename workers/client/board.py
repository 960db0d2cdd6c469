"""The client of one board over HTTP: one method for each call, typed answers, safe retries."""

from __future__ import annotations

import random
from contextlib import asynccontextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, Self, TypedDict, TypeVar, Unpack
from urllib.parse import quote

import anyio
import msgspec
from msgspec.structs import replace

from schema.codec import encode
from schema.events import Note
from schema.notes import Batch, Claim
from workers.client.address import DEFAULT_URL, Caller, Value, board_path, params_of
from workers.client.answers import (
    Acked,
    Boards,
    BoardView,
    Check,
    ClaimPage,
    ClaimView,
    ConflictPage,
    Detail,
    EventPage,
    Imported,
    NewToken,
    NotePage,
    Posted,
    PostedBatch,
    RawEventPage,
    RawUnread,
    Revoked,
    Ticket,
    Tokens,
    Unread,
    Workers,
)
from workers.client.backoff import Backoff
from workers.client.keys import with_key
from workers.client.link import Call, Link, Method
from workers.client.position import Filter
from workers.client.refusals import no_board
from workers.client.stream import Subscription

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Awaitable, Callable, Mapping, Sequence
    from types import TracebackType

    import httpx

    from schema.events import AnyEvent
    from schema.limits import SettingsDraft
    from schema.notes import Draft, OnConflict, Outcome
    from workers.client.stream import Change

T = TypeVar("T")
K_co = TypeVar("K_co", covariant=True)
_SENT_AS_NAMED: Final = ("after", "before", "limit", "order", "author", "scope", "task", "to")

Order = Literal["asc", "desc"]
ClaimState = Literal["live", "waiting", "ended", "all"]
Role = Literal["reader", "worker", "admin"]
ConflictState = Literal["open", "closed", "all"]


class Encoded(Protocol[K_co]):
    """An answer whose events are still encoded."""

    def known(self) -> K_co:
        """Decode those of a known kind. Raises msgspec.ValidationError."""
        ...


class NoteQuery(TypedDict, total=False):
    """Which notes: after < seq < before, and all of what else is said; `types` and `scope` take several.

    Without `after` they begin with the oldest that is kept; one that lies before that is refused (`position_gone`).
    """

    after: int | None
    before: int | None
    limit: int | None
    order: Order
    types: Sequence[str]
    author: str | None
    scope: Sequence[str]
    task: str | None
    to: str | None


class BoardClient:
    """Calls one board as one worker. Use as `async with`, or call `close`.

    Every method raises ProblemError: the board's refusal with its code and facts, or `unreachable` when no answer
    came after `backoff.tries` tries. Only what is safe to repeat is tried again; a note is, since each gets an
    idempotency key when its caller gave none. One answer may take `timeout_s` seconds. At most `connections` calls
    run at a time.

    `on_answer` is given the body of every successful answer, exactly as it came.
    `transport`, `sleep` and `chance` replace the network, the clock and the dice.
    """

    def __init__(
        self,
        url: str = DEFAULT_URL,
        board: str = "main",
        token: str | None = None,
        worker: str | None = None,
        root: str | None = None,
        *,
        timeout_s: float = 30.0,
        connections: int = 32,
        backoff: Backoff = Backoff(),
        on_answer: Callable[[bytes], None] | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
        sleep: Callable[[float], Awaitable[None]] = anyio.sleep,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self.name = board
        self.caller = Caller(token=token, worker=worker, root=root)
        self._on_answer = on_answer
        self._link = Link(
            url,
            timeout_s=timeout_s,
            connections=connections,
            backoff=backoff,
            transport=transport,
            sleep=sleep,
            chance=chance,
        )

    @property
    def url(self) -> str:
        """The address of the server."""
        return self._link.url

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections; calls under way fail. Closing twice is a no-op."""
        await self._link.close()

    def acting_as(self, worker: str, *, token: str | None = None) -> BoardClient:
        """Give a client for another worker over the same connections, which are this client's to close."""
        other = object.__new__(BoardClient)
        other.name = self.name
        other.caller = Caller(token=token or self.caller.token, worker=worker, root=self.caller.root)
        other._on_answer = self._on_answer
        other._link = self._link
        return other

    # Writing notes

    async def post(self, draft: Draft) -> Posted:
        """Write one note; durable on return, and exactly once however often the way there fails."""
        return await self._post(Posted, self._at("notes"), with_key(draft))

    async def post_batch(self, drafts: Sequence[Draft]) -> PostedBatch:
        """Write up to 1,000 notes, all or none, with consecutive seqs; durable on return."""
        batch = Batch(notes=tuple(with_key(draft) for draft in drafts))
        return await self._post(PostedBatch, self._at("notes", "batch"), batch)

    async def claim(
        self,
        scope: Sequence[str],
        text: str,
        *,
        ttl_s: int | None = None,
        on_conflict: OnConflict = "refuse",
        task: str = "",
        key: str = "",
    ) -> Posted:
        """Claim a scope for `ttl_s` seconds (the board's default when None).

        `claim.state` of the answer says whether it is held, contested or waits. Raises ProblemError
        `claim_conflict` with who holds what (`answers.conflicts_of`) and what is free, and `would_deadlock`.
        """
        return await self.post(
            Claim(text=text, scope=tuple(scope), ttl_s=ttl_s, on_conflict=on_conflict, task=task, key=key)
        )

    async def retract(self, seq: int, reason: str = "") -> None:
        """Take a note back: live views drop it, the log keeps it. Only its author or an admin may."""
        await self._send("POST", self._at("notes", seq, "retract"), body={"reason": reason})

    # Reading

    async def notes(self, **query: Unpack[NoteQuery]) -> NotePage:
        """Give one page of the notes that match, in seq order or newest first, at most `limit` (up to 1,000)."""
        params: dict[str, Value] = {"type": query.get("types", ())}
        for name in _SENT_AS_NAMED:
            params[name] = query.get(name)
        return await self._get(NotePage, self._at("notes"), params)

    async def each_note(self, **query: Unpack[NoteQuery]) -> AsyncIterator[Note]:
        """Give all notes that match, page after page of `limit`, each once; those written meanwhile are included."""
        while True:
            page = await self.notes(**query)
            for note in page.notes:
                yield note
            if page.next is None or not page.notes:
                return
            query["before" if query.get("order") == "desc" else "after"] = page.next

    async def note(self, seq: int) -> Note:
        """Give one note, retracted or not."""
        return await self._get(Note, self._at("notes", seq))

    async def detail(self, seq: int) -> str:
        """Give the long text of a note. Raises ProblemError `detail_not_found` where it has none."""
        return (await self._get(Detail, self._at("notes", seq, "detail"))).detail

    async def events(self, *, after: int | None = None, limit: int | None = None) -> EventPage:
        """Give one page of the log after a seq, or from the oldest kept: every event of a known kind, in order."""
        return self._known(await self._get(RawEventPage, self._at("events"), {"after": after, "limit": limit}))

    async def each_event(self, *, after: int | None = None, limit: int | None = None) -> AsyncIterator[AnyEvent]:
        """Give the log after a seq, or from the oldest kept, up to its head, page after page of `limit`.

        Each event of a known kind comes once.
        """
        while True:
            page = await self._get(RawEventPage, self._at("events"), {"after": after, "limit": limit})
            for event in self._known(page).events:
                yield event
            if page.next is None or not page.events:
                return
            after = page.next

    async def search(self, q: str, *, before: int | None = None, limit: int | None = None) -> NotePage:
        """Give the live notes that hold the words, newest first; comma is OR, `&` is AND, quotes make a phrase."""
        return await self._get(NotePage, self._at("search"), {"q": q, "before": before, "limit": limit})

    async def snapshot(self, *, budget_tokens: int | None = None, scope: Sequence[str] = ()) -> str:
        """Give the view of the board that belongs in a prompt, as markdown."""
        params: dict[str, Value] = {"budget_tokens": budget_tokens, "scope": tuple(scope), "format": "markdown"}
        return (await self._send("GET", self._at("snapshot"), params=params)).decode()

    async def snapshot_document(self, *, budget_tokens: int | None = None, scope: Sequence[str] = ()) -> dict[str, Any]:
        """Give the view of the board that belongs in a prompt, as JSON."""
        params: dict[str, Value] = {"budget_tokens": budget_tokens, "scope": tuple(scope), "format": "json"}
        return await self._get(dict[str, Any], self._at("snapshot"), params)

    async def wait(
        self,
        *,
        after: int | None = None,
        timeout_s: int = 25,
        types: Sequence[str] = (),
        scope: Sequence[str] = (),
        to: str | None = None,
    ) -> EventPage:
        """Wait up to `timeout_s` (60 at the most) for events after a seq that match; an empty page when none came."""
        params: dict[str, Value] = {"after": after, "timeout_s": timeout_s, "type": tuple(types)}
        params |= {"scope": tuple(scope), "to": to}
        return self._known(await self._get(RawEventPage, self._at("wait"), params, wait_s=timeout_s))

    def subscribe(
        self,
        *,
        after: int | None = None,
        tail: int | None = None,
        epoch: str | None = None,
        types: Sequence[str] = (),
        scope: Sequence[str] = (),
        author: str = "",
        to: str = "",
        backoff: Backoff = Backoff(tries=5),
        on_change: Callable[[Change], None] | None = None,
    ) -> Subscription:
        """Give the live stream as this worker, see `Subscription`."""
        return Subscription(
            self.url,
            self.name,
            self.caller,
            after=after,
            tail=tail,
            epoch=epoch,
            where=Filter(types=tuple(types), scope=tuple(scope), author=author, to=to),
            backoff=backoff,
            on_change=on_change,
        )

    @asynccontextmanager
    async def export(
        self, *, after: int | None = None, before: int | None = None
    ) -> AsyncGenerator[AsyncIterator[bytes]]:
        """Give the lines of an export as they come: first a header, then one event a line.

        The lines end when the export is whole; one that is cut raises ProblemError `unreachable`.
        """
        call = self._call("GET", self._at("export"), {"after": after, "before": before})
        async with self._link.lines(call) as lines:
            yield lines

    # Claims

    async def check(self, scope: Sequence[str]) -> Check:
        """Tell what stands in the way of a scope; the caller's own claims do not. Writes nothing."""
        return await self._post(Check, self._at("claims", "check"), {"scope": tuple(scope)})

    async def claims(
        self,
        *,
        state: ClaimState = "live",
        scope: Sequence[str] = (),
        holder: str | None = None,
        after: int | None = None,
        limit: int | None = None,
    ) -> ClaimPage:
        """Give one page of the claims in that state."""
        params: dict[str, Value] = {"state": state, "scope": tuple(scope), "holder": holder}
        return await self._get(ClaimPage, self._at("claims"), params | {"after": after, "limit": limit})

    async def renew(self, claim: int, *, ttl_s: int | None = None) -> ClaimView:
        """Make a lease end `ttl_s` seconds from now, never earlier than it did. Raises ProblemError `claim_ended`."""
        return await self._post(
            ClaimView, self._at("claims", claim, "renew"), {} if ttl_s is None else {"ttl_s": ttl_s}
        )

    async def release(
        self, claim: int, *, outcome: Outcome = "done", to: Sequence[str] = (), text: str = "", reason: str = ""
    ) -> ClaimView:
        """End a claim; ending it twice is a no-op. An admin gives a `reason` for another's claim."""
        said = {"outcome": outcome, "to": tuple(to), "text": text, "reason": reason}
        return await self._post(ClaimView, self._at("claims", claim, "release"), _said(said))

    async def narrow(self, claim: int, scope: Sequence[str]) -> ClaimView:
        """Hold only this part of a claim from now on."""
        return await self._post(ClaimView, self._at("claims", claim, "narrow"), {"scope": tuple(scope)})

    async def transfer(self, claim: int, to: str, *, reason: str = "") -> ClaimView:
        """Hand a claim to another worker, as its holder or as an admin."""
        body = _said({"to": to, "reason": reason})
        return await self._post(ClaimView, self._at("claims", claim, "transfer"), body, repeatable=False)

    async def conflicts(self, *, state: ConflictState = "open") -> ConflictPage:
        """Give the conflicts in that state."""
        return await self._get(ConflictPage, self._at("conflicts"), {"state": state})

    # What the calling worker has read

    async def unread(self, *, limit: int | None = None, budget_tokens: int | None = None) -> Unread:
        """Give what this worker has not acknowledged, most relevant first. Reading acknowledges nothing."""
        params = {"limit": limit, "budget_tokens": budget_tokens}
        return self._known(await self._get(RawUnread, self._at("unread"), params))

    async def ack(self, seqs: Sequence[int] = (), *, through: int | None = None) -> Acked:
        """Acknowledge these notes, or everything up to `through`, shown or not; durable on return."""
        body = {"seqs": tuple(seqs)} if through is None else {"through": through}
        return await self._post(Acked, self._at("unread", "ack"), body)

    # Workers, boards, tokens

    async def workers(self) -> Workers:
        """Tell who was seen on the board."""
        return await self._get(Workers, self._at("workers"))

    async def register(self, root: str) -> None:
        """Keep the root of this worker's checkout: it is stripped from absolute paths."""
        await self._send("PUT", self._at("workers", "me"), body={"root": root})

    async def boards(self) -> Boards:
        """Give the boards that the caller may see."""
        return await self._get(Boards, "/v1/boards")

    async def board(self) -> BoardView:
        """Tell the settings, epoch, head and counts of this board."""
        return await self._get(BoardView, self._at())

    async def create_board(self, name: str, settings: SettingsDraft | None = None) -> BoardView:
        """Make a board, as an admin. Raises ProblemError `board_exists`."""
        body = {"board": name} | ({} if settings is None else {"settings": settings})
        return await self._post(BoardView, "/v1/boards", body, repeatable=False)

    async def import_log(self, lines: AsyncIterable[bytes]) -> Imported:
        """Read an export into this board, which must be empty, as an admin; seqs and times are kept.

        The lines are those of `export`, without their ends. All are stored, or none.
        """
        call = replace(self._call("POST", self._at("import")), media="application/x-ndjson")
        return self._decoded(Imported, self._seen(await self._link.upload(call, _with_ends(lines))))

    async def create_token(
        self, role: Role, *, worker: str | None = None, board: str | None = None, expires_s: int | None = None
    ) -> NewToken:
        """Make a token, as an admin. The answer is the only place that shows it."""
        body = _said({"role": role, "worker": worker, "board": board, "expires_s": expires_s})
        return await self._post(NewToken, "/v1/tokens", body, repeatable=False)

    async def tokens(self) -> Tokens:
        """Give all tokens, as an admin, without their secrets."""
        return await self._get(Tokens, "/v1/tokens")

    async def revoke_token(self, id: str) -> Revoked:
        """Revoke a token, as an admin; streams that it opened close. Raises ProblemError `token_not_found`."""
        return self._decoded(Revoked, await self._send("DELETE", f"/v1/tokens/{quote(id, safe='')}"))

    async def revoke_tokens_of(self, worker: str) -> Revoked:
        """Revoke all tokens of a worker, as an admin; streams that they opened close."""
        return self._decoded(Revoked, await self._send("DELETE", "/v1/tokens", params={"worker": worker}))

    async def ticket(self) -> Ticket:
        """Get a credential that opens one stream of this board from a client that cannot send headers."""
        return await self._post(Ticket, "/v1/tickets", None, repeatable=False)

    # How a call is sent

    def _at(self, *parts: str | int) -> str:
        return board_path(self.name, *parts)

    async def _get(
        self, answer: type[T], path: str, params: Mapping[str, Value] | None = None, *, wait_s: float = 0.0
    ) -> T:
        return self._decoded(answer, await self._send("GET", path, params=params, wait_s=wait_s))

    async def _post(self, answer: type[T], path: str, body: object, *, repeatable: bool = True) -> T:
        return self._decoded(answer, await self._send("POST", path, body=body, repeatable=repeatable))

    async def _send(
        self,
        method: Method,
        path: str,
        *,
        params: Mapping[str, Value] | None = None,
        body: object = None,
        repeatable: bool = True,
        wait_s: float = 0.0,
    ) -> bytes:
        sent = None if body is None else encode(body)
        call = replace(self._call(method, path, params), body=sent, repeatable=repeatable, wait_s=wait_s)
        return self._seen(await self._link.send(call))

    def _call(self, method: Method, path: str, params: Mapping[str, Value] | None = None) -> Call:
        return Call(method=method, path=path, headers=self.caller.headers(), params=params_of(params or {}))

    def _seen(self, body: bytes) -> bytes:
        if self._on_answer is not None:
            self._on_answer(body)
        return body

    def _known(self, answer: Encoded[K_co]) -> K_co:
        try:
            return answer.known()
        except msgspec.ValidationError as error:
            raise no_board(self.url, str(error)) from error

    def _decoded(self, answer: type[T], body: bytes) -> T:
        try:
            return _decoder(answer).decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise no_board(self.url, str(error)) from error


@lru_cache(maxsize=64)
def _decoder(answer: type[T]) -> msgspec.json.Decoder[T]:
    return msgspec.json.Decoder(answer)


def _said(fields: Mapping[str, object]) -> dict[str, object]:
    return {name: value for name, value in fields.items() if value not in (None, "", ())}


async def _with_ends(lines: AsyncIterable[bytes]) -> AsyncIterator[bytes]:
    async for line in lines:
        yield line + b"\n"
