"""The one table of what HTTP serves: path, method, guard, what is asked, what is answered.

The routes of Litestar, the OpenAPI document and the test that lists every guard are all made from `ROUTES`.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec

from board.http import calls
from board.http.call import Answer
from board.http.metrics import CONTENT_TYPE
from board.http.openapi import document
from board.http.page import HTML, page, page_file
from board.service import questions
from board.service.access import role_needed
from board.service.service import Service
from schema import answers
from schema.codec import encode
from schema.notes import Batch, Draft

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from board.http.call import Call

Guard = Literal["open", "reader", "worker", "admin"]
"""Who may call: anyone, or a token of this role at least (in open mode everyone is an admin)."""

Method = Literal["GET", "POST", "PUT", "DELETE"]


class Route(msgspec.Struct, frozen=True, kw_only=True):
    """One method of one path.

    `answers` maps the statuses of success to what they mean, and `gives` is their shape; `codes` are the refusals
    beyond those that every route shares (see `board.http.openapi`).
    """

    method: Method
    path: str
    guard: Guard
    call: Callable[..., Awaitable[Any]]
    query: type[questions.Question] | None = None
    body: Any = None
    answers: dict[int, str]
    gives: Any = None
    codes: tuple[str, ...] = ()
    root: bool = False
    """Whether the header X-Board-Root counts: the call spells targets."""
    media: str = "application/json"
    takes: str = "application/json"
    """The media type of the body. One that is not JSON is read as it comes in, and has no limit of its own."""

    @property
    def name(self) -> str:
        """A stable name: what metrics and logs call the route."""
        return self.call.__name__

    @property
    def body_optional(self) -> bool:
        """Whether a call without a body is one: every member of what it takes has a default."""
        struct = isinstance(self.body, type) and issubclass(self.body, questions.Question)
        return struct and not any(field.required for field in msgspec.structs.fields(self.body))

    @property
    def takes_lines(self) -> bool:
        """Whether the body is a text of any length, in place of a JSON document."""
        return self.takes != "application/json"

    @property
    def methods(self) -> tuple[str, ...]:
        """The methods that it answers: a HEAD is a GET without its body."""
        return ("GET", "HEAD") if self.method == "GET" else (self.method,)


_BOARD: Final = "/v1/boards/{board}"


def _route(
    method: Method,
    path: str,
    call: Callable[..., Awaitable[Any]],
    answers: dict[int, str],
    **more: Any,  # noqa: ANN401 -- the other members of a Route
) -> Route:
    """Make a row. Its guard is what the act of the service declares: `act`, or the one of the call's own name."""
    act = more.pop("act", None) or getattr(Service, call.__name__)
    return Route(method=method, path=path, guard=role_needed(act), call=call, answers=answers, **more)


def _get(path: str, call: Callable[..., Awaitable[Any]], answer: str, **more: Any) -> Route:  # noqa: ANN401
    return _route("GET", path, call, {200: answer}, **more)


def _post(path: str, call: Callable[..., Awaitable[Any]], answers: dict[int, str], **more: Any) -> Route:  # noqa: ANN401
    return _route("POST", path, call, answers, **more)


def _own(path: str, call: Callable[..., Awaitable[Any]], answer: str, guard: Guard, **more: Any) -> Route:  # noqa: ANN401
    """Make a row of what the service knows nothing of."""
    return Route(method="GET", path=path, guard=guard, call=call, answers={200: answer}, **more)


async def openapi(service: Service, call: Call) -> Answer:
    """Give this document."""
    del service, call
    return Answer(200, _document())


@cache
def _document() -> bytes:
    return encode(document(ROUTES))


_WRITE_CODES: Final = (
    "token_in_note",
    "over_limit",
    "bad_target",
    "unknown_ref",
    "unknown_recipient",
    "placeholder_evidence",
)
_CLAIM_CODES: Final = ("claim_not_found", "claim_ended")

ROUTES: Final[tuple[Route, ...]] = (
    _post(
        f"{_BOARD}/notes",
        calls.post_note,
        {201: "Stored.", 202: "Stored; the claim waits.", 200: "Stored before, with the same content."},
        root=True,
        act=Service.post,
        gives=answers.Posted,
        body=Draft,
        codes=(*_WRITE_CODES, "claim_conflict", "would_deadlock", "key_reused"),
    ),
    _post(
        f"{_BOARD}/notes/batch",
        calls.post_batch,
        {201: "All stored, with consecutive seqs."},
        root=True,
        gives=answers.PostedBatch,
        body=Batch,
        codes=(*_WRITE_CODES, "claim_conflict", "would_deadlock", "key_reused"),
    ),
    _get(
        f"{_BOARD}/notes",
        calls.notes,
        "A page of notes.",
        gives=answers.NotePage,
        query=questions.NotesQuery,
        codes=("bad_target", "position_gone"),
    ),
    _get(
        f"{_BOARD}/notes/{{seq}}",
        calls.note,
        "One note.",
        gives=answers.NoteView,
        codes=("note_not_found", "note_gone"),
    ),
    _get(
        f"{_BOARD}/notes/{{seq}}/detail",
        calls.detail,
        "The long text of a note.",
        gives=answers.Detail,
        codes=("note_not_found", "note_gone", "detail_not_found"),
    ),
    _post(
        f"{_BOARD}/notes/{{seq}}/retract",
        calls.retract,
        {200: "Taken back, now or before."},
        gives=answers.Retracted,
        body=questions.RetractBody,
        codes=("note_not_found", "note_gone", "over_limit"),
    ),
    _get(
        f"{_BOARD}/events",
        calls.events,
        "A page of events of every kind.",
        gives=answers.EventPage,
        query=questions.EventsQuery,
        codes=("position_gone",),
    ),
    _post(
        f"{_BOARD}/claims/check",
        calls.check,
        {200: "What stands in the way. Nothing was written."},
        root=True,
        gives=answers.Check,
        body=questions.CheckBody,
        codes=("bad_target", "over_limit"),
    ),
    _get(
        f"{_BOARD}/claims",
        calls.list_claims,
        "Claims.",
        gives=answers.ClaimPage,
        query=questions.ClaimsQuery,
        codes=("bad_target",),
    ),
    _post(
        f"{_BOARD}/claims/{{seq}}/renew",
        calls.renew,
        {200: "The lease as it is now."},
        gives=answers.ClaimView,
        body=questions.RenewBody,
        codes=(*_CLAIM_CODES, "over_limit"),
    ),
    _post(
        f"{_BOARD}/claims/{{seq}}/release",
        calls.release,
        {200: "Released, now or before."},
        gives=answers.ClaimView,
        body=questions.ReleaseBody,
        codes=("claim_not_found", "over_limit", "unknown_recipient"),
    ),
    _post(
        f"{_BOARD}/claims/{{seq}}/narrow",
        calls.narrow,
        {200: "The claim as it is now."},
        root=True,
        gives=answers.ClaimView,
        body=questions.NarrowBody,
        codes=(*_CLAIM_CODES, "bad_target", "over_limit"),
    ),
    _post(
        f"{_BOARD}/claims/{{seq}}/transfer",
        calls.transfer,
        {200: "The claim as it is now."},
        gives=answers.ClaimView,
        body=questions.TransferBody,
        codes=(*_CLAIM_CODES, "unknown_recipient", "reserved_name", "claim_conflict", "would_deadlock", "over_limit"),
    ),
    _get(
        f"{_BOARD}/conflicts",
        calls.list_conflicts,
        "Conflicts.",
        gives=answers.ConflictPage,
        query=questions.ConflictsQuery,
    ),
    _get(
        f"{_BOARD}/search",
        calls.search,
        "Notes that match, newest first.",
        gives=answers.NotePage,
        query=questions.SearchQuery,
        codes=("position_gone",),
    ),
    _get(
        f"{_BOARD}/export",
        calls.export,
        "The log, one event a line, after a header.",
        query=questions.ExportQuery,
        media="application/x-ndjson",
        codes=("position_gone",),
    ),
    _post(
        f"{_BOARD}/import",
        calls.import_log,
        {201: "The whole log is stored."},
        gives=answers.Imported,
        takes="application/x-ndjson",
        codes=("board_exists",),
    ),
    _get(f"{_BOARD}/workers", calls.workers, "Everyone ever seen on the board.", gives=answers.Workers),
    _route(
        "PUT",
        f"{_BOARD}/workers/me",
        calls.register,
        {200: "The root is kept."},
        gives=answers.Registered,
        body=questions.RegisterBody,
        codes=("bad_target",),
    ),
    _get(
        f"{_BOARD}/snapshot",
        calls.snapshot,
        "The prompt view.",
        root=True,
        gives=answers.SnapshotView,
        query=questions.SnapshotQuery,
        codes=("bad_target", "over_limit"),
        media=calls.MARKDOWN,
    ),
    _get(
        f"{_BOARD}/unread",
        calls.unread,
        "What the calling worker has not acknowledged.",
        gives=answers.Unread,
        query=questions.UnreadQuery,
    ),
    _get(
        f"{_BOARD}/wait",
        calls.wait,
        "The first events that match, or none in time.",
        root=True,
        gives=answers.Waited,
        query=questions.WaitQuery,
        codes=("bad_target", "over_limit", "position_from_future", "position_gone"),
    ),
    _post(
        f"{_BOARD}/unread/ack",
        calls.ack,
        {200: "What is acknowledged now."},
        gives=answers.Acked,
        body=questions.AckBody,
        codes=("position_from_future",),
    ),
    _get("/v1/boards", calls.list_boards, "The boards that the caller may see.", gives=answers.Boards),
    _post(
        "/v1/boards",
        calls.create_board,
        {201: "The new board."},
        gives=answers.BoardView,
        body=questions.BoardBody,
        codes=("board_exists", "over_limit"),
    ),
    _get(_BOARD, calls.board, "Settings, head, epoch and counts.", gives=answers.BoardView),
    _post(
        "/v1/tickets",
        calls.make_ticket,
        {201: "A ticket for one stream."},
        gives=answers.Ticket,
        codes=("rate_limited",),
    ),
    _get("/v1/tokens", calls.list_tokens, "All tokens ever made.", gives=answers.Tokens),
    _post(
        "/v1/tokens",
        calls.create_token,
        {201: "The token, shown this once."},
        gives=answers.NewToken,
        body=questions.TokenBody,
        codes=("reserved_name",),
    ),
    _route(
        "DELETE",
        "/v1/tokens",
        calls.revoke_worker,
        {200: "The tokens that were revoked."},
        act=Service.revoke_tokens,
        gives=answers.Revoked,
        query=questions.RevokeQuery,
        codes=("token_not_found",),
    ),
    _route(
        "DELETE",
        "/v1/tokens/{id}",
        calls.revoke_token,
        {200: "The token that was revoked."},
        act=Service.revoke_tokens,
        gives=answers.Revoked,
        codes=("token_not_found",),
    ),
    _own(
        f"{_BOARD}/stream",
        calls.stream,
        "Never: see 426.",
        "reader",
        query=questions.StreamQuery,
        codes=("upgrade_required",),
    ),
    _own("/healthz", calls.alive, "The process runs.", "open", gives=answers.Status),
    _own("/readyz", calls.ready, "A note could be stored now.", "open", gives=answers.Status, codes=("going_away",)),
    _own("/metrics", calls.show_metrics, "The figures.", "reader", media=CONTENT_TYPE),
    _own("/openapi.json", openapi, "The OpenAPI document.", "reader"),
    _own("/", page, "The live page.", "reader", media=HTML),
    _own("/page/{name}", page_file, "A file of the live page.", "reader", media="text/*"),
)
