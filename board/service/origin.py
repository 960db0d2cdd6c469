"""Which web pages may call the board: its own, and those that the settings list.

A browser tells the page's origin with every call to another site and with every websocket. In open mode the Host is
checked as well: a page that makes its own name point at this machine (DNS rebinding) has a Host of that name.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from board.service.access import is_loopback
from schema.codes import ProblemError, problem

if TYPE_CHECKING:
    from board.settings import ServerSettings


def check_origin(origin: str | None, host: str | None, settings: ServerSettings, open_mode: bool) -> None:  # noqa: FBT001
    """Refuse a call from a foreign page, or under a foreign name. Raises ProblemError `foreign_origin`."""
    if open_mode and host is not None and not _is_own_host(host):
        sentence = f"The Host {host[:80]!r} is not this machine's; in open mode only loopback is served."
        raise ProblemError(problem("foreign_origin", sentence, value=host[:80]))
    if origin is None or origin in settings.origins:
        return
    if urlsplit(origin).netloc.casefold() != (host or "").casefold():
        raise ProblemError(problem("foreign_origin", f"The Origin {origin[:80]!r} is foreign.", value=origin[:80]))


@lru_cache(maxsize=64)
def _is_own_host(host: str) -> bool:
    try:
        return is_loopback(urlsplit(f"//{host}").hostname or "")
    except ValueError:
        return False
