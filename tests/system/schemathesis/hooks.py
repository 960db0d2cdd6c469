"""What schemathesis cannot know of the board by its OpenAPI document; loaded by its own command line."""

from __future__ import annotations

import os
from typing import Any

import schemathesis


@schemathesis.serializer("application/x-ndjson")
def lines(ctx: schemathesis.SerializationContext, value: Any) -> dict[str, Any]:
    """Send lines of JSON as they are."""
    del ctx
    return {"data": value if isinstance(value, (str, bytes)) else str(value)}


@schemathesis.hook
def filter_query(ctx: schemathesis.HookContext, query: dict[str, Any] | None) -> bool:
    """Leave out a list of texts given as a text: `scope=a` is a list of one, as a URL says it, and no mistake."""
    del ctx
    return not query or not any(isinstance(query.get(name), str) for name in ("scope",))


@schemathesis.hook
def before_call(ctx: schemathesis.HookContext, case: schemathesis.Case, kwargs: dict[str, Any]) -> None:
    """Do not wait for what nobody will write, and do not revoke the token that all of this is asked with."""
    del ctx, kwargs
    path, own = case.operation.path, os.environ["BOARD_TEST_TOKEN"].split("_")[1]
    if path.endswith("/wait") and _lasts(case.query.get("timeout_s", 25)):
        case.query["timeout_s"] = 0
    if case.method == "DELETE" and case.path_parameters.get("id") == own:
        case.path_parameters["id"] = "ffffffff"
    if case.method == "DELETE" and case.query.get("worker") == "w1":
        case.query["worker"] = "w2"


def _lasts(timeout_s: Any) -> bool:
    try:
        return 0 <= float(timeout_s) <= 60
    except (TypeError, ValueError):
        return False
