"""The door that every HTTP request passes: who calls, may it, what came of it; one log line and one measurement each."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

import structlog

from board import logs
from board.http import tracing
from board.http.call import Answer, Call, ClientGone, read_headers, refuse, send_answer
from board.service.access import Identity, check_role
from board.service.origin import check_origin
from board.service.questions import read_query
from board.service.service import Reply
from schema.codec import encode
from schema.codes import ProblemError, problem

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from litestar.types import HTTPScope, Receive, Send

    from board.http.metrics import Metrics
    from board.http.routes import Route
    from board.service.service import Service

    Mounted = Callable[[Identity, str, Any, Any, Any], Awaitable[None]]
    """Another surface: it is given who calls, the board, and the ASGI request."""

log = structlog.get_logger()

NOBODY: Final = Identity("", "reader")
"""Who calls an open route: nobody is asked."""

_ALLOWED_HEADERS: Final = "authorization, content-type, mcp-method, mcp-name, mcp-protocol-version, x-board-root, x-board-worker, x-request-id"
_DAY_S: Final = 86_400

_Headers = tuple[tuple[bytes, bytes], ...]


class Door:
    """Carries out requests. One for each application."""

    def __init__(self, service: Service, metrics: Metrics) -> None:
        self._service = service
        self._metrics = metrics
        # Bound here: a logger that is looked up anew costs 3 µs a line.
        self._log = log.bind()

    async def handle(self, route: Route, scope: HTTPScope, receive: Receive, send: Send) -> None:
        """Carry out one request of a route: the answer, or the problem document that says why there is none."""
        begun = time.perf_counter()
        tracing.begin(scope["headers"])
        who, code, more = NOBODY, None, ()
        try:
            headers = read_headers(scope["headers"])
            more = self._check_page(headers)
            _check_spelling(scope, route)
            if route.guard != "open":
                who = self._service.access.identify(headers.get(b"authorization"), headers.get(b"x-board-worker"))
                check_role(who, route.guard)
                logs.caller.set(who.worker)
            answer = _answer(await route.call(self._service, Call(scope, receive, who, headers, self._metrics)))
        except ProblemError as error:
            code = error.problem.code
            answer = refuse(error.problem, scope["path"])
        except ClientGone:
            return
        except Exception:
            log.exception("http.failed", route=route.name)
            code = "internal_error"
            answer = refuse(problem(code, "The server failed; its log says how."), scope["path"])
        await send_answer(answer, send, more, head_only=scope["method"] == "HEAD")
        self._note(route.name, scope, answer.status, code, who, time.perf_counter() - begun)

    async def admit(self, serve: Mounted, scope: HTTPScope, receive: Receive, send: Send) -> None:
        """Let a request through to another surface, once it is known who calls and on which board; or refuse it."""
        tracing.begin(scope["headers"])
        more, board = (), str(scope["path_params"].get("board", "main"))
        try:
            headers = read_headers(scope["headers"])
            more = self._check_page(headers)
            if scope["query_string"]:
                read_query(scope["query_string"], None)
            who = self._service.access.identify(headers.get(b"authorization"), headers.get(b"x-board-worker"))
            logs.caller.set(who.worker)
            await self._service.enter(who, board, headers.get(b"x-board-root"))
        except ProblemError as error:
            answer = refuse(error.problem, scope["path"])
            await send_answer(answer, send, more)
            self._note("mount", scope, answer.status, error.problem.code, NOBODY, 0.0)
            return
        await serve(who, board, scope, receive, _sending(send, (*more, tracing.header())))

    async def options(self, allow: tuple[str, ...], scope: HTTPScope, send: Send) -> None:
        """Answer OPTIONS: the methods of a path; to a page whose origin is listed, that it may call."""
        tracing.begin(scope["headers"])
        headers, code, more = {}, None, ()
        try:
            headers = read_headers(scope["headers"])
            more = self._check_page(headers)
            if not (more and b"access-control-request-method" in headers):
                self._service.access.identify(headers.get(b"authorization"), headers.get(b"x-board-worker"))
        except ProblemError as error:
            code = error.problem.code
            answer = refuse(error.problem, scope["path"])
        else:
            answer = Answer(200, b"{}", headers=((b"allow", ", ".join(allow).encode()), *_preflight(allow, more)))
        await send_answer(answer, send, more)
        self._note("options", scope, answer.status, code, NOBODY, 0.0)

    async def refuse(self, found: ProblemError, scope: HTTPScope, send: Send) -> None:
        """Answer what no route takes; to who may not call at all, only that."""
        tracing.begin(scope["headers"])
        more: _Headers = ()
        try:
            headers = read_headers(scope["headers"])
            more = self._check_page(headers)
            self._service.access.identify(headers.get(b"authorization"), headers.get(b"x-board-worker"))
        except ProblemError as error:
            found = error
        answer = refuse(found.problem, scope["path"])
        await send_answer(answer, send, more)
        self._note("none", scope, answer.status, found.problem.code, NOBODY, 0.0)

    def _check_page(self, headers: Mapping[bytes, str]) -> _Headers:
        """Refuse foreign pages; give the headers by which a browser lets a page of a listed origin read the answer."""
        origin, settings = headers.get(b"origin"), self._service.settings
        check_origin(origin, headers.get(b"host"), settings, self._service.access.open_mode)
        if origin is None or origin not in settings.origins:
            return ()
        return ((b"access-control-allow-origin", origin.encode()), (b"vary", b"origin"))

    def _note(self, route: str, scope: HTTPScope, status: int, code: str | None, who: Identity, took_s: float) -> None:
        self._metrics.request(route, status, took_s)
        self._log.info(
            "http.request",
            route=route,
            method=scope["method"],
            board=scope["path_params"].get("board"),
            worker=who.worker or None,
            status=status,
            code=code,
            ms=round(took_s * 1000, 2),
        )


def _sending(send: Send, more: _Headers) -> Send:
    """Send what another surface answers, with headers of the door's."""

    async def send_with(message: Any) -> None:  # noqa: ANN401 -- an ASGI message
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message["headers"], *more]}
        await send(message)

    return send_with


def _check_spelling(scope: HTTPScope, route: Route) -> None:
    """Refuse what would be read otherwise than it was written: an escaped slash, and parameters that nobody reads."""
    raw = scope["raw_path"]
    if b"%" in raw and b"%2f" in raw.lower():
        raise ProblemError(problem("route_not_found", "An escaped slash, %2F, is part of no path here."))
    if scope["query_string"] and route.query is None and route.guard != "open":
        read_query(scope["query_string"], None)


def _preflight(allow: tuple[str, ...], page: _Headers) -> _Headers:
    if not page:
        return ()
    return (
        (b"access-control-allow-methods", ", ".join(allow).encode()),
        (b"access-control-allow-headers", _ALLOWED_HEADERS.encode()),
        (b"access-control-max-age", b"%d" % _DAY_S),
    )


def _answer(reply: Any) -> Answer:  # noqa: ANN401 -- Reply or Answer
    return Answer(reply.status, encode(reply.body)) if isinstance(reply, Reply) else reply
