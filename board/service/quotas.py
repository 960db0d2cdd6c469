"""What one worker, and one team, may use at most: the one place where quotas are enforced, for every surface.

Rates (notes, bytes of detail) are buckets; what is open at once (live claims, streams, long polls) is counted. Each
has a limit for a worker and one for its board, so that a worker cannot use up its team's share, nor a team the
server's. In open mode there are none. A refusal is `rate_limited`, with the quota's name, its limit and when to come
again; each is counted in `refused`, by the quota's name, which is also the name of its setting.
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, NoReturn

from board.core.commands import Append, PassTime, Post, PostBatch
from board.core.quota import Buckets, Haste, Rate, Tally, retry_after_s
from board.core.secrecy import MARK, holds_token
from schema.codec import encode
from schema.codes import ProblemError, problem
from schema.notes import Claim

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

    from board.core.commands import Command
    from board.service.access import Access, Identity
    from board.service.boards import OpenBoard
    from board.settings import ServerSettings
    from schema.notes import Draft

COME_AGAIN_S: Final = 5
"""Seconds after which to come again where only somebody's leaving makes room, which nobody can foretell."""


_TICKETS: Final = (("worker_tickets", Rate(1, 60)), ("board_tickets", Rate(10, 600)))
"""No settings: a ticket lives for a minute, and a board's share must leave room for others' (`access.TICKETS`)."""


class Hasty(ProblemError):
    """A refusal of a caller that was told when to come again and did not wait: its answer is held back for `hold_s`.

    To refuse a call takes a good part of what it takes to carry it out, so a flood of refusals would slow down others as
    the flood itself would. Held back, each connection has four refusals a second.
    """

    hold_s: Final = 0.25


class Quotas:
    """The quotas of one process."""

    def __init__(self, settings: ServerSettings, access: Access, now_s: Callable[[], float] = time.monotonic) -> None:
        self._access = access
        self._now_s = now_s
        self.refused: dict[str, int] = {}
        """How many calls were refused, by quota."""
        self._tickets = [Buckets(rate) for _, rate in _TICKETS]
        self._notes = _Flow("notes", settings)
        self._details = _Flow("detail_bytes", settings)
        self._haste = Haste()
        self._claims = _Stock("claims", settings)
        self._waits = _Stock("waits", settings)
        self._streams = _Stock("streams", settings)

    @contextmanager
    def writing(self, board: OpenBoard, command: Command) -> Generator[None]:
        """Let a command be carried out in the block, or refuse it. What writes no note counts as one. Raises ProblemError.

        `token_in_note` where a note holds a token, in open mode too: everyone who reads the board would have it. Hasty
        where the answer is to be held back.
        """
        drafts = _drafts_of(command)
        refuse_tokens(drafts)
        if self._access.open_mode or isinstance(command, (Append, PassTime)):
            yield
            return
        worker, claims = command.asker.worker, sum(isinstance(draft, Claim) for draft in drafts)
        if claims:
            held = len(board.state.leases_of(worker)), len(board.state.leases)
            self._check_stock(self._claims, board, worker, claims, held)
        self._spend(board, worker, drafts)
        with self._claims.taken(board, worker, claims):
            yield

    @contextmanager
    def waiting(self, board: OpenBoard, worker: str) -> Generator[None]:
        """Let a long poll be open for as long as the block runs. Raises ProblemError."""
        if not self._access.open_mode:
            self._check_stock(self._waits, board, worker)
        with self._waits.taken(board, worker):
            yield

    def check_ticket(self, who: Identity) -> None:
        """Take one of the tickets that a worker, and all of its board, may make: there is room for so many only.

        Raises ProblemError.
        """
        if self._access.open_mode:
            return
        now_s, names = self._now_s(), (f"{who.board}/{who.worker}", who.board)
        for (quota, rate), buckets, name in zip(_TICKETS, self._tickets, names, strict=True):
            if wait_s := buckets.wait_s(name, 1, now_s):
                self._refuse(quota, f"{rate.per_s:g} a second, {rate.burst:g} at once", rate.per_s, wait_s)
        for buckets, name in zip(self._tickets, names, strict=True):
            buckets.take(name, 1, now_s)

    def check_stream(self, board: OpenBoard, worker: str) -> None:
        """Refuse one stream more than a worker or a board may have. Raises ProblemError."""
        if not self._access.open_mode:
            self._check_stock(self._streams, board, worker)

    def stream_opened(self, board: OpenBoard, worker: str) -> None:
        """Count a stream until `stream_closed`."""
        self._streams.add(board, worker)

    def stream_closed(self, board: OpenBoard, worker: str) -> None:
        """Count it no more."""
        self._streams.drop(board, worker)

    def _spend(self, board: OpenBoard, worker: str, drafts: Sequence[Draft]) -> None:
        now_s = self._now_s()
        asked = [
            (self._notes, max(1, len(drafts))),
            (self._details, sum(len(draft.detail.encode()) for draft in drafts)),
        ]
        for flow, count in asked:
            for name, rate, wait_s in flow.waits(board, worker, count, now_s):
                if wait_s:
                    hasty = self._haste.refused(f"{board.name}/{worker}", wait_s, now_s)
                    what = f"{rate.per_s:g} a second, {rate.burst:g} at once"
                    self._refuse(name, what, rate.per_s, wait_s, Hasty if hasty else ProblemError)
        for flow, count in asked:
            flow.take(board, worker, count, now_s)

    def _check_stock(
        self, stock: _Stock, board: OpenBoard, worker: str, more: int = 1, beside: tuple[int, int] = (0, 0)
    ) -> None:
        for (name, limit, count), other in zip(stock.counts(board, worker), beside, strict=True):
            if limit and count + other + more > limit:
                self._refuse(name, f"{limit} at once", limit, COME_AGAIN_S)

    def _refuse(
        self, name: str, what: str, limit: float, wait_s: float, kind: type[ProblemError] = ProblemError
    ) -> NoReturn:
        self.refused[name] = self.refused.get(name, 0) + 1
        after_s = retry_after_s(wait_s)
        sentence = f"The quota `{name}` is used up ({what}); come again in {after_s} s. Nothing was stored."
        raise kind(problem("rate_limited", sentence, quota=name, limit=limit, retry_after_s=after_s))


class _Flow:
    """The buckets of one thing: for each worker of a board, and for each board."""

    def __init__(self, what: str, settings: ServerSettings) -> None:
        self._parts = [(f"{whose}_{what}", _rate(settings, whose, what)) for whose in ("worker", "board")]
        self._buckets = [Buckets(rate) for _, rate in self._parts]

    def waits(self, board: OpenBoard, worker: str, count: int, now_s: float) -> list[tuple[str, Rate, float]]:
        """Give name, rate, and the seconds to wait, of both."""
        keyed = zip(self._parts, self._buckets, _keys(board, worker), strict=True)
        return [(name, rate, buckets.wait_s(key, count, now_s)) for (name, rate), buckets, key in keyed]

    def take(self, board: OpenBoard, worker: str, count: int, now_s: float) -> None:
        """Take from both."""
        for buckets, key in zip(self._buckets, _keys(board, worker), strict=True):
            buckets.take(key, count, now_s)


class _Stock:
    """How many of one thing are open: for each worker of a board, and for each board."""

    def __init__(self, what: str, settings: ServerSettings) -> None:
        self._parts = [(name, int(getattr(settings, name))) for name in (f"worker_{what}", f"board_{what}")]
        self._tallies = (Tally(), Tally())

    def counts(self, board: OpenBoard, worker: str) -> list[tuple[str, int, int]]:
        """Give name, limit, and how many are open, of both."""
        keyed = zip(self._parts, self._tallies, _keys(board, worker), strict=True)
        return [(name, limit, tally.of(key)) for (name, limit), tally, key in keyed]

    def add(self, board: OpenBoard, worker: str) -> None:
        """One more."""
        for tally, key in zip(self._tallies, _keys(board, worker), strict=True):
            tally.add(key)

    def drop(self, board: OpenBoard, worker: str) -> None:
        """One less."""
        for tally, key in zip(self._tallies, _keys(board, worker), strict=True):
            tally.drop(key)

    @contextmanager
    def taken(self, board: OpenBoard, worker: str, count: int = 1) -> Generator[None]:
        """Have so many more for as long as the block runs."""
        for _ in range(count):
            self.add(board, worker)
        try:
            yield
        finally:
            for _ in range(count):
                self.drop(board, worker)


def refuse_tokens(drafts: Sequence[Draft]) -> None:
    """Refuse notes that hold a token: everyone who reads the board would have it. Raises ProblemError."""
    if MARK.encode() not in encode(drafts):
        return
    for index, draft in enumerate(drafts):
        if holds_token(encode(draft).decode()):
            sentence = f"Note {index} holds what looks like a token of a board; nothing was stored."
            raise ProblemError(problem("token_in_note", sentence, index=index))


def _drafts_of(command: Command) -> Sequence[Draft]:
    match command:
        case Post(draft=draft):
            return (draft,)
        case PostBatch(posts=posts):
            return [post.draft for post in posts]
        case _:
            return ()


def _rate(settings: ServerSettings, whose: str, what: str) -> Rate:
    return Rate(getattr(settings, f"{whose}_{what}_per_s"), getattr(settings, f"{whose}_{what}_burst"))


def _keys(board: OpenBoard, worker: str) -> tuple[str, str]:
    return f"{board.name}/{worker}", board.name
