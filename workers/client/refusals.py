"""What came back instead of an answer, as a `ProblemError`; and what the code table says of its code.

A code that this version's table does not have is kept as it came: codes are API and more may come.
"""

from __future__ import annotations

from typing import Any, Final, cast

import msgspec

from schema.codes import CODES, Exit, Problem, ProblemError, problem

_STANDARD: Final = frozenset({"type", "title", "status", "detail", "code", "action"})
_EXCERPT_CHARS: Final = 200


def refusal(status: int, body: bytes, url: str) -> ProblemError:
    """Read the answer of a failed call.

    An answer that is no problem document did not come from a board (a proxy, another program), so that the board was
    not reached: its code is `unreachable`, and its reason tells the status and the beginning of what was said.
    """
    document = _document(body)
    return _strange(status, body, url) if document is None else ProblemError(_problem_of(document, status))


def refusal_of_document(document: dict[str, Any], status: int) -> ProblemError:
    """Read the body of a refused op of the stream."""
    return ProblemError(_problem_of(document, status))


def unreachable(url: str, reason: str) -> ProblemError:
    """Say that no answer came from this address."""
    return ProblemError(problem("unreachable", f"{url} does not answer: {reason}", url=url, reason=reason))


def no_board(url: str, reason: str) -> ProblemError:
    """Say that what answered at this address is no board, or one that this version does not understand."""
    return ProblemError(
        problem("unreachable", f"{url} answers, but not as a board does: {reason}", url=url, reason=reason)
    )


def exit_of(refused: Problem) -> Exit:
    """Give the exit status: the table's, and 1 (refused) for a code that the table does not have."""
    row = CODES.get(refused.code)
    return 1 if row is None else row.exit


def action_of(refused: Problem) -> str:
    """Say what the caller should do: the server's own words where it sent some, else the table's; may be empty."""
    row = CODES.get(refused.code)
    return str(refused.facts.get("action") or ("" if row is None else row.action))


def document_of(refused: Problem) -> dict[str, Any]:
    """Give the problem document again, as the server sent it or would have sent it."""
    if refused.code in CODES:
        return refused.document()
    return {"detail": refused.detail, "code": refused.code, **refused.facts}


def _document(body: bytes) -> dict[str, Any] | None:
    try:
        document = msgspec.json.decode(body)
    except msgspec.DecodeError:
        return None
    if not isinstance(document, dict) or not isinstance(cast("dict[str, Any]", document).get("code"), str):
        return None
    return cast("dict[str, Any]", document)


def _problem_of(document: dict[str, Any], status: int) -> Problem:
    code = str(document.get("code", "internal_error"))
    facts = {name: value for name, value in document.items() if name not in _STANDARD}
    if code not in CODES:
        said = {name: document[name] for name in ("type", "title", "action") if name in document}
        facts |= said | {"status": document.get("status", status)}
    return Problem(code=code, detail=str(document.get("detail") or document.get("title") or code), facts=facts)


def _strange(status: int, body: bytes, url: str) -> ProblemError:
    said = body[: 4 * _EXCERPT_CHARS].decode(errors="replace")[:_EXCERPT_CHARS]
    return no_board(url, f"status {status}, {said!r}")
