"""The OpenAPI 3.1 document, made from the table of routes, the types that they take and give, and the table of codes."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final

import msgspec

from schema.answers import ProblemDocument
from schema.codes import CODES
from schema.limits import BOARD_NAME_PATTERN, WORKER_NAME_PATTERN

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from board.http.routes import Route

_JSON: Final = "application/json"
_REF: Final = "#/components/schemas/{name}"
_NO_NUL: Final = r"^[^\u0000]*$"
_PROBLEM: Final = {"$ref": "#/components/schemas/ProblemDocument"}

_ALWAYS: Final = ("malformed_request", "head_too_large", "request_timeout", "too_many_connections", "internal_error")
_GUARDED: Final = (
    *("invalid_parameter", "token_in_url", "unauthorized", "reserved_name", "identity_mismatch", "foreign_origin"),
    *("forbidden", "going_away", "store_unavailable", "route_not_found"),
)
_ON_A_BOARD: Final = ("board_not_found", "bad_target", "too_many_workers")
_WITH_BODY: Final = ("malformed_json", "invalid_field", "unsupported_media_type", "body_too_large")
_WRITING: Final = ("store_full",)

_PATH_PARAMETERS: Final[dict[str, tuple[str, dict[str, Any]]]] = {
    "board": ("The name of a board.", {"type": "string", "pattern": BOARD_NAME_PATTERN}),
    "seq": ("The seq of a note or claim.", {"type": "integer", "minimum": 0, "maximum": 10**15 - 1}),
    "name": ("The name of a file.", {"type": "string", "pattern": "^[a-z]{1,32}[.][a-z]{1,8}$"}),
    "id": ("The id of a token.", {"type": "string", "pattern": "^[0-9a-f]{1,32}$"}),
}
_HEADERS: Final = {
    "Root": {
        "name": "X-Board-Root",
        "in": "header",
        "description": "The root of the caller's checkout: it is stripped from absolute paths.",
        "schema": {"type": "string", "pattern": "^/[A-Za-z0-9._/-]{0,200}$"},
    },
}
_ABOUT: Final = (
    "A team's shared context: an append-only, totally ordered log of notes and claims, and the state folded from it. "
    "A token goes into the Authorization header, never into the URL, and tells who calls. While no token was ever made "
    f"the header X-Board-Worker does ({WORKER_NAME_PATTERN}). A HEAD is a GET without its body. "
    "Refusals are problem documents (RFC 9457); their `code` is API, their sentences are not. "
    "Events are pushed over the websocket `/v1/boards/{board}/stream`."
)


def document(routes: Sequence[Route]) -> dict[str, Any]:
    """Give the document of these routes."""
    paths: defaultdict[str, dict[str, Any]] = defaultdict(dict)
    for route in routes:
        paths[route.path][route.method.lower()] = _operation(route)
    return {
        "openapi": "3.1.0",
        "info": {"title": "The shared context board", "version": "1", "description": f"{_ABOUT}\n\n{_codes()}"},
        "security": [{"token": []}],
        "paths": dict(paths),
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "parameters": _HEADERS,
            "schemas": _schemas(routes),
        },
    }


def _operation(route: Route) -> dict[str, Any]:
    said = (route.call.__doc__ or "").strip()
    summary, _, rest = said.partition("\n\n")
    operation: dict[str, Any] = {
        "operationId": route.name,
        "summary": summary,
        "description": " ".join([*rest.split(), f"Needs: {_needs(route)}."]),
        "parameters": [*_path_parameters(route), *_query_parameters(route), *_header_parameters(route)],
        "responses": {**_answers(route), **_refusals(codes_of(route))},
    }
    if route.body is not None or route.takes_lines:
        operation["requestBody"] = _body(route)
    return operation | ({"security": []} if route.guard == "open" else {})


def _needs(route: Route) -> str:
    return "nothing" if route.guard == "open" else f"a token of the role {route.guard} at least"


def _path_parameters(route: Route) -> list[dict[str, Any]]:
    return [
        {"name": name, "in": "path", "required": True, "description": description, "schema": schema}
        for name, (description, schema) in _PATH_PARAMETERS.items()
        if f"{{{name}}}" in route.path
    ]


def _query_parameters(route: Route) -> list[dict[str, Any]]:
    if route.query is None:
        return []
    (_, components) = msgspec.json.schema_components([route.query], ref_template=_REF)
    struct = components[route.query.__name__]
    return [_query_parameter(name, schema, struct) for name, schema in struct["properties"].items()]


def _query_parameter(name: str, schema: dict[str, Any], struct: dict[str, Any]) -> dict[str, Any]:
    # `null` is the absence of a parameter: it cannot be written into a URL.
    kinds = [kind for kind in schema.get("anyOf", ()) if kind != {"type": "null"}]
    plain = kinds[0] if kinds else {key: value for key, value in schema.items() if value != []}
    for text in (plain, plain.get("items", {})):
        if text.get("type") == "string":
            text["pattern"] = _NO_NUL
    required = {"required": True} if name in struct.get("required", ()) else {}
    repeated = {"style": "form", "explode": True} if plain.get("type") == "array" else {}
    return {"name": name, "in": "query", **required, **repeated, "schema": plain}


def _header_parameters(route: Route) -> list[dict[str, Any]]:
    return [{"$ref": "#/components/parameters/Root"}] if route.root else []


def _body(route: Route) -> dict[str, Any]:
    if route.takes_lines:
        return {"required": True, "content": {route.takes: {"schema": {"type": "string"}}}}
    return {"required": not route.body_optional, "content": {route.takes: {"schema": _schema_of(route.body)}}}


def _answers(route: Route) -> dict[str, Any]:
    content = {} if route.media == _JSON else {route.media: {"schema": {"type": "string"}}}
    if route.media == _JSON or route.gives is not None:
        content[_JSON] = {"schema": _schema_of(route.gives)}
    return {str(status): {"description": meaning, "content": content} for status, meaning in route.answers.items()}


def _schema_of(kind: Any) -> dict[str, Any]:  # noqa: ANN401 -- a type, or a union of them
    if kind is None:
        return {}
    ((schema,), _) = msgspec.json.schema_components([kind], ref_template=_REF)
    return schema


def codes_of(route: Route) -> tuple[str, ...]:
    """All refusals that a route may answer with."""
    codes = [*_ALWAYS, *route.codes]
    if route.guard != "open":
        codes += _GUARDED
    else:
        codes += ("store_unavailable",) if "going_away" in route.codes else ()
    if "{board}" in route.path:
        codes += _ON_A_BOARD
    if route.body is not None or route.takes_lines:
        codes += _WITH_BODY
    if route.method != "GET":
        codes += _WRITING
    return tuple(dict.fromkeys(codes))


def _refusals(codes: Iterable[str]) -> dict[str, Any]:
    by_status: defaultdict[int, list[str]] = defaultdict(list)
    for code in codes:
        by_status[CODES[code].status].append(code)
    return {str(status): _refusal(names) for status, names in sorted(by_status.items())}


def _refusal(codes: Sequence[str]) -> dict[str, Any]:
    told = f"Refused: {', '.join(f'`{code}`' for code in codes)}."
    schema = {"allOf": [_PROBLEM, {"properties": {"code": {"enum": list(codes)}}}]}
    return {"description": told, "content": {"application/problem+json": {"schema": schema}}}


def _schemas(routes: Sequence[Route]) -> dict[str, Any]:
    types = [kind for route in routes for kind in (route.body, route.gives) if kind is not None]
    (_, components) = msgspec.json.schema_components([*types, ProblemDocument], ref_template=_REF)
    return components


def _codes() -> str:
    return "\n".join(f"* `{row.name}` ({row.status}): {row.meaning} {row.action}" for row in CODES.values())
