"""What callers ask, decoded: the parameters of every read and the bodies of every write but the notes themselves.

Each struct is the whole of what a call takes; an unknown member is refused. HTTP, the stream and MCP share them.
"""

from __future__ import annotations

import re
import types
from functools import lru_cache
from typing import Annotated, Any, Final, Literal, TypeVar, Union, get_args, get_origin, get_type_hints
from urllib.parse import parse_qsl

import msgspec

from board.service.explaining import explain, shown
from schema.codes import ProblemError, problem
from schema.events import EventType
from schema.limits import ACKED_AT_ONCE, PAGE_LIMIT, SettingsDraft
from schema.notes import NoteType, Outcome, Seconds, Targets

SECRETS: Final = frozenset({"token", "access_token", "authorization", "bearer", "api_key"})
"""Query parameters that look like a credential; a URL is written to logs, so none is taken from it."""

QUERY_FIELDS: Final = 4096
"""The most parameters of one query string."""

_NUMBERS: Final = (int, float)
_WHOLE: Final = re.compile(r"-?[0-9]{1,40}")
_DECIMAL: Final = re.compile(r"-?[0-9]{1,20}(\.[0-9]{1,20})?")
_BAD_ESCAPE: Final = re.compile(rb"%(?![0-9A-Fa-f]{2})")

Seq = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
Limit = Annotated[int, msgspec.Meta(ge=1, le=PAGE_LIMIT)]
BudgetTokens = Annotated[int, msgspec.Meta(ge=1, le=1_000_000)]
Label = Annotated[str, msgspec.Meta(max_length=512)]


class Question(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The base of all: unknown members are refused."""


class NotesQuery(Question, frozen=True, kw_only=True):
    """A page of notes, from the oldest that is kept where no `after` is given."""

    after: Seq | None = None
    before: Seq | None = None
    limit: Limit = 100
    order: Literal["asc", "desc"] = "asc"
    type: tuple[NoteType, ...] = ()
    author: Label = ""
    scope: tuple[str, ...] = ()
    task: Label = ""
    to: Label = ""


class EventsQuery(Question, frozen=True, kw_only=True):
    """A page of events of every kind, from the oldest that is kept where no `after` is given."""

    after: Seq | None = None
    before: Seq | None = None
    limit: Limit = 100
    order: Literal["asc", "desc"] = "asc"


class ClaimsQuery(Question, frozen=True, kw_only=True):
    """Claims by state."""

    state: Literal["live", "waiting", "ended", "all"] = "live"
    scope: tuple[str, ...] = ()
    holder: Label = ""
    after: Seq = 0
    limit: Limit = 1000


class ConflictsQuery(Question, frozen=True, kw_only=True):
    """Conflicts by state."""

    state: Literal["open", "closed", "all"] = "open"
    after: Seq = 0
    limit: Limit = 1000


class SnapshotQuery(Question, frozen=True, kw_only=True):
    """The prompt view."""

    budget_tokens: BudgetTokens = 1500
    scope: tuple[str, ...] = ()
    format: Literal["markdown", "json"] = "markdown"


class UnreadQuery(Question, frozen=True, kw_only=True):
    """What the calling worker has not acknowledged."""

    limit: Limit = 100
    budget_tokens: BudgetTokens = 1500


class WaitQuery(Question, frozen=True, kw_only=True):
    """Wait for a matching event after a position (from now on, where none is given)."""

    after: Seq | None = None
    timeout_s: Annotated[float, msgspec.Meta(ge=0, le=60)] = 25.0
    type: tuple[EventType, ...] = ()
    scope: tuple[str, ...] = ()
    to: Label = ""


class SearchQuery(Question, frozen=True, kw_only=True):
    """Words; a comma is OR, `&` is AND, quotes make a phrase."""

    q: Annotated[str, msgspec.Meta(max_length=2000)]
    limit: Limit = 100
    before: Seq | None = None


class ExportQuery(Question, frozen=True, kw_only=True):
    """A part of the log, or all of it that is kept."""

    after: Seq | None = None
    before: Seq | None = None


class StreamQuery(Question, frozen=True, kw_only=True):
    """Where a stream starts and what it carries."""

    after: Seq | None = None
    tail: Annotated[int, msgspec.Meta(ge=0, le=1_000_000)] | None = None
    epoch: Label = ""
    type: tuple[EventType, ...] = ()
    scope: tuple[str, ...] = ()
    author: Label = ""
    to: Label = ""
    ticket: Label = ""


class AckBody(Question, frozen=True, kw_only=True):
    """Acknowledge just `seqs`, or everything up to `through`."""

    seqs: Annotated[tuple[Seq, ...], msgspec.Meta(max_length=ACKED_AT_ONCE)] = ()
    through: Seq | None = None


class CheckBody(Question, frozen=True, kw_only=True):
    """Ask what stands in the way of a scope."""

    scope: Targets


class RetractBody(Question, frozen=True, kw_only=True):
    """Why a note is taken back."""

    reason: str = ""


class RenewBody(Question, frozen=True, kw_only=True):
    """How long the lease lasts from now; the claim's own `ttl_s` where it is left out."""

    ttl_s: Seconds | None = None


class ReleaseBody(Question, frozen=True, kw_only=True):
    """How a claim ends. An admin who is not its holder gives a `reason`."""

    outcome: Outcome = "done"
    to: str | tuple[str, ...] = ()
    text: str = ""
    reason: str = ""


class NarrowBody(Question, frozen=True, kw_only=True):
    """What is left of the claim."""

    scope: Targets


class TransferBody(Question, frozen=True, kw_only=True):
    """Who holds the claim from now on. An admin who is not its holder gives a `reason`."""

    to: str
    reason: str = ""


class RegisterBody(Question, frozen=True, kw_only=True):
    """The root of the worker's checkout: it is stripped from absolute paths."""

    root: Label


class BoardBody(Question, frozen=True, kw_only=True):
    """A new board."""

    board: str
    settings: SettingsDraft = SettingsDraft()


class TokenBody(Question, frozen=True, kw_only=True):
    """A new token."""

    role: Literal["reader", "worker", "admin"]
    worker: str = ""
    board: str = ""
    expires_s: Annotated[int, msgspec.Meta(ge=0, le=10 * 365 * 86_400)] = 0


class RevokeQuery(Question, frozen=True, kw_only=True):
    """Whose tokens are revoked."""

    worker: Annotated[str, msgspec.Meta(min_length=1, max_length=64)]


T = TypeVar("T", bound=Question)


def read_query(query: bytes, kind: type[T] | None) -> T:
    """Decode a query string; no `kind` takes no parameter at all.

    Raises ProblemError `token_in_url` or `invalid_parameter`, which names the parameter, its value and its bounds.
    """
    shape = _shape(kind or Question)
    said: dict[str, Any] = {}
    for name, value in _pairs(query):
        if name.casefold() in SECRETS:
            raise ProblemError(problem("token_in_url", f"`{name}` was sent in the URL.", field=name))
        if shape.get(name) is tuple:
            said.setdefault(name, []).append(value)
        elif name in said:
            raise _refusal(name, "is given twice; it takes one value")
        else:
            said[name] = _number(name, value, shape[name]) if shape.get(name) in _NUMBERS else value
    try:
        return msgspec.convert(said, kind or Question)  # type: ignore[return-value] -- who gives no kind takes no value
    except msgspec.ValidationError as error:
        raise ProblemError(explain("invalid_parameter", str(error), said, kind or Question)) from error


def _pairs(query: bytes) -> list[tuple[str, str]]:
    if not query:
        return []
    if _BAD_ESCAPE.search(query):
        raise _refusal("query", "holds a % that starts no %XX; write a plain one as %25")
    try:
        pairs = parse_qsl(query.decode(), keep_blank_values=True, errors="strict", max_num_fields=QUERY_FIELDS)
    except UnicodeDecodeError:
        raise _refusal("query", "is not UTF-8") from None
    except ValueError:
        raise _refusal("query", f"has more than {QUERY_FIELDS} parameters", limit=QUERY_FIELDS) from None
    for name, value in pairs:
        if "\0" in name + value:
            raise _refusal(name.replace("\0", "\\0"), "holds a NUL character; leave it out")
    return pairs


def _number(name: str, value: str, kind: type) -> float:
    if kind is int and not _WHOLE.fullmatch(value):
        raise _refusal(name, f"is {shown(value)!r}; it must be a whole number", value=shown(value))
    if kind is float and not _DECIMAL.fullmatch(value):
        raise _refusal(name, f"is {shown(value)!r}; it must be a number such as 2.5", value=shown(value))
    return kind(value)


def _refusal(name: str, what: str, **facts: Any) -> ProblemError:  # noqa: ANN401
    return ProblemError(problem("invalid_parameter", f"`{shown(name)}` {what}.", field=shown(name), **facts))


@lru_cache(maxsize=64)
def _shape(kind: type[Question]) -> dict[str, type]:
    """Tell of each parameter whether it is a number or may be given again and again; any other is text."""
    return {name: _plain(hint) for name, hint in get_type_hints(kind).items()}


def _plain(hint: Any) -> type:  # noqa: ANN401 -- a type hint
    origin = get_origin(hint)
    if origin in (types.UnionType, Union):
        return _plain(get_args(hint)[0])
    return tuple if origin is tuple else hint if hint in _NUMBERS else str
