"""Where a board is and who calls: URLs and headers, the same for HTTP and for the stream."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, urlencode, urlsplit, urlunsplit

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

DEFAULT_URL: Final = "http://127.0.0.1:8420"

_LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})
_STREAM_SCHEMES: Final = {"http": "ws", "https": "wss"}

Value = str | int | float | Sequence[str] | None


class Caller(msgspec.Struct, frozen=True, kw_only=True):
    """Who calls: a token, or in open mode a worker's name; and the root that absolute paths are relative to."""

    token: str | None = None
    worker: str | None = None
    root: str | None = None

    def headers(self) -> dict[str, str]:
        """Give the headers that say so."""
        said = {"X-Board-Worker": self.worker, "X-Board-Root": self.root}
        credential = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        return credential | {name: value for name, value in said.items() if value}


def board_path(board: str, *parts: str | int) -> str:
    """Give the path of a board, or of what is below it."""
    return "/".join(("/v1/boards", quote(board, safe=""), *map(str, parts)))


def stream_url(url: str, board: str, params: Iterable[tuple[str, str]]) -> str:
    """Give the websocket URL of a board's stream."""
    parts = urlsplit(url)
    path = parts.path.rstrip("/") + board_path(board, "stream")
    return urlunsplit(
        (_STREAM_SCHEMES.get(parts.scheme, parts.scheme), parts.netloc, path, urlencode(list(params)), "")
    )


def params_of(values: Mapping[str, Value]) -> tuple[tuple[str, str], ...]:
    """Give the query parameters: None and empty values are left out, several values repeat the name."""
    return tuple((name, text) for name, value in values.items() for text in _texts(value))


def is_loopback(url: str) -> bool:
    """Tell whether the address is this machine, which no proxy of the environment can reach."""
    return urlsplit(url).hostname in _LOOPBACK


def _texts(value: Value) -> Iterable[str]:
    match value:
        case None | "":
            return ()
        case str() | int() | float():
            return (str(value),)
        case _:
            return value
