"""Where a reader stands in a log, and what the end of a connection means for it: no socket, no clock.

A position moves when events are taken, before anybody handles them. Whoever needs the other promise (handled at least
once) keeps the seq of the last event that was handled and begins there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from schema.codes import Problem, ProblemError

if TYPE_CHECKING:
    from collections.abc import Iterator

_RECONNECT: Final = frozenset({1000, 1001, 1005, 1006, 1009, 1011, 1012, 1013, 1014, 4429})
"""Closes after which the same reader may come back: the server went, failed, or dropped a reader that was too slow.

1000 and 1005 are here too: a board never ends a stream by itself, so whoever did was on the way.
"""

_CODE_OF_CLOSE: Final = {
    4400: "invalid_parameter",
    4401: "unauthorized",
    4403: "forbidden",
    4404: "board_not_found",
    4409: "wrong_epoch",
    4410: "position_gone",
}


class StreamHole(Exception):
    """The stream skipped an event that the filter cannot explain: a fault of the board or on the way, never normal.

    `expected` is the seq that had to come, `got` the one that came.
    """

    def __init__(self, expected: int, got: int) -> None:
        super().__init__(expected, got)
        self.expected = expected
        self.got = got

    def __str__(self) -> str:
        return f"after seq {self.expected - 1} came {self.got}, without those between"


class Filter(msgspec.Struct, frozen=True, kw_only=True):
    """Which events a stream sends; empty fields do not filter, together they must all hold."""

    types: tuple[str, ...] = ()
    scope: tuple[str, ...] = ()
    author: str = ""
    to: str = ""

    def __bool__(self) -> bool:
        return self != Filter()

    def params(self) -> Iterator[tuple[str, str]]:
        """Give the query parameters that ask for it."""
        yield from (("type", kind) for kind in self.types)
        yield from (("scope", target) for target in self.scope)
        yield from ((name, value) for name, value in (("author", self.author), ("to", self.to)) if value)


class Position:
    """The bookkeeping of one subscription over all of its connections.

    Without a filter every seq must follow the last; with one the seqs only grow. What comes twice is left out.
    """

    def __init__(
        self, *, after: int | None = None, tail: int | None = None, epoch: str | None = None, where: Filter = Filter()
    ) -> None:
        self.after = after
        self.epoch = epoch
        self.head = 0
        self.where = where
        self._tail = tail
        self._checked = not where

    def params(self) -> tuple[tuple[str, str], ...]:
        """Give the query of the next connection: from where this reader stands, or as it first asked to begin."""
        return (*self._begin(), *self.where.params())

    def _begin(self) -> Iterator[tuple[str, str]]:
        if self.epoch is not None:
            yield "epoch", self.epoch
        if self.after is not None:
            yield "after", str(self.after)
        elif self._tail is not None:
            yield "tail", str(self._tail)

    def hello(self, *, epoch: str, head: int, after: int) -> None:
        """A connection began: remember the log's epoch, and where reading begins if that was left to the server."""
        self.epoch = epoch
        self.head = head
        self._checked = not self.where
        if self.after is None:
            self.after = after

    def take(self, seq: int) -> bool:
        """An event came: move to it. False where it came before. Raises StreamHole, and does not move, on a hole."""
        last = self.after or 0
        if seq <= last:
            return False
        self._check(last, seq)
        self.after = seq
        return True

    def live(self, seq: int) -> None:
        """All that matches up to `seq` has come: move there, so that a filter's gap is not read again."""
        last = self.after or 0
        if seq > last:
            self._check(last, seq + 1)
            self.after = seq

    def refilter(self, where: Filter) -> None:
        """Another filter holds from now on; until the next connection nobody can say at which seq it began to."""
        self.where = where
        self._checked = False

    def _check(self, last: int, seq: int) -> None:
        if self._checked and seq != last + 1:
            raise StreamHole(last + 1, seq)


def refusal_of_close(code: int, reason: str) -> ProblemError | None:
    """Tell what a close means: None to connect again, else why there is no use in it.

    The reason is a JSON object: its `code` names the refusal more exactly than the close code does, its `detail` says
    it in words, and the rest are facts, such as the `oldest` seq that is kept. A reason of another kind is a detail.
    """
    if code in _RECONNECT:
        return None
    facts = _facts_of(reason)
    name = facts.pop("code", None) or _CODE_OF_CLOSE.get(code, "internal_error")
    detail = facts.pop("detail", None) or f"the stream was closed with {code}"
    return ProblemError(Problem(code=str(name), detail=str(detail), facts={"close": code, **facts}))


def _facts_of(reason: str) -> dict[str, Any]:
    try:
        return msgspec.json.decode(reason, type=dict[str, Any])
    except msgspec.DecodeError:
        return {"detail": reason}
