"""Who calls: told anew by every request, from its own credential, and carried with it to the handlers.

No session of MCP ever holds an identity, so none can lend one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from board.service.access import Identity

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext

SCOPE_KEY: Final = "board.caller"
"""Where the ASGI scope of a request holds its caller."""


class Caller(msgspec.Struct, frozen=True):
    """Who calls, and on which board; both were checked."""

    who: Identity
    board: str


def caller_of(context: ServerRequestContext[Any, Any]) -> Caller:
    """The caller of a request."""
    assert context.request is not None, "only HTTP requests reach the handlers"
    return context.request.scope[SCOPE_KEY]


def complete(**members: Any) -> dict[str, Any]:  # noqa: ANN401 -- JSON
    """A whole result, as the revision of 2026-07-28 marks one; the SDK drops the mark for older ones."""
    return {"resultType": "complete", **members}
