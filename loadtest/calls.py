"""Calls to one board, lean: JSON in and out over kept-alive connections, as any worker (in open mode)."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

import msgspec

from loadtest.lanes import Lanes, encode_request

if TYPE_CHECKING:
    from collections.abc import Sequence

T = TypeVar("T")

LOOPBACK = frozenset({"127.0.0.1", "localhost"})


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What a call came to. `taken_ns` covers the wait for a free connection, too."""

    status: int
    body: bytes
    taken_ns: int

    @property
    def code(self) -> str:
        """The stable code of a refusal; empty for a success."""
        return msgspec.json.decode(self.body, type=_Refusal).code if self.status >= 400 else ""

    def read(self, kind: type[T]) -> T:
        """Decode what is wanted of the body."""
        return msgspec.json.decode(self.body, type=kind)


class Calls:
    """Calls to one board over connections that are shared with others."""

    def __init__(self, lanes: Lanes, board: str) -> None:
        self.board = board
        self._lanes = lanes

    async def get(self, path: str, *, worker: str = "observer") -> Answer:
        """Read what is at a path below the board's own."""
        return await self._call("GET", self._at(path), b"", worker)

    async def post(self, path: str, body: object, *, worker: str) -> Answer:
        """Send JSON to a path below the board's own."""
        return await self._call("POST", self._at(path), msgspec.json.encode(body), worker)

    async def create(self) -> None:
        """Make the board. Raises RuntimeError."""
        answer = await self._call("POST", "/v1/boards", msgspec.json.encode({"board": self.board}), "admin")
        if answer.status != 201:
            raise RuntimeError(f"the board {self.board} cannot be made: {answer.status} {answer.code}")

    async def post_all(self, notes: Sequence[Any], *, worker: str) -> None:
        """Store notes, 1,000 a batch. Raises RuntimeError at the first that is refused."""
        for first in range(0, len(notes), 1000):
            answer = await self.post("/notes/batch", {"notes": notes[first : first + 1000]}, worker=worker)
            if answer.status != 201:
                raise RuntimeError(f"a batch was refused: {answer.status} {answer.code}")

    def _at(self, path: str) -> str:
        return f"/v1/boards/{self.board}{path}"

    async def _call(self, method: str, path: str, body: bytes, worker: str) -> Answer:
        begun_ns = time.monotonic_ns()
        status, answered = await self._lanes.call(encode_request(method, path, body, worker=worker))
        return Answer(status=status, body=answered, taken_ns=time.monotonic_ns() - begun_ns)


class _Refusal(msgspec.Struct):
    code: str = ""


def loopback_port(url: str) -> int:
    """Give the port of a board on this machine. Raises ValueError for any other: loads go to loopback only."""
    parts = urlsplit(url)
    if parts.hostname not in LOOPBACK:
        raise ValueError(f"{url} is not on loopback, and loads go nowhere else")
    return parts.port or 80
