"""The live page: a few files that a browser runs, and the headers that keep everything else from running beside them.

The files are the same for everybody; what they show is asked for with the caller's own credential. A browser asks at
each visit whether they changed (`ETag`), so a new version of the server is a new page at once.
"""

from __future__ import annotations

from functools import cache
from hashlib import blake2b
from importlib import resources
from typing import TYPE_CHECKING, Final

import msgspec

from board.http.call import Answer
from schema.codes import ProblemError, problem

if TYPE_CHECKING:
    from board.http.call import Call
    from board.service.service import Service

HTML: Final = "text/html; charset=utf-8"
INDEX: Final = "index.html"

_MEDIA: Final = {
    ".html": HTML,
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
}

_ALLOWED: Final = {
    "default-src": "'none'",
    "script-src": "'self'",
    "style-src": "'self'",
    "connect-src": "'self'",
    "img-src": "'self' data:",
    "base-uri": "'none'",
    "form-action": "'none'",
    "frame-ancestors": "'none'",
    # Notes come from other agents: no string becomes HTML or a script, also where the page has a fault.
    "require-trusted-types-for": "'script'",
    "trusted-types": "'none'",
}

POLICY: Final = "; ".join(f"{directive} {value}" for directive, value in _ALLOWED.items())
"""What the page may load and do (Content-Security-Policy): its own files and the server that it came from."""

_HEADERS: Final = (
    (b"content-security-policy", POLICY.encode()),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
)


class File(msgspec.Struct, frozen=True):
    """One file of the page."""

    body: bytes
    media: str
    etag: str


@cache
def files() -> dict[str, File]:
    """Give the files of the page by name. They are read once."""
    folder = resources.files("board") / "page"
    found = {entry.name: entry.read_bytes() for entry in folder.iterdir() if entry.is_file()}
    return {name: _file(name, body) for name, body in sorted(found.items())}


def _file(name: str, body: bytes) -> File:
    return File(body, _MEDIA[name[name.rindex(".") :]], f'"{blake2b(body, digest_size=12).hexdigest()}"')


async def page(service: Service, call: Call) -> Answer:
    """Show the live page: who holds what, conflicts, notes as they come, workers.

    A browser asks for a user and a password; the password is the token, and the user may be left empty.
    """
    del service
    return _answer(files()[INDEX], call)


async def page_file(service: Service, call: Call) -> Answer:
    """Give a script or a style sheet of the live page."""
    del service
    name = call.path("name")
    file = files().get(name)
    if file is None or name == INDEX:
        raise ProblemError(problem("route_not_found", f"The page has no file {name[:80]!r}.", value=name[:80]))
    return _answer(file, call)


def _answer(file: File, call: Call) -> Answer:
    headers = (*_HEADERS, (b"etag", file.etag.encode()))
    if call.has(file.etag):
        return Answer(304, b"", file.media, headers, keep="private, no-cache")
    return Answer(200, file.body, file.media, headers, keep="private, no-cache")
