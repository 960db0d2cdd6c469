"""The Litestar application: the routes, their guards, problem documents, one log line and one measurement a request."""

from __future__ import annotations

import time
from collections import defaultdict
from typing import TYPE_CHECKING, Any

import structlog
from litestar import Litestar, Request, get
from litestar.exceptions import (
    ClientException,
    HTTPException,
    MethodNotAllowedException,
    NotFoundException,
)
from litestar.handlers import HTTPRouteHandler
from litestar.response import Response, Stream
from litestar.response.base import ASGIResponse
from litestar.status_codes import HTTP_413_REQUEST_ENTITY_TOO_LARGE

from board.http.call import JSON, PROBLEM_JSON, Call, answer, header, problem_headers, refuse
from board.http.openapi import document
from board.http.routes import ROUTES, Route
from board.service.origin import check_origin
from schema.codec import encode
from schema.codes import Problem, ProblemError, problem

if TYPE_CHECKING:
    from board.http.metrics import Metrics
    from board.service.access import Identity
    from board.service.service import Service

log = structlog.get_logger()

BODY_BYTES = 1_048_576
"""The largest body of a request (contract, section 2)."""


def make_app(service: Service, metrics: Metrics) -> Litestar:
    """Make the application. Starting and stopping the service is the caller's."""
    door = Door(service, metrics)
    by_path: defaultdict[str, list[Route]] = defaultdict(list)
    for route in ROUTES:
        by_path[route.path].append(route)
    handlers = [_handler(route, door) for route in ROUTES]
    return Litestar(
        route_handlers=[*handlers, *_own_routes(door)],
        openapi_config=None,
        request_max_body_size=BODY_BYTES,
        exception_handlers={HTTPException: door.on_http_error, Exception: door.on_error},
        logging_config=None,
    )


class Door:
    """What every request passes: the guard before, the log line and the measurement after."""

    def __init__(self, service: Service, metrics: Metrics) -> None:
        self.service = service
        self.metrics = metrics

    def identify(self, request: Request[Any, Any, Any]) -> Identity:
        """Tell who calls. Raises ProblemError."""
        access = self.service.access
        origin, host = header(request, "origin"), header(request, "host")
        check_origin(origin, host, self.service.settings, access.open_mode)
        return access.identify(header(request, "authorization"), header(request, "x-board-worker"))

    async def handle(self, route: Route, request: Request[Any, Any, Any]) -> Any:  # noqa: ANN401 -- a response
        """Carry out one request."""
        begun = time.perf_counter()
        who: Identity | None = None
        try:
            who = self.identify(request)
            reply = await route.call(self.service, Call(request, who))
        except ProblemError as error:
            response: Any = refuse(error.problem, request.scope["path"])
            status, code = error.problem.row.status, error.problem.code
        except HTTPException:
            raise
        else:
            response = reply if isinstance(reply, Stream) else answer(reply)
            status, code = 200 if isinstance(reply, Stream) else reply.status, None
        self._note(route.name, request, status, code, who, time.perf_counter() - begun)
        return response

    def _note(
        self,
        route: str,
        request: Request[Any, Any, Any],
        status: int,
        code: str | None,
        who: Identity | None,
        took_s: float,
    ) -> None:
        self.metrics.request(route, status, took_s)
        log.info(
            "http.request",
            route=route,
            method=request.scope["method"],
            board=request.scope.get("path_params", {}).get("board"),
            worker=who.worker if who else None,
            status=status,
            code=code,
            ms=round(took_s * 1000, 2),
        )

    def on_http_error(self, request: Request[Any, Any, Any], error: HTTPException) -> Response[bytes]:
        """Make a problem document of what Litestar itself refuses."""
        return self._refuse(request, _problem_of(error, request))

    def on_error(self, request: Request[Any, Any, Any], error: Exception) -> Response[bytes]:
        """Log a failure of our own, and say no more than that there was one."""
        log.error("http.failed", path=request.scope["path"], exc_info=error)
        return self._refuse(request, problem("internal_error", "The server failed; its log says how."))

    def _refuse(self, request: Request[Any, Any, Any], found: Problem) -> Response[bytes]:
        self._note("none", request, found.row.status, found.code, None, 0.0)
        body = encode(found.document(request.scope["path"]))
        headers = problem_headers(found)
        return Response(body, status_code=found.row.status, media_type=PROBLEM_JSON, headers=headers)


def _problem_of(error: HTTPException, request: Request[Any, Any, Any]) -> Problem:
    path = request.scope["path"][:200]
    match error:
        case NotFoundException():
            return problem("route_not_found", f"There is nothing at {path}.", value=path)
        case MethodNotAllowedException():
            allow = sorted({route.method for route in ROUTES if _matches(route.path, path)})
            method = request.scope["method"]
            return problem("method_not_allowed", f"{path} does not take {method}.", value=method, allow=allow)
        case _ if error.status_code == HTTP_413_REQUEST_ENTITY_TOO_LARGE:
            return problem(
                "body_too_large", f"The limit of a body is {BODY_BYTES} bytes.", limit=BODY_BYTES, unit="bytes"
            )
        case ClientException():
            return problem("invalid_parameter", error.detail)
        case _:
            return problem("internal_error", "The server failed; its log says how.")


def _matches(pattern: str, path: str) -> bool:
    wanted, said = pattern.split("/"), path.rstrip("/").split("/")
    pairs = zip(wanted, said, strict=False)
    return len(wanted) == len(said) and all(part.startswith("{") or part == text for part, text in pairs)


def _handler(route: Route, door: Door) -> HTTPRouteHandler:
    streamed = route.media != JSON

    async def handle(request: Request[Any, Any, Any]) -> ASGIResponse:
        return await door.handle(route, request)

    async def handle_stream(request: Request[Any, Any, Any]) -> Stream:
        return await door.handle(route, request)

    path = route.path.replace("{board}", "{board:str}").replace("{seq}", "{seq:str}").replace("{id}", "{id:str}")
    status = min(route.answers)
    made = HTTPRouteHandler(
        path,
        http_method=route.method,
        status_code=status,
        name=f"{route.method} {route.path}",
        request_max_body_size=BODY_BYTES if route.takes == JSON else None,
    )
    return made(handle_stream if streamed else handle)


def _own_routes(door: Door) -> list[Any]:
    @get("/healthz")
    async def healthz() -> ASGIResponse:
        return ASGIResponse(body=b'{"status":"alive"}', media_type=JSON)

    @get("/readyz")
    async def readyz() -> ASGIResponse:
        try:
            await door.service.ready()
        except ProblemError as error:
            return refuse(error.problem, "/readyz")
        return ASGIResponse(body=b'{"status":"ready"}', media_type=JSON)

    @get("/metrics")
    async def metrics(request: Request[Any, Any, Any]) -> ASGIResponse:
        try:
            door.identify(request)
        except ProblemError as error:
            return refuse(error.problem, "/metrics")
        body, media_type = door.metrics.render()
        return ASGIResponse(body=body, media_type=media_type)

    @get("/openapi.json")
    async def openapi(request: Request[Any, Any, Any]) -> ASGIResponse:
        try:
            door.identify(request)
        except ProblemError as error:
            return refuse(error.problem, "/openapi.json")
        return ASGIResponse(body=encode(document()), media_type=JSON)

    return [healthz, readyz, metrics, openapi]
