"""The Litestar application: every route of the table behind the door, and problem documents for what has no route."""

from __future__ import annotations

from collections import defaultdict
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from litestar import Litestar
from litestar.exceptions import HTTPException, MethodNotAllowedException, NotFoundException
from litestar.handlers import HTTPRouteHandler
from litestar.middleware import DefineMiddleware
from litestar.response import Response
from litestar.response.base import ASGIResponse

from board.http.door import Door
from board.http.routes import ROUTES, Route
from schema.codes import ProblemError, problem

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from litestar import Request
    from litestar.types import ASGIApp, Receive, Scope, Send

    from board.http.door import Mounted
    from board.http.metrics import Metrics
    from board.service.service import Service

_SHOWN_CHARS: Final = 200
_POST: Final = ("POST",)


def make_app(service: Service, metrics: Metrics, mounts: Mapping[str, Mounted] = MappingProxyType({})) -> Litestar:
    """Make the application. Starting and stopping the service is the caller's.

    `mounts` are other surfaces by path; each is handed the POSTs of its path that may come in.
    """
    door = Door(service, metrics)
    paths: defaultdict[str, dict[str, Route]] = defaultdict(dict)
    for route in ROUTES:
        paths[route.path] |= dict.fromkeys(route.methods, route)
    return Litestar(
        route_handlers=[
            *(
                _handler(path, routes, DefineMiddleware(_Path, door=door, routes=routes))
                for path, routes in paths.items()
            ),
            *(
                _handler(path, _POST, DefineMiddleware(_Mount, door=door, serve=serve))
                for path, serve in mounts.items()
            ),
        ],
        openapi_config=None,
        exception_handlers={HTTPException: lambda request, error: _Refusal(door, request, error)},
        logging_config=None,
    )


class _Path:
    """Answers in place of the handler that it stands before, which is never reached.

    The handler is the path's place in Litestar's table. To run it would make a request, a signature and an exit stack
    for each call: 18 µs of CPU of the 62 µs that the leanest POST takes (Litestar 2.25, measured).
    """

    def __init__(self, app: ASGIApp, door: Door, routes: Mapping[str, Route]) -> None:
        del app
        self._door = door
        self._routes = routes

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:  # noqa: ANN401 -- an HTTP scope
        route = self._routes.get(scope["method"])
        if route is None:
            await self._door.options((*self._routes, "OPTIONS"), scope, send)
        else:
            await self._door.handle(route, scope, receive, send)


class _Mount:
    """Hands what may come in to another surface."""

    def __init__(self, app: ASGIApp, door: Door, serve: Mounted) -> None:
        del app
        self._door = door
        self._serve = serve

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:  # noqa: ANN401 -- an HTTP scope
        if scope["method"] == "OPTIONS":
            await self._door.options((*_POST, "OPTIONS"), scope, send)
        else:
            await self._door.admit(self._serve, scope, receive, send)


def _handler(path: str, methods: Iterable[str], behind: DefineMiddleware) -> HTTPRouteHandler:
    async def never() -> ASGIResponse:
        raise AssertionError(path)

    typed = path.replace("}", ":str}")
    taken: Any = [*methods, "OPTIONS"]
    return HTTPRouteHandler(typed, http_method=taken, middleware=[behind], status_code=200)(never)


class _Refusal(Response[bytes]):
    """The answer to what Litestar refuses: no such path, no such method of it, a Host that is none."""

    def __init__(self, door: Door, request: Request[Any, Any, Any], error: HTTPException) -> None:
        super().__init__(b"", status_code=error.status_code)
        self._door = door
        self._found = _problem_of(error, request.scope)

    def to_asgi_response(self, *_: Any, **__: Any) -> ASGIApp:  # noqa: ANN401  # type: ignore[override] -- any ASGI app is sent
        """Give what sends the problem document."""

        async def answer(scope: Scope, receive: Receive, send: Send) -> None:
            del receive
            await self._door.refuse(self._found, scope, send)  # type: ignore[arg-type] -- HTTP

        return answer


def _problem_of(error: HTTPException, scope: Any) -> ProblemError:  # noqa: ANN401 -- Litestar's
    path = scope["path"][:_SHOWN_CHARS]
    match error:
        case NotFoundException():
            return ProblemError(problem("route_not_found", f"There is nothing at {path}.", value=path))
        case MethodNotAllowedException():
            allow = sorted((error.headers or {}).get("allow", "").split(", "))
            method = scope["method"]
            sentence = f"{path} does not take {method}; it takes {', '.join(allow)}."
            return ProblemError(problem("method_not_allowed", sentence, value=method, allow=allow))
        case _ if error.status_code < 500:
            return ProblemError(problem("invalid_parameter", f"{error.detail}.", field="host"))
        case _:
            return ProblemError(problem("internal_error", "The server failed; its log says how."))
