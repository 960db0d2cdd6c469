"""One HTTP call: who calls, what it asks, and how an answer or a problem is sent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec
from litestar.response.base import ASGIResponse

from board.service.questions import Question, read_query
from schema.codec import encode
from schema.codes import Problem, ProblemError, problem

if TYPE_CHECKING:
    from collections.abc import Callable

    from litestar import Request

    from board.service.access import Identity
    from board.service.service import Reply

JSON: Final = "application/json"
PROBLEM_JSON: Final = "application/problem+json"

Q = TypeVar("Q", bound=Question)
T = TypeVar("T")


class Call:
    """A request whose caller is known."""

    __slots__ = ("_request", "board", "root", "who")

    def __init__(self, request: Request[Any, Any, Any], who: Identity) -> None:
        self._request = request
        self.who = who
        self.board: str = request.path_params.get("board", "main")
        self.root = header(request, "x-board-root")

    def seq(self, name: str = "seq") -> int:
        """The number in the path. Raises ProblemError `invalid_parameter`."""
        text = self.path(name)
        if not (text.isascii() and text.isdigit() and len(text) <= 15):
            raise ProblemError(problem("invalid_parameter", f"{text[:40]!r} is no seq.", field=name, value=text[:40]))
        return int(text)

    def path(self, name: str) -> str:
        """A part of the path."""
        return str(self._request.path_params[name])

    def query(self, kind: type[Q]) -> Q:
        """The query string, decoded. Raises ProblemError."""
        return read_query(self._request.scope["query_string"].decode("latin-1"), kind)

    async def raw(self) -> bytes:
        """The whole body. Raises ProblemError `unsupported_media_type`."""
        kind = header(self._request, "content-type")
        if kind is not None and kind.partition(";")[0].strip().casefold() not in (JSON, ""):
            raise ProblemError(problem("unsupported_media_type", f"The body is {kind[:80]!r}.", value=kind[:80]))
        return await self._request.body()

    async def body(self, kind: type[T]) -> T:
        """The body as one of the questions; an empty body counts as `{}`. Raises ProblemError."""
        data = await self.raw()
        return decoded(lambda: msgspec.json.decode(data or b"{}", type=kind))

    async def decode(self, decoder: Callable[[bytes], T]) -> T:
        """The body by a decoder of the schema. Raises ProblemError."""
        data = await self.raw()
        return decoded(lambda: decoder(data))

    def chunks(self) -> Any:  # noqa: ANN401 -- an async iterator of bytes
        """The body, piece by piece."""
        return self._request.stream()


def decoded(decode: Callable[[], T]) -> T:
    """Decode, with what is wrong as a ProblemError: `malformed_json` or `invalid_field`, which names the member."""
    try:
        return decode()
    except msgspec.ValidationError as error:
        raise ProblemError(problem("invalid_field", f"{error}.")) from error
    except msgspec.DecodeError as error:
        raise ProblemError(problem("malformed_json", f"{error}.")) from error
    except RecursionError as error:
        raise ProblemError(problem("malformed_json", "The JSON is nested too deeply.")) from error


def header(request: Request[Any, Any, Any], name: str) -> str | None:
    """One header, without the blanks around it (httptools keeps trailing ones), or None."""
    wanted = name.encode()
    for key, value in request.scope["headers"]:
        if key == wanted:
            return value.decode("latin-1").strip()
    return None


def answer(reply: Reply) -> ASGIResponse:
    """Send an answer."""
    return ASGIResponse(body=encode(reply.body), status_code=reply.status, media_type=JSON)


def refuse(found: Problem, instance: str | None = None) -> ASGIResponse:
    """Send a problem document (RFC 9457)."""
    return ASGIResponse(
        body=encode(found.document(instance)),
        status_code=found.row.status,
        media_type=PROBLEM_JSON,
        headers=problem_headers(found),
    )


def problem_headers(found: Problem) -> dict[str, str]:
    """The headers that go with a problem: when to try again, which methods there are, how to say who calls."""
    status = found.row.status
    headers: dict[str, str] = {}
    if status in (429, 503, 507):
        headers["retry-after"] = str(found.facts.get("retry_after_s", 1))
    if status == 401:
        headers["www-authenticate"] = "Bearer"
    if "allow" in found.facts:
        headers["allow"] = ", ".join(found.facts["allow"])
    return headers
