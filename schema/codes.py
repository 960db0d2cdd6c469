"""The one table of codes. HTTP, WebSocket, MCP and exit statuses are all rendered from it.

A code is API and never changes its meaning; the sentences beside it are not, and may.
"""

from __future__ import annotations

from typing import Any, Final, Literal

import msgspec

Exit = Literal[0, 1, 2, 3]


class Code(msgspec.Struct, frozen=True):
    """One row: what went wrong, how each surface says it, and what the caller should do."""

    name: str
    status: int
    """HTTP status, and the status of a reply on the stream."""
    close: int
    """WebSocket close code when a stream ends for this reason."""
    exit: Exit
    """Exit status of the command line: 1 refused, 2 usage, 3 the board cannot be reached."""
    meaning: str
    action: str


def _table(*rows: tuple[str, int, int, Exit, str, str]) -> dict[str, Code]:
    return {row[0]: Code(*row) for row in rows}


CODES: Final = _table(
    (
        "malformed_json",
        400,
        4400,
        2,
        "The body is not JSON.",
        "Send one JSON document, UTF-8, without lone surrogates.",
    ),
    (
        "invalid_field",
        422,
        4400,
        2,
        "A field is missing, unknown, given twice or of the wrong type.",
        "Correct the field that is named.",
    ),
    (
        "invalid_parameter",
        400,
        4400,
        2,
        "A query parameter or header has a value that is not allowed.",
        "Correct the parameter that is named.",
    ),
    ("over_limit", 422, 4400, 1, "A value is over a limit of the board.", "Shorten it; put long text into `detail`."),
    ("body_too_large", 413, 1009, 1, "The body or message is larger than the board takes.", "Send less at once."),
    ("bad_target", 422, 4400, 1, "A target of the scope cannot be spelt.", "Correct the target that is named."),
    (
        "placeholder_evidence",
        422,
        4400,
        1,
        "The evidence of the PATCH_SUMMARY is a placeholder.",
        "Say what was run and what it showed.",
    ),
    (
        "token_in_note",
        422,
        4400,
        1,
        "The note holds a token, and everyone who reads the board would read it.",
        "Leave the token out, and revoke it: it has been on its way.",
    ),
    (
        "unknown_ref",
        422,
        4400,
        1,
        "A reference names a seq that is no note of this board.",
        "Refer to the seq of a note that exists.",
    ),
    (
        "unknown_recipient",
        422,
        4400,
        1,
        "A worker in `to` is not known to this board.",
        "Use one of the near matches, or leave `to` out.",
    ),
    (
        "reserved_name",
        403,
        4403,
        2,
        "The name is reserved for the board itself, or no worker's name.",
        "Choose another name.",
    ),
    (
        "unauthorized",
        401,
        4401,
        1,
        "No credential, or one that is not valid.",
        "Send `Authorization: Bearer TOKEN` with a live token.",
    ),
    (
        "identity_mismatch",
        403,
        4403,
        1,
        "The request claims another identity than its token's.",
        "Leave the identity out; the token tells it.",
    ),
    (
        "too_many_workers",
        403,
        4403,
        1,
        "The board remembers as many workers as it takes, and not this one.",
        "Call under a name that the board knows, or let an operator raise the setting that is named.",
    ),
    ("forbidden", 403, 4403, 1, "This credential may not do that.", "Ask the holder or an admin."),
    (
        "foreign_origin",
        403,
        4403,
        1,
        "The Origin or Host is not the board's own.",
        "Call the board from its own page, or list the origin in the settings.",
    ),
    (
        "token_in_url",
        401,
        4401,
        1,
        "A credential was sent in the URL.",
        "Send it in the Authorization header, or use a ticket.",
    ),
    ("route_not_found", 404, 4404, 2, "There is no such path.", "See /openapi.json for the paths there are."),
    (
        "board_not_found",
        404,
        4404,
        1,
        "There is no such board, or it is not yours to see.",
        "List the boards with GET /v1/boards.",
    ),
    (
        "note_not_found",
        404,
        4404,
        1,
        "There is no note with this seq.",
        "Read the notes with GET /v1/boards/{board}/notes.",
    ),
    ("detail_not_found", 404, 4404, 1, "The note has no detail.", "Only notes with `detail_bytes` have one."),
    (
        "claim_not_found",
        404,
        4404,
        1,
        "There is no claim with this seq.",
        "List the claims with GET /v1/boards/{board}/claims?state=all.",
    ),
    ("token_not_found", 404, 4404, 1, "There is no such token.", "List the tokens."),
    ("method_not_allowed", 405, 4400, 2, "The path does not take this method.", "Use a method from the Allow header."),
    ("unsupported_media_type", 415, 4400, 2, "The body's type is not JSON.", "Send `Content-Type: application/json`."),
    ("upgrade_required", 426, 4400, 2, "The path is a websocket.", "Connect with a websocket client."),
    (
        "head_too_large",
        431,
        1009,
        2,
        "The request's line and headers are larger than the board takes.",
        "Send less of them; long text belongs into the body.",
    ),
    ("malformed_request", 400, 4400, 2, "The request is no HTTP that can be read.", "Send HTTP/1.1."),
    (
        "claim_conflict",
        409,
        4400,
        1,
        "Another worker holds a part of this scope.",
        'Take what is `free`, wait with `on_conflict: "wait"`, or talk to the holder.',
    ),
    (
        "would_deadlock",
        409,
        4400,
        1,
        "To wait would close a ring of workers that wait for each other.",
        "Release a claim of your own first.",
    ),
    ("claim_ended", 409, 4400, 1, "The claim is no longer live.", "Claim the scope again."),
    ("key_reused", 409, 4400, 1, "This idempotency key was used with another body.", "Use a new key for a new note."),
    ("already_retracted", 409, 4400, 1, "The note was retracted before.", "Nothing is left to do."),
    ("board_exists", 409, 4400, 1, "There is a board of this name already.", "Use it, or choose another name."),
    (
        "wrong_epoch",
        409,
        4409,
        1,
        "The epoch is not this log's: it was restored or wiped.",
        "Start again from a snapshot, without a position.",
    ),
    ("position_from_future", 409, 4409, 1, "The position is past the head of the log.", "Start again from a snapshot."),
    (
        "position_gone",
        410,
        4410,
        1,
        "That position is no longer kept.",
        "Start from the oldest seq that is named, or from a snapshot.",
    ),
    (
        "note_gone",
        410,
        4410,
        1,
        "A note with this seq is no longer kept, if there was one.",
        "Read from the oldest seq that is named.",
    ),
    (
        "request_timeout",
        408,
        4400,
        3,
        "The request did not come in time.",
        "Send it again, whole; a write with a key is safe to repeat.",
    ),
    (
        "too_many_connections",
        503,
        1013,
        3,
        "The server has as many connections as it takes.",
        "Come again later, and keep connections open for several requests.",
    ),
    ("rate_limited", 429, 4429, 1, "A quota is used up.", "Wait for Retry-After seconds."),
    ("too_slow", 429, 4429, 1, "The reader did not keep up.", "Reconnect with `after`: nothing is lost."),
    ("going_away", 503, 1001, 3, "The server is stopping.", "Reconnect with `after`; nothing is lost."),
    (
        "store_unavailable",
        503,
        1011,
        3,
        "The store cannot be written or read now.",
        "Try again; a write with a key is safe to repeat.",
    ),
    ("store_full", 507, 1011, 3, "The store has no room left.", "Free disk space; writes go on by themselves then."),
    ("not_implemented", 501, 4400, 1, "This call is not built yet.", "Use what /openapi.json lists without a 501."),
    (
        "internal_error",
        500,
        1011,
        1,
        "The server failed; the failure is in its log.",
        "Try again, and report the request id.",
    ),
    ("unreachable", 503, 1006, 3, "The board did not answer.", "Check the URL and that `board serve` is running."),
)
"""Every code of the product. `close` is what a stream closes with where the failure ends it."""


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """One refusal, as a value: the code, a sentence, and the facts behind it.

    `facts` holds what the caller can act on: the value, the limit and its unit, conflicts, near matches.
    """

    code: str
    detail: str
    facts: dict[str, Any] = {}

    @property
    def row(self) -> Code:
        """The row of the code table."""
        return CODES[self.code]

    def document(self, instance: str | None = None) -> dict[str, Any]:
        """Give the RFC 9457 problem document, the facts beside the standard members."""
        row = self.row
        head = {"type": f"urn:board:problem:{row.name}", "title": row.meaning, "status": row.status}
        where = {} if instance is None else {"instance": instance}
        return {**head, "detail": self.detail, **where, "code": row.name, "action": row.action, **self.facts}


class ProblemError(Exception):
    """A refusal on its way out, raised where no value can be returned.

    `problem` is the value. Raised by the service and the client; the pure core returns `Problem` instead.
    """

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.detail)
        self.problem = problem

    def __str__(self) -> str:
        return f"{self.problem.code}: {self.problem.detail}"


def problem(code: str, detail: str, **facts: Any) -> Problem:  # noqa: ANN401 -- facts are any JSON value
    """Make a problem; `code` must be in the table."""
    assert code in CODES, code
    return Problem(code=code, detail=detail, facts=facts)
