"""The OpenAPI document: a valid one, and whole."""

from __future__ import annotations

from typing import Any

import pytest
from jsonschema import Draft202012Validator
from schemathesis.specs.openapi.definitions import OPENAPI_31_VALIDATOR

from board.http.openapi import codes_of, document
from board.http.routes import ROUTES, Route
from schema.codec import decode_any, encode
from schema.codes import CODES


@pytest.fixture(scope="module")
def described() -> Any:
    return decode_any(encode(document(ROUTES)))


def test_it_is_valid(described: Any) -> None:
    """The document is OpenAPI 3.1, and every schema in it is a JSON Schema."""
    OPENAPI_31_VALIDATOR.validate(described)
    for schema in described["components"]["schemas"].values():
        Draft202012Validator.check_schema(schema)


def test_every_route_is_there_once(described: Any) -> None:
    """Each route is one operation, under a name of its own."""
    found = {
        (path, method): operation["operationId"]
        for path, methods in described["paths"].items()
        for method, operation in methods.items()
    }
    assert found.keys() == {(route.path, route.method.lower()) for route in ROUTES}
    assert len(set(found.values())) == len(ROUTES)


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.name)
def test_every_answer_and_refusal_is_described(described: Any, route: Route) -> None:
    """Each status that a route answers with has a schema, and each refusal names its codes."""
    responses = described["paths"][route.path][route.method.lower()]["responses"]
    statuses = {str(status) for status in route.answers} | {str(CODES[code].status) for code in codes_of(route)}
    assert responses.keys() == statuses
    for code in codes_of(route):
        refusal = responses[str(CODES[code].status)]["content"]["application/problem+json"]["schema"]
        assert code in refusal["allOf"][1]["properties"]["code"]["enum"]


def test_every_reference_leads_somewhere(described: Any) -> None:
    """No reference of the document is broken."""
    for reference in references(described):
        part = described
        for name in reference.removeprefix("#/").split("/"):
            part = part[name]


def references(part: Any) -> set[str]:
    if isinstance(part, dict):
        own = {part["$ref"]} if isinstance(part.get("$ref"), str) else set()
        return own.union(*(references(value) for value in part.values()))
    return set().union(*(references(value) for value in part)) if isinstance(part, list) else set()
